#include "gateway/upstream/upstream.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/memory.h"

/* A core and its own io.  The io is the upstream's, except that it notes the
 * id of the connection, by which events find their core. */
struct uplink {
    struct node_io io;
    struct upstream *upstream;
    struct client_core *core;
    struct peer_id id; /* {0}: no connection */
    uint32_t n_calls;
    int64_t idle_us; /* time at which n_calls became 0 */
};

struct upstream {
    struct node_io *io;
    const char *name;
    struct uplink *uplinks[UPSTREAM_SESSIONS_MAX];
    unsigned n, n_max;
};

/* ---- the io of an uplink ---- */

static int64_t uplink_now_us(struct node_io *io)
{
    struct uplink *l = io->impl;

    return l->upstream->io->now_us(l->upstream->io);
}

static uint64_t uplink_random(struct node_io *io)
{
    struct uplink *l = io->impl;

    return l->upstream->io->random(l->upstream->io);
}

static enum status uplink_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct uplink *l = io->impl;

    return l->upstream->io->send(l->upstream->io, to, f);
}

static struct peer_id uplink_open(struct node_io *io)
{
    struct uplink *l = io->impl;

    l->id = l->upstream->io->open(l->upstream->io);
    return l->id;
}

static void uplink_close(struct node_io *io, struct peer_id who)
{
    struct uplink *l = io->impl;

    if (l->id.v == who.v) {
        l->id = (struct peer_id){0};
    }
    l->upstream->io->close(l->upstream->io, who);
}

/* Returns NULL without memory. */
static struct uplink *uplink_new(struct upstream *u)
{
    struct client_options options = {.name = u->name};
    struct uplink *l = calloc(1, sizeof *l);

    assert(u->n < u->n_max);
    if (l == NULL) {
        return NULL;
    }
    l->upstream = u;
    l->io = (struct node_io){.impl = l,
                             .now_us = uplink_now_us,
                             .random = uplink_random,
                             .send = uplink_send,
                             .open = uplink_open,
                             .close = uplink_close};
    l->core = client_core_new(&options, &l->io);
    if (l->core == NULL) {
        free(l);
        return NULL;
    }
    l->idle_us = uplink_now_us(&l->io);
    u->uplinks[u->n++] = l;
    return l;
}

static void uplink_free(struct uplink *l)
{
    client_core_free(&l->core);
    free(l);
}

static struct uplink *uplink_at(struct upstream *u, struct peer_id who)
{
    for (unsigned i = 0; who.v != 0 && i < u->n; i++) {
        if (u->uplinks[i]->id.v == who.v) {
            return u->uplinks[i];
        }
    }
    return NULL;
}

/* ---- the upstream ---- */

struct upstream *upstream_new(const char *name, unsigned n_max,
                              struct node_io *io)
{
    struct upstream *u = memory_must(calloc(1, sizeof *u));

    assert(n_max > 0 && n_max <= UPSTREAM_SESSIONS_MAX);
    u->io = io;
    u->name = name;
    u->n_max = n_max;
    (void)memory_must(uplink_new(u));
    return u;
}

void upstream_free(struct upstream **pu)
{
    struct upstream *u = *pu;

    *pu = NULL;
    if (u == NULL) {
        return;
    }
    while (u->n > 0) {
        uplink_free(u->uplinks[--u->n]);
    }
    free(u);
}

void upstream_opened(struct upstream *u, struct peer_id who)
{
    struct uplink *l = uplink_at(u, who);

    if (l != NULL) {
        client_node_ops.opened(l->core, who);
    }
}

void upstream_recv(struct upstream *u, struct peer_id from, struct frame **f)
{
    struct uplink *l = uplink_at(u, from);

    if (l != NULL) {
        client_node_ops.recv(l->core, from, f);
    }
    frame_free(f);
}

void upstream_lost(struct upstream *u, struct peer_id who)
{
    struct uplink *l = uplink_at(u, who);

    if (l != NULL) {
        l->id = (struct peer_id){0};
        client_node_ops.lost(l->core, who);
    }
}

/* Closes the last uplink if it has had no calls for a while.  Others wait until
 * they are the last. */
static int64_t close_idle(struct upstream *u, int64_t now_us)
{
    const struct uplink *l = u->uplinks[u->n - 1];

    if (u->n == 1 || l->n_calls > 0) {
        return NODE_IDLE;
    }
    if (now_us < l->idle_us + UPSTREAM_IDLE_US) {
        return l->idle_us + UPSTREAM_IDLE_US;
    }
    uplink_free(u->uplinks[--u->n]);
    return now_us;
}

int64_t upstream_tick(struct upstream *u, int64_t now_us)
{
    int64_t due = close_idle(u, now_us), next;

    for (unsigned i = 0; i < u->n; i++) {
        next = client_node_ops.tick(u->uplinks[i]->core, now_us);
        due = next < due ? next : due;
    }
    return due;
}

struct client_core *upstream_take(struct upstream *u)
{
    struct uplink *l = NULL;

    for (unsigned i = 0; i < u->n && l == NULL; i++) {
        if (u->uplinks[i]->n_calls < UPSTREAM_CALLS) {
            l = u->uplinks[i];
        }
    }
    if (l == NULL && u->n < u->n_max) {
        l = uplink_new(u);
    }
    if (l == NULL) {
        return NULL;
    }
    l->n_calls++;
    return l->core;
}

void upstream_give(struct upstream *u, struct client_core *c)
{
    for (unsigned i = 0; i < u->n; i++) {
        struct uplink *l = u->uplinks[i];

        if (l->core == c) {
            assert(l->n_calls > 0);
            if (--l->n_calls == 0) {
                l->idle_us = uplink_now_us(&l->io);
            }
            return;
        }
    }
    /* The core is being freed, and its places go with it. */
}

struct client_core *upstream_main(struct upstream *u)
{
    return u->uplinks[0]->core;
}

struct node_io *upstream_io(struct upstream *u)
{
    return u->io;
}

bool upstream_up(const struct upstream *u)
{
    return client_core_up(u->uplinks[0]->core);
}

uint32_t upstream_calls(const struct upstream *u)
{
    uint32_t n = 0;

    for (unsigned i = 0; i < u->n; i++) {
        n += u->uplinks[i]->n_calls;
    }
    return n;
}

unsigned upstream_sessions(const struct upstream *u)
{
    return u->n;
}

unsigned upstream_sessions_up(const struct upstream *u)
{
    unsigned n = 0;

    for (unsigned i = 0; i < u->n; i++) {
        n += client_core_up(u->uplinks[i]->core);
    }
    return n;
}
