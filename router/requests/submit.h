/* submit.h - Sends a sequence to its place: Submit, then SubmitParts.
 *
 * A grant gets its number when its Submit is queued on the link, so numbers
 * have no gaps and arrive in order.  The grants of the stages past the first
 * are numbered in the same turn and travel in the same Submit.  Ids that do not
 * fit into the Submit follow in SubmitParts, as the submit lane has room.
 * Unsent ids are kept as a position in the choice, not as queued copies.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_REQUESTS_SUBMIT_H
#define ROUTER_REQUESTS_SUBMIT_H

#include "router/requests/request.h"

/* Grants choice its need at w and sends its Submit.  Any status but ST_OK: the
 * link is full and nothing was done. */
MUST_CHECK enum status submit_send(struct requests *r, struct worker *w,
                                   struct choice *choice);

/* Grants choice what it already has at w and sends a Submit{adopt}; charges
 * nothing.  grows: w listed it as one that grows.  Returns as submit_send(). */
MUST_CHECK enum status submit_adopt(struct requests *r, struct worker *w,
                                    struct choice *choice, bool grows);

/* Adopts the orphans that are wanted at workers of m, as far as their links
 * have room. */
void submit_adoptions(struct requests *r, struct model *m);

/* Sends SubmitParts of w, as far as its link has room. */
void submit_pump(struct requests *r, struct worker *w);

/* Handles the answer of w to the Submit of a grant. e: the error if status is
 * not ST_OK. */
void submit_answered(struct requests *r, struct worker *w, uint64_t grant,
                     enum status status, const struct error *e);

#endif
