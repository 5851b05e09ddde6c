/* actor.h - what the people at the clients do: ask, change their minds, go
 * away, come back, fall asleep, look around. */
#ifndef SIM_ACTOR_H
#define SIM_ACTOR_H

#include <stdbool.h>
#include <stdint.h>

struct sim;
struct generation;

/* Begin to ask as soon as all workers are up. */
void actor_start(struct sim *s);

/* A generation has ended; what follows may be drawn. */
void actor_ended(struct sim *s, struct generation *g);

#endif
