/* Which offers are accepted, and which are refused. */
#include <string.h>

#include "common/base/log.h"
#include "common/wire/endpoint.h"
#include "router/base/router_limits.h"
#include "router/replicas/offers.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

struct bad {
    void (*spoil)(struct fake *f);
    const char *why; /* NULL: the offer is accepted */
};

#define BAD(name) static void name(struct fake *f)

static char long_text[300];

BAD(no_model)
{
    f->offer.model = wire_text("");
}
BAD(fingerprint_15)
{
    f->offer.fingerprint.len = 15;
}
BAD(one_layer)
{
    f->offer.n_layers = 1;
}
BAD(most_layers)
{
    static uint64_t ones[MODEL_LAYERS_MAX];

    for (int i = 0; i < MODEL_LAYERS_MAX; i++) {
        ones[i] = 1;
    }
    f->offer.n_layers = MODEL_LAYERS_MAX;
    f->offer.n_layer_bytes = f->offer.n_kv_bytes = f->offer.n_slot_bytes =
        MODEL_LAYERS_MAX;
    f->offer.layer_bytes = f->offer.kv_bytes = f->offer.slot_bytes = ones;
}
BAD(too_many_layers)
{
    f->offer.n_layers = MODEL_LAYERS_MAX + 1;
}
BAD(one_stage)
{
    f->offer.n_stages = 1;
}
BAD(most_stages)
{
    f->offer.n_stages = RIG_LAYERS;
}
BAD(more_stages_than_layers)
{
    f->offer.n_stages = RIG_LAYERS + 1;
}
BAD(too_many_stages)
{
    most_layers(f);
    f->offer.n_stages = STAGES_MAX + 1;
}
BAD(no_budget)
{
    f->offer.budget_bytes = 0;
}
BAD(largest_budget)
{
    f->offer.budget_bytes = SHARD_BYTES_MAX;
}
BAD(huge_budget)
{
    f->offer.budget_bytes = SHARD_BYTES_MAX + 1;
}
BAD(no_speed)
{
    f->offer.speed = 0;
}
BAD(top_speed)
{
    f->offer.speed = 1000000000000000000u;
}
BAD(past_top_speed)
{
    f->offer.speed = 1000000000000000001u;
}
BAD(huge_scratch)
{
    f->offer.scratch_bytes = SHARD_BYTES_MAX + 1;
}
BAD(huge_embedding)
{
    f->offer.embed_bytes = UINT64_MAX;
}
BAD(huge_head)
{
    f->offer.head_bytes = SHARD_BYTES_MAX + 1;
}
BAD(few_layer_bytes)
{
    f->offer.n_layer_bytes--;
}
BAD(many_kv_bytes)
{
    f->offer.n_kv_bytes--;
}
BAD(no_slot_bytes)
{
    f->offer.n_slot_bytes = 0;
}
BAD(empty_layer)
{
    f->layer_bytes[7] = 0;
}
BAD(huge_layer)
{
    f->layer_bytes[7] = SHARD_BYTES_MAX + 1;
}
static uint64_t steps[RIG_LAYERS + 1];

static void set_steps(struct fake *f)
{
    for (int i = 0; i <= RIG_LAYERS; i++) {
        steps[i] = 1000;
    }
    f->offer.n_step_bytes = RIG_LAYERS;
    f->offer.step_bytes = steps;
}
BAD(most_step_bytes)
{
    set_steps(f);
}
BAD(many_step_bytes)
{
    set_steps(f);
    f->offer.n_step_bytes++;
}
BAD(idle_layer)
{
    set_steps(f);
    steps[7] = 0;
}
BAD(busy_layer)
{
    set_steps(f);
    steps[7] = 1001;
}
BAD(largest_kv)
{
    f->kv_bytes[0] = SHARD_BYTES_MAX / (64 + RIG_BLOCK);
}
BAD(huge_kv)
{
    f->kv_bytes[0] = SHARD_BYTES_MAX / (64 + RIG_BLOCK) + 1;
}
BAD(huge_slot)
{
    f->slot_bytes[0] = SHARD_BYTES_MAX + 1;
}
BAD(layer_of_no_kind)
{
    f->kv_bytes[11] = 0;
}
BAD(block_24)
{
    f->offer.block_tokens = 24;
}
BAD(block_128)
{
    f->offer.block_tokens = 128;
}
BAD(no_context)
{
    f->offer.context = 0;
}
BAD(largest_context)
{
    f->offer.context = MODEL_CONTEXT_MAX;
}
BAD(huge_context)
{
    f->offer.context = MODEL_CONTEXT_MAX + 1;
}
BAD(rows_0)
{
    f->offer.max_rows = 0;
}
BAD(rows_513)
{
    f->offer.max_rows = STEP_ROWS_MAX + 1;
}
BAD(empty_lineage)
{
    f->offer.has_lineage = true;
    f->offer.lineage = wire_text("");
}
BAD(longest_lineage)
{
    f->offer.has_lineage = true;
    f->offer.lineage = wire_text(long_text + sizeof long_text - 65);
}
BAD(long_lineage)
{
    f->offer.has_lineage = true;
    f->offer.lineage = wire_text(long_text + sizeof long_text - 66);
}
/* Sets an ipc endpoint of n bytes. */
static void set_endpoint(struct fake *f, size_t n)
{
    static char text[ENDPOINT_MAX + 1];

    assert_true(n < sizeof text);
    memset(text, 'x', sizeof text);
    memcpy(text, "ipc://", strlen("ipc://"));
    text[n] = '\0';
    f->offer.has_stage_endpoint = true;
    f->offer.stage_endpoint = wire_text(text);
}

BAD(longest_endpoint)
{
    set_endpoint(f, ENDPOINT_MAX - 1);
}
BAD(long_endpoint)
{
    set_endpoint(f, ENDPOINT_MAX);
}
BAD(distant_endpoint)
{
    f->offer.has_stage_endpoint = true;
    f->offer.stage_endpoint = wire_text("tcp://192.0.2.1:7070");
}
static void format_of(struct fake *f, size_t n)
{
    static char name[KV_FORMAT_MAX + 2];

    memset(name, 'x', sizeof name - 1);
    f->offer.has_kv_format = true;
    f->offer.kv_format = wire_text(name);
    f->offer.kv_format.len = n;
}
BAD(empty_format)
{
    format_of(f, 0);
}
BAD(longest_format)
{
    format_of(f, KV_FORMAT_MAX);
}
BAD(long_format)
{
    format_of(f, KV_FORMAT_MAX + 1);
}
static void arithmetic_of(struct fake *f, size_t n)
{
    static char id[ARITHMETIC_MAX + 2];

    memset(id, 'x', sizeof id - 1);
    f->offer.has_arithmetic = true;
    f->offer.arithmetic = wire_text(id);
    f->offer.arithmetic.len = n;
}
BAD(empty_arithmetic)
{
    arithmetic_of(f, 0);
}
BAD(longest_arithmetic)
{
    arithmetic_of(f, ARITHMETIC_MAX);
}
BAD(long_arithmetic)
{
    arithmetic_of(f, ARITHMETIC_MAX + 1);
}

/* Every other layer has a window, of 2 bytes a token. */
static void windows(struct fake *f)
{
    for (int i = 0; i < RIG_LAYERS; i += 2) {
        f->window_bytes[i] = f->kv_bytes[i];
        f->kv_bytes[i] = 0;
    }
    f->offer.n_window_bytes = RIG_LAYERS;
    f->offer.window_bytes = f->window_bytes;
    f->offer.has_window_tokens = f->offer.has_chunk_tokens = true;
    f->offer.window_tokens = MODEL_CONTEXT_MAX;
    f->offer.chunk_tokens = STEP_TOKENS_MAX;
}
BAD(largest_window)
{
    windows(f);
}
BAD(wide_window)
{
    windows(f);
    f->offer.window_tokens++;
}
BAD(long_chunk)
{
    windows(f);
    f->offer.chunk_tokens++;
}
BAD(window_of_none)
{
    windows(f);
    f->offer.window_tokens = 0;
}
BAD(chunk_of_none)
{
    windows(f);
    f->offer.chunk_tokens = 0;
}
BAD(window_alone)
{
    windows(f);
    f->offer.n_window_bytes = 0;
    for (int i = 0; i < RIG_LAYERS; i++) {
        f->kv_bytes[i] = 2;
    }
}
BAD(few_window_bytes)
{
    windows(f);
    f->offer.n_window_bytes--;
}
BAD(uneven_windows)
{
    windows(f);
    f->window_bytes[4] = 4;
}
BAD(window_beside_kv)
{
    windows(f);
    f->kv_bytes[4] = 2;
}
BAD(largest_window_bytes)
{
    windows(f);
    for (int i = 0; i < RIG_LAYERS; i += 2) {
        f->window_bytes[i] = SHARD_BYTES_MAX / (64 + RIG_BLOCK);
    }
}
BAD(huge_window_bytes)
{
    windows(f);
    f->window_bytes[0] = SHARD_BYTES_MAX / (64 + RIG_BLOCK) + 1;
}

static const struct bad table[] = {
    {largest_window, NULL},
    {wide_window, "window_tokens is 4194305, must be 0..4194304"},
    {long_chunk, "chunk_tokens is 8193, must be 0..8192"},
    {window_of_none, "at most 2, window_tokens is 0 and chunk_tokens is 8192"},
    {chunk_of_none, "window_tokens is 4194304 and chunk_tokens is 0"},
    {window_alone, "window_bytes is at most 0, window_tokens is 4194304"},
    {few_window_bytes, "12 layers, but 11 window_bytes"},
    {uneven_windows, "layer 4 has 4 window_bytes, a layer before it 2"},
    {window_beside_kv, "layer 4 has both kv_bytes and window_bytes"},
    {largest_window_bytes, NULL},
    {huge_window_bytes, "a layer's window_bytes is"},
    {empty_arithmetic, "offer: the arithmetic id must be 1..31 bytes"},
    {longest_arithmetic, NULL},
    {long_arithmetic, "offer: the arithmetic id must be 1..31 bytes"},
    {empty_format, "offer: the KV format must be 1..31 bytes"},
    {longest_format, NULL},
    {long_format, "offer: the KV format must be 1..31 bytes"},
    {no_model, "model's name"},
    {fingerprint_15, "15 bytes long, must be 16"},
    {one_layer, "n_layers is 1, must be 2..512"},
    {most_layers, NULL},
    {too_many_layers, "n_layers is 513"},
    {one_stage, "n_stages is 1, must be 2..12"},
    {most_stages, NULL},
    {more_stages_than_layers, "n_stages is 13, must be 2..12"},
    {too_many_stages, "n_stages is 17, must be 2..16"},
    {no_budget, "budget_bytes is 0"},
    {largest_budget, NULL},
    {huge_budget, "budget_bytes is 1125899906842625"},
    {no_speed, "speed is 0"},
    {top_speed, NULL},
    {past_top_speed, "speed is 1000000000000000001"},
    {huge_scratch, "scratch_bytes is"},
    {huge_embedding, "embed_bytes is"},
    {huge_head, "head_bytes is"},
    {few_layer_bytes, "12 layers, but 11 layer_bytes, 12 kv_bytes"},
    {many_kv_bytes, "12 layer_bytes, 11 kv_bytes and 12 slot_bytes"},
    {no_slot_bytes, "12 kv_bytes and 0 slot_bytes"},
    {empty_layer, "layer_bytes is 0"},
    {huge_layer, "layer_bytes is"},
    {most_step_bytes, NULL},
    {many_step_bytes, "12 layers, but 13 step_bytes"},
    {idle_layer, "step_bytes is 0"},
    {busy_layer, "step_bytes is 1001"},
    {largest_kv, NULL},
    {huge_kv, "kv_bytes is"},
    {huge_slot, "slot_bytes is"},
    {layer_of_no_kind, "layer 11 has neither"},
    {block_24, "must divide 64"},
    {block_128, "block_tokens is 128"},
    {no_context, "context is 0"},
    {largest_context, NULL},
    {huge_context, "context is 4194305"},
    {rows_0, "max_rows is 0"},
    {rows_513, "max_rows is 513"},
    {empty_lineage, "lineage must be 1..64"},
    {longest_lineage, NULL},
    {long_lineage, "lineage must be 1..64"},
    {longest_endpoint, NULL},
    {long_endpoint, "or ipc://PATH, at most 255 bytes"},
    {distant_endpoint, "\"tcp://192.0.2.1:7070\": a peer's endpoint must be"},
};

static void what_an_offer_may_say(void **state)
{
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *f = fake_offer_new(rig, "f", 2, 12);

        table[i].spoil(f);
        fake_hello(f);
        if (table[i].why == NULL
                ? !f->up
                : !f->refused || f->refusal != ST_INVALID_ARGUMENT ||
                      strstr(f->why, table[i].why) == NULL) {
            fail_msg("row %zu: up %d status %d \"%s\", wanted \"%s\"", i, f->up,
                     (int)f->refusal, f->why, table[i].why);
        }
        rig_end(&rig);
    }
}

/* The other ends of such a router's connections have proved their keys. */
static void with_keys_an_offer_may_name_any_host(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_offer_new(rig, "f", 2, 12);
    struct error e;

    (void)state;
    f->offer.has_stage_endpoint = true;
    f->offer.stage_endpoint = wire_text("tcp://[2001:db8::7]:7072");
    assert_int_equal(offer_check(&f->offer, true, &e), ST_OK);
    assert_int_equal(offer_check(&f->offer, false, &e), ST_INVALID_ARGUMENT);
    f->offer.stage_endpoint = wire_text("tcp://node-7:0");
    assert_int_equal(offer_check(&f->offer, true, &e), ST_INVALID_ARGUMENT);
    rig_end(&rig);
}

/* A worker has layers or an offer; a client has neither. */
static void an_offer_is_a_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_offer_new(rig, "f", 2, 12);

    (void)state;
    for (int both = 0; both < 2; both++) {
        Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
        struct frame *frame;

        m.version_major = WIRE_VERSION_MAJOR;
        m.role = both ? SLUICE__V1__ROLE__ROLE_WORKER
                      : SLUICE__V1__ROLE__ROLE_CLIENT;
        m.name = wire_text("f");
        m.offer = &f->offer;
        m.worker = both ? &f->shard : NULL;
        f->refused = false;
        frame = hello_make(&m.base);
        f->io.send(&f->io, (struct peer_id){1}, &frame);
        rig_run(rig);
        assert_true(f->refused && f->refusal == ST_INVALID_ARGUMENT);
    }
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_an_offer_may_say),
        cmocka_unit_test(with_keys_an_offer_may_name_any_host),
        cmocka_unit_test(an_offer_is_a_workers),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
