/* chaos_proxy.h - The proxy: routes, pairs of sockets, epoll.
 *
 * A route listens on a port and forwards each connection to another port,
 * through two pipes (chaos_pipe.h).  Both ports are of loopback, unless
 * chaos_proxy_hosts() sets other addresses.  A new connection copies the
 * settings of its route.
 *
 * A frozen or dropped way does not pass the end of a connection either, so the
 * other side does not notice a death behind it.  While a route is paused, the
 * kernel still accepts connections up to its backlog.
 *
 * Threading: one thread.  Memory: bounded by CHAOS_CONNECTIONS_MAX times two
 * pipes.  Limits: below; a request past them is refused with a text. */
#ifndef TESTS_FAULTS_CHAOS_PROXY_H
#define TESTS_FAULTS_CHAOS_PROXY_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "tests/faults/chaos_pipe.h"

#define CHAOS_ROUTES_MAX      64
#define CHAOS_CONNECTIONS_MAX 4096 /* over all routes */
#define CHAOS_NAME_MAX        31
#define CHAOS_ALL             0 /* all connections of a route */

enum chaos_accept {
    CHAOS_ACCEPT,
    CHAOS_PAUSE, /* connections wait in the kernel's backlog */
    CHAOS_REFUSE /* the port is closed */
};

struct chaos_proxy;

struct chaos_totals {
    struct chaos_counts counts;
    uint64_t accepted, unreachable, resets, open;
};

/* Creates a proxy; seed determines all random numbers. */
struct chaos_proxy *chaos_proxy_new(uint64_t seed);
void chaos_proxy_free(struct chaos_proxy **p);

/* Sets the IPv4 addresses of the ports and of the targets, 127.0.0.1 before.
 * Routes that are added later listen there. */
void chaos_proxy_hosts(struct chaos_proxy *p, struct in_addr listen,
                       struct in_addr target);

/* Adds a route from port `listen`, 0: any free one, to port `target`. */
MUST_CHECK enum status chaos_proxy_add(struct chaos_proxy *p, const char *name,
                                       uint16_t listen, uint16_t target,
                                       bool zmtp, struct error *e);

/* Returns the number of routes; their indices are 0..n-1. */
unsigned chaos_proxy_routes(const struct chaos_proxy *p);
const char *chaos_proxy_name(const struct chaos_proxy *p, unsigned route);
/* Returns the port that a route listens on. */
uint16_t chaos_proxy_listen(const struct chaos_proxy *p, unsigned route);
bool chaos_proxy_zmtp(const struct chaos_proxy *p, unsigned route);

/* Changes the settings of connection `id` of a route, or with CHAOS_ALL of the
 * route and all its connections.  Returns false if there is no such one. */
typedef void chaos_change_fn(struct chaos_settings *s, const void *arg);
bool chaos_proxy_change(struct chaos_proxy *p, unsigned route, uint32_t id,
                        chaos_change_fn *change, const void *arg);

/* Ends connection `id`, or all, by RST or as if both sides had closed.  Returns
 * the number of connections ended. */
unsigned chaos_proxy_end(struct chaos_proxy *p, unsigned route, uint32_t id,
                         bool reset);

MUST_CHECK enum status chaos_proxy_accept(struct chaos_proxy *p, unsigned route,
                                          enum chaos_accept how,
                                          struct error *e);

void chaos_proxy_totals(const struct chaos_proxy *p, unsigned route,
                        struct chaos_totals *out);
/* Lists up to n ids of a route's open connections, oldest first.  Returns the
 * number of open connections. */
unsigned chaos_proxy_ids(const struct chaos_proxy *p, unsigned route,
                         uint32_t *ids, unsigned n);

/* Waits for sockets, or for fd, and moves what is due.  Returns true if fd is
 * readable. */
bool chaos_proxy_turn(struct chaos_proxy *p, int fd);

#endif
