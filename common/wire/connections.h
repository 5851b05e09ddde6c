/* connections.h - the connections of a listening transport, found by routing
 * id (a message came), by file descriptor (the monitor said) and by peer id
 * (the core sends).
 *
 * Threading: the transport's.  Memory: one allocation a connection; chains of
 * intrusive links in tables of CONNECTION_BUCKETS; a byte a descriptor. */
#ifndef COMMON_WIRE_CONNECTIONS_H
#define COMMON_WIRE_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define ROUTING_ID_BYTES   5 /* libzmq's own: a zero byte and a count */
#define CONNECTION_BUCKETS 4096

struct connection {
    struct connection *same_routing, *same_fd, *same_id; /* chains */
    uint8_t routing[ROUTING_ID_BYTES];
    uint8_t port; /* index */
    bool closed;  /* by the core: nothing passes any more, no `lost` */
    int fd;
    uint32_t id;
};

struct connections {
    struct connection *by_routing[CONNECTION_BUCKETS];
    struct connection *by_fd[CONNECTION_BUCKETS];
    struct connection *by_id[CONNECTION_BUCKETS];
    uint32_t last_id, n;
    uint8_t *open; /* [n_open] by descriptor: a bit for each port */
    uint32_t n_open;
};

/* A new one, with the next id.  One descriptor of a port is one connection:
 * there must be none of fd. */
struct connection *connections_add(struct connections *cs, unsigned port,
                                   const uint8_t routing[ROUTING_ID_BYTES],
                                   int fd);

/* NULL if there is none. */
struct connection *
connections_by_routing(const struct connections *cs, unsigned port,
                       const uint8_t routing[ROUTING_ID_BYTES]);
/* Of one port: its monitor may tell late that a descriptor closed which has
 * become another port's since. */
struct connection *connections_by_fd(const struct connections *cs,
                                     unsigned port, int fd);
struct connection *connections_by_id(const struct connections *cs, uint32_t id);

/* True if a was made after b: libzmq counts routing ids up, and round. */
bool connections_later(const uint8_t a[ROUTING_ID_BYTES],
                       const uint8_t b[ROUTING_ID_BYTES]);

/* What the monitor of a port, at most 8, says of descriptors: accepted,
 * disconnected.  Another's may say so of the same, and late. */
void connections_accepted(struct connections *cs, unsigned port, int fd);
void connections_disconnected(struct connections *cs, unsigned port, int fd);
bool connections_open(const struct connections *cs, unsigned port, int fd);

/* Take it out and free it. */
void connections_remove(struct connections *cs, struct connection *c);
void connections_fini(struct connections *cs);

#endif
