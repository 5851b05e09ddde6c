#include "common/wire/greeter.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/identity.h"
#include "proto/registry.pb-c.h"

void greeter_init(struct greeter *g, struct node_io *io,
                  const struct greeter_ops *ops,
                  const struct peer_ops *peer_ops, void *node,
                  struct arena *arena, const char *name,
                  const struct link_limits *limits)
{
    *g = (struct greeter){.io = io,
                          .ops = ops,
                          .peer_ops = peer_ops,
                          .node = node,
                          .arena = arena,
                          .name = name,
                          .limits = *limits};
}

/* Reports the end to the node and frees the peer. */
static void down(struct greeter *g, const char *why)
{
    struct peer *p = g->peer;

    g->peer = NULL;
    g->ending = false;
    g->ops->down(g->node, p, why);
    peer_free(&p);
}

static void hang_up(struct greeter *g, const char *why)
{
    struct frame *f = goodbye_make(peer_session(g->peer), why);

    hello_send(g->io, g->id, &f);
    down(g, why);
}

void greeter_end(struct greeter *g, const char *reason)
{
    if (g->peer == NULL || g->ending) {
        return;
    }
    snprintf(g->why, sizeof g->why, "%s", reason);
    if (g->busy) {
        g->ending = true;
    } else {
        hang_up(g, g->why);
    }
}

void greeter_fini(struct greeter *g, const char *reason)
{
    assert(!g->busy);
    greeter_end(g, reason);
}

/* Performs what the ops requested while the peer was running: the peer must
 * not be freed inside its own calls. */
static void leave_peer(struct greeter *g)
{
    g->busy = false;
    if (g->ending) {
        hang_up(g, g->why);
    }
}

/* ---- Hello ---- */

static void refuse(struct greeter *g, struct peer_id from,
                   const struct error *e)
{
    struct frame *f = hello_answer(0, NULL, e, 0);

    g->counts.refused++;
    hello_send(g->io, from, &f);
}

static void answer(struct greeter *g, uint32_t minor)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct frame *f;

    reply.version_major = WIRE_VERSION_MAJOR;
    reply.version_minor = hello_minor(minor);
    reply.name = wire_text(g->name);
    f = hello_answer(peer_session(g->peer), &reply.base, NULL, 0);
    hello_send(g->io, g->id, &f);
}

/* Checks the sender's role in Hello, by its port and by its key: a client that
 * claims to be a worker is refused. */
static enum status check(struct greeter *g, struct peer_id from,
                         const Sluice__V1__HelloRequest *m, struct error *e)
{
    const struct identity *who = identity_of(g->io, from);
    uint8_t role, allowed = BY_WORKER;
    enum status st = hello_check(&m->base, "this worker", &role, e);

    if (st != ST_OK) {
        return st;
    }
    if (g->io->port != NULL) {
        allowed = g->io->port(g->io, from);
    }
    if ((role & allowed & BY_WORKER) == 0) {
        return error_set(e, ST_PERMISSION_DENIED,
                         "only workers may connect here");
    }
    if (identity_check_role(who, role, e) != ST_OK) {
        return e->code;
    }
    if (m->stage == NULL || m->worker != NULL || m->offer != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a Hello to a worker needs its place in an assembly, "
                         "and nothing else");
    }
    return g->ops->welcome(g->node, m->stage->assembly, m->stage->index, who,
                           e);
}

static void come_up(struct greeter *g, struct peer_id from,
                    const Sluice__V1__HelloRequest *m)
{
    struct peer_config c = {.io = g->io,
                            .id = from,
                            .session = hello_session(g->io),
                            .self = BY_WORKER,
                            .other = BY_WORKER,
                            .ops = g->peer_ops,
                            .node = g->node,
                            .limits = &g->limits,
                            .arena = g->arena};

    g->peer = peer_new(&c);
    if (g->peer == NULL) {
        return; /* the Hello comes again */
    }
    g->id = from;
    g->nonce = m->nonce;
    g->keepalive = (struct keepalive){.listening = false};
    if (g->io->trust != NULL) {
        g->io->trust(g->io, from); /* the edge carries tensors */
    }
    answer(g, m->version_minor); /* before any frame that the node may send */
    g->busy = true;
    g->ops->up(g->node, g->peer);
    leave_peer(g);
}

/* A repeated Hello of the same connection gets the same answer; the nonce
 * distinguishes it from a second session. */
static void judge(struct greeter *g, struct peer_id from,
                  const Sluice__V1__HelloRequest *m)
{
    struct error e;
    enum status st;

    if (g->peer != NULL && g->id.v == from.v) {
        if (g->nonce == m->nonce) {
            answer(g, m->version_minor); /* the first was lost or is coming */
            return;
        }
        st = error_set(&e, ST_FAILED_PRECONDITION,
                       "this connection already has a session; send Hello on "
                       "a new one");
    } else {
        st = check(g, from, m, &e);
        if (st == ST_OK && g->peer != NULL) {
            /* The new connection is refused all the same: the node first has
             * to react to the end of the old edge. */
            greeter_end(g, "the stage before came back on a new connection");
            st = error_set(&e, ST_UNAVAILABLE,
                           "the previous edge has only now ended; "
                           "retry");
        }
    }
    if (st == ST_OK) {
        come_up(g, from, m);
    } else {
        refuse(g, from, &e);
    }
}

static void recv_hello(struct greeter *g, struct peer_id from,
                       const struct frame *f, const struct frame_header *h)
{
    ProtobufCMessage *m;
    struct envelope v;
    struct error e;

    if (!hello_is_call(f, h, &v)) {
        g->counts.strikes++;
    } else if (!arena_reserve(g->arena, v.body_bytes)) {
        return; /* as if it were lost: its sender repeats it */
    } else if (wire_unpack(g->arena, &sluice__v1__hello_request__descriptor,
                           v.body, v.body_bytes, &m, &e) != ST_OK) {
        error_wrap(&e, "Hello");
        refuse(g, from, &e);
    } else {
        judge(g, from, (const Sluice__V1__HelloRequest *)m);
    }
}

/* ---- the edge ---- */

static void recv_edge(struct greeter *g, const struct frame *f,
                      const struct frame_header *h)
{
    int64_t now_us = g->io->now_us(g->io);
    enum peer_verdict verdict;
    char why[160];

    keepalive_heard(&g->keepalive, now_us);
    g->busy = true;
    verdict = peer_recv(g->peer, f, h, now_us);
    g->busy = false;
    g->counts.strikes += verdict == PEER_STRIKE || verdict == PEER_OUT;
    if (verdict == PEER_GOODBYE) {
        snprintf(why, sizeof why, "the stage before ended the session: %s",
                 peer_goodbye(g->peer));
        down(g, why);
    } else if (verdict == PEER_OUT) {
        hang_up(g, "the stage before breaks the rules");
    } else {
        leave_peer(g);
    }
}

void greeter_recv(struct greeter *g, struct peer_id from, struct frame **fp)
{
    struct frame *f = *fp;
    struct frame_header h;

    *fp = NULL;
    if (frame_check(f->data, f->bytes, &h, NULL) != ST_OK) {
        g->counts.malformed++;
    } else if (h.session == 0) {
        recv_hello(g, from, f, &h);
    } else if (g->peer != NULL && g->id.v == from.v &&
               h.session == peer_session(g->peer)) {
        recv_edge(g, f, &h);
    } else {
        g->counts.foreign++;
        hello_foreign(g->io, from, f, &h);
    }
    frame_free(&f);
}

void greeter_lost(struct greeter *g, struct peer_id who)
{
    if (g->peer != NULL && g->id.v == who.v) {
        down(g, "the connection from the stage before broke");
    }
}

int64_t greeter_tick(struct greeter *g, int64_t now_us)
{
    int64_t due, asks;
    char why[96];

    if (g->peer == NULL) {
        return NODE_IDLE;
    }
    if (keepalive_silent(&g->keepalive, g->peer, true, now_us)) {
        snprintf(why, sizeof why,
                 "no frame arrived from the stage before for %" PRId64 " ms",
                 (now_us - g->keepalive.heard_us) / 1000);
        hang_up(g, why);
        return NODE_IDLE;
    }
    g->busy = true;
    peer_flush(g->peer, now_us);
    leave_peer(g);
    if (g->peer != NULL && peer_gave_up(g->peer)) {
        hang_up(g, "the stage before has acknowledged no frame for 60 s");
    }
    if (g->peer == NULL) {
        return NODE_IDLE;
    }
    due = peer_due(g->peer);
    asks = keepalive_due(&g->keepalive);
    return due < asks ? due : asks;
}
