/* endpoint.h - names of ports: tcp://HOST:PORT and ipc://PATH.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_WIRE_ENDPOINT_H
#define COMMON_WIRE_ENDPOINT_H

#include <stdbool.h>

#include "common/base/status.h"
#include "proto/limits.h"

/* ST_INVALID_ARGUMENT: neither kind, too long, or ipc://@NAME, a socket that
 * is no file and that no mode protects. */
MUST_CHECK enum status endpoint_check(const char *endpoint, struct error *e);

bool endpoint_is_ipc(const char *endpoint);

/* Only this machine can reach it: loopback or ipc.  Of what passed
 * endpoint_check(). */
bool endpoint_is_private(const char *endpoint);

/* An ipc name that somebody listens on.  libzmq would take it over; of tcp
 * it says so itself, and this is false. */
bool endpoint_taken(const char *endpoint);

#endif
