/* The client core against a simple router: one peer, two queues. */
#include <string.h>

#include "client/lib/client_core.h"
#include "common/wire/peer.h"
#include "common/wire/wire.h"
#include "proto/admin.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "tests/unit/cmocka.h"

#define QUEUE 256

struct queue {
    struct frame *frames[QUEUE];
    unsigned head, tail;
};

struct wire {
    struct node_io client_io, router_io;
    struct queue up, down; /* to the router, to the client */
    int64_t now_us;
    uint64_t random;
    uint32_t opened, standing; /* connections opened; the current one */
    struct client_core *client;
    struct peer *peer; /* the router's side */
    struct arena arena;
    bool refuse, silent; /* the answer to Hello */
    uint64_t calls[CLIENT_CALLS_MAX];
    unsigned n_calls, n_cancelled;
};

static void push(struct queue *q, struct frame **f)
{
    assert_true(q->tail - q->head < QUEUE);
    q->frames[q->tail++ % QUEUE] = *f;
    *f = NULL;
}

static struct frame *pop(struct queue *q)
{
    return q->head == q->tail ? NULL : q->frames[q->head++ % QUEUE];
}

static int64_t now_us(struct node_io *io)
{
    return ((struct wire *)io->impl)->now_us;
}

static uint64_t random_u64(struct node_io *io)
{
    return ((struct wire *)io->impl)->random += 0x9e3779b97f4a7c15u;
}

static enum status send_up(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct wire *w = io->impl;

    if (to.v != w->standing) {
        frame_free(f);
        return ST_UNAVAILABLE;
    }
    push(&w->up, f);
    return ST_OK;
}

static enum status send_down(struct node_io *io, struct peer_id to,
                             struct frame **f)
{
    (void)to;
    push(&((struct wire *)io->impl)->down, f);
    return ST_OK;
}

static struct peer_id open_one(struct node_io *io)
{
    struct wire *w = io->impl;

    w->standing = ++w->opened;
    return (struct peer_id){w->standing};
}

static void close_one(struct node_io *io, struct peer_id who)
{
    struct wire *w = io->impl;

    if (who.v == w->standing) {
        w->standing = 0;
    }
}

static void served(void *node, struct peer *p, const struct method_row *m,
                   uint64_t call, int64_t deadline_us,
                   const ProtobufCMessage *request)
{
    struct wire *w = node;
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

    (void)deadline_us;
    (void)request;
    if (m->number == METHOD_HEALTH_CHECK) { /* the client serves it */
        peer_end(p, call, &health.base);
        return;
    }
    w->calls[w->n_calls++] = call;
}

static void given_up(void *node, struct peer *p, uint64_t call)
{
    (void)p;
    (void)call;
    ((struct wire *)node)->n_cancelled++;
}

static void dirty(void *node, struct peer *p)
{
    (void)node;
    (void)p;
}

static const struct peer_ops router_ops = {
    .on_call = served, .on_cancel = given_up, .on_dirty = dirty};

static void answer_hello(struct wire *w)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config config = {.io = &w->router_io,
                                 .id = {w->standing},
                                 .session = 700 + w->opened,
                                 .self = BY_ROUTER,
                                 .other = BY_CLIENT,
                                 .ops = &router_ops,
                                 .node = w,
                                 .arena = &w->arena};
    struct error e;
    struct frame *f;

    if (w->refuse) {
        (void)error_set(&e, ST_PERMISSION_DENIED, "not today");
        f = hello_answer(0, NULL, &e, 0);
        push(&w->down, &f);
        return;
    }
    peer_free(&w->peer);
    w->peer = peer_new(&config);
    reply.session = config.session;
    reply.version_major = 1;
    reply.name = wire_text("r");
    f = hello_answer(config.session, &reply.base, NULL, 0);
    push(&w->down, &f);
}

static void router_takes(struct wire *w, struct frame *f)
{
    struct frame_header h;
    struct error e;

    assert_int_equal(frame_check(f->data, f->bytes, &h, &e), ST_OK);
    if (h.session == 0 && w->silent) {
        /* no answer */
    } else if (h.session == 0) {
        answer_hello(w);
    } else if (w->peer && h.session == peer_session(w->peer)) {
        assert_int_not_equal(peer_recv(w->peer, f, &h, w->now_us), PEER_OUT);
    }
    frame_free(&f);
}

/* Runs both sides until no frame is left, then advances the time by ms. */
static void run(struct wire *w, int64_t ms)
{
    for (int64_t end = w->now_us + ms * 1000; w->now_us <= end;
         w->now_us += 5000) {
        struct frame *f;

        (void)client_node_ops.tick(w->client, w->now_us);
        if (w->standing) {
            client_node_ops.opened(w->client, (struct peer_id){w->standing});
        }
        while ((f = pop(&w->up))) {
            router_takes(w, f);
        }
        if (w->peer) {
            peer_flush(w->peer, w->now_us);
        }
        while ((f = pop(&w->down))) {
            client_node_ops.recv(w->client, (struct peer_id){w->standing}, &f);
        }
    }
}

static void setup(struct wire *w)
{
    struct client_options o = {.name = "c"};

    memset(w, 0, sizeof(*w));
    w->client_io = (struct node_io){.impl = w,
                                    .now_us = now_us,
                                    .random = random_u64,
                                    .send = send_up,
                                    .open = open_one,
                                    .close = close_one};
    w->router_io = w->client_io;
    w->router_io.send = send_down;
    w->now_us = 1000000;
    arena_init(&w->arena);
    w->client = client_core_new(&o, &w->client_io);
}

static void teardown(struct wire *w)
{
    struct frame *f;

    client_core_free(&w->client);
    peer_free(&w->peer);
    while ((f = pop(&w->up)) || (f = pop(&w->down))) {
        frame_free(&f);
    }
    arena_fini(&w->arena);
}

struct outcome {
    struct wire *w;
    unsigned n_replies, n_ends;
    enum status status;
    bool again; /* begin another call in on_end */
};

static enum status list(struct wire *w, uint32_t deadline_ms, struct outcome *o,
                        uint64_t *id);

static void take_reply(void *arg, const ProtobufCMessage *msg)
{
    (void)msg;
    ((struct outcome *)arg)->n_replies++;
}

static void take_end(void *arg, enum status status,
                     const ProtobufCMessage *reply, const struct error *e,
                     uint32_t retry_after_ms)
{
    struct outcome *o = arg;

    (void)retry_after_ms;
    assert_true((status == ST_OK) == (e == NULL));
    assert_true(status != ST_OK || reply);
    o->n_ends++;
    o->status = status;
    if (o->again) {
        o->again = false;
        assert_int_equal(list(o->w, 0, o, NULL), ST_OK);
    }
}

static const struct client_call_ops ops = {take_reply, take_end};

static enum status list(struct wire *w, uint32_t deadline_ms, struct outcome *o,
                        uint64_t *id)
{
    Sluice__V1__ListModelsRequest r = SLUICE__V1__LIST_MODELS_REQUEST__INIT;

    o->w = w;
    return client_core_call(w->client, METHOD_INFERENCE_LIST_MODELS, &r.base,
                            deadline_ms, &ops, o, id);
}

static void answer(struct wire *w, unsigned i)
{
    Sluice__V1__ListModelsReply reply = SLUICE__V1__LIST_MODELS_REPLY__INIT;

    peer_end(w->peer, w->calls[i], &reply.base);
}

static void test_waits_for_a_session(void **state)
{
    struct wire w;
    struct outcome o = {0};

    (void)state;
    setup(&w);
    assert_int_equal(list(&w, 0, &o, NULL), ST_OK);
    assert_false(client_core_up(w.client));
    run(&w, 500);
    assert_true(client_core_up(w.client));
    assert_int_equal(w.n_calls, 1);
    assert_int_equal(o.n_ends, 0);
    answer(&w, 0);
    run(&w, 50);
    assert_int_equal(o.n_ends, 1);
    assert_int_equal(o.status, ST_OK);
    teardown(&w);
}

static void test_deadline_while_waiting(void **state)
{
    struct wire w;
    struct outcome o = {0};

    (void)state;
    setup(&w);
    w.silent = true;
    assert_int_equal(list(&w, 100, &o, NULL), ST_OK);
    run(&w, 90);
    assert_int_equal(o.n_ends, 0);
    run(&w, 50);
    assert_int_equal(o.n_ends, 1);
    assert_int_equal(o.status, ST_DEADLINE_EXCEEDED);
    assert_int_equal(client_core_refused(w.client), ST_OK);
    teardown(&w);
}

/* A refused Hello ends waiting calls at once, but not the calls that begin in
 * their on_end: those wait for the next Hello. */
static void test_refusal_ends_waiting_calls(void **state)
{
    struct wire w;
    struct outcome o[2] = {{.again = true}, {0}};

    (void)state;
    setup(&w);
    w.refuse = true;
    assert_int_equal(list(&w, 0, &o[0], NULL), ST_OK);
    assert_int_equal(list(&w, 60000, &o[1], NULL), ST_OK);
    run(&w, 15); /* longer than a round trip, shorter than the backoff */
    assert_int_equal(o[0].n_ends, 1);
    assert_int_equal(o[0].status, ST_PERMISSION_DENIED);
    assert_int_equal(o[1].n_ends, 1);
    assert_int_equal(o[1].status, ST_PERMISSION_DENIED);
    assert_int_equal(client_core_refused(w.client), ST_PERMISSION_DENIED);
    assert_non_null(strstr(client_core_trouble(w.client), "not today"));
    w.refuse = false;
    run(&w, 500);
    assert_true(client_core_up(w.client));
    assert_int_equal(client_core_refused(w.client), ST_OK);
    assert_int_equal(w.n_calls, 1);
    teardown(&w);
}

static void test_one_call_too_many(void **state)
{
    struct wire w;
    struct outcome o = {0};
    uint64_t id = 0;

    (void)state;
    setup(&w);
    for (unsigned i = 0; i < CLIENT_CALLS_MAX; i++) {
        assert_int_equal(list(&w, 0, &o, &id), ST_OK);
    }
    assert_int_equal(list(&w, 0, &o, NULL), ST_RESOURCE_EXHAUSTED);
    client_core_cancel(w.client, id);
    client_core_cancel(w.client, id);
    assert_int_equal(o.n_ends, 1);
    assert_int_equal(o.status, ST_CANCELLED);
    assert_int_equal(list(&w, 0, &o, NULL), ST_OK);
    client_core_free(&w.client);
    assert_int_equal(o.n_ends, 1 + CLIENT_CALLS_MAX);
    teardown(&w);
}

static void test_drop_ends_open_calls(void **state)
{
    struct wire w;
    struct outcome o = {.again = true};

    (void)state;
    setup(&w);
    assert_int_equal(list(&w, 0, &o, NULL), ST_OK);
    run(&w, 500);
    assert_int_equal(w.n_calls, 1);
    client_core_drop(w.client, "the test pulled the plug");
    run(&w, 0);
    assert_int_equal(o.n_ends, 1);
    assert_int_equal(o.status, ST_UNAVAILABLE);
    assert_non_null(strstr(client_core_trouble(w.client), "plug"));
    run(&w, 1000); /* the next session sends the call begun in on_end */
    assert_int_equal(w.opened, 2);
    assert_int_equal(w.n_calls, 2);
    answer(&w, 1);
    run(&w, 50);
    assert_int_equal(o.n_ends, 2);
    assert_int_equal(o.status, ST_OK);
    assert_string_equal(client_core_trouble(w.client), "");
    teardown(&w);
}

static void test_cancel_of_an_open_call(void **state)
{
    struct wire w;
    struct outcome o = {0};
    uint64_t id;

    (void)state;
    setup(&w);
    run(&w, 500);
    assert_int_equal(list(&w, 0, &o, &id), ST_OK);
    run(&w, 50);
    client_core_cancel(w.client, id);
    assert_int_equal(o.n_ends, 1);
    assert_int_equal(o.status, ST_CANCELLED);
    run(&w, 50);
    assert_int_equal(w.n_cancelled, 1);
    assert_int_equal(o.n_ends, 1);
    teardown(&w);
}

static void test_wrong_requests(void **state)
{
    struct wire w;
    struct outcome o = {0};
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    Sluice__V1__StatusRequest status = SLUICE__V1__STATUS_REQUEST__INIT;

    (void)state;
    setup(&w);
    assert_int_equal(client_core_call(w.client, METHOD_ADMIN_STATUS,
                                      &status.base, 0, &ops, &o, NULL),
                     ST_PERMISSION_DENIED);
    assert_int_equal(client_core_call(w.client, METHOD_INFERENCE_LIST_MODELS,
                                      &nothing.base, 0, &ops, &o, NULL),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(client_core_call(w.client, METHOD_NONE, &nothing.base, 0,
                                      &ops, &o, NULL),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(o.n_ends, 0);
    teardown(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_a_session),
        cmocka_unit_test(test_deadline_while_waiting),
        cmocka_unit_test(test_refusal_ends_waiting_calls),
        cmocka_unit_test(test_one_call_too_many),
        cmocka_unit_test(test_drop_ends_open_calls),
        cmocka_unit_test(test_cancel_of_an_open_call),
        cmocka_unit_test(test_wrong_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
