/* tick.h - One turn of the clock: timers, admission, and everything sent.
 *
 * Threading: the core's thread only.  Memory: none of its own. */
#ifndef ROUTER_CALLS_TICK_H
#define ROUTER_CALLS_TICK_H

#include <stdint.h>

struct router_core;

/* Handles everything due at now_us.  Returns when the next turn is due in us;
 * NODE_IDLE: when a frame arrives; NODE_STOP: never. */
int64_t router_tick(struct router_core *r, int64_t now_us);

/* Records which places are there and what their steps cost, if something
 * changed or some time has passed.  Part of a turn. */
void record_places(struct router_core *r);

#endif
