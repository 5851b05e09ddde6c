#include "fake_router.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/loop.h"
#include "common/wire/peer.h"
#include "common/wire/transport.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"

struct fake_router {
    struct transport *transport;
    struct loop loop;
    struct arena arena;
    struct peer *peer; /* one client at a time */
    uint64_t sessions, generate;
    uint32_t script;
    bool breaks; /* end the session at the next tick */
    bool vanished;
    bool resumed; /* the Generate has the tokens of the first chunk */
    int refuse_hello;
    char client[PEER_NAME_MAX + 1]; /* name in the first Hello */
    atomic_bool greeted;            /* client is set */
    atomic_int deadline_ms;         /* the last call's */
    atomic_bool stop;
    pthread_t thread;
};

static ProtobufCBinaryData text(const char *s)
{
    return wire_text(s);
}

static void chunk(struct fake_router *r, struct peer *p, uint32_t first,
                  uint32_t n, const char *words, int finish)
{
    Sluice__V1__GenerateChunk m = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures figures = SLUICE__V1__GENERATE_FIGURES__INIT;
    uint32_t tokens[8] = {10 + first, 11 + first};
    enum status s;

    m.first_index = first;
    m.tokens = tokens;
    m.n_tokens = n;
    m.has_text = 1;
    m.text = text(words);
    if (finish != 0) {
        m.has_finish = 1;
        m.finish = (Sluice__V1__Finish)finish;
        figures.n_prompt = 1;
        figures.n_generated = 6;
        figures.blocks = 3;
        figures.slots = 1;
        figures.has_worker = 1;
        figures.worker = text("w1");
        m.figures = &figures;
    }
    s = peer_reply(p, r->generate, &m.base);
    assert(s == ST_OK);
    (void)s;
}

static const uint32_t best_tokens[] = {20, 21, 22, 23};
static const float logprobs[] = {-0.5f, -1, -1.5f, -2};

/* Sends two tokens of a choice, with logprobs and the two likeliest tokens. */
static void choice_chunk(struct fake_router *r, struct peer *p, uint32_t choice,
                         uint32_t first, int finish, int stop_string)
{
    Sluice__V1__GenerateChunk m = SLUICE__V1__GENERATE_CHUNK__INIT;
    Sluice__V1__GenerateFigures figures = SLUICE__V1__GENERATE_FIGURES__INIT;
    uint32_t tokens[2] = {100 * choice + first, 100 * choice + first + 1};
    enum status s;

    m.has_choice = 1;
    m.choice = choice;
    m.first_index = first;
    m.tokens = tokens;
    m.n_tokens = m.n_logprobs = 2;
    m.logprobs = (float *)(uintptr_t)logprobs;
    m.n_top_tokens = m.n_top_logprobs = 4;
    m.top_tokens = (uint32_t *)(uintptr_t)best_tokens;
    m.top_logprobs = (float *)(uintptr_t)logprobs;
    m.has_text = 1;
    m.text = text(choice == 0 ? "a" : "b");
    m.has_stop_string = stop_string >= 0;
    m.stop_string = stop_string >= 0 ? (uint32_t)stop_string : 0;
    if (finish != 0) {
        m.has_finish = 1;
        m.finish = (Sluice__V1__Finish)finish;
        figures.n_prompt = 3;
        figures.n_generated = first + 2;
        figures.queued_us = 10 + choice;
        figures.first_token_us = 30 - choice;
        figures.total_us = 50 + choice;
        figures.blocks = 2;
        figures.slots = 1;
        figures.seed = 9;
        figures.n_moves = choice;
        figures.has_worker = 1;
        figures.worker = text(choice == 0 ? "w1" : "w2");
        m.figures = &figures;
    }
    s = peer_reply(p, r->generate, &m.base);
    assert(s == ST_OK);
    (void)s;
}

static void on_generate_choices(struct fake_router *r, struct peer *p)
{
    const int stop = SLUICE__V1__FINISH__FINISH_STOP;
    const int length = SLUICE__V1__FINISH__FINISH_LENGTH;

    choice_chunk(r, p, 0, 0, r->script == SCRIPT_AFTER_END ? length : 0, -1);
    if (r->script == SCRIPT_AFTER_END) {
        choice_chunk(r, p, 0, 2, 0, -1);
        return;
    }
    if (r->script == SCRIPT_CHOICE_BEYOND) {
        choice_chunk(r, p, 2, 0, 0, -1);
        return;
    }
    if (r->script == SCRIPT_CHOICES) {
        choice_chunk(r, p, 1, 0, stop, 1);
    } else if (r->script == SCRIPT_ONE_FAILED) {
        choice_chunk(r, p, 1, 0, SLUICE__V1__FINISH__FINISH_FAILED, -1);
    }
    choice_chunk(r, p, 0, 2, length, -1);
    peer_end(p, r->generate, NULL);
}

static void on_generate(struct fake_router *r, struct peer *p)
{
    struct error full = {ST_RESOURCE_EXHAUSTED, "the queue is full"};

    switch (r->script) {
    case SCRIPT_THREE_CHUNKS:
        chunk(r, p, 0, 2, "one ", 0);
        chunk(r, p, 2, 2, "two ", 0);
        chunk(r, p, 4, 2, "three", SLUICE__V1__FINISH__FINISH_LENGTH);
        peer_end(p, r->generate, NULL);
        break;
    case SCRIPT_GAP:
        chunk(r, p, 0, 2, "one ", 0);
        chunk(r, p, 5, 2, "gap", 0);
        break;
    case SCRIPT_NO_FINISH:
        chunk(r, p, 0, 2, "one ", 0);
        peer_end(p, r->generate, NULL);
        break;
    case SCRIPT_REFUSE:
        peer_fail(p, r->generate, &full, 700);
        break;
    case SCRIPT_BREAK:
    case SCRIPT_VANISH:
        if (r->resumed) {
            chunk(r, p, 2, 2, "two ", 0);
            chunk(r, p, 4, 2, "three", SLUICE__V1__FINISH__FINISH_LENGTH);
            peer_end(p, r->generate, NULL);
            break;
        }
        chunk(r, p, 0, 2, "one ", 0);
        r->breaks = true;
        r->vanished = r->script == SCRIPT_VANISH;
        break;
    case SCRIPT_ENDLESS:
        chunk(r, p, 0, 2, "one ", 0);
        break;
    case SCRIPT_SILENT:
        break;
    default:
        on_generate_choices(r, p);
        break;
    }
}

static void on_cancel_request(struct fake_router *r, struct peer *p,
                              uint64_t call, const ProtobufCMessage *request)
{
    const Sluice__V1__CancelRequest *m =
        (const Sluice__V1__CancelRequest *)request;
    struct error cancelled = {ST_CANCELLED, "cancelled by the client"};
    Sluice__V1__Receipt receipt = SLUICE__V1__RECEIPT__INIT;

    if (r->script == SCRIPT_SILENT) {
        return;
    }
    receipt.sequence = m->sequence;
    receipt.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
    receipt.n_generated = 2;
    receipt.blocks = 4;
    receipt.slots = 1;
    receipt.micros = 1500;
    peer_fail(p, r->generate, &cancelled, 0);
    peer_end(p, call, &receipt.base);
}

static bool has_one(const Sluice__V1__GenerateRequest *m)
{
    return m->n_have_count == 1 && m->have_count[0] == 2 &&
           m->n_have_tokens == 2 && m->have_tokens[0] == 10 &&
           m->have_tokens[1] == 11 && m->n_have_text == 1 &&
           m->have_text[0] == 4 && m->n_have_ended == 1 && !m->have_ended[0];
}

/* Rounded up. */
static int ms_until(int64_t due_us)
{
    return (int)((due_us - loop_now_us() + 999) / 1000);
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct fake_router *r = node;
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

    atomic_store(&r->deadline_ms,
                 deadline_us == NODE_IDLE ? 0 : ms_until(deadline_us));
    if (m->number == METHOD_INFERENCE_GENERATE) {
        r->generate = call;
        r->script = ((const Sluice__V1__GenerateRequest *)request)->max_tokens;
        r->resumed = has_one((const Sluice__V1__GenerateRequest *)request);
        on_generate(r, p);
    } else if (m->number == METHOD_INFERENCE_CANCEL) {
        on_cancel_request(r, p, call, request);
    } else if (m->number == METHOD_HEALTH_CHECK) {
        health.serving = 1;
        peer_end(p, call, &health.base);
    } /* no other call is answered */
}

static void on_cancel(void *node, struct peer *p, uint64_t call)
{
    (void)node;
    (void)p;
    (void)call;
}

static void on_dirty(void *node, struct peer *p)
{
    (void)node;
    (void)p;
}

static const struct peer_ops peer_ops = {
    .on_call = on_call, .on_cancel = on_cancel, .on_dirty = on_dirty};

/* Notes the client's name. */
static void read_hello(struct fake_router *r, const struct frame *f,
                       const struct frame_header *h)
{
    ProtobufCMessage *m;
    struct envelope v;
    ProtobufCBinaryData name;

    if (!hello_is_call(f, h, &v) ||
        wire_unpack(&r->arena, &sluice__v1__hello_request__descriptor, v.body,
                    v.body_bytes, &m, NULL) != ST_OK) {
        return;
    }
    name = ((const Sluice__V1__HelloRequest *)m)->name;
    assert(wire_text_ok(name, 1, PEER_NAME_MAX));
    if (!atomic_load(&r->greeted)) {
        memcpy(r->client, name.data, name.len);
        atomic_store(&r->greeted, true);
    }
}

static void greet(struct fake_router *r, struct peer_id from)
{
    struct node_io *io = transport_io(r->transport);
    struct error refused = {ST_PERMISSION_DENIED, "not today"};
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config c = {.io = io,
                            .id = from,
                            .session = ++r->sessions,
                            .self = BY_ROUTER,
                            .other = BY_CLIENT,
                            .ops = &peer_ops,
                            .node = r,
                            .arena = &r->arena};
    struct frame *f;

    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = text("fake");
    f = hello_answer(c.session, &reply.base, r->refuse_hello ? &refused : NULL,
                     0);
    if (!r->refuse_hello) {
        peer_free(&r->peer);
        r->peer = peer_new(&c);
    }
    (void)io->send(io, from, &f);
}

static void node_recv(void *node, struct peer_id from, struct frame **f)
{
    struct fake_router *r = node;
    struct frame_header h;

    if (frame_check((*f)->data, (*f)->bytes, &h, NULL) == ST_OK) {
        if (h.session == 0 && !r->vanished) {
            read_hello(r, *f, &h);
            greet(r, from);
        } else if (r->peer != NULL && h.session == peer_session(r->peer)) {
            (void)!peer_recv(r->peer, *f, &h, loop_now_us());
        }
    }
    frame_free(f);
}

static void node_opened(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct fake_router *r = node;
    struct node_io *io = transport_io(r->transport);

    if (atomic_load(&r->stop)) {
        return NODE_STOP;
    }
    if (r->peer != NULL) {
        peer_flush(r->peer, now_us);
    }
    if (r->breaks) { /* after the chunk was sent */
        struct frame *f = goodbye_make(peer_session(r->peer), "the end");

        r->breaks = false;
        (void)io->send(io, peer_id(r->peer), &f);
        peer_free(&r->peer);
    }
    return now_us + 5000;
}

static const struct node_ops node_ops = {.opened = node_opened,
                                         .recv = node_recv,
                                         .lost = node_opened,
                                         .tick = node_tick};

static void *run(void *arg)
{
    struct fake_router *r = arg;

    loop_run(&r->loop);
    return NULL;
}

const char *fake_router_client(struct fake_router *r)
{
    return atomic_load(&r->greeted) ? r->client : "";
}

int fake_router_deadline_ms(struct fake_router *r)
{
    return atomic_load(&r->deadline_ms);
}

struct fake_router *fake_router_start(const char *endpoint, int refuse_hello)
{
    struct fake_router *r = calloc(1, sizeof *r);
    struct transport_port port = {endpoint, BY_CLIENT | BY_ADMIN, false};
    int rc;

    assert(r != NULL);
    r->refuse_hello = refuse_hello;
    arena_init(&r->arena);
    rc =
        transport_listen(&r->transport, &port, 1, NULL, NULL) == ST_OK ? 0 : -1;
    assert(rc == 0);
    loop_init(&r->loop, r->transport, &node_ops, r);
    rc = pthread_create(&r->thread, NULL, run, r);
    assert(rc == 0);
    (void)rc;
    return r;
}

void fake_router_stop(struct fake_router **pr)
{
    struct fake_router *r = *pr;

    atomic_store(&r->stop, true);
    pthread_join(r->thread, NULL);
    peer_free(&r->peer);
    transport_free(&r->transport);
    arena_fini(&r->arena);
    free(r);
    *pr = NULL;
}
