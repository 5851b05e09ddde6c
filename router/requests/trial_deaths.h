/* trial_deaths.h - a worker's death, laid at the door of what it ran.
 *
 * router/schedule/trial.h has the rules.
 *
 * Threading: the core's. */
#ifndef ROUTER_REQUESTS_TRIAL_DEATHS_H
#define ROUTER_REQUESTS_TRIAL_DEATHS_H

#include "router/requests/requests.h"

struct requests;

/* w has died: sorts the sequences of its place, itself or the leader of its
 * replica, into free ones and suspects.  Call it before they are displaced.
 * Returns true if one was on trial there and is charged. */
bool trial_death(struct requests *r, struct worker *w);

/* The worker of this life has not died: takes back what its death made of
 * sequences. */
void trial_alive(struct requests *r, uint64_t life);

#endif
