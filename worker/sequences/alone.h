/* alone.h - The role of a worker that has all layers: a result ends its step,
 * and there is no other stage to notify.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_ALONE_H
#define WORKER_SEQUENCES_ALONE_H

#include "worker/sequences/sequences.h"

/* `self` is the struct sequences. */
extern const struct role_ops alone_role;

#endif
