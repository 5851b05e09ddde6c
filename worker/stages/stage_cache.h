/* stage_cache.h - Nodes and checkpoints that a later stage keeps for the
 * leader's prefix index, and how its sequences share them.
 *
 *     node         PREFIX_UNIT positions of a prefix: the blocks of a sequence
 *                  that computed them
 *     checkpoint   a saved state
 *
 * Both have the leader's names.  The stage decides nothing: messages of the
 * stream (proto/stage.proto) name what is kept, restored, shared and freed. The
 * leader runs the same functions over a shadow of the stages' memory
 * (mirror.h), so that both agree.
 *
 * A stage without blocks ignores nodes, a stage without slots ignores
 * checkpoints.  Each function that can fail checks first: after an error
 * nothing has changed, and e has a sentence.
 *
 * Threading: the core's.  Memory: stage_cache_init() allocates; no other call
 * does.  Limits: as many nodes and checkpoints as the pool holds. */
#ifndef WORKER_STAGES_STAGE_CACHE_H
#define WORKER_STAGES_STAGE_CACHE_H

#include "common/wire/prefix_hash.h"
#include "worker/cache/pool.h"
#include "worker/sequence/sequence_table.h"
#include "worker/stages/name_map.h"

#define NAME_NONE UINT32_MAX

struct stage_node {
    uint32_t parent; /* its name; NAME_NONE: the first unit */
    uint32_t end;    /* the position after its last one */
    uint32_t next;   /* free entries: the list */
};

struct stage_cache {
    struct sequence_table *table; /* borrowed, with its pool */
    uint32_t block_tokens;
    bool has_blocks, has_states;
    uint32_t per; /* blocks of a node */
    struct name_map nodes, checkpoints;
    struct stage_node *memory; /* [nodes.capacity], value of the map */
    uint32_t *blocks;          /* [nodes.capacity, per] logical numbers */
    uint32_t free_head, n_fresh;
};

/* A sequence goes on at `position`: StageRestore. */
struct stage_restore {
    uint32_t position, node, checkpoint; /* NAME_NONE: none */
    struct sequence *from;               /* NULL: none */
    bool cut;
    uint32_t windows; /* in the mirror, if cut: window blocks that stay */
};

/* Makes an empty cache over the table's pool.  Returns false if memory runs
 * out; then there is nothing to fini. */
MUST_CHECK bool stage_cache_init(struct stage_cache *c,
                                 struct sequence_table *table,
                                 uint32_t block_tokens);
/* Accepts a cache of all zeros. */
void stage_cache_fini(struct stage_cache *c);

/* Returns whether a column of window pages has a value for each of n stages,
 * or is absent, because no stage has any. */
static inline bool stage_column(size_t n_windows, size_t n)
{
    return n_windows == 0 || n_windows == n;
}

/* How the contents get to a sequence that goes on. */
struct stage_copies {
    struct plan_copy of[2 + MODEL_LAYERS_MAX]; /* a page of each table */
    uint32_t n;
};

/* Moves s to r->position: its blocks below it, and its slot.  *copies: what the
 * next plan copies: its state, or a partly filled last block that others have
 * too.  Takes a slot only if no moves are recorded.  Positions are the caller's
 * to check. */
MUST_CHECK enum status stage_cache_restore(struct stage_cache *c,
                                           struct sequence *s,
                                           const struct stage_restore *r,
                                           struct stage_copies *copies,
                                           struct error *e);

/* Takes blocks for positions [0, end) of s from its grant. */
MUST_CHECK enum status stage_cache_take(struct stage_cache *c,
                                        struct sequence *s, uint32_t end,
                                        struct error *e);

/* Gives a twin, which has taken nothing, the full blocks below `end` of its
 * source. */
MUST_CHECK enum status stage_cache_twin(struct stage_cache *c,
                                        const struct sequence *source,
                                        struct sequence *s, uint32_t end,
                                        struct error *e);

/* Keeps the blocks of s below `end` under a new node. */
MUST_CHECK enum status stage_cache_keep(struct stage_cache *c,
                                        const struct sequence *s, uint32_t node,
                                        uint32_t parent, uint32_t end,
                                        struct error *e);

/* Takes a checkpoint under a new name; *page: its first page, SLOT_NONE without
 * slots. */
MUST_CHECK enum status stage_cache_save(struct stage_cache *c, uint32_t name,
                                        uint32_t *page, struct error *e);

/* Frees a node or a checkpoint. */
MUST_CHECK enum status stage_cache_gone_node(struct stage_cache *c,
                                             uint32_t node, struct error *e);
MUST_CHECK enum status stage_cache_gone_checkpoint(struct stage_cache *c,
                                                   uint32_t name,
                                                   struct error *e);

/* Frees everything. */
void stage_cache_clear(struct stage_cache *c);

/* Calls each() for every block and checkpoint that is kept; self is the cache.
 */
void stage_cache_walk(const void *self,
                      void (*each)(void *ctx, enum pool_class c,
                                   uint32_t number),
                      void *ctx);

#endif
