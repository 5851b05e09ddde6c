/* endpoint.h - Endpoints of sockets: tcp://HOST:PORT and ipc://PATH.
 *
 *     HOST    192.0.2.7   [2001:db8::7]   [fe80::7%eth0]   node-7.example
 *             localhost (127.0.0.1)
 *             to listen also 0.0.0.0 (IPv4), [::] and * (IPv4 and IPv6)
 *     PORT    1 to 65535; to listen also 0 or * (a free port)
 *
 * A program with keys binds and dials any host.  A program without keys binds
 * and dials loopback and ipc only, because anyone can be at the other end.  A
 * program listens at an address, never at a name or an interface.  Other
 * syntaxes of libzmq (SOURCE;DESTINATION) are refused.  An endpoint that a peer
 * sends is dialled on stricter terms than one of this machine's user.
 *
 * Nothing here asks a resolver: common/wire/resolver.h does.
 *
 * Threading: none.  Memory: none.  Limits: ENDPOINT_MAX, ENDPOINT_NAME_MAX. */
#ifndef COMMON_WIRE_ENDPOINT_H
#define COMMON_WIRE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/limits.h"

#define ENDPOINT_NAME_MAX  253 /* a host's name (RFC 1035) */
#define ENDPOINT_LABEL_MAX 63  /* between two dots of it */

enum endpoint_kind {
    ENDPOINT_IPC,
    ENDPOINT_V4,
    ENDPOINT_V6,
    ENDPOINT_NAME, /* to be resolved */
    ENDPOINT_ANY   /* *, to listen at every address of both families */
};

struct endpoint {
    enum endpoint_kind kind;
    char host[ENDPOINT_MAX]; /* IPv6 without brackets; "" of ipc */
    char port[6];            /* digits or "*"; "" of ipc */
    bool loopback;           /* only this machine: also ipc */
    bool wildcard;           /* *, 0.0.0.0 or :: */
};

/* Splits an endpoint.  Returns ST_INVALID_ARGUMENT if it is of neither kind,
 * too long, has no valid host or port, or is ipc://@NAME: such a socket is no
 * file, so no file mode protects it. */
MUST_CHECK enum status endpoint_split(struct endpoint *out,
                                      const char *endpoint, struct error *e);

/* Writes tcp://HOST:PORT, an IPv6 address in brackets.  Returns false if that
 * is too long. */
MUST_CHECK bool endpoint_join(char out[ENDPOINT_MAX], const char *host,
                              const char *port);

/* Returns whether the endpoint starts with ipc://. */
bool endpoint_is_ipc(const char *endpoint);

/* Checks an endpoint to listen at, by a program with or without keys, and
 * writes to `out` the one to bind: localhost becomes 127.0.0.1.  Returns
 * ST_INVALID_ARGUMENT with the reason. */
MUST_CHECK enum status endpoint_bind(const char *endpoint, bool keys,
                                     char out[ENDPOINT_MAX], struct error *e);

/* Checks an endpoint to connect to, as endpoint_bind().  Its host may be a
 * name, but not a wildcard, and its port is 1 to 65535. */
MUST_CHECK enum status endpoint_dial(const char *endpoint, bool keys,
                                     char out[ENDPOINT_MAX], struct error *e);

/* Checks an endpoint of n bytes that a peer has sent, as endpoint_dial().  If
 * `own` is not NULL, an ipc endpoint must be a file in the folder of `own`, the
 * endpoint at which this program listens: a peer may name neighbours, but no
 * other socket of the machine.  Returns ST_INVALID_ARGUMENT, with the endpoint
 * escaped. */
MUST_CHECK enum status endpoint_of_peer(const uint8_t *data, size_t n,
                                        const char *own, bool keys,
                                        struct error *e);

/* Returns whether another process listens on an ipc endpoint; libzmq would
 * take the name over.  Returns false for tcp, where libzmq reports the
 * conflict. */
bool endpoint_taken(const char *endpoint);

#endif
