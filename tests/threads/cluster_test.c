/* A whole cluster in one process, with a thread per node, over the embedded
 * model and mailboxes.  The router has its text threads, the two workers their
 * engine and kernel threads.  ThreadSanitizer runs this test (tests/run --part
 * tsan).  Without ThreadSanitizer, it is an ordinary test. */
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "client/lib/client_core.h"
#include "common/wire/wire.h"
#include "proto/inference.pb-c.h"
#include "router/router_core.h"
#include "router/text/text_threads.h"
#include "tests/patience.h"
#include "tests/threads/memory_net.h"
#include "tests/unit/cmocka.h"
#include "text/tokenizer.h"
#include "worker/engine/engine_thread.h"
#include "worker/model/shard.h"
#include "worker/worker_core.h"

#define MODEL      "models/tiny-hybrid"
#define WORKERS    2
#define CLIENTS    3
#define REQUESTS   8 /* for each client */
#define MAX_TOKENS 12
#define BLOCKS     64
#define SLOTS      4

static struct {
    struct model_config config;
    struct shard *shard;
    struct tokenizer *tokenizer;
    struct text_model text_model;
    struct text_threads *text;
} the;

/* ---- router ---- */

static void *router_make(void *arg, struct node_io *io)
{
    struct router_options o = {.name = "r",
                               .max_peers = 16,
                               .max_admins = 8,
                               .max_requests = 64,
                               .max_waiting = 64,
                               .text = text_threads_seam(the.text)};

    (void)arg;
    return router_new(&o, io);
}

static void stop_router(void *core)
{
    router_stop(core);
}

static void router_gone(void *arg, void *core)
{
    struct router_core *r = core;

    (void)arg;
    router_free(&r);
}

static void text_quiet(void *arg)
{
    text_threads_quiet(arg);
}

/* ---- workers ---- */

struct worker {
    char name[16];
    uint32_t n_pages, pages_per_slot;
    struct forward *forward;
    struct engine_thread *engine;
    struct memory_node *node;
};

static void *worker_make(void *arg, struct node_io *io)
{
    struct worker *w = arg;
    const struct model_shape *s = &the.config.shape;
    struct worker_options o = {.name = w->name,
                               .model = the.config.name,
                               .device = "cpu",
                               .tokenizer.known = true,
                               .layer_end = s->n_layers,
                               .n_layers = s->n_layers,
                               .block_tokens = 32,
                               .pool.block_bytes = 1024,
                               .pool.slot_bytes = 1024,
                               .pool.n_pages = w->n_pages,
                               .pool.pages_per_block = 1,
                               .pool.pages_per_slot = w->pages_per_slot,
                               .pool.slot_cap = SLOTS,
                               .one_arithmetic = true,
                               .reuse = true,
                               .pool.checkpoint_share = 0.5f,
                               .pool.tenant_share = 1,
                               .context = 256,
                               .vocab = s->vocab,
                               .max_rows = SLOTS,
                               .step_tokens = 64,
                               .chunk_tokens = 64,
                               .engine_depth = 2};

    memcpy(o.tokenizer.hash, tokenizer_hash(the.tokenizer),
           sizeof o.tokenizer.hash);
    memcpy(o.fingerprint, shard_fingerprint(the.shard), sizeof o.fingerprint);
    return worker_new(&o, io, engine_thread_engine(w->engine));
}

static void stop_worker(void *core)
{
    worker_stop(core);
}

static void worker_gone(void *arg, void *core)
{
    struct worker_core *c = core;
    struct worker *w = arg;
    struct worker_account a;

    worker_account(c, &a);
    assert_int_equal(a.blocks.held + a.blocks.granted, 0);
    assert_int_equal(a.slots.held + a.slots.granted, 0);
    assert_int_equal(a.violations, 0);
    engine_thread_free(&w->engine);
    worker_free(&c);
    forward_free(&w->forward);
}

static void engine_quiet(void *arg)
{
    engine_thread_quiet(arg);
}

static void worker_start(struct worker *w, struct memory_net *net, int number)
{
    struct kernels_options o = {.device = "cpu",
                                .kv.dtype = DTYPE_BF16,
                                .block_tokens = 32,
                                .max_tokens = 64,
                                .max_rows = SLOTS,
                                .n_threads = 3};
    struct memory_node_config c = {.role = BY_WORKER,
                                   .make = worker_make,
                                   .ops = &worker_node_ops,
                                   .stop = stop_worker,
                                   .free = worker_gone,
                                   .arg = w,
                                   .n_sources = 1};
    struct kernels_sizes sizes;
    struct error e;

    snprintf(w->name, sizeof w->name, "w%d", number);
    if (forward_new(&w->forward, shard_weights(the.shard), &o, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    forward_sizes(w->forward, &sizes);
    w->pages_per_slot = sizes.pages_per_slot;
    w->n_pages = BLOCKS + SLOTS * sizes.pages_per_slot;
    if (forward_alloc(w->forward, w->n_pages, &e) != ST_OK ||
        engine_thread_new(&w->engine, w->forward, 2, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    c.sources[0] = (struct memory_source){engine_thread_fd(w->engine),
                                          engine_quiet, w->engine};
    w->node = memory_node_new(net, &c);
}

/* ---- clients: one request after the other, with text prompts ---- */

struct client {
    struct client_core *core;
    struct memory_node *node;
    int number;
    uint32_t begun, ended, cancelled;
    bool open, asked;
    uint8_t id[16];
    uint32_t next_index;
    uint32_t tokens[REQUESTS][MAX_TOKENS];
    atomic_uint n_tokens, n_done;
    atomic_bool done;
};

static void *client_make(void *arg, struct node_io *io)
{
    struct client_options o = {.name = "c"};
    struct client *c = arg;

    c->core = client_core_new(&o, io);
    return c->core;
}

static void client_gone(void *arg, void *core)
{
    struct client_core *c = core;

    (void)arg;
    client_core_free(&c);
}

static void on_chunk(void *arg, const ProtobufCMessage *message)
{
    const Sluice__V1__GenerateChunk *m = (const void *)message;
    struct client *c = arg;

    assert_true(m->n_tokens == 0 || m->first_index == c->next_index);
    assert_true(m->first_index + m->n_tokens <= MAX_TOKENS);
    for (size_t i = 0; i < m->n_tokens; i++) {
        c->tokens[c->begun - 1][c->next_index++] = m->tokens[i];
    }
    atomic_fetch_add(&c->n_tokens, (unsigned)m->n_tokens);
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct client *c = arg;

    (void)reply, (void)retry_after_ms;
    if (status == ST_UNAVAILABLE && c->next_index == 0) {
        c->begun--; /* no worker was registered yet: repeat */
    } else {
        if (status != ST_OK) {
            fail_msg("client %d: %s", c->number, e->text);
        }
        c->cancelled += c->next_index < MAX_TOKENS;
        c->ended++;
        atomic_fetch_add(&c->n_done, 1);
    }
    c->open = false;
}

static void on_receipt(void *arg, enum status status,
                       const ProtobufCMessage *reply, const struct error *e,
                       uint32_t retry_after_ms)
{
    (void)arg, (void)reply, (void)retry_after_ms;
    if (status != ST_OK) {
        fail_msg("no receipt: %s", e->text);
    }
}

static void begin(struct client *c)
{
    static const struct client_call_ops ops = {on_chunk, on_end};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    char text[64];

    snprintf(text, sizeof text, "Once upon a time, %u", c->begun);
    memset(c->id, c->number + 1, sizeof c->id);
    c->id[0] = (uint8_t)c->begun++;
    c->next_index = 0;
    c->open = true;
    c->asked = false;
    m.request_id = (ProtobufCBinaryData){sizeof c->id, c->id};
    m.model = wire_text(the.config.name);
    m.has_text = m.has_max_tokens = sampling.has_temperature = 1;
    m.text = wire_text(text);
    m.max_tokens = MAX_TOKENS;
    sampling.temperature = 0;
    sampling.has_ignore_eos = sampling.ignore_eos = 1;
    m.sampling = &sampling;
    assert_int_equal(client_core_call(c->core, METHOD_INFERENCE_GENERATE,
                                      &m.base, 0, &ops, c, NULL),
                     ST_OK);
}

/* Makes the last client cancel every other request. */
static void maybe_cancel(struct client *c)
{
    static const struct client_call_ops ops = {NULL, on_receipt};
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;

    if (c->number == CLIENTS - 1 && c->begun % 2 == 0 && !c->asked &&
        c->next_index > 1) {
        c->asked = true;
        ref.request_id = (ProtobufCBinaryData){sizeof c->id, c->id};
        m.sequence = &ref;
        assert_int_equal(client_core_call(c->core, METHOD_INFERENCE_CANCEL,
                                          &m.base, 0, &ops, c, NULL),
                         ST_OK);
    }
}

static void client_turn(void *arg, void *core)
{
    struct client *c = arg;

    (void)core;
    if (c->open) {
        maybe_cancel(c);
    } else if (c->ended < REQUESTS) {
        begin(c);
        client_node_ops.tick(c->core, 0);
    } else {
        atomic_store(&c->done, true);
    }
}

/* ---- the test ---- */

static void await(atomic_uint *n, unsigned wanted)
{
    const struct timespec nap = {.tv_nsec = 2000000};
    time_t end = time(NULL) + patience_s();

    while (atomic_load(n) < wanted) {
        assert_true(time(NULL) < end);
        nanosleep(&nap, NULL);
    }
}

/* Checks that greedy tokens are the same for every client and worker, also
 * after a worker was lost. */
static void check_same_tokens(const struct client *clients)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        assert_memory_equal(clients[0].tokens[i], clients[1].tokens[i],
                            sizeof clients[0].tokens[i]);
        assert_memory_equal(clients[0].tokens[i], clients[2].tokens[i],
                            2 * sizeof clients[0].tokens[i][0]);
    }
}

static void serves_while_a_worker_comes_and_goes(void **state)
{
    static struct worker workers[WORKERS];
    static struct client clients[CLIENTS];
    struct memory_net *net = memory_net_new();
    struct memory_node_config r = {
        .role = BY_ROUTER,
        .make = router_make,
        .ops = &router_node_ops,
        .stop = stop_router,
        .free = router_gone,
        .sources = {{text_threads_fd(the.text), text_quiet, the.text}},
        .n_sources = 1};
    struct memory_node *router = memory_node_new(net, &r);

    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        worker_start(&workers[i], net, i);
    }
    for (int i = 0; i < CLIENTS; i++) {
        struct memory_node_config c = {.role = BY_CLIENT,
                                       .make = client_make,
                                       .ops = &client_node_ops,
                                       .turn = client_turn,
                                       .free = client_gone,
                                       .arg = &clients[i]};
        clients[i].number = i;
        clients[i].node = memory_node_new(net, &c);
    }
    await(&clients[0].n_tokens, MAX_TOKENS + 2);
    memory_node_cut(workers[0].node);
    await(&clients[0].n_tokens, 4 * MAX_TOKENS + 2);
    memory_node_cut(workers[0].node);
    for (int i = 0; i < CLIENTS; i++) {
        await(&clients[i].n_done, REQUESTS);
        memory_node_stop(clients[i].node);
    }
    check_same_tokens(clients);
    assert_int_equal(clients[0].cancelled + clients[1].cancelled, 0);
    for (int i = 0; i < WORKERS; i++) {
        memory_node_stop(workers[i].node);
    }
    memory_node_stop(router);
    memory_net_free(&net);
}

static int load(void **state)
{
    struct error e;

    (void)state;
    if (config_load(&the.config, MODEL, &e) != ST_OK ||
        shard_load(&the.shard, &the.config, MODEL, 0, the.config.shape.n_layers,
                   NULL, &e) != ST_OK ||
        tokenizer_load(&the.tokenizer, MODEL "/tokenizer.json", &e) != ST_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    the.text_model = (struct text_model){the.config.name, the.tokenizer};
    return text_threads_new(&the.text, &the.text_model, 1, 3, &e) == ST_OK ? 0
                                                                           : -1;
}

static int unload(void **state)
{
    (void)state;
    text_threads_free(&the.text);
    tokenizer_free(&the.tokenizer);
    shard_free(&the.shard);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(serves_while_a_worker_comes_and_goes),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
