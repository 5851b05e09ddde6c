/* shard.h - Checks the shard that a worker announces in its Hello.
 *
 * Threading: a pure function.  Memory: none.  Limits: SHARD_* in
 * router/base/router_limits.h. */
#ifndef ROUTER_REPLICAS_SHARD_H
#define ROUTER_REPLICAS_SHARD_H

#include <stdbool.h>

#include "common/base/status.h"
#include "proto/registry.pb-c.h"

/* Checks every field of s against its limit and against the other fields.
 * keyed: this router has keys, so other hosts may be named.  Returns
 * INVALID_ARGUMENT, and in *e the first field that is wrong. */
MUST_CHECK enum status shard_check(const Sluice__V1__WorkerShard *s, bool keyed,
                                   struct error *e);

/* Checks an arithmetic id: 1 to ARITHMETIC_MAX bytes of ASCII without blanks.
 */
MUST_CHECK enum status shard_check_arithmetic(ProtobufCBinaryData id,
                                              struct error *e);

/* Checks the name of a KV format: 1 to KV_FORMAT_MAX bytes of ASCII without
 * blanks. */
MUST_CHECK enum status shard_check_format(ProtobufCBinaryData name,
                                          struct error *e);

#endif
