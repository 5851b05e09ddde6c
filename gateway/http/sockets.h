/* sockets.h - TCP and TLS connections of an HTTP server, by epoll.
 *
 * One listening socket and its connections.  The descriptor of
 * http_sockets_fd() is readable when there is work; an owner waits for it and
 * then calls http_sockets_turn(), which feeds the server:
 *
 *     http_sockets_new --> http_server_new(http_sockets_io) -->
 *         http_sockets_start --> each turn: http_sockets_turn,
 *                                           http_server_tick
 *
 * A connection that the server closes first sends what is buffered, then
 * end-of-file, and then discards input for a short time: otherwise the
 * kernel would reset it, and an error's text would not reach the client.
 *
 * Without free descriptors, accepting pauses for HTTP_ACCEPT_PAUSE_MS; a
 * descriptor kept in reserve refuses the clients that wait.
 *
 * Threading: one thread.  Memory: about 150 bytes a connection; with TLS, about
 * 15 KB more, most of it OpenSSL's.  Limits: gateway/http/http_limits.h. */
#ifndef GATEWAY_HTTP_SOCKETS_H
#define GATEWAY_HTTP_SOCKETS_H

#include <stdbool.h>

#include "common/base/status.h"
#include "gateway/http/http.h"

struct http_sockets;

struct http_sockets_options {
    const char *listen;   /* HOST:PORT or [IPV6]:PORT; port 0: any free one */
    int passed;           /* a bound socket in place of `listen`; 0: none */
    const char *tls_cert; /* certificate chain in PEM; NULL: no TLS */
    const char *tls_key;  /* its private key in PEM */
    bool anyone;          /* false: only loopback addresses */
};

/* Binds and listens; clients wait until http_sockets_start().  Returns
 * ST_INVALID_ARGUMENT for a wrong address, certificate or key,
 * ST_PERMISSION_DENIED for an address that others can reach without `anyone`,
 * and ST_UNAVAILABLE if the address cannot be bound. */
MUST_CHECK enum status
http_sockets_new(struct http_sockets **out,
                 const struct http_sockets_options *options, struct error *e);

/* Closes everything.  The server must not run afterwards; free it first.  NULL
 * is legal. */
void http_sockets_free(struct http_sockets **h);

/* Returns the functions that http_server_new() takes. */
const struct http_io *http_sockets_io(struct http_sockets *h);

/* Starts to accept connections for this server. */
void http_sockets_start(struct http_sockets *h, struct http_server *server);

/* Stops accepting and closes the listening socket; connections stay. */
void http_sockets_stop(struct http_sockets *h);

/* Returns a descriptor that is readable when http_sockets_turn() has work. */
int http_sockets_fd(const struct http_sockets *h);

/* Handles the events that wait, a bounded number, without blocking.  Call it
 * when the descriptor is readable, and at least once a second: it also ends
 * handshakes and closing connections that take too long. */
void http_sockets_turn(struct http_sockets *h);

/* Returns the address with the actual port, as "127.0.0.1:8000". */
const char *http_sockets_endpoint(const struct http_sockets *h);

/* Reads certificate and key again, for new connections.  If they are wrong,
 * the old ones stay and the error names the file. */
MUST_CHECK enum status http_sockets_reload_tls(struct http_sockets *h,
                                               struct error *e);

#endif
