/* reuse.h - Prefixes that a sequence restores from the index, and that it
 * leaves there.
 *
 * The first plan of a sequence looks for the deepest restorable prefix of its
 * ids in the index (worker/cache/prefix.h):
 *
 *     blocks       are shared: each replaces one of the grant, which is free
 *                  then
 *     windows      as blocks, but for the promise (worker/sequence/windows.h)
 *     checkpoint   is copied to the slot before the row runs
 *
 * Pages of the host tier come back with that row: blocks to those of the grant,
 * a checkpoint to the slot.
 *
 * Later rows save states at the positions that the index wants.  A save is a
 * copy inside the row, so no chunk is cut for it.  When the result is good, the
 * units of the row go into the index, and the saves to their nodes:
 *
 *     reserved --row's result--> put to a node, or dropped: it failed
 *         |
 *         +--> taken back for a Submit: later plans may use the pages at once,
 *              because plans run in order
 *
 * With the units of a row, the index gets the window pages that the sequence
 * still holds of them.
 *
 * Bits never depend on what was reused.  Where prompt and generated rows differ
 * in arithmetic, only the first run of prompt positions is restored and
 * inserted.  With one arithmetic, generated positions are too, and decode saves
 * its state at each multiple of PREFIX_UNIT: one checkpoint per sequence, from
 * free pages only, which goes into the index at the end.
 *
 * A sequence that is computed again keeps its blocks, and restores a state only
 * where all its earlier positions were computed before the failure.  It may
 * rewrite shared blocks: a successful step writes the same bits.
 *
 * Threading: the core's.  Memory: reuse_init() allocates; no other call does.
 */
#ifndef WORKER_PLAN_REUSE_H
#define WORKER_PLAN_REUSE_H

#include "worker/base/options.h"
#include "worker/cache/prefix.h"
#include "worker/plan/batch.h"
#include "worker/plan/role.h"

struct reuse {
    struct prefix *index;
    struct sequence_table *table; /* borrowed, with its pool */
    const struct role *role;      /* borrowed */
    uint32_t block_tokens, pages_per_slot;
    bool on, has_blocks, one_arithmetic;
    uint32_t *blocks;             /* [blocks of a context] */
    uint32_t *windows;            /* [blocks of a window, window_pages] */
    uint32_t *units;              /* [units of a context] */
    uint64_t n_restored, n_saved; /* positions, checkpoints */
    uint64_t n_from_host;         /* restored thanks to the host tier alone */
    uint64_t n_state_pages; /* pages of checkpoints that came from there */
};

/* A checkpoint to be copied to a slot: its first page, of the pool or of the
 * host tier. */
struct reuse_state {
    uint32_t checkpoint; /* SLOT_NONE: none in the pool */
    uint32_t host;       /* HOST_NONE: none in the host tier */
};

/* Makes an empty index.  Table and role are borrowed; the role may be set
 * later.  Returns false if memory runs out. */
MUST_CHECK bool reuse_init(struct reuse *u, const struct worker_options *o,
                           struct sequence_table *table,
                           const struct role *role);
void reuse_fini(struct reuse *u);

/* Returns whether s reuses and is reused.  u may be NULL. */
bool reuse_has(const struct reuse *u, const struct sequence *s);

/* Begins the first plan of s, or the first one of computing it again: shares
 * blocks and sets n_planned.  *state: to be copied to its slot, by the row that
 * must follow in the same plan. */
void reuse_begin(struct reuse *u, struct sequence *s,
                 struct reuse_state *state);

/* Lets the other stages of a replica do likewise. */
void reuse_tell(const struct reuse *u, const struct sequence *s,
                const struct role_restore *to);

/* Returns the node that s would restore now, by the ids that have come;
 * PREFIX_NONE: none. */
uint32_t reuse_spare(struct reuse *u, const struct sequence *s);

/* Sets where s saves, which goes on from n_planned of a kept sequence. */
void reuse_continue(struct reuse *u, struct sequence *s);

/* Returns the deepest restorable position of s at most at `end`, which is below
 * its known ids; n_tokens = 0: none. */
struct prefix_hit reuse_find(struct reuse *u, const struct sequence *s,
                             uint32_t end);

/* Returns whether decode of s saves its state at multiples of PREFIX_UNIT. */
bool reuse_rolls(const struct reuse *u, const struct sequence *s);

/* Adds the saves of row i of the batch, which the caller is making, to its
 * plan. */
void reuse_save(struct reuse *u, const struct batcher_limits *l,
                struct batch *t, struct sequence *s, uint32_t i);

/* Takes the result of row i, which computed the positions below `end`: inserts
 * them and puts its saves, or drops them if the row is not good. */
void reuse_result(struct reuse *u, const struct batch *t, uint32_t i,
                  uint32_t end, bool good);

/* Puts the checkpoint of decode into the index: s has ended, and its blocks are
 * still there. */
void reuse_end(struct reuse *u, struct sequence *s);

/* Forgets everything that shares the first unit of s: some of it is damaged,
 * and nothing shows which. */
void reuse_forget(struct reuse *u, const struct sequence *s);

#endif
