/* trial_deaths.h - Charges the death of a worker to the sequences that it ran.
 *
 * router/placement/trial.h has the rules.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_REQUESTS_TRIAL_DEATHS_H
#define ROUTER_REQUESTS_TRIAL_DEATHS_H

#include "router/requests/requests.h"

/* Sorts the sequences of w's place, after w has died, into free ones and
 * suspects.  The place is w itself or the leader of its replica.  Call it
 * before the sequences are displaced.  Returns true if one was on trial there
 * and is charged. */
bool trial_death(struct requests *r, struct worker *w);

/* Undoes the death of the worker of this life, which has not died, in all
 * sequences. */
void trial_alive(struct requests *r, uint64_t life);

#endif
