/* admission.h - what may wait, what may run, in which order.
 *
 * One queue a model, first come first served, strictly: nobody overtakes the
 * head.  A request needs ceil((prompt + max_tokens) / block_tokens) blocks
 * and, where the shard has linear layers, one slot; it gets all of it before
 * prefill or waits.  What can never fit is refused at once, with figures.
 *
 * Threading: the core's. */
#ifndef ROUTER_ADMISSION_H
#define ROUTER_ADMISSION_H

#include "router/requests.h"

/* May it wait?  Ids against vocabulary and context, max_tokens (filled in
 * where the client named none), the pools, the length of the queue. */
MUST_CHECK enum status admission_check(struct router_core *r, struct request *q,
                                       uint32_t *retry_after_ms,
                                       struct error *e);

/* Is there a worker that could ever run it? */
MUST_CHECK enum status admission_possible(struct router_core *r,
                                          const struct request *q,
                                          struct error *e);

/* Is there a place in the queue? */
MUST_CHECK enum status admission_queue(struct router_core *r,
                                       const struct model *m,
                                       uint32_t *retry_after_ms,
                                       struct error *e);

/* Grant what fits, from the head of m's queue. */
void admission_run(struct router_core *r, struct model *m);

#endif
