/* steady_test - The steady state does not allocate.
 *
 * Router, worker and client cores run in one thread, and the test hands over
 * their frames.  The worker's engine is the real one over the embedded model.
 * Once all streams run, 1,000 steps are counted: neither the program nor a
 * library calls malloc.  common/base/README.md lists what may still grow, and
 * up to which limit. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/client_core.h"
#include "common/wire/frame_spare.h"
#include "common/wire/link.h"
#include "common/wire/method.h"
#include "common/wire/wire.h"
#include "proto/inference.pb-c.h"
#include "router/router_core.h"
#include "router/text/text_threads.h"
#include "tests/alloc/count.h"
#include "tests/unit/cmocka.h"
#include "text/tokenizer.h"
#include "worker/engine/engine_thread.h"
#include "worker/model/shard.h"
#include "worker/worker_core.h"

#define MODEL      "models/tiny-hybrid"
#define STREAMS    4
#define WARM_STEPS 200
#define STEPS      1000
#define END_STEPS  (WARM_STEPS + 3 * STEPS)
#define MAX_TOKENS (END_STEPS + 500)
#define BLOCKS     (STREAMS * 128)
#define FLYING     256
#define TURN_US    500 /* of the test's clock, which no busy machine stops */
#define WAIT_MS    2   /* for an engine, at most a turn */

enum node_number { ROUTER, WORKER, CLIENT, NODES };

struct node {
    struct node_io io;
    enum alloc_owner owner;
    const struct node_ops *ops;
    void *core;
};

static struct {
    struct node nodes[NODES];
    struct flying {
        enum node_number to;
        struct peer_id who;
        struct frame *frame; /* NULL: the connection was opened */
    } flying[FLYING];
    unsigned n_flying;
    int64_t now_us;
    uint32_t last_id;
    enum node_number owner_of[8]; /* by connection */
    uint64_t random;
    struct kernels_sizes sizes;

    struct model_config config;
    struct shard *shard;
    struct forward *forward;
    struct engine_thread *engine;
    struct tokenizer *tokenizer;
    struct text_model model;
    struct text_threads *text;
    uint32_t n_tokens[STREAMS], n_ended, text_bytes;
    struct metric_page router_page, worker_page;
} the;

/* ---- node_io ---- */

static int64_t io_now(struct node_io *io)
{
    (void)io;
    return the.now_us;
}

static uint64_t io_random(struct node_io *io)
{
    (void)io;
    the.random = the.random * 6364136223846793005u + 1442695040888963407u;
    return the.random;
}

static void fly(enum node_number to, struct peer_id who, struct frame *f)
{
    assert_true(the.n_flying < FLYING);
    the.flying[the.n_flying++] = (struct flying){to, who, f};
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    const struct node *n = io->impl;

    fly(n == &the.nodes[ROUTER] ? the.owner_of[to.v] : ROUTER, to, *f);
    *f = NULL;
    return ST_OK;
}

static struct peer_id io_open(struct node_io *io)
{
    struct peer_id id = {++the.last_id};

    assert_true(id.v < 8);
    the.owner_of[id.v] =
        (enum node_number)((struct node *)io->impl - the.nodes);
    fly(the.owner_of[id.v], id, NULL);
    return id;
}

static void io_close(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
}

static uint8_t io_port(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
    return BY_ALL;
}

static void node_init(enum node_number number, enum alloc_owner owner,
                      const struct node_ops *ops)
{
    struct node *n = &the.nodes[number];

    *n = (struct node){.owner = owner, .ops = ops};
    n->io = (struct node_io){.impl = n,
                             .now_us = io_now,
                             .random = io_random,
                             .send = io_send,
                             .open = io_open,
                             .close = io_close,
                             .port = io_port};
}

/* ---- loop ---- */

static void deliver(void)
{
    static struct flying now[FLYING];
    unsigned n = the.n_flying;

    memcpy(now, the.flying, n * sizeof *now);
    the.n_flying = 0;
    for (unsigned i = 0; i < n; i++) {
        struct node *to = &the.nodes[now[i].to];

        alloc_as(to->owner);
        if (now[i].frame == NULL) {
            to->ops->opened(to->core, now[i].who);
        } else {
            to->ops->recv(to->core, now[i].who, &now[i].frame);
        }
        alloc_as(ALLOC_TEST);
    }
}

/* Waits for the engine's or a text thread's result, so that spinning takes no
 * CPU from them. */
static void wait_for_work(void)
{
    struct pollfd fds[] = {
        {.fd = engine_thread_fd(the.engine), .events = POLLIN},
        {.fd = text_threads_fd(the.text), .events = POLLIN},
    };

    (void)poll(fds, 2, WAIT_MS);
    engine_thread_quiet(the.engine);
    text_threads_quiet(the.text);
}

static void turn(void)
{
    if (the.n_flying == 0) {
        wait_for_work();
    }
    the.now_us += TURN_US;
    for (int i = 0; i < NODES; i++) {
        struct node *n = &the.nodes[i];

        alloc_as(n->owner);
        (void)n->ops->tick(n->core, the.now_us);
        alloc_as(ALLOC_TEST);
    }
    deliver();
}

/* ---- streams ---- */

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    const Sluice__V1__GenerateChunk *m = (const void *)message;

    *(uint32_t *)arg += (uint32_t)m->n_tokens;
    the.text_bytes += m->has_text ? (uint32_t)m->text.len : 0;
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    (void)arg, (void)reply, (void)retry_after_ms;
    if (status != ST_OK && e != NULL) {
        print_message("ended: %s\n", e->text);
    }
    the.n_ended++;
}

static void begin(uint32_t number)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint8_t id[16] = {1, (uint8_t)number};
    uint32_t prompt[] = {300 + number, 400, 500};

    m.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.model = wire_text(the.config.name);
    m.n_tokens = 3;
    m.tokens = prompt;
    m.has_max_tokens = 1;
    m.max_tokens = MAX_TOKENS;
    sampling.has_ignore_eos = sampling.ignore_eos = 1;
    m.sampling = &sampling;
    assert_int_equal(client_core_call(the.nodes[CLIENT].core,
                                      METHOD_INFERENCE_GENERATE, &m.base, 0,
                                      &ops, &the.n_tokens[number], NULL),
                     ST_OK);
}

/* Runs until the slowest stream has this many tokens. */
static void run_to(uint32_t n_tokens)
{
    uint32_t least = 0;

    while (least < n_tokens) {
        turn();
        least = UINT32_MAX;
        for (int i = 0; i < STREAMS; i++) {
            least = the.n_tokens[i] < least ? the.n_tokens[i] : least;
        }
        assert_int_equal(the.n_ended, 0);
    }
}

static uint64_t allocations(void)
{
    uint64_t n = 0;

    for (int i = 0; i < ALLOC_OWNERS; i++) {
        n += alloc_count((enum alloc_owner)i);
    }
    return n;
}

static void print_counts(void)
{
    static const char *const owners[] = {"threads", "test", "router", "worker",
                                         "client"};

    for (int i = 0; i < ALLOC_OWNERS; i++) {
        print_message("%-8s %" PRIu64 " allocations\n", owners[i],
                      alloc_count((enum alloc_owner)i));
    }
}

/* Fills the frame pools, as after a moment with every ring full. */
static void warm_frames(void)
{
    enum { N = 4 * LINK_RING_FRAMES };
    static void *pieces[N];
    size_t room = 0;

    for (size_t bytes = FRAME_SPARE_LEAST; bytes <= 4096; bytes *= 2) {
        for (int i = 0; i < N; i++) {
            pieces[i] = spare_take(bytes, &room);
        }
        for (int i = 0; i < N; i++) {
            spare_give(pieces[i], room);
        }
    }
}

/* Makes the pages for Prometheus. */
static void make_pages(void)
{
    metric_page_clear(&the.router_page);
    metric_page_clear(&the.worker_page);
    alloc_as(ALLOC_ROUTER);
    router_page(the.nodes[ROUTER].core, &the.router_page);
    alloc_as(ALLOC_WORKER);
    worker_page(the.nodes[WORKER].core, &the.worker_page);
    alloc_as(ALLOC_TEST);
}

static void a_thousand_steps(void **state)
{
    (void)state;
    warm_frames();
    for (uint32_t i = 0; i < STREAMS; i++) {
        begin(i);
    }
    /* A stall of the machine may put more frames in an outbox than ever before.
     * This is part of the warm-up, too. */
    for (uint32_t at = WARM_STEPS; at < END_STEPS; at += STEPS) {
        run_to(at);
        make_pages();
        alloc_reset();
        run_to(at + STEPS);
        make_pages();
        print_counts();
        if (allocations() == 0) {
            assert_true(the.text_bytes > 0);
            return;
        }
    }
    fail_msg("allocations in each thousand of %d steps", END_STEPS);
}

/* The counter itself must work. */
static void counts(void **state)
{
    void *volatile p;

    (void)state;
    alloc_reset();
    alloc_as(ALLOC_WORKER);
    p = malloc(1);
    p = realloc(p, 100000);
    free(p);
    p = calloc(1, 1);
    free(p);
    p = aligned_alloc(64, 64);
    free(p);
    p = strdup("by libc");
    free(p);
    alloc_as(ALLOC_TEST);
    assert_int_equal(alloc_count(ALLOC_WORKER), 5);
}

/* ---- creation and release ---- */

static uint32_t pages(void)
{
    return BLOCKS + STREAMS * the.sizes.pages_per_slot;
}

static void engine_make(void)
{
    struct kernels_options o = {.device = "cpu",
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = 32,
                                .max_tokens = 64,
                                .max_rows = STREAMS,
                                .n_threads = 2};
    struct error e;

    if (config_load(&the.config, MODEL, &e) != ST_OK ||
        shard_load(&the.shard, &the.config, MODEL, 0, the.config.shape.n_layers,
                   NULL, &e) != ST_OK ||
        tokenizer_load(&the.tokenizer, MODEL "/tokenizer.json", &e) != ST_OK ||
        forward_new(&the.forward, shard_weights(the.shard), &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    forward_sizes(the.forward, &the.sizes);
    if (forward_alloc(the.forward, pages(), &e) != ST_OK ||
        engine_thread_new(&the.engine, the.forward, 1, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    the.model = (struct text_model){the.config.name, the.tokenizer};
    assert_int_equal(text_threads_new(&the.text, &the.model, 1, 1, &e), ST_OK);
}

static struct worker_options worker_of(void)
{
    struct worker_options o = {.name = "w",
                               .model = the.config.name,
                               .device = "cpu",
                               .tokenizer.known = true,
                               .layer_end = the.config.shape.n_layers,
                               .n_layers = the.config.shape.n_layers,
                               .block_tokens = 32,
                               .pool.block_bytes = 1024,
                               .pool.slot_bytes = 1024,
                               .pool.n_pages = pages(),
                               .pool.pages_per_block = 1,
                               .pool.pages_per_slot = the.sizes.pages_per_slot,
                               .pool.slot_cap = STREAMS,
                               .one_arithmetic = true,
                               .reuse = true,
                               .pool.checkpoint_share = 0.5f,
                               .pool.tenant_share = 1,
                               .context = 4096,
                               .vocab = the.config.shape.vocab,
                               .max_rows = STREAMS,
                               .step_tokens = 64,
                               .chunk_tokens = 64,
                               .engine_depth = 1};

    memcpy(o.tokenizer.hash, tokenizer_hash(the.tokenizer),
           sizeof o.tokenizer.hash);
    memcpy(o.fingerprint, shard_fingerprint(the.shard), sizeof o.fingerprint);
    return o;
}

static int make(void **state)
{
    struct router_options ro = {.name = "r",
                                .max_peers = 8,
                                .max_admins = 8,
                                .max_requests = 16,
                                .max_waiting = 16};
    struct client_options co = {.name = "c"};
    struct worker_options wo;

    (void)state;
    alloc_as(ALLOC_TEST);
    engine_make();
    wo = worker_of();
    ro.text = text_threads_seam(the.text);
    node_init(ROUTER, ALLOC_ROUTER, &router_node_ops);
    node_init(WORKER, ALLOC_WORKER, &worker_node_ops);
    node_init(CLIENT, ALLOC_CLIENT, &client_node_ops);
    the.nodes[ROUTER].core = router_new(&ro, &the.nodes[ROUTER].io);
    the.nodes[WORKER].core = worker_new(&wo, &the.nodes[WORKER].io,
                                        engine_thread_engine(the.engine));
    the.nodes[CLIENT].core = client_core_new(&co, &the.nodes[CLIENT].io);
    return the.nodes[WORKER].core == NULL ? -1 : 0;
}

static int unmake(void **state)
{
    struct client_core *c = the.nodes[CLIENT].core;
    struct router_core *r = the.nodes[ROUTER].core;
    struct worker_core *w = the.nodes[WORKER].core;

    (void)state;
    client_core_free(&c);
    router_free(&r);
    engine_thread_free(&the.engine);
    worker_free(&w);
    for (unsigned i = 0; i < the.n_flying; i++) {
        frame_free(&the.flying[i].frame);
    }
    text_threads_free(&the.text);
    metric_page_fini(&the.router_page);
    metric_page_fini(&the.worker_page);
    forward_free(&the.forward);
    tokenizer_free(&the.tokenizer);
    shard_free(&the.shard);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test_setup_teardown(a_thousand_steps, make, unmake),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
