/* connections.h - Connections of a listening transport.
 *
 * A connection is found by routing id when a message arrives, by file
 * descriptor when the monitor reports, and by peer id when the core sends.
 *
 * Threading: the transport's.  Memory: one allocation per connection;
 * intrusive chains in tables of CONNECTION_BUCKETS; one byte per descriptor. */
#ifndef COMMON_WIRE_CONNECTIONS_H
#define COMMON_WIRE_CONNECTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"

#define ROUTING_ID_BYTES   5 /* libzmq's format: a zero byte and a counter */
#define CONNECTION_BUCKETS 4096

struct connection {
    struct connection *same_routing, *same_fd, *same_id; /* hash chains */
    uint8_t routing[ROUTING_ID_BYTES];
    uint8_t port; /* index */
    bool closed;  /* closed by the core: no message passes and no `lost` follows
                   */
    bool keyed;   /* a key proves who it is */
    bool revoked; /* the key is no longer trusted: `lost` is due */
    struct identity who;
    int fd;
    uint32_t generation; /* names fd at its door (common/wire/door.h) */
    uint32_t id;
};

struct connections {
    struct connection *by_routing[CONNECTION_BUCKETS];
    struct connection *by_fd[CONNECTION_BUCKETS];
    struct connection *by_id[CONNECTION_BUCKETS];
    uint32_t last_id, n;
    uint8_t *open; /* [n_open] by descriptor: one bit per port */
    uint32_t n_open;
};

/* Adds a connection with the next id.  A descriptor of a port is at most one
 * connection: fd has none yet. */
struct connection *connections_add(struct connections *cs, unsigned port,
                                   const uint8_t routing[ROUTING_ID_BYTES],
                                   int fd);

/* Finds a connection, NULL if there is none. */
struct connection *
connections_by_routing(const struct connections *cs, unsigned port,
                       const uint8_t routing[ROUTING_ID_BYTES]);
/* Finds a connection of one port.  A port's monitor may report late that a
 * descriptor closed, when another port already uses that descriptor. */
struct connection *connections_by_fd(const struct connections *cs,
                                     unsigned port, int fd);
struct connection *connections_by_id(const struct connections *cs, uint32_t id);

/* Returns the first connection of a bucket, 0..CONNECTION_BUCKETS - 1; the
 * others follow by same_id. */
struct connection *connections_bucket(const struct connections *cs, uint32_t i);

/* Returns true if a was made after b.  libzmq counts routing ids up and
 * wraps. */
bool connections_later(const uint8_t a[ROUTING_ID_BYTES],
                       const uint8_t b[ROUTING_ID_BYTES]);

/* Records what the monitor of a port reports: fd was accepted, disconnected,
 * or is open.  There are at most 8 ports.  Monitors of several ports may
 * report the same descriptor, and late. */
void connections_accepted(struct connections *cs, unsigned port, int fd);
void connections_disconnected(struct connections *cs, unsigned port, int fd);
bool connections_open(const struct connections *cs, unsigned port, int fd);

/* Removes and frees a connection. */
void connections_remove(struct connections *cs, struct connection *c);
void connections_fini(struct connections *cs);

#endif
