#include "tests/unit/worker/rig_internal.h"
#include "tests/unit/worker/stages/ring.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

/* ---- io ---- */

static struct rig *rig_io(struct node_io *io)
{
    return io->impl;
}

static int64_t io_now(struct node_io *io)
{
    return rig_io(io)->now_us;
}

/* Makes back-off free of jitter, but gives each edge a session number. */
static uint64_t io_random(struct node_io *io)
{
    struct rig *r = rig_io(io);

    return r->ring != NULL ? rig_mix(++r->random, 0) : 0;
}

/* Both ends send through it; connections 1, 2, ... are the worker's. */
static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct rig *r = rig_io(io);
    struct frame *frame = *f;

    *f = NULL;
    if (ring_has(r->ring, to)) {
        ring_take(r->ring, to, frame);
        return ST_OK;
    }
    if (!r->open || to.v != r->id.v) {
        frame_free(&frame);
        return ST_UNAVAILABLE;
    }
    assert_true(r->n_to_router < RIG_FRAMES);
    r->to_router[r->n_to_router++] = frame;
    return ST_OK;
}

static struct peer_id io_open(struct node_io *io)
{
    struct rig *r = rig_io(io);

    r->id.v++;
    r->opening = true;
    return r->id;
}

static struct peer_id io_open_to(struct node_io *io, const char *endpoint,
                                 const uint8_t *key)
{
    (void)key;
    assert_string_equal(endpoint, "ipc:///ring/next");
    return ring_open_to(rig_io(io)->ring);
}

static void drop_frames(struct frame **frames, uint32_t *n)
{
    for (uint32_t i = 0; i < *n; i++) {
        frame_free(&frames[i]);
    }
    *n = 0;
}

static void cut(struct rig *r)
{
    r->open = r->opening = false;
    drop_frames(r->to_router, &r->n_to_router);
    drop_frames(r->to_worker, &r->n_to_worker);
    peer_free(&r->peer);
}

static void io_close(struct node_io *io, struct peer_id who)
{
    struct rig *r = rig_io(io);

    if (ring_has(r->ring, who)) {
        ring_close(r->ring, who);
        return;
    }
    assert_int_equal(who.v, r->id.v);
    /* Frames that were sent before still arrive. */
    r->open = r->opening = false;
}

static enum status router_send(struct node_io *io, struct peer_id to,
                               struct frame **f)
{
    struct rig *r = rig_io(io);

    (void)to;
    assert_true(r->n_to_worker < RIG_FRAMES);
    r->to_worker[r->n_to_worker++] = *f;
    *f = NULL;
    return ST_OK;
}

/* ---- turns ---- */

struct worker_account rig_account(const struct rig *r)
{
    struct worker_account a;

    worker_account(r->worker, &a);
    return a;
}

uint32_t rig_used_blocks(const struct rig *r)
{
    struct worker_account a = rig_account(r);

    return a.blocks.held + a.blocks.granted;
}

static void check_account(const struct rig *r)
{
    struct worker_account a = rig_account(r);
    char text[1024];

    if (worker_audit(r->worker, text, sizeof text) != 0) {
        fail_msg("audit: %s", text);
    }
    assert_int_equal(a.pages.total, a.pages.free + a.pages.held +
                                        a.pages.cached + a.pages.granted);
    assert_int_equal(a.violations, 0);
}

static bool deliver(struct rig *r)
{
    struct frame *router[RIG_FRAMES], *worker[RIG_FRAMES];
    uint32_t n_router = r->n_to_router, n_worker = r->n_to_worker;

    memcpy(router, r->to_router, n_router * sizeof *router);
    memcpy(worker, r->to_worker, n_worker * sizeof *worker);
    r->n_to_router = r->n_to_worker = 0;
    for (uint32_t i = 0; i < n_router; i++) {
        if (r->broken) {
            r->n_eaten++;
            r->eaten_bytes += router[i]->bytes;
            frame_free(&router[i]);
        } else {
            rig_router_recv(r, router[i]);
        }
    }
    for (uint32_t i = 0; i < n_worker; i++) {
        if (r->open && !r->broken) {
            rig_within(r, true);
            worker_node_ops.recv(r->worker, r->id, &worker[i]);
            rig_within(r, false);
        } else {
            frame_free(&worker[i]);
        }
    }
    return n_router + n_worker > 0;
}

void rig_turn(struct rig *r)
{
    bool more = true;

    while (more) {
        if (r->opening) {
            r->opening = false;
            r->open = true;
            worker_node_ops.opened(r->worker, r->id);
        }
        if (r->peer != NULL) {
            peer_flush(r->peer, r->now_us);
        }
        more = deliver(r);
        more = ring_deliver(r->ring) || more;
        if (r->due_us != NODE_STOP) {
            rig_within(r, true);
            r->due_us = worker_node_ops.tick(r->worker, r->now_us);
            rig_within(r, false);
        }
        check_account(r);
        more = more || r->opening || r->n_to_router + r->n_to_worker > 0 ||
               (r->ring != NULL && r->ring->n_from_worker > 0);
    }
}

void rig_advance(struct rig *r, int64_t us)
{
    for (int64_t end = r->now_us + us; r->now_us < end;) {
        r->now_us += 1000;
        rig_turn(r);
    }
}

void rig_lose(struct rig *r)
{
    struct peer_id id = r->id;

    cut(r);
    worker_node_ops.lost(r->worker, id);
    check_account(r);
}

void rig_reconnect(struct rig *r)
{
    uint64_t session = r->session;

    if (r->peer != NULL && !r->open) {
        cut(r);
    }
    for (int i = 0; i < 5000 && (r->session == session || r->peer == NULL);
         i++) {
        rig_advance(r, 1000);
    }
    rig_turn(r);
    assert_true(r->session > session);
}

/* ---- made and freed ---- */

void rig_defaults(struct worker_options *o)
{
    *o = (struct worker_options){.name = "w",
                                 .model = "fake",
                                 .device = "none",
                                 .shared.kv_format = "affine8/64+bf16",
                                 .shared.arithmetic = "cpu-int8-1",
                                 .layer_end = 4,
                                 .n_layers = 4,
                                 .block_tokens = 8,
                                 .pool.block_bytes = 1024,
                                 .pool.slot_bytes = 512,
                                 .pool.n_pages = 128 + 8 * 2,
                                 .pool.pages_per_block = 1,
                                 .pool.pages_per_slot = 2,
                                 .pool.slot_cap = 8,
                                 .one_arithmetic = true,
                                 .pool.checkpoint_share = 0.5f,
                                 .pool.tenant_share = 1,
                                 .pool.poison = true,
                                 .context = RIG_CONTEXT,
                                 .vocab = RIG_VOCAB,
                                 .eos = {RIG_EOS},
                                 .n_eos = 1,
                                 .max_rows = 16,
                                 .step_tokens = 256,
                                 .chunk_tokens = 128,
                                 .engine_depth = 1};
}

struct rig *rig_new(const struct worker_options *o)
{
    struct rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    if (o != NULL) {
        r->o = *o;
    } else {
        rig_defaults(&r->o);
    }
    r->now_us = 1000000;
    r->acknowledge = r->answer_hello = true;
    r->io.impl = r;
    r->io.now_us = io_now;
    r->io.random = io_random;
    r->io.send = io_send;
    r->io.open = io_open;
    r->io.open_to = io_open_to;
    r->io.close = io_close;
    r->router_io = r->io;
    r->router_io.send = router_send;
    arena_init(&r->arena);
    rig_engine_new(r);
    r->worker = worker_new(&r->o, &r->io, &r->engine);
    assert_non_null(r->worker);
    rig_turn(r);
    assert_non_null(r->peer);
    return r;
}

struct rig *rig_with_depth(uint32_t depth)
{
    struct worker_options o;

    rig_defaults(&o);
    o.engine_depth = depth;
    return rig_new(&o);
}

void rig_check_tokens(const struct rig *r, uint64_t grant, uint32_t id,
                      uint32_t n_prompt, uint32_t n)
{
    uint32_t expect[RIG_CONTEXT];

    rig_expect(id, n_prompt, n, expect);
    assert_int_equal(r->heard[grant].n, n);
    assert_memory_equal(r->heard[grant].tokens, expect, n * sizeof *expect);
}

void rig_check_ok(const struct rig *r, uint64_t tag)
{
    if (!r->ends[tag].ended || r->ends[tag].status != ST_OK) {
        fail_msg("call %llu: %s", (unsigned long long)tag, r->ends[tag].text);
    }
}

void rig_free(struct rig **rp)
{
    struct rig *r = *rp;

    worker_stop(r->worker);
    r->due_us = 0;
    rig_run(r);
    rig_turn(r);
    assert_true(r->due_us == NODE_STOP);
    rig_check_empty(r);
    worker_free(&r->worker);
    cut(r);
    arena_fini(&r->arena);
    rig_engine_free(r);
    free(r->index.events);
    free(r);
    *rp = NULL;
}

void rig_check_empty(const struct rig *r)
{
    struct worker_account a = rig_account(r);

    assert_int_equal(a.pages.held + a.pages.granted, 0);
    assert_int_equal(a.pages.free + a.pages.cached, a.pages.total);
    assert_true(r->o.reuse || a.pages.cached == 0);
    assert_int_equal(a.n_sequences, 0);
    assert_int_equal(a.host_used, a.host_cached);
    assert_true(r->o.reuse || a.host_cached == 0);
}
