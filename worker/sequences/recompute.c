#include "worker/sequences/recompute.h"

#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/sequences/ending.h"

void recompute_damaged(struct sequences *q, struct sequence *s,
                       const struct plan_row *r)
{
    q->base->metrics.rows_damaged++;
    reuse_forget(&q->reuse, s);
    ending_fail(q, s,
                "the logits at position %u, for token %u, are not finite: the "
                "weights or its cache are damaged, or its biases and penalties "
                "are too large",
                r->position + r->n_tokens - 1, r->index);
}

/* Returns whether the engine refused the newest plan of s, which comes back
 * before those in flight. */
static bool is_refused_early(const struct sequences *q,
                             const struct sequence *s)
{
    return s->plan.inflight > 1 && q->result.step == s->plan.last_step;
}

void recompute_failed(struct sequences *q, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    /* The plan in which it runs alone may succeed yet. */
    if (s->plan.recompute == RECOMPUTE_ALONE && !is_refused_early(q, s)) {
        ending_fail(q, s, "its step failed, and again when it ran alone: %s",
                    q->result.error.text);
        return;
    }
    /* Loses no token: those that it has stay, and the next one is chosen by its
     * index, whenever it is computed. */
    log_info("sequence-recompute", "request=%s positions=%u",
             sequence_name(&s->key, name), sequence_known(s));
    q->base->metrics.recomputed++;
    recompute_move(s, RECOMPUTE_WAITS);
    batcher_drop(&q->batcher, s);
}
