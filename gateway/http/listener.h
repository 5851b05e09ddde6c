/* listener.h - A listening TCP socket that survives the lack of descriptors.
 *
 * Threading: one thread.  Memory: the caller's storage.  Limits:
 * HTTP_BACKLOG. */
#ifndef GATEWAY_HTTP_LISTENER_H
#define GATEWAY_HTTP_LISTENER_H

#include <stdbool.h>

#include "common/base/status.h"

#define LISTENER_ENDPOINT 80 /* an address in brackets, a port and a NUL */

struct listener {
    int fd;      /* -1: closed */
    int reserve; /* a descriptor to give up when there is no other */
    char endpoint[LISTENER_ENDPOINT];
};

enum listener_result { LISTENER_OK, LISTENER_NONE, LISTENER_EXHAUSTED };

/* Listens on HOST:PORT.  Without `anyone`, only on loopback addresses.  The
 * errors are those of http_sockets_new(). */
MUST_CHECK enum status listener_open(struct listener *l, const char *address,
                                     bool anyone, struct error *e);
/* Takes fd, a listening TCP socket that another program has bound, and owns it
 * from then on.  Without `anyone`, its address must be loopback.  Returns
 * ST_INVALID_ARGUMENT if fd is no such socket, ST_PERMISSION_DENIED if others
 * can reach it. */
MUST_CHECK enum status listener_take(struct listener *l, int fd, bool anyone,
                                     struct error *e);
void listener_close(struct listener *l);

/* Accepts one connection, non-blocking, and sets *fd.  Returns
 * LISTENER_EXHAUSTED without descriptors or memory: one waiting client was
 * then refused, and the caller should pause. */
enum listener_result listener_accept(struct listener *l, int *fd);

#endif
