/* Many sessions reconnect to a router that is restarted.  Real sessions and a
 * real router core use a network with 1 ms delay.  The test counts arriving
 * Hellos per millisecond of virtual time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/wire/session.h"
#include "proto/registry.pb-c.h"
#include "router/router_core.h"

#define N_WORKERS ROUTER_WORKERS_MAX
#define N_CLIENTS 300
#define N_PEERS   (N_WORKERS + N_CLIENTS)
#define MS_MAX    60000
#define FLYING    (4 * N_PEERS)

struct herd;

struct peer_node {
    struct herd *herd;
    struct node_io io;
    struct session s;
    struct arena arena;
    char name[16];
    uint32_t number;
    struct peer_id id; /* of its newest connection */
    int64_t opened_ms; /* when its connection opens or is refused */
    bool opening, connected;
};

/* A frame arrives one millisecond after it was sent. */
struct flying {
    uint32_t peer; /* the peer at the other end */
    struct peer_id conn;
    bool to_router;
    struct frame *frame;
};

struct herd {
    struct node_io io;
    struct router_core *router; /* NULL: the router is down */
    int64_t now_ms;
    uint64_t dice;
    struct peer_node peers[N_PEERS];
    uint32_t n_conns;
    uint32_t owner[1 << 16]; /* of connection c */
    struct flying flying[FLYING];
    uint32_t n_flying;
    /* Counts since the router came up. */
    int64_t up_ms;
    uint32_t hellos[MS_MAX]; /* arrivals per millisecond */
    uint32_t n_hellos, n_answers, n_refused;
};

static uint64_t roll(struct herd *h)
{
    h->dice ^= h->dice << 13;
    h->dice ^= h->dice >> 7;
    return h->dice ^= h->dice << 17;
}

static int64_t router_now(struct node_io *io)
{
    return ((struct herd *)io->impl)->now_ms * 1000;
}

static uint64_t router_random(struct node_io *io)
{
    return roll(io->impl);
}

static void fly(struct herd *h, struct flying f)
{
    assert_true(h->n_flying < FLYING);
    h->flying[h->n_flying++] = f;
}

static enum status router_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct herd *h = io->impl;
    struct frame_header head;
    struct envelope e;

    assert_int_equal(frame_check((*f)->data, (*f)->bytes, &head, NULL), ST_OK);
    if (hello_is_answer(*f, &head, &e)) {
        h->n_answers++;
        h->n_refused += e.status != ST_OK;
    }
    fly(h, (struct flying){h->owner[to.v], to, false, *f});
    *f = NULL;
    return ST_OK;
}

static int64_t peer_now(struct node_io *io)
{
    return ((struct peer_node *)io->impl)->herd->now_ms * 1000;
}

static uint64_t peer_random(struct node_io *io)
{
    return roll(((struct peer_node *)io->impl)->herd);
}

static enum status peer_send(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    struct peer_node *p = io->impl;

    fly(p->herd, (struct flying){p->number, to, true, *f});
    *f = NULL;
    return ST_OK;
}

static struct peer_id peer_open(struct node_io *io)
{
    struct peer_node *p = io->impl;
    struct herd *h = p->herd;

    p->id.v = ++h->n_conns;
    assert_true(h->n_conns < sizeof h->owner / sizeof h->owner[0]);
    h->owner[h->n_conns] = p->number;
    p->opening = true;
    p->opened_ms = h->now_ms + 1;
    return p->id;
}

static void peer_close(struct node_io *io, struct peer_id who)
{
    struct peer_node *p = io->impl;

    p->opening = false;
    if (p->connected && p->herd->router != NULL) {
        router_node_ops.lost(p->herd->router, who);
    }
    p->connected = false;
}

static void ledger_of(Sluice__V1__Ledger *l, Sluice__V1__ClassLedger *c)
{
    sluice__v1__ledger__init(l);
    for (int i = 0; i < 4; i++) {
        sluice__v1__class_ledger__init(&c[i]);
        c[i].total = c[i].free = i < 2 ? 16 : i == 3 ? 32 : 0;
    }
    l->blocks = &c[0];
    l->slots = &c[1];
    l->checkpoints = &c[2];
    l->pages = &c[3];
}

static void shard_of(Sluice__V1__WorkerShard *s)
{
    static uint8_t fingerprint[16];
    static Sluice__V1__Ledger ledger;
    static Sluice__V1__ClassLedger classes[4];

    sluice__v1__worker_shard__init(s);
    ledger_of(&ledger, classes);
    s->model = wire_text("tiny");
    s->device = wire_text("fake");
    s->fingerprint = (ProtobufCBinaryData){16, fingerprint};
    s->layer_end = s->n_layers = 4;
    s->block_tokens = 32;
    s->block_bytes = s->slot_bytes = 4096;
    s->pages_per_block = s->pages_per_slot = 1;
    s->context = 1000;
    s->vocab = 1000;
    s->max_rows = 8;
    s->ledger = &ledger;
}

static void on_hello(void *node, ProtobufCMessage *m)
{
    static Sluice__V1__WorkerShard shard;
    struct peer_node *p = node;
    Sluice__V1__HelloRequest *hello = (Sluice__V1__HelloRequest *)m;

    hello->name = wire_text(p->name);
    if (p->number < N_WORKERS) {
        shard_of(&shard);
        hello->worker = &shard;
    }
}

static void on_up(void *node, struct peer *peer)
{
    (void)node, (void)peer;
}

static void on_down(void *node, struct peer *peer, enum status refused,
                    const char *why)
{
    (void)node, (void)peer, (void)refused, (void)why;
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    (void)node, (void)p, (void)tag, (void)m, (void)status, (void)reply;
    (void)e, (void)retry_after_ms;
}

static const struct session_ops session_ops = {
    .hello = on_hello, .up = on_up, .down = on_down};
static const struct peer_ops peer_ops = {.on_end = on_end};

static struct herd *herd_new(void)
{
    struct herd *h = calloc(1, sizeof *h);

    assert_non_null(h);
    h->dice = 88172645463325252u;
    h->now_ms = 1000;
    h->io = (struct node_io){.impl = h,
                             .now_us = router_now,
                             .random = router_random,
                             .send = router_send};
    for (uint32_t i = 0; i < N_PEERS; i++) {
        struct peer_node *p = &h->peers[i];

        p->herd = h;
        p->number = i;
        (void)snprintf(p->name, sizeof p->name, "p%u", i);
        p->io = (struct node_io){.impl = p,
                                 .now_us = peer_now,
                                 .random = peer_random,
                                 .send = peer_send,
                                 .open = peer_open,
                                 .close = peer_close};
        arena_init(&p->arena);
        session_init(&p->s, &p->io, &session_ops, &peer_ops, p, &p->arena,
                     i < N_WORKERS ? BY_WORKER : BY_CLIENT);
    }
    return h;
}

static void router_up(struct herd *h, uint32_t max_peers)
{
    struct router_options o = {.name = "r",
                               .max_peers = max_peers,
                               .max_admins = 8,
                               .max_requests = 16,
                               .max_waiting = 16};

    h->router = router_new(&o, &h->io);
    h->up_ms = h->now_ms;
    memset(h->hellos, 0, sizeof h->hellos);
    h->n_hellos = h->n_answers = h->n_refused = 0;
}

static void drop_frames(struct herd *h)
{
    for (uint32_t i = 0; i < h->n_flying; i++) {
        frame_free(&h->flying[i].frame);
    }
    h->n_flying = 0;
}

/* All connections break at the same moment. */
static void router_dies(struct herd *h)
{
    router_free(&h->router);
    drop_frames(h);
    for (uint32_t i = 0; i < N_PEERS; i++) {
        struct peer_node *p = &h->peers[i];

        if (p->connected) {
            p->connected = false;
            session_lost(&p->s, p->id);
        }
    }
}

static void herd_free(struct herd **ph)
{
    struct herd *h = *ph;

    *ph = NULL;
    router_free(&h->router);
    for (uint32_t i = 0; i < N_PEERS; i++) {
        drop_frames(h);
        session_fini(&h->peers[i].s, "the test is over");
        arena_fini(&h->peers[i].arena);
    }
    drop_frames(h);
    free(h);
}

static void to_router(struct herd *h, struct flying *f)
{
    struct frame_header head;
    struct envelope e;

    if (h->router == NULL || f->conn.v != h->peers[f->peer].id.v ||
        !h->peers[f->peer].connected) {
        frame_free(&f->frame);
        return;
    }
    if (frame_check(f->frame->data, f->frame->bytes, &head, NULL) == ST_OK &&
        hello_is_call(f->frame, &head, &e)) {
        h->n_hellos++;
        assert_true(h->now_ms - h->up_ms < MS_MAX);
        h->hellos[h->now_ms - h->up_ms]++;
    }
    router_node_ops.recv(h->router, f->conn, &f->frame);
}

static void deliver(struct herd *h)
{
    struct flying now[FLYING];
    uint32_t n = h->n_flying;

    memcpy(now, h->flying, n * sizeof *now);
    h->n_flying = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (now[i].to_router) {
            to_router(h, &now[i]);
        } else {
            session_recv(&h->peers[now[i].peer].s, now[i].conn, &now[i].frame);
        }
    }
}

static void connections(struct herd *h, struct peer_node *p)
{
    if (!p->opening || h->now_ms < p->opened_ms) {
        return;
    }
    p->opening = false;
    if (h->router != NULL) {
        p->connected = true;
        session_opened(&p->s, p->id);
    } else {
        session_lost(&p->s, p->id);
    }
}

static void pass(struct herd *h, int64_t ms)
{
    for (; ms > 0; ms--) {
        h->now_ms++;
        deliver(h);
        for (uint32_t i = 0; i < N_PEERS; i++) {
            connections(h, &h->peers[i]);
            (void)session_tick(&h->peers[i].s, h->now_ms * 1000);
        }
        if (h->router != NULL) {
            (void)router_node_ops.tick(h->router, h->now_ms * 1000);
        }
    }
}

static uint32_t n_up(const struct herd *h)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < N_PEERS; i++) {
        n += h->peers[i].s.state == SESSION_UP;
    }
    return n;
}

/* Returns the time in ms until all are up; fails after 5 s. */
static int64_t until_up(struct herd *h)
{
    int64_t since_ms = h->now_ms;

    while (n_up(h) < N_PEERS) {
        assert_in_range(h->now_ms - since_ms, 0, 5000);
        pass(h, 1);
    }
    return h->now_ms - since_ms;
}

/* Returns the largest number of Hellos in any ms consecutive milliseconds. */
static uint32_t most(const struct herd *h, uint32_t ms)
{
    uint32_t sum = 0, max = 0;

    for (uint32_t i = 0; i < MS_MAX; i++) {
        sum += h->hellos[i];
        sum -= i >= ms ? h->hellos[i - ms] : 0;
        max = sum > max ? sum : max;
    }
    return max;
}

/* The router is away for away_ms.  All are up again within 5 s with one Hello
 * each, and at most a share of them in any `ms` milliseconds. */
static void comes_back(int64_t away_ms, uint32_t ms, uint32_t share)
{
    struct herd *h = herd_new();
    int64_t took_ms;

    router_up(h, N_PEERS);
    (void)until_up(h);
    router_dies(h);
    pass(h, away_ms);
    assert_int_equal(n_up(h), 0);
    router_up(h, N_PEERS);
    took_ms = until_up(h);
    print_message("away %d ms: all up after %d ms, at most %u of %d Hellos in "
                  "%u ms\n",
                  (int)away_ms, (int)took_ms, most(h, ms), N_PEERS, ms);
    assert_int_equal(h->n_hellos, N_PEERS);
    assert_int_equal(h->n_answers, N_PEERS);
    assert_int_equal(h->n_refused, 0);
    assert_in_range(most(h, ms), 1, N_PEERS / share);
    herd_free(&h);
}

/* Delays of 10..20 ms. */
static void a_router_that_is_back_at_once(void **state)
{
    (void)state;
    comes_back(0, 1, 6);
}

/* Delays of 0.5..1 s. */
static void a_router_that_is_away_for_a_second(void **state)
{
    (void)state;
    comes_back(1000, 10, 16);
}

/* Delays of 1..2 s. */
static void a_router_that_is_away_for_long(void **state)
{
    (void)state;
    comes_back(30000, 10, 32);
}

/* More idle clients than places take turns.  Each waits longer and longer
 * before it comes again, and no worker is kept out. */
static void a_router_that_is_full(void **state)
{
    const uint32_t places = 100;
    struct herd *h = herd_new();
    struct router_worker_view v;
    struct router_metrics m;

    (void)state;
    router_up(h, places);
    pass(h, 10); /* all at once: a first Hello has no random delay */
    assert_int_equal(most(h, 1), N_PEERS);
    assert_int_equal(h->n_refused, 0);
    router_counts(h->router, &m);
    assert_int_equal(m.clients, places);
    assert_true(m.evicted >= N_CLIENTS - places);
    assert_true(router_worker_view(h->router, N_WORKERS - 1, &v));
    pass(h, 20000);
    memset(h->hellos, 0, sizeof h->hellos);
    h->n_hellos = 0;
    pass(h, 10000);
    assert_in_range(h->n_hellos, 1, 10 * N_PEERS / 2);
    assert_in_range(most(h, 10), 1, N_PEERS / 16);
    herd_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_router_that_is_back_at_once),
        cmocka_unit_test(a_router_that_is_away_for_a_second),
        cmocka_unit_test(a_router_that_is_away_for_long),
        cmocka_unit_test(a_router_that_is_full),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
