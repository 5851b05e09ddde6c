/* plan_check.h - is a plan one that this shard and pool can run?
 *
 * Token ids, tables and slots are looked at against the pool, chained rows
 * against the plan before, histories against their pages and the row's
 * position; of a stage's plan (worker/base/engine.h) hidden states, and that
 * rows tile the tokens.  What is not read is not looked at.
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
    uint32_t hidden_tokens; /* room for what the next stage reads */
    const uint32_t *last;   /* [n_last] what the plan before chose */
    uint32_t n_last;
    bool last_failed;
};

/* Does it begin, does it end with hidden states? */
static inline bool plan_takes_hidden(const struct plan_bounds *b)
{
    return b->begin > 0;
}

static inline bool plan_gives_hidden(const struct plan_bounds *b)
{
    return b->end < b->shape->n_layers;
}

/* ST_INTERNAL: the core is wrong; ST_ABORTED: chained to a plan that failed.
 * With a sentence that names the first wrong row. */
MUST_CHECK enum status plan_check(const struct plan_bounds *b,
                                  const struct plan *p, struct error *e);

#endif
