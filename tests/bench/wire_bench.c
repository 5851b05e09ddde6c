/* wire_bench - frames and messages per second of a core, without a socket.
 *
 *     build/release/bin/wire_bench [seconds a case]
 *
 * Two peers in one thread exchange frames: pack, seal, check, decode, deliver,
 * acknowledge.  Prints one line a case: messages/s and frames/s, and tokens/s
 * where the message carries tokens. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/wire/peer.h"
#include "proto/common.pb-c.h"
#include "proto/health.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/stage.pb-c.h"

#define WAITING 1024

struct end {
    struct node_io io;
    struct peer *peer;
    struct end *other;
    struct frame *in[WAITING];
    int n_in;
    uint64_t n_messages, n_frames, n_tokens, call;
};

static struct arena arena;
static int64_t clock_us;

static int64_t now_us(struct node_io *io)
{
    (void)io;
    return clock_us;
}

static enum status send_frame(struct node_io *io, struct peer_id to,
                              struct frame **f)
{
    struct end *o = ((struct end *)io->impl)->other;

    (void)to;
    if (o->n_in == WAITING) {
        frame_free(f);
        return ST_RESOURCE_EXHAUSTED;
    }
    o->in[o->n_in++] = *f;
    *f = NULL;
    return ST_OK;
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    Sluice__V1__HealthReply reply = SLUICE__V1__HEALTH_REPLY__INIT;
    struct end *e = node;

    (void)deadline_us;
    e->n_messages++;
    e->call = call;
    if (m->number == METHOD_HEALTH_CHECK) {
        peer_end(p, call, &reply.base);
    } else if (m->number == METHOD_REGISTRY_STEP_OUTPUT) {
        e->n_tokens +=
            ((const Sluice__V1__StepOutputMessage *)request)->n_tokens;
    }
}

static void on_reply(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    struct end *e = node;

    (void)p, (void)tag, (void)m;
    e->n_messages++;
    e->n_tokens += ((const Sluice__V1__GenerateChunk *)reply)->n_tokens;
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *why,
                   uint32_t retry_after_ms)
{
    (void)p, (void)tag, (void)m, (void)status, (void)reply, (void)why,
        (void)retry_after_ms;
    ((struct end *)node)->n_messages++;
}

static const struct peer_ops ops = {
    .on_call = on_call, .on_reply = on_reply, .on_end = on_end};

static void end_init(struct end *e, struct end *other, uint8_t self, uint8_t by)
{
    struct peer_config c = {.io = &e->io,
                            .session = 1,
                            .self = self,
                            .other = by,
                            .ops = &ops,
                            .node = e,
                            .arena = &arena};

    *e = (struct end){.other = other};
    e->io = (struct node_io){.impl = e, .now_us = now_us, .send = send_frame};
    e->peer = peer_new(&c);
}

static void end_fini(struct end *e)
{
    while (e->n_in > 0) {
        frame_free(&e->in[--e->n_in]);
    }
    peer_free(&e->peer);
}

static void take_in(struct end *e)
{
    int n = e->n_in;

    e->n_in = 0;
    e->n_frames += (uint64_t)n;
    for (int i = 0; i < n; i++) {
        struct frame_header h;

        if (frame_check(e->in[i]->data, e->in[i]->bytes, &h, NULL) != ST_OK ||
            peer_recv(e->peer, e->in[i], &h, clock_us) != PEER_FINE) {
            fprintf(stderr, "wire_bench: a frame was refused\n");
            exit(1);
        }
        frame_free(&e->in[i]);
    }
}

static void turn(struct end *a, struct end *b)
{
    clock_us += 20;
    peer_flush(a->peer, clock_us);
    take_in(b);
    peer_flush(b->peer, clock_us);
    take_in(a);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;

static void push_unary(struct end *a, struct end *b)
{
    (void)b;
    (void)!peer_call(a->peer, METHOD_HEALTH_CHECK, &nothing.base, 0, 1, NULL);
}

static void push_64_unary(struct end *a, struct end *b)
{
    for (int i = 0; i < 64; i++) {
        push_unary(a, b);
    }
}

/* Pushes one step of n rows with a token each. */
static void push_step(struct end *a, uint32_t n)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    Sluice__V1__Ledger l = SLUICE__V1__LEDGER__INIT;
    Sluice__V1__ClassLedger c = SLUICE__V1__CLASS_LEDGER__INIT;
    static uint64_t grants[1024];
    static uint32_t ones[1024], tokens[1024];

    for (uint32_t i = 0; i < n; i++) {
        grants[i] = 1000 + i;
        ones[i] = 1;
        tokens[i] = 100000 + i;
    }
    c.total = c.free = 100000;
    l.blocks = l.slots = l.checkpoints = l.pages = &c;
    m.step = 12345;
    m.ledger = &l;
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state =
        m.n_tokens = n;
    m.grant = grants;
    m.first_index = m.tokens = tokens;
    m.count = m.finish = m.state = ones;
    (void)!peer_oneway(a->peer, METHOD_REGISTRY_STEP_OUTPUT, &m.base);
}

static void push_step_1(struct end *a, struct end *b)
{
    (void)b;
    push_step(a, 1);
}

static void push_step_64(struct end *a, struct end *b)
{
    (void)b;
    push_step(a, 64);
}

/* Pushes one token to a client, on a stream that the client opened. */
static void push_chunk(struct end *a, struct end *b)
{
    static uint8_t id[16] = {1};
    Sluice__V1__GenerateRequest r = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__GenerateChunk chunk = SLUICE__V1__GENERATE_CHUNK__INIT;
    uint32_t token = 70000;

    if (a->call == 0) {
        r.request_id = (ProtobufCBinaryData){.len = 16, .data = id};
        r.model = wire_text("m");
        (void)!peer_call(b->peer, METHOD_INFERENCE_GENERATE, &r.base, 0, 1,
                         NULL);
        return;
    }
    chunk.n_tokens = 1;
    chunk.tokens = &token;
    chunk.has_text = true;
    chunk.text = wire_text(" word");
    (void)!peer_reply(a->peer, a->call, &chunk.base);
}

static void measure(const char *name, uint8_t self, uint8_t by, double limit_s,
                    void (*push)(struct end *a, struct end *b))
{
    static struct end a, b;
    uint64_t messages, frames;
    double begin, took;

    end_init(&a, &b, self, by);
    end_init(&b, &a, by, self);
    begin = seconds();
    do {
        for (int i = 0; i < 256; i++) {
            push(&a, &b);
            turn(&a, &b);
        }
        took = seconds() - begin;
    } while (took < limit_s);
    messages = a.n_messages + b.n_messages;
    frames = a.n_frames + b.n_frames;
    printf("%-24s %9.0f messages/s %9.0f frames/s %10.0f tokens/s\n", name,
           (double)messages / took, (double)frames / took,
           (double)(a.n_tokens + b.n_tokens) / took);
    end_fini(&a);
    end_fini(&b);
}

/* Measures tensors of 1 MiB from one stage to the next. */
static void measure_tensors(double limit_s)
{
    static float x[1 << 18];
    static struct end a, b;
    Sluice__V1__StageForward m = SLUICE__V1__STAGE_FORWARD__INIT;
    double begin, took;
    uint64_t n = 0;

    end_init(&a, &b, BY_WORKER, BY_WORKER);
    end_init(&b, &a, BY_WORKER, BY_WORKER);
    begin = seconds();
    do {
        for (int i = 0; i < 16; i++) {
            m.step = n + 1;
            n += peer_oneway_tensor(a.peer, METHOD_STAGE_FORWARD, &m.base, x,
                                    sizeof x) == ST_OK;
            turn(&a, &b);
        }
        took = seconds() - begin;
    } while (took < limit_s);
    if (b.n_messages != n) {
        fprintf(stderr, "wire_bench: tensors were lost\n");
        exit(1);
    }
    printf("%-24s %9.2f GB/s %9.1f us a frame of 1 MiB, without a socket\n",
           "stage link", (double)n * sizeof x / took * 1e-9,
           took / (double)n * 1e6);
    end_fini(&a);
    end_fini(&b);
}

static void measure_births(double limit_s)
{
    double begin = seconds(), took;
    uint64_t n = 0;
    struct end e;

    do {
        for (int i = 0; i < 256; i++, n++) {
            end_init(&e, &e, BY_ROUTER, BY_CLIENT);
            peer_free(&e.peer);
        }
        took = seconds() - begin;
    } while (took < limit_s);
    printf("%-24s %9.0f peers/s\n", "peer_new, peer_free", (double)n / took);
}

int main(int argc, char **argv)
{
    double limit_s = argc > 1 ? strtod(argv[1], NULL) : 1;

    arena_init(&arena);
    measure("unary, one at a time", BY_CLIENT, BY_ROUTER, limit_s, push_unary);
    measure("unary, 64 a frame", BY_CLIENT, BY_ROUTER, limit_s, push_64_unary);
    measure("StepOutput, 1 row", BY_WORKER, BY_ROUTER, limit_s, push_step_1);
    measure("StepOutput, 64 rows", BY_WORKER, BY_ROUTER, limit_s, push_step_64);
    measure("GenerateChunk, 1 token", BY_ROUTER, BY_CLIENT, limit_s,
            push_chunk);
    measure_tensors(limit_s);
    measure_births(limit_s);
    arena_fini(&arena);
    return 0;
}
