/* endpoint.h - Endpoints of sockets: tcp://HOST:PORT and ipc://PATH.
 *
 * Connections have no keys yet.  The programs therefore bind and dial the same
 * endpoints only: loopback and ipc.  A name that a peer sends is dialled on
 * stricter terms than one of this machine's user.
 *
 * Threading: none.  Memory: none.  Limits: ENDPOINT_MAX. */
#ifndef COMMON_WIRE_ENDPOINT_H
#define COMMON_WIRE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/limits.h"

/* Checks an endpoint.  Returns ST_INVALID_ARGUMENT if it is of neither kind,
 * too long, or ipc://@NAME: such a socket is no file, so no file mode
 * protects it. */
MUST_CHECK enum status endpoint_check(const char *endpoint, struct error *e);

/* Returns whether the endpoint starts with ipc://. */
bool endpoint_is_ipc(const char *endpoint);

/* Checks that no other machine reaches the endpoint, or is reached by it: ipc,
 * or tcp with 127.0.0.0/8, [::1] or localhost and a port.  Writes to `out` the
 * endpoint to bind or dial: localhost becomes 127.0.0.1, so no name is ever
 * resolved.  Returns ST_INVALID_ARGUMENT for anything else. */
MUST_CHECK enum status
endpoint_private(const char *endpoint, char out[ENDPOINT_MAX], struct error *e);

/* Checks an endpoint of n bytes that a peer has sent: private, with a port from
 * 1 to 65535.  If `own` is not NULL, an ipc endpoint must be a file in the
 * folder of `own`, the endpoint at which this program listens: a peer may name
 * neighbours, but no other socket of the machine.  Returns
 * ST_INVALID_ARGUMENT, with the endpoint escaped. */
MUST_CHECK enum status endpoint_of_peer(const uint8_t *data, size_t n,
                                        const char *own, struct error *e);

/* Returns whether another process listens on an ipc endpoint; libzmq would
 * take the name over.  Returns false for tcp, where libzmq reports the
 * conflict. */
bool endpoint_taken(const char *endpoint);

#endif
