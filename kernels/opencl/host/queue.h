/* queue.h - the one in-order queue: what went wrong, ticks, the profile.
 *
 * Ticks count what the device has finished, not what it was asked for: now and
 * then a command gets an event, and a tick is its completion.  They are
 * looked at on the way and while waiting, oldest first.  With the profile on
 * every kernel has an event.
 *
 * Threading: as opencl.h.  Memory: opencl_queue_new().  Limits:
 * OPENCL_EVENTS_MAX commands whose end nobody has seen; then the oldest is
 * waited for. */
#ifndef KERNELS_OPENCL_HOST_QUEUE_H
#define KERNELS_OPENCL_HOST_QUEUE_H

#include "kernels/opencl/host/launch.h"

#define OPENCL_EVENTS_MAX 512

MUST_CHECK enum status opencl_queue_new(struct opencl *c, bool profile,
                                        struct error *e);
void opencl_queue_free(struct opencl *c);

cl_command_queue opencl_queue_id(const struct opencl *c);

/* Where a command's event goes, so that its end is a tick and kernel's time
 * is counted (NULL: no kernel).  Given back by opencl_seen(). */
cl_event *opencl_watch(struct opencl *c, struct opencl_kernel *kernel);

/* The command was taken, or was not (then its event is none). */
void opencl_seen(struct opencl *c, bool taken);

/* Looks which of the watched commands are finished, without waiting. */
void opencl_look(struct opencl *c);

/* Until all that was asked for is finished. */
void opencl_wait(struct opencl *c);

/* False: code is a failure, and the device is given up. */
bool opencl_check(struct opencl *c, cl_int code, const char *what);

/* Is every kernel's time to be counted? */
bool opencl_profiles(const struct opencl *c);

/* A new one, zeroed, which is the queue's; NULL past OPENCL_KERNELS_MAX. */
struct opencl_kernel *opencl_kernel_new(struct opencl *c);

/* All of them so far. */
struct opencl_kernel *opencl_kernels(struct opencl *c, uint32_t *n);

#endif
