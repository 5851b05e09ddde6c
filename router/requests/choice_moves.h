/* choice_moves.h - Choices that lose their worker, or the prospect of one.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_REQUESTS_CHOICE_MOVES_H
#define ROUTER_REQUESTS_CHOICE_MOVES_H

#include "router/requests/choice.h"

/* Requeues choice, whose worker is lost, or ends it. why: the reason, used in
 * the error if it ends. */
void choice_displaced(struct requests *r, struct choice *choice,
                      const char *why);

/* Requeues choice, which its worker released on request, or ends it.  Counts no
 * death and no idle move. */
void choice_moved(struct requests *r, struct choice *choice);

/* Checks the queue of m again after workers came, left or drained: ends choices
 * that can no longer run anywhere. */
void choices_recheck(struct requests *r, struct model *m);

/* Ends the waiting choices that have tokens of the old weights of m, which
 * comes back with other weights or another KV format; with all, every waiting
 * choice, because the ids may have another meaning. */
void choices_estranged(struct requests *r, struct model *m, bool all);

#endif
