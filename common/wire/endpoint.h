/* endpoint.h - Endpoints of sockets: tcp://HOST:PORT and ipc://PATH.
 *
 * Threading: none.  Memory: none.  Limits: ENDPOINT_MAX. */
#ifndef COMMON_WIRE_ENDPOINT_H
#define COMMON_WIRE_ENDPOINT_H

#include <stdbool.h>

#include "common/base/status.h"
#include "proto/limits.h"

/* Checks an endpoint.  Returns ST_INVALID_ARGUMENT if it is of neither kind,
 * too long, or ipc://@NAME: such a socket is no file, so no file mode
 * protects it. */
MUST_CHECK enum status endpoint_check(const char *endpoint, struct error *e);

/* Returns whether the endpoint starts with ipc://. */
bool endpoint_is_ipc(const char *endpoint);

/* Returns whether only this machine can reach the endpoint: loopback or ipc.
 * endpoint_check() has passed it. */
bool endpoint_is_private(const char *endpoint);

/* Returns whether another process listens on an ipc endpoint; libzmq would
 * take the name over.  Returns false for tcp, where libzmq reports the
 * conflict. */
bool endpoint_taken(const char *endpoint);

#endif
