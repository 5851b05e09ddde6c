/* turn.h - The turn of the clock, and the end.
 *
 * Threading: one thread.  Memory: that of struct service. */
#ifndef GATEWAY_CALLS_TURN_H
#define GATEWAY_CALLS_TURN_H

#include "gateway/calls/service.h"

/* Handles finished prompt jobs, timers and the list of models.  Returns
 * when it must run next. */
int64_t turn_tick(struct service *c, int64_t now_us);

/* Ends what is open with an error that clients receive. */
void turn_abort(struct service *c);

/* Ends what is open.  The HTTP server must be gone, the upstream not yet. */
void turn_cancel(struct service *c);

/* Frees everything, also requests whose prompt jobs have not returned: the
 * seam must drop those. */
void turn_fini(struct service *c);

/* Returns the number of requests that are not over. */
uint32_t turn_open(const struct service *c);

#endif
