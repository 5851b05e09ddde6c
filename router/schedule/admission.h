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

#include "router/requests/request.h"

/* May its open choices wait, all of them?  Ids against vocabulary and
 * context, max_tokens (filled in where the client named none), the pools, the
 * length of the queue. */
MUST_CHECK enum status admission_check(struct router_core *r,
                                       struct request *request,
                                       uint32_t *retry_after_ms,
                                       struct error *e);

/* Is there a place that could ever run a choice of it, and does not drain?
 * Of a model that has none at all this is not known: then it may wait, for as
 * long as the model is absent (models.h). */
MUST_CHECK enum status admission_possible(struct router_core *r,
                                          const struct request *request,
                                          struct error *e);

/* ... one other than the place w? */
bool admission_elsewhere(const struct router_core *r,
                         const struct request *request, const struct worker *w);

/* No worker of m takes work, or will: UNAVAILABLE, and why. */
enum status admission_absent(const struct model *m, struct error *e);

/* When to try again after such a refusal; 0: that would not help. */
uint32_t admission_retry_ms(const struct error *e);

/* Are there n places in the queue? */
MUST_CHECK enum status admission_queue(struct router_core *r,
                                       const struct model *m, uint32_t n,
                                       uint32_t *retry_after_ms,
                                       struct error *e);

/* Adopt what lives at a worker (router/requests/adoption.h); then grant what
 * fits, from the head of m's queue. */
void admission_run(struct router_core *r, struct model *m);

#endif
