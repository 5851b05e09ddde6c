/* choice_moves.h - choices whose worker, or whose hope of one, is gone.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_CHOICE_MOVES_H
#define ROUTER_REQUESTS_CHOICE_MOVES_H

#include "router/requests/choice.h"

struct requests;

/* Its worker is lost: it goes to the head of the queue, or ends.  why: the
 * reason, for the sentence it may end with. */
void choice_displaced(struct requests *r, struct choice *choice,
                      const char *why);

/* Its worker has let go of it, as it was asked to: the same, and no worker's
 * death is counted. */
void choice_moved(struct requests *r, struct choice *choice);

/* Workers of m came, left or drain: ends what waits and can no longer run
 * anywhere. */
void choices_recheck(struct requests *r, struct model *m);

/* m comes back with other weights: ends what waits with tokens of the old
 * ones, or all, if the ids themselves may mean something else. */
void choices_estranged(struct requests *r, struct model *m, bool all);

#endif
