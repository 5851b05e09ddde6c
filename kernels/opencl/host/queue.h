/* queue.h - the steps' in-order queue: errors, ticks, the profile.
 *
 * Ticks count commands that the device has finished, not commands enqueued.
 * Now and then a command gets an event, and its completion is a tick.  Events
 * are polled, oldest first, at each new event and while waiting.  With the
 * profile on, every kernel has an event.
 *
 * Threading: as opencl.h.
 * Memory: opencl_queue_new() allocates.
 * Limits: OPENCL_EVENTS_MAX commands with pending events; one more waits for
 * the oldest. */
#ifndef KERNELS_OPENCL_HOST_QUEUE_H
#define KERNELS_OPENCL_HOST_QUEUE_H

#include "kernels/opencl/host/launch.h"

#define OPENCL_EVENTS_MAX 512

/* Creates the queue in c->queue; profile: count every kernel's time. */
MUST_CHECK enum status opencl_queue_new(struct opencl *c, bool profile,
                                        struct error *e);
void opencl_queue_free(struct opencl *c);

/* Returns OpenCL's own queue. */
cl_command_queue opencl_queue_id(const struct opencl *c);

/* Returns the place for a command's event, so that its end becomes a tick and
 * kernel's time is counted (NULL: no kernel).  opencl_watch_end() must follow.
 */
cl_event *opencl_watch(struct opencl *c, struct opencl_kernel *kernel);

/* Ends opencl_watch(): taken is false if the command was rejected and has no
 * event. */
void opencl_watch_end(struct opencl *c, bool taken);

/* Counts a command that is about to be enqueued, or was. */
static inline void opencl_queue_use(struct opencl *c)
{
    c->health.idle = c->health.marked = false;
}

/* Returns an event, which the caller releases, that ends with all commands
 * enqueued so far, and submits them; NULL if there are none since the last
 * wait or mark, or after a failure. */
cl_event opencl_mark(struct opencl *c);

/* Returns the execution status of a command; negative: an error. */
cl_int opencl_event_state(cl_event event);

/* Retires the watched commands that have finished, without waiting. */
void opencl_poll_events(struct opencl *c);

/* Waits until all enqueued commands have finished, and the copies that they
 * wait for (copies.h). */
void opencl_wait(struct opencl *c);

/* Returns whether code is CL_SUCCESS; if not, gives the device up. what: the
 * call, for the error text. */
bool opencl_check(struct opencl *c, cl_int code, const char *what);

/* Returns whether every kernel's time is counted. */
bool opencl_profiles(const struct opencl *c);

/* Returns a new kernel, zeroed and owned by the queue; NULL past
 * OPENCL_KERNELS_MAX. */
struct opencl_kernel *opencl_kernel_new(struct opencl *c);

/* Returns all [*n] kernels so far. */
struct opencl_kernel *opencl_kernels(struct opencl *c, uint32_t *n);

#endif
