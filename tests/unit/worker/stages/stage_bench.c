#include "tests/unit/worker/stages/stage_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/health.pb-c.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench_internal.h"

#define NEXT_ID   1000u /* first connection to the next stage */
#define BEFORE_ID 2000u

/* ---- io ---- */

static struct bench *bench_of(struct node_io *io)
{
    return io->impl;
}

static int64_t io_now(struct node_io *io)
{
    return bench_of(io)->now_us;
}

static uint64_t io_random(struct node_io *io)
{
    struct bench *b = bench_of(io);

    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return b->random ^ (b->random >> 33);
}

static enum status put(struct bench_frame *to, uint32_t *n, struct peer_id who,
                       struct frame **f)
{
    assert_true(*n < BENCH_FRAMES);
    to[(*n)++] = (struct bench_frame){who, *f};
    *f = NULL;
    return ST_OK;
}

static enum status worker_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct bench *b = bench_of(io);

    return put(b->from_worker, &b->n_from_worker, to, f);
}

static enum status other_send(struct node_io *io, struct peer_id to,
                              struct frame **f)
{
    struct bench *b = bench_of(io);

    return put(b->to_worker, &b->n_to_worker, to, f);
}

static struct peer_id worker_open(struct node_io *io)
{
    struct bench *b = bench_of(io);

    b->router_id.v++;
    b->router_opening = true;
    return b->router_id;
}

static struct peer_id worker_open_to(struct node_io *io, const char *endpoint,
                                     const uint8_t *key)
{
    struct bench *b = bench_of(io);

    b->n_dials++;
    b->dialled_keyed = key != NULL;
    if (key != NULL) {
        memcpy(b->dialled, key, KEY_BYTES);
    }
    assert_string_equal(endpoint, "ipc:///test/next");
    b->next_id.v++;
    b->next_opening = true;
    return b->next_id;
}

static struct peer_id before_open_to(struct node_io *io, const char *endpoint,
                                     const uint8_t *key)
{
    struct bench *b = bench_of(io);

    (void)key;
    assert_string_equal(endpoint, b->o.stage_endpoint);
    b->before_id.v++;
    b->before_opening = true;
    return b->before_id;
}

static const struct identity *worker_identity(struct node_io *io,
                                              struct peer_id who)
{
    const struct bench *b = bench_of(io);

    return !b->keyed            ? NULL
           : who.v >= BEFORE_ID ? &b->before_key
           : who.v >= NEXT_ID   ? &b->next_key
                                : &b->router_key;
}

static void worker_close(struct node_io *io, struct peer_id who)
{
    struct bench *b = bench_of(io);

    if (who.v == b->router_id.v) {
        b->router_opening = false;
    } else if (who.v == b->next_id.v) {
        b->next_opening = false;
    }
}

static void other_close(struct node_io *io, struct peer_id who)
{
    worker_node_ops.lost(bench_of(io)->worker, who);
}

/* ---- the other ends of the edges ---- */

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *message)
{
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

    (void)deadline_us;
    if (m->number == METHOD_HEALTH_CHECK) {
        peer_end(p, call, &health.base);
        return;
    }
    assert_ptr_equal(p, ((struct bench *)node)->in);
    bench_hear(node, p, m, message);
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    (void)node, (void)p, (void)tag, (void)m, (void)status, (void)reply, (void)e,
        (void)retry_after_ms;
}

static const struct peer_ops edge_ops = {.on_call = on_call, .on_end = on_end};

static void before_hello(void *node, ProtobufCMessage *m)
{
    (void)node;
    ((Sluice__V1__HelloRequest *)m)->name = wire_text("before");
}

static void before_up(void *node, struct peer *p)
{
    ((struct bench *)node)->out = p;
}

static void before_down(void *node, struct peer *p, enum status refused,
                        const char *why)
{
    struct bench *b = node;

    (void)p;
    b->out = NULL;
    snprintf(b->refused, sizeof b->refused, "%s: %s", status_name(refused),
             why);
}

static const struct session_ops before_ops = {
    .hello = before_hello, .up = before_up, .down = before_down};

static enum status next_welcome(void *node, uint64_t assembly, uint32_t index,
                                const struct identity *who, struct error *e)
{
    const struct bench *b = node;

    assert_null(who);
    assert_int_equal(index, b->stage);
    return assembly == b->assembly
               ? ST_OK
               : error_set(e, ST_FAILED_PRECONDITION, "not yet ordered");
}

static void next_up(void *node, struct peer *p)
{
    ((struct bench *)node)->in = p;
}

static void next_down(void *node, struct peer *p, const char *why)
{
    (void)p, (void)why;
    ((struct bench *)node)->in = NULL;
}

static const struct greeter_ops next_ops = {next_welcome, next_up, next_down};

/* ---- turns ---- */

struct worker_account bench_account(const struct bench *b)
{
    struct worker_account a;

    worker_account(b->worker, &a);
    return a;
}

static void check_account(const struct bench *b)
{
    char text[1024];

    if (worker_audit(b->worker, text, sizeof text) != 0) {
        fail_msg("audit: %s", text);
    }
    assert_int_equal(bench_account(b).violations, 0);
}

static void to_other(struct bench *b, struct bench_frame *f)
{
    bool to_next = f->who.v >= NEXT_ID && f->who.v < BEFORE_ID;

    if ((b->mute && f->who.v >= NEXT_ID) || (b->deaf && to_next)) {
        frame_free(&f->frame);
    } else if (f->who.v >= BEFORE_ID) {
        if (b->has_before) {
            session_recv(&b->before, f->who, &f->frame);
        } else {
            frame_free(&f->frame);
        }
    } else if (to_next) {
        greeter_recv(&b->next, f->who, &f->frame);
    } else {
        bench_router_recv(b, f->frame);
    }
}

/* Marks the time in the core, until core(b, false). */
static void core(const struct bench *b, bool in)
{
    if (b->within != NULL) {
        b->within(in);
    }
}

static bool deliver(struct bench *b)
{
    static struct bench_frame frames[BENCH_FRAMES];
    uint32_t n = b->n_from_worker, all = n;

    memcpy(frames, b->from_worker, n * sizeof *frames);
    b->n_from_worker = 0;
    for (uint32_t i = 0; i < n; i++) {
        to_other(b, &frames[i]);
    }
    n = b->n_to_worker;
    all += n;
    memcpy(frames, b->to_worker, n * sizeof *frames);
    b->n_to_worker = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (b->mute && frames[i].who.v >= NEXT_ID) {
            frame_free(&frames[i].frame);
        } else {
            core(b, true);
            worker_node_ops.recv(b->worker, frames[i].who, &frames[i].frame);
            core(b, false);
        }
    }
    return all > 0;
}

static bool open_all(struct bench *b)
{
    bool any = b->router_opening || b->next_opening || b->before_opening;

    if (b->router_opening) {
        b->router_opening = false;
        worker_node_ops.opened(b->worker, b->router_id);
    }
    if (b->next_opening) {
        b->next_opening = false;
        worker_node_ops.opened(b->worker, b->next_id);
    }
    if (b->before_opening) {
        b->before_opening = false;
        session_opened(&b->before, b->before_id);
    }
    return any;
}

/* A mute stage does not even tick. */
static void tick_edges(struct bench *b)
{
    if (b->has_before && !b->mute) {
        session_tick(&b->before, b->now_us);
    }
    if (!b->mute) {
        greeter_tick(&b->next, b->now_us);
    }
}

void bench_turn(struct bench *b)
{
    bool more = true;

    while (more) {
        more = open_all(b);
        if (b->router != NULL) {
            peer_flush(b->router, b->now_us);
        }
        tick_edges(b);
        more = deliver(b) || more;
        if (b->due_us != NODE_STOP) {
            core(b, true);
            b->due_us = worker_node_ops.tick(b->worker, b->now_us);
            core(b, false);
        }
        check_account(b);
        more = more || b->n_to_worker + b->n_from_worker > 0 ||
               b->router_opening || b->next_opening || b->before_opening;
    }
}

void bench_advance(struct bench *b, int64_t us)
{
    for (int64_t end = b->now_us + us; b->now_us < end;) {
        b->now_us += 1000;
        bench_turn(b);
    }
}

/* ---- assemblies ---- */

void bench_message(const struct bench *b, Sluice__V1__AssembleRequest *m)
{
    sluice__v1__assemble_request__init(m);
    m->assembly = b->assembly;
    m->stage = b->stage;
    m->n_stages = b->n_stages;
    m->next = wire_text("ipc:///test/next");
    m->has_next_key = m->has_previous_key = b->keyed;
    m->next_key = (ProtobufCBinaryData){KEY_BYTES, (uint8_t *)b->next_key.key};
    m->previous_key =
        (ProtobufCBinaryData){KEY_BYTES, (uint8_t *)b->before_key.key};
}

static struct identity key_of(const char *name, uint8_t roles, uint8_t byte)
{
    struct identity id = {.roles = roles};

    snprintf(id.name, sizeof id.name, "%s", name);
    memset(id.key, byte, sizeof id.key);
    return id;
}

void bench_key(struct bench *b)
{
    b->keyed = true;
    b->router_key = key_of("r", BY_ROUTER, 1);
    b->before_key = key_of("before", BY_WORKER, 2);
    b->next_key = key_of("next", BY_WORKER, 3);
}

uint64_t bench_send_assemble(struct bench *b,
                             const Sluice__V1__AssembleRequest *m)
{
    b->calls++;
    assert_int_equal(peer_call(b->router, METHOD_WORKER_ASSEMBLE, &m->base, 0,
                               b->calls, NULL),
                     ST_OK);
    bench_turn(b);
    return b->calls;
}

uint64_t bench_order(struct bench *b)
{
    Sluice__V1__AssembleRequest m;

    b->assembly++;
    b->grant = BENCH_GRANT;
    b->own = bench_account(b).grant;
    b->step = 0;
    bench_message(b, &m);
    return bench_send_assemble(b, &m);
}

void bench_connect(struct bench *b, uint64_t assembly, uint32_t index)
{
    struct session_stage s = {.assembly = assembly, .index = index};

    if (b->has_before) {
        session_fini(&b->before, "the stage before goes");
    }
    snprintf(s.endpoint, sizeof s.endpoint, "%s", b->o.stage_endpoint);
    s.limits = link_limits_tensors(4, 8 << 20);
    session_init_stage(&b->before, &b->before_io, &before_ops, &edge_ops, b,
                       &b->arena, &s);
    b->has_before = true;
    b->refused[0] = '\0';
    bench_turn(b);
}

void bench_assemble(struct bench *b)
{
    uint64_t call = bench_order(b);

    bench_connect(b, b->assembly, b->stage - 1);
    assert_int_equal(b->ends[call].ended, true);
    if (b->ends[call].status != ST_OK) {
        fail_msg("Assemble: %s", b->ends[call].text);
    }
    assert_int_equal(bench_account(b).assembly, b->assembly);
}

void bench_check_broken(struct bench *b, const char *text)
{
    bench_turn(b);
    if (b->n_broken == 0) {
        fail_msg("it stands; \"%s\" was expected", text);
    }
    if (strstr(b->why, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", b->why, text);
    }
    assert_int_equal(b->broken, b->assembly);
    assert_int_equal(b->n_broken, 1);
    assert_int_equal(bench_account(b).assembly, 0);
    b->n_broken = 0;
}

/* ---- made and freed ---- */

void bench_options(struct worker_options *o, bool last)
{
    *o = (struct worker_options){.name = "w",
                                 .model = "fake",
                                 .device = "none",
                                 .layer_begin = 2,
                                 .layer_end = last ? 4 : 3,
                                 .n_layers = 4,
                                 .block_tokens = 8,
                                 .pool.block_bytes = 1024,
                                 .pool.slot_bytes = 512,
                                 .pool.n_pages = BENCH_PAGES,
                                 .pool.pages_per_block = 1,
                                 .pool.pages_per_slot = 3,
                                 .pool.slot_cap = 8,
                                 .reuse = true,
                                 .pool.checkpoint_share = 0.5f,
                                 .pool.tenant_share = 1,
                                 .drafting.keep_tokens = BENCH_KEEP,
                                 .drafting.has_mtp = last,
                                 .pool.poison = true,
                                 .context = 256,
                                 .vocab = BENCH_VOCAB,
                                 .max_rows = 8,
                                 .step_tokens = 64,
                                 .chunk_tokens = 64,
                                 .engine_depth = 2,
                                 .stage_endpoint = "ipc:///test/stage",
                                 .hidden = BENCH_HIDDEN};
}

static void fill_io(struct bench *b, struct node_io *io)
{
    *io = (struct node_io){.impl = b,
                           .now_us = io_now,
                           .random = io_random,
                           .send = other_send,
                           .close = other_close};
}

struct bench *bench_new(bool last)
{
    return bench_new_wide(last, BENCH_HIDDEN);
}

struct bench *bench_new_wide(bool last, uint32_t hidden)
{
    struct worker_options o;

    bench_options(&o, last);
    o.hidden = hidden;
    return bench_new_with(&o, last);
}

struct bench *bench_new_with(const struct worker_options *o, bool last)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    b->o = *o;
    b->now_us = 1000000;
    b->assembly = 500;
    b->n_stages = last ? 2 : 3;
    b->stage = 1;
    b->next_id.v = NEXT_ID;
    b->before_id.v = BEFORE_ID;
    fill_io(b, &b->router_io);
    fill_io(b, &b->before_io);
    fill_io(b, &b->next_io);
    b->before_io.open_to = before_open_to;
    fill_io(b, &b->io);
    b->io.send = worker_send;
    b->io.close = worker_close;
    b->io.open = worker_open;
    b->io.open_to = worker_open_to;
    b->io.identity = worker_identity;
    arena_init(&b->arena);
    greeter_init(&b->next, &b->next_io, &next_ops, &edge_ops, b, &b->arena,
                 "next", &link_limits_usual);
    bench_engine_new(b);
    b->worker = worker_new(&b->o, &b->io, &b->engine);
    assert_non_null(b->worker);
    bench_turn(b);
    assert_non_null(b->router);
    return b;
}

void bench_free(struct bench **bp)
{
    struct bench *b = *bp;
    struct worker_account a;

    if (b->has_before) {
        session_fini(&b->before, "the test is over");
    }
    worker_stop(b->worker);
    while (bench_run(b)) {
    }
    b->due_us = 0;
    bench_turn(b);
    assert_true(b->due_us == NODE_STOP);
    a = bench_account(b);
    assert_int_equal(a.pages.free, a.pages.total);
    assert_int_equal(a.n_sequences, 0);
    worker_free(&b->worker);
    greeter_fini(&b->next, "the test is over");
    for (uint32_t i = 0; i < b->n_to_worker; i++) {
        frame_free(&b->to_worker[i].frame);
    }
    for (uint32_t i = 0; i < b->n_from_worker; i++) {
        frame_free(&b->from_worker[i].frame);
    }
    peer_free(&b->router);
    arena_fini(&b->arena);
    bench_engine_free(b);
    free(b);
    *bp = NULL;
}
