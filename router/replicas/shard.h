/* shard.h - the shard that a worker announces in its Hello, checked.
 *
 * Threading: a pure function. */
#ifndef ROUTER_REPLICAS_SHARD_H
#define ROUTER_REPLICAS_SHARD_H

#include "common/base/status.h"
#include "proto/registry.pb-c.h"

/* Checks every field of s against its limit and against the others.  Returns
 * INVALID_ARGUMENT, and in *e a sentence on the first that is wrong. */
MUST_CHECK enum status shard_check(const Sluice__V1__WorkerShard *s,
                                   struct error *e);

#endif
