/* submit.h - a sequence on its way to its place: Submit, then SubmitPart.
 *
 * The grant takes its number when the Submit is queued on the link, so that
 * numbers have no gaps and arrive in order; those of the stages past the first
 * are taken in the same turn, and go with it.  The ids that do not fit the
 * first message follow as the submit lane has room; what is unsent is state,
 * not a queue of copies.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_SUBMIT_H
#define ROUTER_REQUESTS_SUBMIT_H

#include "router/requests/request.h"

/* Is w a place that takes a Submit now (its state and that of its stages, its
 * link, the limits)? */
bool submit_open(const struct worker *w);

/* Grant choice its need at w.  Not OK: the link is full, nothing was done. */
MUST_CHECK enum status submit_send(struct router_core *r, struct worker *w,
                                   struct choice *choice);

/* Have all ids of choice, which has a worker, left for it? */
bool submit_may_have_run(const struct choice *choice);

/* Grant choice what it has at w already; nothing is charged.  As submit_send().
 */
MUST_CHECK enum status submit_adopt(struct router_core *r, struct worker *w,
                                    struct choice *choice);

/* Send parts as far as there is room. */
void submit_pump(struct router_core *r, struct worker *w);

/* The worker's answer to a Submit. */
void submit_answered(struct router_core *r, struct worker *w, uint64_t grant,
                     enum status status, const struct error *e);

#endif
