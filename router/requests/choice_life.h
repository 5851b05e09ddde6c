/* choice_life.h - The life of a choice: into the queue, to a worker, to its
 * end.
 *
 * Every function leaves the choice in one of the states of
 * router/requests/choice_state.h, in exactly the lists that belong to that
 * state, and the account of its worker consistent.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_REQUESTS_CHOICE_LIFE_H
#define ROUTER_REQUESTS_CHOICE_LIFE_H

#include "router/requests/choice.h"

/* Marks a choice that has just been put into the queue as waiting; if it lives
 * at a worker as an orphan, it is wanted there from now on. */
void choice_wait(struct requests *r, struct choice *choice);

/* Takes the grant of choice back and returns it to the queue by its number:
 * before all choices that arrived later. */
void choice_requeue(struct requests *r, struct choice *choice);

/* Records the grant of need at w; the Submit of choice has been sent. */
void choice_granted(struct requests *r, struct choice *choice, struct worker *w,
                    const struct need *need);

/* Removes choice from all lists of its worker, which no longer holds anything
 * of it.  No-op without a worker. */
void choice_ungrant(struct requests *r, struct choice *choice);

/* Starts the lease of choice: its worker keeps it for the request's keep_ms
 * after its end. */
void choice_keep(struct requests *r, struct choice *choice);

/* Ends choice with a last chunk, after its unsent tokens.  The request may be
 * gone afterwards. */
void choice_finish(struct requests *r, struct choice *choice,
                   Sluice__V1__Finish finish);

/* Ends choice without a chunk: its client already has the last one. */
void choice_end_silent(struct requests *r, struct choice *choice);

/* Fails choice and its call with e, sent after the tokens that fit the link
 * now, and cancels the other choices of the request.  The request may be gone
 * afterwards. retry_after_ms: 0 if a retry would not help. */
void choice_fail(struct requests *r, struct choice *choice,
                 const struct error *e, uint32_t retry_after_ms);

/* Ends choice in any state without a message: because its call is refused, or
 * because the router stops.  The request stays. */
void choice_refuse(struct requests *r, struct choice *choice);
void choice_abandon(struct requests *r, struct choice *choice);

#endif
