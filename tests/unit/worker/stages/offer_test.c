/* A worker that offers itself: its Hello, and the outcomes. */
#include "worker/stages/offer.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire/peer.h"
#include "common/wire/session.h"
#include "proto/common.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/unit/cmocka.h"

#define SESSION 77
#define LAYERS  3

/* An offer at one end and a router's peer at the other, without a network. */
struct rig {
    struct node_io io, router_io;
    struct offer *offer;
    struct split_model costs;
    int64_t now_us;
    uint64_t dice;
    uint32_t n_opens;
    bool opening, goodbye;
    struct arena arena;
    struct peer *peer; /* the router's end of the session */

    Sluice__V1__HelloRequest hello; /* the newest */
    Sluice__V1__WorkerOffer said;
    uint64_t layer_bytes[LAYERS], kv_bytes[LAYERS], slot_bytes[LAYERS];
    uint64_t step_bytes[LAYERS], window_bytes[LAYERS];
    char name[64], model[64], lineage[64], endpoint[64], format[64],
        arithmetic[64];
    uint32_t n_hellos;

    uint32_t n_ends;
    enum status ended; /* of the router's newest call */
    char why[ERROR_TEXT];
};

static int64_t now_us(struct node_io *io)
{
    return ((struct rig *)io->impl)->now_us;
}

static uint64_t draw(struct node_io *io)
{
    struct rig *r = io->impl;

    r->dice ^= r->dice << 13;
    r->dice ^= r->dice >> 7;
    return r->dice ^= r->dice << 17;
}

static struct peer_id io_open(struct node_io *io)
{
    struct rig *r = io->impl;

    r->opening = true;
    return (struct peer_id){++r->n_opens};
}

static void io_close(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
}

static void text(char out[64], ProtobufCBinaryData d)
{
    assert_true(d.len < 64);
    memcpy(out, d.data, d.len);
    out[d.len] = '\0';
}

static void hear_hello(struct rig *r, const struct envelope *v)
{
    const struct method_row *row = method_find(METHOD_REGISTRY_HELLO);
    const Sluice__V1__HelloRequest *m;
    ProtobufCMessage *message;

    assert_true(v->body_bytes <= row->request_cap);
    assert_int_equal(wire_unpack(&r->arena, row->request, v->body,
                                 v->body_bytes, &message, NULL),
                     ST_OK);
    m = (const Sluice__V1__HelloRequest *)message;
    r->n_hellos++;
    r->hello = *m;
    assert_non_null(m->offer);
    r->said = *m->offer;
    text(r->name, m->name);
    text(r->model, m->offer->model);
    text(r->lineage, m->offer->lineage);
    text(r->endpoint, m->offer->stage_endpoint);
    text(r->format, m->offer->kv_format);
    text(r->arithmetic, m->offer->arithmetic);
    if (m->offer->n_layers == LAYERS) {
        memcpy(r->layer_bytes, m->offer->layer_bytes, sizeof r->layer_bytes);
        memcpy(r->kv_bytes, m->offer->kv_bytes, sizeof r->kv_bytes);
        memcpy(r->slot_bytes, m->offer->slot_bytes, sizeof r->slot_bytes);
        for (size_t i = 0; i < m->offer->n_window_bytes; i++) {
            r->window_bytes[i] = m->offer->window_bytes[i];
        }
        for (size_t i = 0; i < m->offer->n_step_bytes; i++) {
            r->step_bytes[i] = m->offer->step_bytes[i];
        }
    }
}

/* Delivers the offer's frames at once. */
static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct rig *r = io->impl;
    struct frame_header h;
    struct envelope v;

    assert_int_equal(to.v, r->n_opens);
    assert_int_equal(frame_check((*f)->data, (*f)->bytes, &h, NULL), ST_OK);
    if (hello_is_call(*f, &h, &v)) {
        hear_hello(r, &v);
    } else {
        r->goodbye = r->goodbye || hello_is_goodbye(*f, &h, &v);
        assert_non_null(r->peer);
        (void)!peer_recv(r->peer, *f, &h, r->now_us);
    }
    frame_free(f);
    return ST_OK;
}

/* Delivers the router's frames. */
static enum status router_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct rig *r = io->impl;

    offer_node_ops.recv(r->offer, to, f);
    return ST_OK;
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct rig *r = node;

    (void)p, (void)tag, (void)m, (void)reply, (void)retry_after_ms;
    r->n_ends++;
    r->ended = status;
    strcpy(r->why, e != NULL ? e->text : "");
}

static const struct peer_ops router_ops = {.on_end = on_end};

static struct offer_options options(struct rig *r)
{
    struct offer_options o = {.name = "w1",
                              .lineage = "host-cpu",
                              .model = "tiny",
                              .kv_format = "affine8/64+bf16",
                              .arithmetic = "cpu-int8-1",
                              .stage_endpoint = "tcp://127.0.0.1:4711",
                              .n_stages = 2,
                              .budget_bytes = 1000,
                              .scratch_bytes = 10,
                              .speed = 5000,
                              .block_tokens = 32,
                              .context = 4096,
                              .max_rows = 64,
                              .window_tokens = 128,
                              .chunk_tokens = 256,
                              .costs = &r->costs};

    memset(o.fingerprint, 0xab, sizeof o.fingerprint);
    return o;
}

static bool windowed; /* the second layer of the next rig has a window */

static struct rig *rig_new(uint32_t n_layers)
{
    struct rig *r = calloc(1, sizeof *r);
    struct offer_options o;

    assert_non_null(r);
    r->dice = 88172645463325252;
    r->now_us = 1000000;
    arena_init(&r->arena);
    r->io = (struct node_io){.impl = r,
                             .now_us = now_us,
                             .random = draw,
                             .send = io_send,
                             .open = io_open,
                             .close = io_close};
    r->router_io = r->io;
    r->router_io.send = router_send;
    r->costs.n_layers = n_layers;
    r->costs.embed_bytes = 70;
    r->costs.head_bytes = 80;
    for (uint32_t i = 0; i < n_layers; i++) {
        r->costs.layers[i] =
            (struct split_layer){.weight_bytes = 100 + i,
                                 .token_bytes = i == 1 ? 8 : 0,
                                 .slot_bytes = i == 1 ? 0 : 9,
                                 .step_bytes = i == 2 ? 60 : 0};
    }
    if (windowed) {
        r->costs.layers[1].token_bytes = 0;
        r->costs.layers[1].window_bytes = 8;
    }
    o = options(r);
    r->offer = offer_new(&o, &r->io);
    assert_non_null(r->offer);
    return r;
}

static void rig_free(struct rig *r)
{
    offer_free(&r->offer);
    peer_free(&r->peer);
    arena_fini(&r->arena);
    free(r);
}

static int64_t turn(struct rig *r)
{
    int64_t due = offer_node_ops.tick(r->offer, r->now_us);

    if (r->opening) {
        r->opening = false;
        offer_node_ops.opened(r->offer, (struct peer_id){r->n_opens});
    }
    return due;
}

/* Answers Hello: welcome, or a status. */
static void answer(struct rig *r, enum status status, const char *why)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config c = {.io = &r->router_io,
                            .id = {r->n_opens},
                            .session = SESSION,
                            .self = BY_ROUTER,
                            .other = BY_WORKER,
                            .ops = &router_ops,
                            .node = r,
                            .arena = &r->arena};
    struct frame *f;
    struct error e;

    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = wire_text("router");
    if (status == ST_OK) {
        r->peer = peer_new(&c);
        f = hello_answer(SESSION, &reply.base, NULL, 0);
    } else {
        (void)error_set(&e, status, "%s", why);
        f = hello_answer(0, NULL, &e, 0);
    }
    offer_node_ops.recv(r->offer, (struct peer_id){r->n_opens}, &f);
}

static void assign(struct rig *r, uint32_t begin, uint32_t end)
{
    Sluice__V1__AssignRequest m = SLUICE__V1__ASSIGN_REQUEST__INIT;

    m.layer_begin = begin;
    m.layer_end = end;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_ASSIGN, &m.base, 0, 1, NULL), ST_OK);
    peer_flush(r->peer, r->now_us);
}

static struct rig *rig_up(void)
{
    struct rig *r = rig_new(LAYERS);

    turn(r);
    answer(r, ST_OK, "");
    return r;
}

static void still_open(struct rig *r)
{
    uint32_t begin, end;
    struct error e;

    assert_int_equal(offer_ended(r->offer, &begin, &end, &e), OFFER_OPEN);
}

static void says_what_windows_cost(void **state)
{
    struct rig *r = rig_up();

    (void)state;
    assert_int_equal(r->said.n_window_bytes, 0);
    assert_false(r->said.has_window_tokens || r->said.has_chunk_tokens);
    rig_free(r);
    windowed = true;
    r = rig_up();
    windowed = false;
    assert_int_equal(r->said.n_window_bytes, LAYERS);
    assert_true(r->window_bytes[0] == 0 && r->window_bytes[1] == 8 &&
                r->window_bytes[2] == 0);
    assert_int_equal(r->kv_bytes[1], 0);
    assert_int_equal(r->said.window_tokens, 128);
    assert_int_equal(r->said.chunk_tokens, 256);
    rig_free(r);
}

static void says_what_layers_cost(void **state)
{
    struct rig *r = rig_up();

    (void)state;
    assert_int_equal(r->n_hellos, 1);
    assert_int_equal(r->hello.role, SLUICE__V1__ROLE__ROLE_WORKER);
    assert_null(r->hello.worker);
    assert_null(r->hello.stage);
    assert_string_equal(r->name, "w1");
    assert_string_equal(r->model, "tiny");
    assert_string_equal(r->lineage, "host-cpu");
    assert_string_equal(r->endpoint, "tcp://127.0.0.1:4711");
    assert_int_equal(r->said.fingerprint.len, 16);
    assert_int_equal(r->said.n_layers, LAYERS);
    assert_int_equal(r->said.n_stages, 2);
    assert_true(r->said.has_kv_format);
    assert_string_equal(r->format, "affine8/64+bf16");
    assert_true(r->said.has_arithmetic);
    assert_string_equal(r->arithmetic, "cpu-int8-1");
    assert_int_equal(r->said.budget_bytes, 1000);
    assert_int_equal(r->said.speed, 5000);
    assert_int_equal(r->said.scratch_bytes, 10);
    assert_int_equal(r->said.embed_bytes, 70);
    assert_int_equal(r->said.head_bytes, 80);
    assert_int_equal(r->said.n_layer_bytes, LAYERS);
    assert_int_equal(r->said.n_kv_bytes, LAYERS);
    assert_int_equal(r->said.n_slot_bytes, LAYERS);
    assert_int_equal(r->layer_bytes[2], 102);
    assert_int_equal(r->kv_bytes[0], 0);
    assert_int_equal(r->kv_bytes[1], 8);
    assert_int_equal(r->slot_bytes[1], 0);
    assert_int_equal(r->slot_bytes[2], 9);
    assert_int_equal(r->said.n_step_bytes, LAYERS);
    assert_int_equal(r->step_bytes[1], 101);
    assert_int_equal(r->step_bytes[2], 60);
    assert_int_equal(r->said.block_tokens, 32);
    assert_int_equal(r->said.context, 4096);
    assert_int_equal(r->said.max_rows, 64);
    still_open(r);
    rig_free(r);
}

/* The answer arrives, then Goodbye, then the offer ends. */
static void takes_what_it_is_given(void **state)
{
    struct rig *r = rig_up();
    uint32_t begin = 0, end = 0;
    struct error e;

    (void)state;
    assign(r, 1, 3);
    assert_int_equal(r->n_ends, 0);
    assert_false(r->goodbye);
    assert_int_equal(turn(r), NODE_STOP);
    assert_int_equal(r->n_ends, 1);
    assert_int_equal(r->ended, ST_OK);
    assert_true(r->goodbye);
    assert_int_equal(offer_ended(r->offer, &begin, &end, &e), OFFER_ASSIGNED);
    assert_int_equal(begin, 1);
    assert_int_equal(end, 3);
    assert_int_equal(turn(r), NODE_STOP);
    rig_free(r);
}

static void refuses_layers_that_are_none(void **state)
{
    static const uint32_t wrong[][2] = {{0, 0}, {2, 2}, {2, 1}, {0, 4}, {3, 4}};
    struct rig *r = rig_up();

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assign(r, wrong[i][0], wrong[i][1]);
        assert_true(turn(r) > r->now_us);
        assert_int_equal(r->n_ends, i + 1);
        assert_int_equal(r->ended, ST_INVALID_ARGUMENT);
        still_open(r);
    }
    assert_string_equal(r->why, "layers 3-4 of a model of 3");
    assign(r, 0, 3); /* all layers are as valid as some */
    assert_int_equal(turn(r), NODE_STOP);
    rig_free(r);
}

/* Two Assigns are on the way: the first counts. */
static void takes_the_first_of_two(void **state)
{
    struct rig *r = rig_up();
    uint32_t begin, end;
    struct error e;

    (void)state;
    assign(r, 0, 1);
    assign(r, 1, 3);
    assert_int_equal(turn(r), NODE_STOP);
    assert_int_equal(r->n_ends, 2);
    assert_int_equal(r->ended, ST_FAILED_PRECONDITION);
    assert_int_equal(offer_ended(r->offer, &begin, &end, &e), OFFER_ASSIGNED);
    assert_int_equal(begin, 0);
    assert_int_equal(end, 1);
    rig_free(r);
}

static void refuses_what_a_worker_does(void **state)
{
    struct rig *r = rig_up();
    Sluice__V1__Nothing m = SLUICE__V1__NOTHING__INIT;

    (void)state;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_AUDIT, &m.base, 0, 1, NULL), ST_OK);
    peer_flush(r->peer, r->now_us);
    turn(r);
    assert_int_equal(r->ended, ST_FAILED_PRECONDITION);
    assert_int_equal(
        peer_call(r->peer, METHOD_HEALTH_CHECK, &m.base, 0, 2, NULL), ST_OK);
    peer_flush(r->peer, r->now_us);
    turn(r);
    assert_int_equal(r->n_ends, 2);
    assert_int_equal(r->ended, ST_OK);
    still_open(r);
    rig_free(r);
}

/* After a refusal that may pass, Hello is sent again. */
static void goes_on_trying(void **state)
{
    static const enum status passing[] = {ST_FAILED_PRECONDITION,
                                          ST_ALREADY_EXISTS, ST_UNAVAILABLE,
                                          ST_RESOURCE_EXHAUSTED};
    struct rig *r = rig_new(LAYERS);

    (void)state;
    for (uint32_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        turn(r);
        assert_int_equal(r->n_hellos, i + 1);
        answer(r, passing[i], "not now");
        still_open(r);
        r->now_us += 2 * SESSION_BACKOFF_MAX_US;
    }
    turn(r);
    answer(r, ST_OK, "");
    assign(r, 0, 2);
    assert_int_equal(turn(r), NODE_STOP);
    rig_free(r);
}

static void gives_up_for_good(enum status status)
{
    struct rig *r = rig_new(LAYERS);
    uint32_t begin, end;
    struct error e;

    turn(r);
    answer(r, status, "more stages than layers");
    assert_int_equal(turn(r), NODE_STOP);
    assert_int_equal(offer_ended(r->offer, &begin, &end, &e), OFFER_REFUSED);
    assert_int_equal(e.code, status);
    assert_string_equal(e.text, "more stages than layers");
    rig_free(r);
}

static void gives_up_what_is_never_right(void **state)
{
    (void)state;
    gives_up_for_good(ST_INVALID_ARGUMENT);
    gives_up_for_good(ST_UNIMPLEMENTED);
}

static void says_hello_after_a_loss(void **state)
{
    struct rig *r = rig_up();

    (void)state;
    offer_node_ops.lost(r->offer, (struct peer_id){r->n_opens});
    peer_free(&r->peer);
    still_open(r);
    r->now_us += SESSION_BACKOFF_MAX_US;
    turn(r);
    turn(r);
    assert_int_equal(r->n_hellos, 2);
    rig_free(r);
}

static void stops_when_asked(void **state)
{
    struct rig *r = rig_up();
    uint32_t begin, end;
    struct error e;

    (void)state;
    offer_stop(r->offer);
    assert_true(r->goodbye);
    assert_int_equal(turn(r), NODE_STOP);
    assert_int_equal(offer_ended(r->offer, &begin, &end, &e), OFFER_STOPPED);
    rig_free(r);
}

/* A stop counts even if the layers have just been assigned, or the worker
 * would load them and serve. */
static void stops_rather_than_loads(void **state)
{
    struct rig *r = rig_up();
    uint32_t begin, end;
    struct error e;

    (void)state;
    assign(r, 1, 3);
    offer_stop(r->offer);
    assert_true(r->goodbye);
    assert_int_equal(turn(r), NODE_STOP);
    assert_int_equal(offer_ended(r->offer, &begin, &end, &e), OFFER_STOPPED);
    rig_free(r);
}

/* The longest model with the largest numbers fits into Hello; an invalid
 * offer is not made. */
static void fits_its_limits(void **state)
{
    struct rig *r = rig_new(MODEL_LAYERS_MAX);
    struct offer *f;
    struct offer_options o = options(r);

    (void)state;
    offer_free(&r->offer);
    for (uint32_t i = 0; i < MODEL_LAYERS_MAX; i++) {
        r->costs.layers[i] = (struct split_layer){.weight_bytes = UINT64_MAX,
                                                  .token_bytes = UINT64_MAX,
                                                  .slot_bytes = UINT64_MAX};
    }
    r->offer = offer_new(&o, &r->io);
    assert_non_null(r->offer);
    turn(r);
    assert_int_equal(r->n_hellos, 1);
    assert_int_equal(r->said.n_layer_bytes, MODEL_LAYERS_MAX);

    r->costs.n_layers = MODEL_LAYERS_MAX + 1;
    assert_null(offer_new(&o, &r->io));
    r->costs.n_layers = 1;
    assert_null(offer_new(&o, &r->io));
    r->costs.n_layers = 2;
    o.n_stages = 1;
    assert_null(offer_new(&o, &r->io));
    o.n_stages = 2;
    f = offer_new(&o, &r->io);
    assert_non_null(f);
    offer_free(&f);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_layers_cost),
        cmocka_unit_test(says_what_windows_cost),
        cmocka_unit_test(takes_what_it_is_given),
        cmocka_unit_test(refuses_layers_that_are_none),
        cmocka_unit_test(takes_the_first_of_two),
        cmocka_unit_test(refuses_what_a_worker_does),
        cmocka_unit_test(goes_on_trying),
        cmocka_unit_test(gives_up_what_is_never_right),
        cmocka_unit_test(says_hello_after_a_loss),
        cmocka_unit_test(stops_when_asked),
        cmocka_unit_test(stops_rather_than_loads),
        cmocka_unit_test(fits_its_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
