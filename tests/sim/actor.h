/* actor.h - what the people at the clients do: ask, change their minds, go
 * away, come back, fall asleep, look around. */
#ifndef SIM_ACTOR_H
#define SIM_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct sim_request;

/* Begin to ask as soon as all workers are up. */
void actor_start(struct sim *s);

/* A request has ended; what follows may be drawn. */
void actor_ended(struct sim *s, struct sim_request *g);

#endif
