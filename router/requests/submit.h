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

struct requests;

/* Grant choice its need at w.  Not OK: the link is full, nothing was done. */
MUST_CHECK enum status submit_send(struct requests *r, struct worker *w,
                                   struct choice *choice);

/* Grant choice what it has at w already; nothing is charged.  As submit_send().
 */
MUST_CHECK enum status submit_adopt(struct requests *r, struct worker *w,
                                    struct choice *choice);

/* Adopts what is wanted of m, as far as there is room. */
void submit_adoptions(struct requests *r, struct model *m);

/* Send parts as far as there is room. */
void submit_pump(struct requests *r, struct worker *w);

/* The worker's answer to a Submit. */
void submit_answered(struct requests *r, struct worker *w, uint64_t grant,
                     enum status status, const struct error *e);

#endif
