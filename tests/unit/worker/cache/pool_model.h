/* pool_model.h - A simple model of the pool, and a memory whose pages have
 * contents, for the test with random operations.
 *
 * The model counts by brute force.  Every block, slot and checkpoint has a tag,
 * 0 if its contents are undefined.  A plan lists what its rows read and write,
 * by page; it runs later, up to MODEL_DEPTH plans behind, in the engine's
 * order. */
#ifndef TESTS_UNIT_WORKER_CACHE_POOL_MODEL_H
#define TESTS_UNIT_WORKER_CACHE_POOL_MODEL_H

#include "worker/cache/pool.h"

#define MODEL_PAGES     96
#define MODEL_SEQUENCES 24
#define MODEL_TABLE     40
#define MODEL_DEPTH     2
#define MODEL_COPIES    1024
#define MODEL_POISON    UINT64_MAX

struct model_sequence {
    bool used;
    uint32_t blocks[MODEL_TABLE], n_blocks;
    uint32_t slot;         /* SLOT_NONE: none */
    struct pool_need left; /* granted, not taken */
};

struct model_page {
    uint32_t page;
    uint64_t tag;
};

struct model_plan {
    struct plan_copy poison[MODEL_COPIES], before[MODEL_COPIES];
    struct plan_copy moves[MODEL_COPIES];
    struct model_page reads[2 * MODEL_PAGES], writes[2 * MODEL_PAGES];
    uint32_t n_poison, n_before, n_moves, n_reads, n_writes;
    uint32_t restored[MODEL_PAGES], n_restored; /* extents */
};

struct model {
    struct pool pool;
    uint32_t n_pages, per, cap;
    struct model_sequence sequences[MODEL_SEQUENCES];
    uint32_t refs[MODEL_PAGES]; /* by block */
    bool indexed[MODEL_PAGES];
    uint64_t tags[MODEL_PAGES];
    enum extent_use uses[MODEL_PAGES]; /* by extent */
    uint64_t states[MODEL_PAGES];      /* tags of extents */
    uint64_t violations, next_tag;

    bool dirty[MODEL_PAGES]; /* was in use since it was poisoned */
    uint64_t memory[MODEL_PAGES];
    struct model_plan plans[MODEL_DEPTH + 1];
    uint32_t first, n_plans;   /* in flight; the next one is being built */
    uint64_t n_reads, n_moves; /* pages that were compared, and moved */
};

void model_begin(struct model *m, uint32_t n_pages, uint32_t per, uint32_t cap);
void model_end(struct model *m);

/* Return what the model counts. */
uint32_t model_free(const struct model *m);
uint32_t model_free_slots(const struct model *m);

/* Compares every account and every place. */
void model_check(struct model *m);

/* The plan that is being built. */
struct model_plan *model_plan(struct model *m);
/* Appends the moves that are recorded, and then a copy. */
void model_carry(struct model *m);
void model_copy(struct model *m, uint32_t from, uint32_t to, uint32_t n);
/* Ends the plan: it reads everything and writes the blocks and slots that
 * `pick` chooses. */
void model_submit(struct model *m, uint64_t pick);
/* Drops the plan, with the moves that it has. */
void model_refuse(struct model *m);
/* Runs the oldest plan in flight, if there is one. */
void model_run(struct model *m);

#endif
