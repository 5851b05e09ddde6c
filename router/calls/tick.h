/* tick.h - one turn of the clock: timers, admission, and all that is sent.
 *
 * Threading: the core's. */
#ifndef ROUTER_CALLS_TICK_H
#define ROUTER_CALLS_TICK_H

#include <stdint.h>

struct router_core;

/* Does what is due at now_us.  Returns when the next turn is due, NODE_IDLE:
 * when something comes, NODE_STOP: never. */
int64_t router_tick(struct router_core *r, int64_t now_us);

#endif
