/* chaos_proxy.h - the proxy: ports that are routes, pairs of sockets, epoll.
 *
 * A route listens on a loopback port and forwards each connection to another
 * port of loopback, through two pipes (chaos_pipe.h).  Its settings are those
 * of every connection that it takes; each has a copy of its own.
 *
 * Where a way is frozen or dropped, the end of the connection does not pass
 * either: what dies behind it is not missed.  The kernel still accepts what
 * it has room for while a route does not.
 *
 * Threading: one thread.  Memory: bounded by CHAOS_CONNECTIONS_MAX times two
 * pipes.  Limits: below; what is past them is refused with a sentence. */
#ifndef TESTS_FAULTS_CHAOS_PROXY_H
#define TESTS_FAULTS_CHAOS_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "tests/faults/chaos_pipe.h"

#define CHAOS_ROUTES_MAX      64
#define CHAOS_CONNECTIONS_MAX 4096 /* of all routes, at once */
#define CHAOS_NAME_MAX        31
#define CHAOS_ALL             0 /* connections of a route */

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

/* All chance is drawn from seed. */
struct chaos_proxy *chaos_proxy_new(uint64_t seed);
void chaos_proxy_free(struct chaos_proxy **p);

/* Forward port `listen`, 0: any, to port `target`, as the last route. */
MUST_CHECK enum status chaos_proxy_add(struct chaos_proxy *p, const char *name,
                                       uint16_t listen, uint16_t target,
                                       bool zmtp, struct error *e);

/* Routes by index 0..n-1. */
unsigned chaos_proxy_routes(const struct chaos_proxy *p);
const char *chaos_proxy_name(const struct chaos_proxy *p, unsigned route);
/* The port that it listens on. */
uint16_t chaos_proxy_listen(const struct chaos_proxy *p, unsigned route);
bool chaos_proxy_zmtp(const struct chaos_proxy *p, unsigned route);

/* Change settings of connection `id` of a route, or of the route and of all
 * that it has; false: there is no such connection. */
typedef void chaos_change_fn(struct chaos_settings *s, const void *arg);
bool chaos_proxy_change(struct chaos_proxy *p, unsigned route, uint32_t id,
                        chaos_change_fn *change, const void *arg);

/* End connection `id`, or all, by RST or as if both sides had closed; returns
 * how many. */
unsigned chaos_proxy_end(struct chaos_proxy *p, unsigned route, uint32_t id,
                         bool reset);

MUST_CHECK enum status chaos_proxy_accept(struct chaos_proxy *p, unsigned route,
                                          enum chaos_accept how,
                                          struct error *e);

void chaos_proxy_totals(const struct chaos_proxy *p, unsigned route,
                        struct chaos_totals *out);
/* Open connections of a route: up to n ids, oldest first; returns how many
 * there are. */
unsigned chaos_proxy_ids(const struct chaos_proxy *p, unsigned route,
                         uint32_t *ids, unsigned n);

/* Wait for sockets, or for fd, and do what is due; true: fd is readable. */
bool chaos_proxy_turn(struct chaos_proxy *p, int fd);

#endif
