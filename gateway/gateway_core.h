/* gateway_core.h - The gateway without sockets, clocks and threads.
 *
 *     bytes of HTTP ──▶ http_server ──▶ calls ──▶ upstream ──▶ frames
 *                                        │ ▲
 *                                        ▼ │
 *                                     prompt seam
 *
 * A node (common/wire/node_io.h) towards the router, and an HTTP server
 * (gateway/http/http.h) towards clients.  The program drives both over sockets;
 * the simulator drives the same object in memory.
 *
 * Threading: one thread.  Memory: on the heap; each open request and connection
 * adds its own.  Limits: those of the parts. */
#ifndef GATEWAY_GATEWAY_CORE_H
#define GATEWAY_GATEWAY_CORE_H

#include "common/wire/node_io.h"
#include "gateway/calls/service.h"

struct gateway_core;
struct metric_page;

struct gateway_options {
    const char *name;    /* for the router's logs; borrowed */
    unsigned n_sessions; /* with the router, at most */
    struct service_options service;
    struct http_options http;
};

/* Creates a core that sends to the router through io, and to clients through
 * http.  Both are borrowed. */
struct gateway_core *gateway_new(const struct gateway_options *o,
                                 struct node_io *io,
                                 const struct http_io *http);

/* Closes all connections, cancels all requests and frees the core.  Sets *g to
 * NULL; a no-op if it is NULL. */
void gateway_free(struct gateway_core **g);

/* Callbacks of the event loop; their node is the struct gateway_core. */
extern const struct node_ops gateway_node_ops;

/* Returns the HTTP server, for the events of connections. */
struct http_server *gateway_http(struct gateway_core *g);

/* Figures of a core. */
struct gateway_view {
    uint32_t requests; /* not over */
    uint32_t calls;    /* places for calls of the router that are taken */
    uint64_t resumed;  /* calls that went on after a loss, of ended requests */
    bool knows_models; /* a router has named its models */
};

struct gateway_view gateway_view(const struct gateway_core *g);

/* Returns whether the router has accepted the gateway and the first session is
 * up. */
bool gateway_is_up(const struct gateway_core *g);

/* Returns whether /ready answers 200: a model has a worker, and the gateway
 * does not drain. */
bool gateway_is_ready(const struct gateway_core *g);

/* Adds all figures to a page of metrics. */
void gateway_page(struct gateway_core *g, struct metric_page *page);

/* Logs the figures that are not 0 under the event `counted`. */
void gateway_log(struct gateway_core *g);

/* Drains: refuses new requests and lets the open ones end.  After grace_us it
 * ends them with an error.  The tick returns NODE_STOP when all connections
 * are closed, or 0.5 s after the grace. */
void gateway_stop(struct gateway_core *g, int64_t grace_us);

#endif
