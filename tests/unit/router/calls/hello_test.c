/* Hello: which peers are admitted, which are refused, and why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/wire/endpoint.h"
#include "router/base/router_limits.h"
#include "router/replicas/shard.h"
#include "tests/unit/router/rig.h"

struct bad {
    void (*spoil)(Sluice__V1__HelloRequest *m, struct fake *f);
    enum status status;
    const char *why;
};

#define BAD(name) static void name(Sluice__V1__HelloRequest *m, struct fake *f)
#define UNUSED    (void)m, (void)f

BAD(version)
{
    UNUSED;
    m->version_major = 2;
}
BAD(no_role)
{
    UNUSED;
    m->role = SLUICE__V1__ROLE__ROLE_NONE;
}
BAD(role_7)
{
    UNUSED;
    m->role = (Sluice__V1__Role)7;
}
BAD(no_name)
{
    UNUSED;
    m->name.len = 0;
}
BAD(long_name)
{
    static char name[PEER_NAME_MAX + 2];
    UNUSED;
    memset(name, 'x', PEER_NAME_MAX + 1);
    m->name = wire_text(name);
}
BAD(nul_name)
{
    static uint8_t name[3] = {'a', 0, 'b'};
    UNUSED;
    m->name = (ProtobufCBinaryData){3, name};
}
BAD(bytes_name)
{
    static uint8_t name[2] = {'a', 0xff};
    UNUSED;
    m->name = (ProtobufCBinaryData){2, name};
}
BAD(no_shard)
{
    UNUSED;
    m->worker = NULL;
}
BAD(client_with_shard)
{
    UNUSED;
    m->role = SLUICE__V1__ROLE__ROLE_CLIENT;
}
BAD(no_model)
{
    UNUSED;
    f->shard.model.len = 0;
}
BAD(long_model)
{
    static char name[MODEL_NAME_MAX + 2];
    UNUSED;
    memset(name, 'x', MODEL_NAME_MAX + 1);
    f->shard.model = wire_text(name);
}
BAD(fingerprint_15)
{
    UNUSED;
    f->shard.fingerprint.len = 15;
}
BAD(tokenizer_8)
{
    UNUSED;
    f->shard.tokenizer.len = 8;
}
BAD(no_layers)
{
    UNUSED;
    f->shard.n_layers = 0;
}
BAD(many_layers)
{
    UNUSED;
    f->shard.n_layers = MODEL_LAYERS_MAX + 1;
}
BAD(layers_reversed)
{
    UNUSED;
    f->shard.layer_begin = 3;
    f->shard.layer_end = 2;
}
BAD(layers_past)
{
    UNUSED;
    f->shard.layer_end = 5;
}
static void half(struct fake *f)
{
    f->shard.layer_end = 2;
    f->shard.has_hidden = f->shard.has_stage_endpoint = true;
    f->shard.hidden = 64;
    f->shard.stage_endpoint = wire_text("tcp://127.0.0.1:1");
}
static void windows(struct fake *f)
{
    fake_windows(f, MODEL_CONTEXT_MAX, STEP_TOKENS_MAX, 1, 64);
    fake_pages(f);
}
BAD(window_without_pages)
{
    UNUSED;
    windows(f);
    f->shard.window_pages = 0;
}
BAD(window_pages_alone)
{
    UNUSED;
    windows(f);
    f->shard.window_tokens = 0;
}
BAD(chunk_0)
{
    UNUSED;
    windows(f);
    f->shard.chunk_tokens = 0;
}
BAD(no_windows_in_ledger)
{
    UNUSED;
    windows(f);
    f->ledger.windows = NULL;
}
BAD(windows_in_ledger_alone)
{
    UNUSED;
    windows(f);
    f->shard.window_tokens = f->shard.window_pages = 0;
}
BAD(wide_window)
{
    UNUSED;
    windows(f);
    f->shard.window_tokens++;
}
BAD(long_chunk)
{
    UNUSED;
    windows(f);
    f->shard.chunk_tokens++;
}
BAD(many_window_pages)
{
    UNUSED;
    windows(f);
    f->shard.window_pages = SHARD_PAGES_MAX + 1;
}
BAD(windows_of_minor_3)
{
    windows(f);
    m->version_minor = 3;
}
BAD(no_endpoint)
{
    UNUSED;
    half(f);
    f->shard.has_stage_endpoint = false;
}
BAD(empty_endpoint)
{
    UNUSED;
    half(f);
    f->shard.stage_endpoint = wire_text("");
}
BAD(long_endpoint)
{
    static char name[ENDPOINT_MAX + 1];
    UNUSED;
    half(f);
    memset(name, 'x', ENDPOINT_MAX);
    memcpy(name, "ipc://", strlen("ipc://"));
    f->shard.stage_endpoint = wire_text(name);
}
BAD(distant_endpoint)
{
    UNUSED;
    half(f);
    f->shard.stage_endpoint = wire_text("tcp://192.0.2.1:7070");
}
BAD(no_hidden)
{
    UNUSED;
    half(f);
    f->shard.hidden = 0;
}
BAD(wide_hidden)
{
    UNUSED;
    half(f);
    f->shard.hidden = MODEL_HIDDEN_MAX + 1;
}
BAD(long_steps)
{
    UNUSED;
    half(f);
    f->shard.has_step_tokens = true;
    f->shard.step_tokens = STEP_TOKENS_MAX + 1;
}
BAD(live_stage)
{
    UNUSED;
    half(f);
    f->shard.has_n_live = true;
    f->shard.n_live = 1;
}
BAD(second_half)
{
    UNUSED;
    f->shard.layer_begin = 2;
}
BAD(block_tokens_0)
{
    UNUSED;
    f->shard.block_tokens = 0;
}
BAD(block_tokens_24)
{
    UNUSED;
    f->shard.block_tokens = 24;
}
BAD(block_tokens_128)
{
    UNUSED;
    f->shard.block_tokens = 128;
}
BAD(huge_block)
{
    UNUSED;
    f->shard.block_bytes = UINT64_MAX;
}
BAD(huge_slot)
{
    UNUSED;
    f->shard.slot_bytes = SHARD_BYTES_MAX + 1;
}
BAD(huge_pool)
{
    UNUSED;
    f->shard.pool_bytes = UINT64_MAX;
}
BAD(many_pages)
{
    UNUSED;
    f->shard.pages_per_block = SHARD_PAGES_MAX + 1;
}
BAD(context_0)
{
    UNUSED;
    f->shard.context = 0;
}
BAD(context_huge)
{
    UNUSED;
    f->shard.context = MODEL_CONTEXT_MAX + 1;
}
BAD(vocab_0)
{
    UNUSED;
    f->shard.vocab = 0;
}
BAD(vocab_huge)
{
    UNUSED;
    f->shard.vocab = MODEL_VOCAB_MAX + 1;
}
BAD(rows_0)
{
    UNUSED;
    f->shard.max_rows = 0;
}
BAD(rows_huge)
{
    UNUSED;
    f->shard.max_rows = STEP_ROWS_MAX + 1;
}
BAD(long_device)
{
    static char name[SHARD_DEVICE_MAX + 2];
    UNUSED;
    memset(name, 'x', SHARD_DEVICE_MAX + 1);
    f->shard.device = wire_text(name);
}
static void format_of(struct fake *f, const char *name)
{
    f->shard.has_kv_format = true;
    f->shard.kv_format = wire_text(name);
}
static void arithmetic_of(struct fake *f, const char *id)
{
    f->shard.has_arithmetic = true;
    f->shard.arithmetic = wire_text(id);
}
BAD(empty_arithmetic)
{
    UNUSED;
    arithmetic_of(f, "");
}
BAD(long_arithmetic)
{
    static char id[ARITHMETIC_MAX + 2];
    UNUSED;
    memset(id, 'x', ARITHMETIC_MAX + 1);
    arithmetic_of(f, id);
}
BAD(blank_arithmetic)
{
    UNUSED;
    arithmetic_of(f, "cpu float");
}
BAD(empty_format)
{
    UNUSED;
    format_of(f, "");
}
BAD(long_format)
{
    static char name[KV_FORMAT_MAX + 2];
    UNUSED;
    memset(name, 'x', KV_FORMAT_MAX + 1);
    format_of(f, name);
}
BAD(format_with_blank)
{
    UNUSED;
    format_of(f, "affine 8");
}
BAD(format_not_ascii)
{
    UNUSED;
    format_of(f, "affine8/64+\xc3\xa4");
}

#define INVALID ST_INVALID_ARGUMENT

static const struct bad table[] = {
    {version, ST_FAILED_PRECONDITION,
     "your version is 2.8, this router has 1.8"},
    {no_role, INVALID, "role 0"},
    {role_7, INVALID, "role 7"},
    {no_name, INVALID, "1..64 bytes of UTF-8"},
    {long_name, INVALID, "1..64 bytes of UTF-8"},
    {nul_name, INVALID, "1..64 bytes of UTF-8"},
    {bytes_name, INVALID, "1..64 bytes of UTF-8"},
    {no_shard, INVALID, "has a shard or an offer"},
    {client_with_shard, INVALID, "has a shard or an offer"},
    {no_model, INVALID, "model's name"},
    {long_model, INVALID, "1..128 bytes"},
    {fingerprint_15, INVALID, "15 bytes long, must be 16"},
    {tokenizer_8, INVALID, "8 bytes long, must be 16 or 0"},
    {no_layers, INVALID, "n_layers is 0, must be 1..512"},
    {many_layers, INVALID, "n_layers is 513"},
    {layers_reversed, INVALID, "layer_begin is 3, must be 0..1"},
    {layers_past, INVALID, "layer_end is 5, must be 1..4"},
    {window_without_pages, INVALID,
     "window_tokens is 4194304 and window_pages is 0"},
    {window_pages_alone, INVALID, "window_tokens is 0 and window_pages is 1"},
    {chunk_0, INVALID, "chunk_tokens is 0, but with window layers"},
    {no_windows_in_ledger, INVALID, "the ledger has no window pages"},
    {windows_in_ledger_alone, INVALID, "64 window pages of 0 pages"},
    {wide_window, INVALID, "window_tokens is 4194305, must be 0..4194304"},
    {long_chunk, INVALID, "chunk_tokens is 8193, must be 0..8192"},
    {many_window_pages, INVALID, "window_pages is 65537, must be 0..65536"},
    {windows_of_minor_3, ST_FAILED_PRECONDITION,
     "your version is 1.3, but a worker of a model with sliding windows needs "
     "1.4 or later"},
    {no_endpoint, INVALID, "layers 0-2 of 4 are a stage of several"},
    {second_half, INVALID, "layers 2-4 of 4 are a stage of several"},
    {empty_endpoint, INVALID,
     "stage_endpoint: \"\": a peer's endpoint must be"},
    {long_endpoint, INVALID, "or ipc://PATH, at most 255 bytes"},
    {distant_endpoint, INVALID,
     "\"tcp://192.0.2.1:7070\": a peer's endpoint must be tcp://127.0.0.1:"},
    {no_hidden, INVALID, "hidden is 0, but a stage"},
    {wide_hidden, INVALID, "hidden is 65537, must be 0..65536"},
    {long_steps, INVALID, "step_tokens is 8193, must be 0..8192"},
    {live_stage, INVALID, "n_live is 1, must be 0"},
    {block_tokens_0, INVALID, "block_tokens is 0, must be 1..64"},
    {block_tokens_24, INVALID, "block_tokens is 24, must divide 64"},
    {block_tokens_128, INVALID, "block_tokens is 128"},
    {huge_block, INVALID, "block_bytes is"},
    {huge_slot, INVALID, "slot_bytes is"},
    {huge_pool, INVALID, "pool_bytes is"},
    {many_pages, INVALID, "pages_per_block is 65537, must be 0..65536"},
    {context_0, INVALID, "context is 0"},
    {context_huge, INVALID, "context is 4194305"},
    {vocab_0, INVALID, "vocab is 0"},
    {vocab_huge, INVALID, "vocab is 1048577, must be 1..1048576"},
    {rows_0, INVALID, "max_rows is 0"},
    {rows_huge, INVALID, "max_rows is 513, must be 1..512"},
    {long_device, INVALID, "device"},
    {empty_format, INVALID, "shard: the KV format must be 1..31 bytes"},
    {empty_arithmetic, INVALID, "shard: the arithmetic id must be 1..31 bytes"},
    {long_arithmetic, INVALID, "1..31 bytes of ASCII without blanks"},
    {blank_arithmetic, INVALID, "1..31 bytes of ASCII without blanks"},
    {long_format, INVALID, "1..31 bytes of ASCII without blanks"},
    {format_with_blank, INVALID, "1..31 bytes of ASCII without blanks"},
    {format_not_ascii, INVALID, "1..31 bytes of ASCII without blanks"},
};

static void send(struct fake *f, const Sluice__V1__HelloRequest *m)
{
    struct frame *frame = hello_make(&m->base);

    f->io.send(&f->io, (struct peer_id){1}, &frame);
    rig_run(f->rig);
}

static void bad_hellos(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *f = fake_worker_new(rig, "w1", 8, 2);
        Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
        struct router_worker_view v;

        fake_pages(f);
        m.version_major = WIRE_VERSION_MAJOR;
        m.version_minor = WIRE_VERSION_MINOR;
        m.role = SLUICE__V1__ROLE__ROLE_WORKER;
        m.name = wire_text("w1");
        m.worker = &f->shard;
        table[i].spoil(&m, f);
        send(f, &m);
        if (f->up || !f->refused || f->refusal != table[i].status ||
            strstr(f->why, table[i].why) == NULL) {
            fail_msg("row %zu: up %d status %d \"%s\", wanted \"%s\"", i, f->up,
                     (int)f->refusal, f->why, table[i].why);
        }
        assert_false(router_worker_view(rig->router, 0, &v));
        rig_free(&rig);
    }
}

static void windows_at_their_limits_are_accepted(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_worker_new(rig, "w1", 8, 2);

    (void)state;
    windows(f);
    fake_hello(f);
    assert_true(f->up);
    rig_free(&rig);
}

/* The other ends of such a router's connections have proved their keys. */
static void with_keys_a_stage_may_be_at_any_host(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_worker_new(rig, "w1", 8, 2);
    struct error e;

    (void)state;
    half(f);
    fake_pages(f);
    f->shard.stage_endpoint = wire_text("tcp://node-7.example:7072");
    assert_int_equal(shard_check(&f->shard, true, &e), ST_OK);
    assert_int_equal(shard_check(&f->shard, false, &e), ST_INVALID_ARGUMENT);
    f->shard.stage_endpoint = wire_text("tcp://[::]:7072");
    assert_int_equal(shard_check(&f->shard, true, &e), ST_INVALID_ARGUMENT);
    rig_free(&rig);
}

static void accepts_a_shard_at_every_limit(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_worker_new(rig, "w1", 8, 2);

    (void)state;
    f->shard.n_layers = f->shard.layer_end = MODEL_LAYERS_MAX;
    f->shard.context = MODEL_CONTEXT_MAX;
    f->shard.vocab = MODEL_VOCAB_MAX;
    f->shard.has_hidden = true;
    f->shard.hidden = MODEL_HIDDEN_MAX;
    f->shard.max_rows = STEP_ROWS_MAX;
    f->shard.has_step_tokens = true;
    f->shard.step_tokens = STEP_TOKENS_MAX;
    format_of(f, "a-name-of-31-bytes-7890123456~!");
    assert_int_equal(f->shard.kv_format.len, KV_FORMAT_MAX);
    arithmetic_of(f, "an-id-of--31-bytes-7890123456~!");
    assert_int_equal(f->shard.arithmetic.len, ARITHMETIC_MAX);
    fake_hello(f);
    assert_true(f->up);
    rig_free(&rig);
}

static void a_repeated_hello_gets_the_same_session(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    uint64_t session = w->session;
    struct router_worker_view v;

    (void)state;
    peer_free(&w->peer); /* as if the first answer had been lost */
    w->up = false;
    w->ledger.session = 0;
    fake_hello(w);
    assert_true(w->up);
    assert_true(w->session == session);
    assert_false(router_worker_view(rig->router, 1, &v));
    peer_free(&w->peer);
    w->up = false;
    w->nonce++; /* another Hello on the same connection is refused */
    fake_hello(w);
    assert_false(w->up);
    assert_int_equal(w->refusal, ST_FAILED_PRECONDITION);
    rig_free(&rig);
}

static void ports_let_in_whom_they_are_for(void **state)
{
    const uint8_t roles[] = {BY_WORKER, BY_CLIENT, BY_ADMIN};

    (void)state;
    for (int port = 0; port < 16; port++) {
        struct rig *rig = rig_new(NULL);
        rig->port = (uint8_t)port;
        for (int i = 0; i < 3; i++) {
            struct fake *f = roles[i] == BY_WORKER
                                 ? fake_worker_new(rig, "w1", 8, 2)
                                 : fake_new(rig, roles[i], "c");
            fake_hello(f);
            assert_int_equal(f->up, (port & roles[i]) != 0);
            if (!f->up) {
                assert_int_equal(f->refusal, ST_PERMISSION_DENIED);
            }
        }
        rig_free(&rig);
    }
}

static void names_are_taken_over_not_shared(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_worker(rig, "w1", 8, 2);
    struct fake *b = fake_worker_new(rig, "w1", 8, 2);
    struct fake *c = rig_client(rig, "c1");
    struct router_worker_view v;

    (void)state;
    client_generate(c, 1, 40, 10);
    rig_run(rig);
    assert_non_null(worker_sequence_of(a, 1));
    fake_hello(
        b); /* the first was active just now, so this is another worker */
    assert_false(b->up);
    assert_int_equal(b->refusal, ST_ALREADY_EXISTS);
    assert_int_equal(b->retry_ms, NAME_BUSY_US / 1000);
    a->mute = true;
    rig_advance(rig, NAME_BUSY_US);
    fake_reconnect(b);
    assert_true(b->up);
    assert_true(a->gone); /* its old session ended first */
    assert_true(router_worker_view(rig->router, 0, &v));
    assert_false(router_worker_view(rig->router, 1, &v));
    assert_non_null(worker_sequence_of(b, 1)); /* and its sequence moved */
    rig_free(&rig);
}

static void workers_of_a_model_agree(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a, *b, *d;

    (void)state;
    a = rig_worker(rig, "w1", 8, 2);
    b = fake_worker_new(rig, "w2", 8, 2);
    b->fingerprint[3] ^= 1;
    fake_hello(b);
    assert_int_equal(b->refusal, ST_FAILED_PRECONDITION);
    assert_non_null(strstr(b->why, "weights"));
    d = fake_worker_new(rig, "w3", 8, 2);
    d->shard.vocab = 999;
    fake_hello(d);
    assert_int_equal(d->refusal, ST_FAILED_PRECONDITION);
    assert_non_null(strstr(d->why, "999"));
    /* When no worker is left, the next one sets the weights. */
    fake_lost(a);
    fake_reconnect(d);
    assert_true(d->up);
    rig_free(&rig);
}

static struct fake *worker_with(struct rig *rig, const char *name,
                                const char *format)
{
    struct fake *f = fake_worker_new(rig, name, 8, 2);

    format_of(f, format);
    fake_hello(f);
    return f;
}

static void workers_of_a_model_have_one_kv_format(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a, *b, *other;

    (void)state;
    a = worker_with(rig, "w1", "bf16");
    assert_true(a->up);
    other = worker_with(rig, "w2", "affine8/64+bf16");
    assert_int_equal(other->refusal, ST_FAILED_PRECONDITION);
    assert_string_equal(
        other->why,
        "model tiny: the KV cache is affine8/64+bf16, but that of the 1 "
        "connected workers is bf16; start all workers of a model with the "
        "same --kv-dtype, --kv-bits, --kv-group and --kv-scheme");
    b = worker_with(rig, "w3", "bf16");
    assert_true(b->up);
    /* When no worker is left, the next one sets the format. */
    fake_lost(a);
    fake_reconnect(other);
    assert_false(other->up);
    fake_lost(b);
    fake_reconnect(other);
    assert_true(other->up);
    fake_reconnect(a);
    assert_false(a->up);
    rig_free(&rig);
}

/* Workers of minor version 2 state none. */
static void a_worker_without_a_kv_format_is_not_compared(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *first = rig_worker(rig, "w1", 8, 2), *a, *other;

    (void)state;
    assert_true(first->up);
    a = worker_with(rig, "w2", "bf16"); /* sets the format */
    assert_true(a->up);
    other = worker_with(rig, "w3", "f32");
    assert_int_equal(other->refusal, ST_FAILED_PRECONDITION);
    assert_true(rig_worker(rig, "w4", 8, 2)->up);
    rig_free(&rig);
}

static struct fake *worker_of(struct rig *rig, const char *name,
                              const char *arithmetic)
{
    struct fake *f = fake_worker_new(rig, name, 8, 2);

    arithmetic_of(f, arithmetic);
    fake_hello(f);
    return f;
}

static void workers_of_a_model_have_one_arithmetic(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *old = rig_worker(rig, "w0", 8, 2), *a, *other;

    (void)state;
    assert_true(old->up); /* of minor version 7: it states none */
    a = worker_of(rig, "w1", "cpu-int8-1");
    assert_true(a->up);
    other = worker_of(rig, "w2", "cpu-float-1");
    assert_int_equal(other->refusal, ST_FAILED_PRECONDITION);
    assert_string_equal(
        other->why,
        "model tiny: the arithmetic is cpu-float-1, but that of the 2 "
        "connected workers is cpu-int8-1; start all workers of a model with "
        "the same --products on the same kind of device, or the router with "
        "--mixed-arithmetic");
    assert_true(worker_of(rig, "w3", "cpu-int8-1")->up);
    rig_free(&rig);
}

static void mixed_arithmetic_is_an_option(void **state)
{
    const struct rig_options o = {.max_peers = 16,
                                  .max_requests = 16,
                                  .max_waiting = 16,
                                  .mixed_arithmetic = true};
    struct rig *rig = rig_new(&o);

    (void)state;
    assert_true(worker_of(rig, "w1", "cpu-int8-1")->up);
    assert_true(worker_of(rig, "w2", "cpu-float-1")->up);
    rig_free(&rig);
}

static void tokenizers_agree(void **state)
{
    static const uint8_t hash[16] = {1, 2, 3};
    struct fake_text text;
    struct rig_options o = {.max_peers = 16,
                            .max_requests = 16,
                            .max_waiting = 16,
                            .text = &text.seam};
    struct rig *rig;
    struct fake *w;

    (void)state;
    fake_text_init(&text, NULL);
    text.hash = hash;
    rig = rig_new(&o);
    w = fake_worker_new(rig, "w1", 8, 2);
    fake_hello(w);
    assert_int_equal(w->refusal, ST_FAILED_PRECONDITION);
    assert_non_null(strstr(w->why, "tokenizer.json"));
    w->shard.tokenizer.len = 16;
    fake_reconnect(w);
    assert_false(w->up);
    memcpy(w->tokenizer, hash, 16);
    fake_reconnect(w);
    assert_true(w->up);
    rig_free(&rig);
}

static void too_many_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w;
    char name[16];

    (void)state;
    for (int i = 0; i < ROUTER_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "w%d", i);
        rig_worker(rig, name, 8, 2);
    }
    w = fake_worker_new(rig, "more", 8, 2);
    fake_hello(w);
    assert_int_equal(w->refusal, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(w->why, "64 workers"));
    rig_free(&rig);
}

/* Frames of an unknown session are answered with Goodbye, except a Goodbye. */
static void foreign_frames(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct frame *f;
    uint64_t before;

    (void)state;
    fake_lost(w);
    w->deaf = w->mute = false;
    worker_report(w);
    rig_run(rig);
    assert_true(w->gone);
    assert_non_null(strstr(w->goodbye, "unknown session"));
    before = rig->n_sent;
    f = goodbye_make(77, "bye");
    w->io.send(&w->io, (struct peer_id){1}, &f);
    rig_run(rig);
    assert_int_equal(rig->n_sent, before);
    rig_free(&rig);
}

static void rubbish(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    struct router_metrics k;

    (void)state;
    for (uint32_t n = 0; n < 300; n++) {
        struct frame *f = frame_new(n);
        memset(f->data, (int)n, n);
        c->io.send(&c->io, (struct peer_id){1}, &f);
    }
    rig_run(rig);
    router_counts(rig->router, &k);
    assert_int_equal(k.strikes, 300);
    client_generate(c, 1, 3, 3);
    rig_run(rig); /* still answered, with an error: there is no worker */
    assert_true(c->records[0]->ended);
    rig_free(&rig);
}

/* Silence: no grants, then the end of the session; a frame restores the worker.
 */
static void silence(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *c = rig_client(rig, "c1");
    struct router_worker_view v;

    (void)state;
    rig_advance(rig, WORKER_SILENT_US + 100000);
    client_generate(c, 1, 10, 10);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_WAITING);
    worker_report(w);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    w->mute = true;
    rig_advance(rig, WORKER_LOST_US - 100000);
    assert_true(router_worker_view(rig->router, 0, &v));
    /* Its report was 850 ms late: an eighth of that, PATIENCE_DELAYS times. */
    rig_advance(rig, 100000 + 850000 / 8 * PATIENCE_DELAYS);
    assert_false(router_worker_view(rig->router, 0, &v));
    assert_true(w->gone);
    assert_int_equal(rig_state(rig, 1), CHOICE_ENDED);
    rig_free(&rig);
}

static void goodbyes(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 10, 10);
    struct router_worker_view v;
    struct frame *f;

    (void)state;
    rig_run(rig);
    f = goodbye_make(w->session, "done");
    w->io.send(&w->io, (struct peer_id){1}, &f);
    rig_run(rig);
    assert_false(router_worker_view(rig->router, 0, &v));
    assert_int_equal(x->status, ST_UNAVAILABLE);
    rig_free(&rig);
}

static void stopping(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 8, 2);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate(c, 1, 10, 10);

    (void)state;
    rig_run(rig);
    router_stop(rig->router);
    rig_run(rig);
    assert_true(rig->stopped);
    assert_true(w->gone && c->gone);
    assert_false(x->ended); /* the end of the session ends the call */
    assert_non_null(strstr(c->goodbye, "the router is stopping"));
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_hellos),
        cmocka_unit_test(windows_at_their_limits_are_accepted),
        cmocka_unit_test(with_keys_a_stage_may_be_at_any_host),
        cmocka_unit_test(accepts_a_shard_at_every_limit),
        cmocka_unit_test(a_repeated_hello_gets_the_same_session),
        cmocka_unit_test(ports_let_in_whom_they_are_for),
        cmocka_unit_test(names_are_taken_over_not_shared),
        cmocka_unit_test(workers_of_a_model_agree),
        cmocka_unit_test(workers_of_a_model_have_one_kv_format),
        cmocka_unit_test(workers_of_a_model_have_one_arithmetic),
        cmocka_unit_test(mixed_arithmetic_is_an_option),
        cmocka_unit_test(a_worker_without_a_kv_format_is_not_compared),
        cmocka_unit_test(tokenizers_agree),
        cmocka_unit_test(too_many_workers),
        cmocka_unit_test(foreign_frames),
        cmocka_unit_test(rubbish),
        cmocka_unit_test(silence),
        cmocka_unit_test(goodbyes),
        cmocka_unit_test(stopping),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
