#include "common/wire/connections.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MASK (CONNECTION_BUCKETS - 1u)

/* libzmq counts routing ids up, so the low bits already spread them. */
static uint32_t routing_bucket(const uint8_t routing[ROUTING_ID_BYTES])
{
    uint32_t v;

    memcpy(&v, routing + 1, sizeof v);
    return (v ^ v >> 24 ^ v >> 12) & MASK;
}

struct connection *connections_add(struct connections *cs, unsigned port,
                                   const uint8_t routing[ROUTING_ID_BYTES],
                                   int fd)
{
    struct connection *c = calloc(1, sizeof *c);
    struct connection **slot;

    /* A second connection on one descriptor means that the end of the first
     * was missed. */
    assert(connections_by_fd(cs, port, fd) == NULL);
    if (c == NULL) {
        return NULL;
    }
    memcpy(c->routing, routing, ROUTING_ID_BYTES);
    c->port = (uint8_t)port;
    c->fd = fd;
    c->id = ++cs->last_id;
    slot = &cs->by_routing[routing_bucket(routing)];
    c->same_routing = *slot;
    *slot = c;
    slot = &cs->by_fd[(uint32_t)fd & MASK];
    c->same_fd = *slot;
    *slot = c;
    slot = &cs->by_id[c->id & MASK];
    c->same_id = *slot;
    *slot = c;
    cs->n++;
    return c;
}

struct connection *
connections_by_routing(const struct connections *cs, unsigned port,
                       const uint8_t routing[ROUTING_ID_BYTES])
{
    struct connection *c = cs->by_routing[routing_bucket(routing)];

    while (c != NULL && (c->port != port ||
                         memcmp(c->routing, routing, ROUTING_ID_BYTES) != 0)) {
        c = c->same_routing;
    }
    return c;
}

struct connection *connections_by_fd(const struct connections *cs,
                                     unsigned port, int fd)
{
    struct connection *c = cs->by_fd[(uint32_t)fd & MASK];

    while (c != NULL && (c->fd != fd || c->port != port)) {
        c = c->same_fd;
    }
    return c;
}

struct connection *connections_by_id(const struct connections *cs, uint32_t id)
{
    struct connection *c = cs->by_id[id & MASK];

    while (c != NULL && c->id != id) {
        c = c->same_id;
    }
    return c;
}

struct connection *connections_bucket(const struct connections *cs, uint32_t i)
{
    return cs->by_id[i];
}

/* The counter follows the zero byte, high byte first. */
static uint32_t routing_number(const uint8_t routing[ROUTING_ID_BYTES])
{
    return (uint32_t)routing[1] << 24 | (uint32_t)routing[2] << 16 |
           (uint32_t)routing[3] << 8 | routing[4];
}

bool connections_later(const uint8_t a[ROUTING_ID_BYTES],
                       const uint8_t b[ROUTING_ID_BYTES])
{
    /* The difference is signed, so the comparison survives a wrap of the
     * counter. */
    return (int32_t)(routing_number(a) - routing_number(b)) > 0;
}

void connections_accepted(struct connections *cs, unsigned port, int fd)
{
    uint32_t at = (uint32_t)fd;
    uint8_t *open;

    /* Descriptors are small numbers, so an array by descriptor stays small. */
    if (at >= cs->n_open) {
        uint32_t n = 2 * (at + 1);

        open = realloc(cs->open, n);
        if (open == NULL) {
            return; /* its messages are dropped, until it gives up */
        }
        cs->open = open;
        memset(cs->open + cs->n_open, 0, n - cs->n_open);
        cs->n_open = n;
    }
    cs->open[at] |= (uint8_t)(1u << port);
}

bool connections_open(const struct connections *cs, unsigned port, int fd)
{
    return fd >= 0 && (uint32_t)fd < cs->n_open &&
           (cs->open[fd] & 1u << port) != 0;
}

void connections_disconnected(struct connections *cs, unsigned port, int fd)
{
    if (connections_open(cs, port, fd)) {
        cs->open[fd] &= (uint8_t) ~(1u << port);
    }
}

void connections_remove(struct connections *cs, struct connection *c)
{
    struct connection **at = &cs->by_routing[routing_bucket(c->routing)];

    while (*at != c) {
        at = &(*at)->same_routing;
    }
    *at = c->same_routing;
    at = &cs->by_fd[(uint32_t)c->fd & MASK];
    while (*at != c) {
        at = &(*at)->same_fd;
    }
    *at = c->same_fd;
    at = &cs->by_id[c->id & MASK];
    while (*at != c) {
        at = &(*at)->same_id;
    }
    *at = c->same_id;
    cs->n--;
    free(c);
}

void connections_fini(struct connections *cs)
{
    for (uint32_t i = 0; i < CONNECTION_BUCKETS; i++) {
        while (cs->by_id[i] != NULL) {
            connections_remove(cs, cs->by_id[i]);
        }
    }
    free(cs->open);
}
