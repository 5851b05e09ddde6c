/* admission.h - what may wait, what may run, in which order.
 *
 * One queue a model, first come first served, strictly: nobody overtakes the
 * head, except suspects that wait for their trial (router/requests/trial.h),
 * which keep their place and are overtaken, TRIALS_ASIDE_MAX at a time.  A
 * request (one choice) needs ceil((prompt + max_tokens) / block_tokens) blocks
 * and, where the shard has linear layers, one slot, of every stage of its
 * place; it gets all of it before prefill or waits, whatever becomes of the
 * choices beside it.  What can never fit is refused at once, with the figures
 * of the tightest stage.  What lives at a worker already takes no room and
 * waits for none.
 *
 * Threading: the core's. */
#ifndef ROUTER_SCHEDULE_ADMISSION_H
#define ROUTER_SCHEDULE_ADMISSION_H

#include "router/schedule/schedule.h"

struct schedule;

/* What a request asks of a pool. */
struct demand {
    const struct model *model;
    uint32_t n_prompt, max_tokens;
};

static inline uint64_t demand_tokens(const struct demand *d)
{
    return (uint64_t)d->n_prompt + d->max_tokens;
}

/* Is there a place that could ever hold it, and does not drain?  Returns
 * RESOURCE_EXHAUSTED with the figures of the tightest stage if none could,
 * UNAVAILABLE if only drained ones could or the model is gone.  Of a model
 * that has no place at all this is not known: then OK, it may wait for as long
 * as the model is absent (router/fleet/models.h). */
MUST_CHECK enum status admission_possible(const struct fleet *fleet,
                                          const struct demand *d,
                                          struct error *e);

/* ... one other than the place w? */
bool admission_elsewhere(const struct fleet *fleet, const struct model *m,
                         uint64_t n_tokens, const struct worker *w);

/* No worker of m takes work, or will: UNAVAILABLE, and why. */
enum status admission_absent(const struct model *m, struct error *e);

/* When to try again after such a refusal; 0: that would not help. */
uint32_t admission_retry_ms(const struct error *e);

/* Are there n places in the queue?  Returns RESOURCE_EXHAUSTED if not, and in
 * *retry_after_ms when to try again; 0: never. */
MUST_CHECK enum status admission_queue(const struct schedule *s,
                                       const struct model *m, uint32_t n,
                                       uint32_t *retry_after_ms,
                                       struct error *e);

#endif
