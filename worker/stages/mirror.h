/* mirror.h - The leader's copy of the accounts of the later stages' pools.
 *
 * Blocks, slots and checkpoints are the same in number at every later stage
 * that has the class; only their pages differ.  The mirror therefore has one
 * shadow: a pool whose blocks, slots and checkpoints take one page each, with
 * sequences, nodes and checkpoints as a stage has them (stage_cache.h).  It
 * changes as each message of the stream is sent:
 *
 *     pages in use at stage i = blocks * pages_per_block(i) +
 *                               (slots + checkpoints) * pages_per_slot(i) +
 *                               window blocks * window_pages(i)
 *
 * A sequence keeps the promise of its window blocks wherever its window is, so
 * the mirror has its need of them and no tables.
 *
 * Every stage changes its pool as it receives the same messages in the same
 * order, so the mirror is exact for a stage that has received them all.  Only a
 * checkpoint counts here from its reservation on, which is earlier.
 *
 * Threading: the core's.  Memory: mirror_begin() allocates, and keeps the
 * memory while the stages of later assemblies are the same.  Limits: the
 * sequences of the leader's table. */
#ifndef WORKER_STAGES_MIRROR_H
#define WORKER_STAGES_MIRROR_H

#include "proto/limits.h"
#include "worker/stages/stage_cache.h"

/* Entries of all block tables together, at most. */
#define MIRROR_BLOCKS_MAX (1u << 26)

struct mirror_stage {
    uint32_t n_pages;
    uint32_t pages_per_block; /* 1; 0: no blocks */
    uint32_t pages_per_slot;  /* 0: no slots */
    uint32_t window_pages;    /* pages of a window block; 0: no windows */
};

struct mirror {
    uint32_t capacity, context, block_tokens;
    struct mirror_stage stages[STAGES_MAX]; /* [n_stages] past the first */
    uint32_t n_stages;                      /* 0: not known */
    struct pool pool;
    struct sequence_table table;
    struct stage_cache cache;
    bool made;
};

/* Makes a mirror of nothing, for tables of `capacity` sequences of at most
 * `context` positions. */
void mirror_init(struct mirror *m, uint32_t capacity, uint32_t context,
                 uint32_t block_tokens);
void mirror_fini(struct mirror *m);

/* Begins with empty stages[n].  Returns false if memory runs out. */
MUST_CHECK bool mirror_begin(struct mirror *m,
                             const struct mirror_stage *stages, uint32_t n);
/* Forgets everything, and the stages. */
void mirror_end(struct mirror *m);

/* Returns whether some stage has blocks, or slots. */
bool mirror_has(const struct mirror *m, enum pool_class c);

/* Returns whether `need` fits into the free pages of every stage.  short_at: a
 * stage where it does not, from 0; may be NULL. */
bool mirror_fits(const struct mirror *m, const struct pool_need *need,
                 uint32_t *short_at);
/* Returns the free pages of a stage. */
uint32_t mirror_free(const struct mirror *m, uint32_t stage);

/* The functions below follow the messages.  An error means that leader and
 * stages would differ; e has a sentence. */
MUST_CHECK enum status mirror_open(struct mirror *m, uint64_t grant,
                                   const struct pool_need *need,
                                   struct error *e);
/* from: the grant of the sequence that is taken over; 0: none.  *freed: what
 * the sequence had before and not after, if cut; may be NULL. */
MUST_CHECK enum status mirror_restore(struct mirror *m, uint64_t grant,
                                      const struct stage_restore *r,
                                      uint64_t from, struct pool_need *freed,
                                      struct error *e);
MUST_CHECK enum status mirror_twin(struct mirror *m, uint64_t source,
                                   uint64_t grant, uint32_t end,
                                   struct error *e);
/* Returns whether no other node has the blocks of the unit that ends there. */
bool mirror_keeps(const struct mirror *m, uint64_t grant, uint32_t end);
MUST_CHECK enum status mirror_keep(struct mirror *m, uint64_t grant,
                                   uint32_t node, uint32_t parent, uint32_t end,
                                   struct error *e);
/* Nothing happens if the sequence is not open. */
void mirror_remove(struct mirror *m, uint64_t grant);

#endif
