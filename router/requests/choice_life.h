/* choice_life.h - a choice through its states: into the queue, to a worker,
 * to its end.
 *
 * Every function leaves the choice in one of the states of
 * router/requests/choice_state.h, in exactly the lists that belong to it, and
 * its worker's account in order.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_CHOICE_LIFE_H
#define ROUTER_REQUESTS_CHOICE_LIFE_H

#include "router/requests/choice.h"

struct requests;

/* Puts a choice whose prompt is known and checked at the end of the queue, or
 * ends it if its client came with a stop string. */
void choice_enqueue(struct requests *r, struct choice *choice);

/* Takes its grant back and puts it among the waiting by its number: before all
 * that came later. */
void choice_requeue(struct requests *r, struct choice *choice);

/* Its Submit is sent: it is granted need at w. */
void choice_granted(struct requests *r, struct choice *choice, struct worker *w,
                    const struct need *need);

/* Its worker has nothing of it any more: takes it out of all the worker's
 * lists.  No-op without a worker. */
void choice_ungrant(struct requests *r, struct choice *choice);

/* Its worker keeps it for the request's keep_ms after its end. */
void choice_keep(struct requests *r, struct choice *choice);

/* Ends it with a last chunk, after what is unsent.  Its request may be gone
 * afterwards. */
void choice_finish(struct requests *r, struct choice *choice,
                   Sluice__V1__Finish finish);

/* Ends it in silence: its client has its last chunk already. */
void choice_had(struct requests *r, struct choice *choice);

/* Ends it, its call and, cancelled, the other choices, by a status and a
 * sentence, at once.  Its request may be gone afterwards. */
void choice_fail(struct requests *r, struct choice *choice,
                 const struct error *e, uint32_t retry_after_ms);

/* Ends it in whatever state it is, without a message, because its call is
 * refused; because the router stops.  Its request stays. */
void choice_refuse(struct requests *r, struct choice *choice);
void choice_abandon(struct requests *r, struct choice *choice);

#endif
