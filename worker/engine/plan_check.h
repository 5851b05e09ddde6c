/* plan_check.h - Checks that a shard and its pool can run a plan.
 *
 * Token ids, tables and slots are checked against the pool; chained rows
 * against the previous plan; histories against their pages and the row's
 * position.  A stage's plan (worker/base/engine.h) must have hidden states
 * where it reads them, and rows that tile the tokens.  Fields that are not read
 * are not checked.
 *
 * Threading, memory: none. */
#ifndef WORKER_ENGINE_PLAN_CHECK_H
#define WORKER_ENGINE_PLAN_CHECK_H

#include "common/model/weights.h"
#include "worker/base/engine.h"

struct plan_bounds {
    const struct model_shape *shape;
    uint32_t begin, end;              /* layers of the shard */
    bool has_attention, has_deltanet; /* among them */
    uint32_t block_tokens, n_blocks, n_slots;
    uint32_t hidden_tokens; /* tokens whose hidden states fit */
    const uint32_t *last;   /* [n_last] tokens of the previous plan */
    uint32_t n_last;
};

/* In `last`: the row was to sample a token and got none, because its step or
 * the row itself failed. */
#define TOKEN_LOST (UINT32_MAX - 1)
_Static_assert(MODEL_VOCAB_MAX < TOKEN_LOST, "no id of a vocabulary");

/* Return whether the shard reads, or writes, hidden states. */
static inline bool plan_takes_hidden(const struct plan_bounds *b)
{
    return b->begin > 0;
}

static inline bool plan_gives_hidden(const struct plan_bounds *b)
{
    return b->end < b->shape->n_layers;
}

/* Returns ST_INTERNAL if the core made a mistake; e names the first wrong row.
 * A row that is chained to TOKEN_LOST is none. */
MUST_CHECK enum status plan_check(const struct plan_bounds *b,
                                  const struct plan *p, struct error *e);

#endif
