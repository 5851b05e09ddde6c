#include "tests/unit/common/wire/session_node.h"

#include <string.h>

#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

int64_t clock_us;
static uint64_t dice = 1;

static int64_t now_us(struct node_io *io)
{
    (void)io;
    return clock_us;
}

static uint64_t io_random(struct node_io *io)
{
    (void)io;
    dice ^= dice << 13;
    dice ^= dice >> 7;
    return dice ^= dice << 17;
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct node *n = io->impl;

    assert_int_equal(to.v, n->last_id);
    frame_free(&n->sent);
    n->sent = *f;
    *f = NULL;
    n->n_sent++;
    return ST_OK;
}

static struct peer_id io_open(struct node_io *io)
{
    struct node *n = io->impl;

    n->n_opens++;
    return (struct peer_id){++n->last_id};
}

static void io_close(struct node_io *io, struct peer_id who)
{
    struct node *n = io->impl;

    assert_int_equal(who.v, n->last_id);
    n->n_closes++;
}

static void hello(void *node, ProtobufCMessage *m)
{
    Sluice__V1__HelloRequest *h = (Sluice__V1__HelloRequest *)m;

    (void)node;
    h->name = wire_text("w1");
}

static void up(void *node, struct peer *p)
{
    struct node *n = node;

    n->n_ups++;
    assert_int_equal(peer_role(p), BY_ROUTER);
    if (n->restart_in_up) {
        session_restart(&n->s, "changed my mind");
        assert_int_equal(n->s.state, SESSION_UP); /* not yet */
    }
}

static void down(void *node, struct peer *p, enum status refused,
                 const char *why)
{
    struct node *n = node;

    n->n_downs++;
    n->was_up = p != NULL;
    n->refused = refused;
    strcpy(n->why, why);
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct node *n = node;

    (void)p, (void)tag, (void)m, (void)status, (void)reply, (void)e,
        (void)retry_after_ms;
    n->n_ends++;
    if (n->restart_in_end) {
        session_restart(&n->s, "it ended");
    }
}

static bool listens(void *node)
{
    return !((struct node *)node)->idle;
}

static const struct session_ops session_ops = {hello, up, down, listens};
static const struct peer_ops peer_ops = {.on_end = on_end};

void setup(struct node *n)
{
    memset(n, 0, sizeof *n);
    n->io = (struct node_io){.impl = n,
                             .now_us = now_us,
                             .random = io_random,
                             .send = io_send,
                             .open = io_open,
                             .close = io_close};
    arena_init(&n->arena);
    clock_us = 5000000;
    session_init(&n->s, &n->io, &session_ops, &peer_ops, n, &n->arena,
                 BY_WORKER);
}

static struct peer_id io_open_to(struct node_io *io, const char *endpoint,
                                 const uint8_t *key)
{
    (void)key;
    assert_string_equal(endpoint, "tcp://next");
    return io_open(io);
}

void setup_edge(struct node *n)
{
    const struct session_stage stage = {
        .endpoint = "tcp://next", .assembly = 7, .limits = link_limits_usual};

    setup(n);
    session_fini(&n->s, "not the router");
    n->io.open_to = io_open_to;
    session_init_stage(&n->s, &n->io, &session_ops, &peer_ops, n, &n->arena,
                       &stage);
}

void teardown(struct node *n)
{
    session_fini(&n->s, "the test is over");
    frame_free(&n->sent);
    arena_fini(&n->arena);
}

void tick(struct node *n)
{
    session_tick(&n->s, clock_us);
}

void go_on(struct node *n)
{
    int64_t due = session_tick(&n->s, clock_us);

    assert_true(due > clock_us && due != INT64_MAX);
    clock_us = due;
    tick(n);
}

void give(struct node *n, struct frame *f)
{
    session_recv(&n->s, n->s.id, &f);
    assert_null(f);
}

struct frame *accept_as(uint64_t session)
{
    Sluice__V1__HelloReply r = SLUICE__V1__HELLO_REPLY__INIT;

    r.version_major = WIRE_VERSION_MAJOR;
    r.name = wire_text("router");
    return hello_answer(session, &r.base, NULL, 0);
}

void come_up(struct node *n, uint64_t session)
{
    while (n->s.state != SESSION_OPENING) {
        go_on(n);
    }
    session_opened(&n->s, n->s.id);
    assert_int_equal(n->s.state, SESSION_GREETING);
    give(n, accept_as(session));
}

uint64_t nonce_sent(struct node *n)
{
    const Sluice__V1__HelloRequest *h;
    struct frame_header fh;
    ProtobufCMessage *m;
    struct envelope e;

    assert_int_equal(frame_check(n->sent->data, n->sent->bytes, &fh, NULL),
                     ST_OK);
    assert_true(hello_is_call(n->sent, &fh, &e));
    assert_int_equal(wire_unpack(&n->arena,
                                 &sluice__v1__hello_request__descriptor, e.body,
                                 e.body_bytes, &m, NULL),
                     ST_OK);
    h = (const Sluice__V1__HelloRequest *)m;
    assert_int_equal(h->role, SLUICE__V1__ROLE__ROLE_WORKER);
    assert_int_equal(h->version_major, WIRE_VERSION_MAJOR);
    assert_int_equal(h->name.len, 2);
    return h->nonce;
}
