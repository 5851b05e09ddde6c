#include "common/model/costs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/model/sizes.h"
#include "kernels/backends/backend.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define MODELS "tests/vectors/models"

static struct split_model model;
static struct error e;
static const struct kv_format f32 = {.dtype = DTYPE_F32};

static uint64_t weights_of(uint32_t begin, uint32_t end)
{
    bool first = begin == 0, last = end == model.n_layers;
    uint64_t bytes = first ? model.embed_bytes : 0;

    for (uint32_t i = begin; i < end; i++) {
        bytes += model.layers[i].weight_bytes;
    }
    bytes += last ? model.head_bytes + model.mtp.weight_bytes : 0;
    return first && last ? bytes - model.shared_bytes : bytes;
}

static void agrees(const struct model_config *c, const struct kv_format *kv,
                   uint32_t begin, uint32_t end)
{
    struct sizes z = sizes_of(c, begin, end, 16, kv);
    const struct split_terms terms = {
        .block_tokens = 16, .context = 1, .max_rows = 1};
    struct page_parts parts = {
        .window_bytes = split_window(model.layers, model.n_layers, 16)};
    struct pool_split_need need;
    uint64_t windows = 0;

    for (uint32_t i = begin; i < end; i++) {
        parts.block_bytes += model.layers[i].token_bytes * 16;
        parts.slot_bytes += model.layers[i].slot_bytes;
        parts.n_window += model.layers[i].window_bytes > 0;
        windows += model.layers[i].window_bytes * 16;
    }
    parts.block_bytes += end == model.n_layers ? model.mtp.token_bytes * 16 : 0;
    need = split_need(&terms, &parts);
    assert_int_equal(weights_of(begin, end), z.weight_bytes);
    assert_int_equal(parts.block_bytes, z.block_bytes);
    assert_int_equal(parts.slot_bytes, z.slot_bytes);
    assert_int_equal(windows, z.window_bytes);
    assert_int_equal(need.page_bytes, z.page_bytes);
    assert_int_equal(need.pages_per_slot, z.pages_per_slot);
    assert_int_equal(need.pages_per_block, z.pages_per_block);
    assert_int_equal(need.window_pages, z.window_pages);
}

/* Every cut of a model in two. */
static void agrees_at_cuts(const struct model_config *c, double bits)
{
    struct kv_request r = {.bits = bits};
    struct kv_format kv;

    assert_int_equal(kv_format_choose(&kv, c, &r, &e), ST_OK);
    costs_of_shapes(&model, c, &kv);
    assert_int_equal(model.n_layers, c->shape.n_layers);
    for (uint32_t at = 1; at < c->shape.n_layers; at++) {
        agrees(c, &kv, 0, at);
        agrees(c, &kv, at, c->shape.n_layers);
    }
    agrees(c, &kv, 0, c->shape.n_layers);
}

static struct model_config published(const char *name)
{
    struct model_config c;
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, CONFIGS "/%s.json", name);
    text = fixture_read(path, &len);
    assert_int_equal(config_parse(&c, text, len, &e), ST_OK);
    free(text);
    return c;
}

static void agrees_with_sizes(void **state)
{
    static const char *const names[] = {
        "qwen3.5-0.8b",    "qwen3.5-27b", "llama-3.2-1b", "qwen2.5-0.5b",
        "qwen3.5-35b-a3b", "gpt-oss-20b", "gemma-3-4b",   "gemma-3-27b"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct model_config c = published(names[i]);

        agrees_at_cuts(&c, 0);
        agrees_at_cuts(&c, 8);
        agrees_at_cuts(&c, 4);
        agrees_at_cuts(&c, 3.5);
        c.drafts = c.n_mtp == 1;
        agrees_at_cuts(&c, 0);
        agrees_at_cuts(&c, 3.5);
    }
}

/* Eight rows choose 57 of 256 experts, on average: 1 - (31/32)^8 is 0.2243. */
static void a_step_reads_the_chosen_experts(void **state)
{
    struct model_config c = published("qwen3.5-35b-a3b");
    struct kv_format kv = kv_format_plain(DTYPE_BF16);
    const struct split_layer *l = &model.layers[0];
    uint64_t all = sizes_experts(&c, 0);

    (void)state;
    costs_of_shapes(&model, &c, &kv);
    assert_int_equal(all, UINT64_C(256) * 3 * 2048 * 512 * 2);
    assert_int_equal(costs_step_experts(&c.shape, 1000000), 224301);
    assert_int_equal(l->weight_bytes, sizes_layer(&c, 0));
    assert_int_equal(l->step_bytes,
                     l->weight_bytes - all + costs_step_experts(&c.shape, all));
    c.shape.top_k = c.shape.n_experts;
    assert_int_equal(costs_step_experts(&c.shape, 1000000), 1000000);
    c = published("qwen3-0.6b");
    costs_of_shapes(&model, &c, &kv);
    assert_int_equal(l->step_bytes, l->weight_bytes);
}

/* Every range as a shard holds it: bfloat16 in the files, although the
 * configuration has float32. */
static void agrees_with_shards(const char *dir)
{
    struct model_config c = fixture_load_config(dir);
    struct checkpoint *files;

    costs_of_shapes(&model, &c, &f32);
    assert_int_equal(checkpoint_open(&files, dir, &e), ST_OK);
    assert_int_equal(costs_of_files(&model, &c, files, &e), ST_OK);
    checkpoint_close(&files);
    for (uint32_t begin = 0; begin < model.n_layers; begin++) {
        for (uint32_t end = begin + 1; end <= model.n_layers; end++) {
            struct shard *s = fixture_shard(dir, begin, end);

            assert_int_equal(weights_of(begin, end), shard_report(s)->bytes);
            shard_free(&s);
        }
    }
}

static void reads_the_files_dtypes(void **state)
{
    static const char *const families[] = {"llama", "qwen2", "qwen3_5",
                                           "qwen3_next"};
    struct writer_options o = {.dtype = DTYPE_BF16};

    (void)state;
    for (int i = 0; i < 16; i++) {
        json_t *j = fixture_config(families[i % 4]);
        char name[32];

        if (i >= 8) {
            o.bits = i % 2 ? 4 : 8;
            o.group = 32;
        }
        snprintf(name, sizeof name, "costs-%d", i);
        json_object_set_new(j, "tie_word_embeddings", json_boolean(i % 8 < 4));
        json_object_set_new(j, "num_hidden_layers", json_integer(1 + i % 4));
        agrees_with_shards(fixture_model(name, j, &o));
        json_decref(j);
    }
    agrees_with_shards(TINY_HYBRID);
}

/* Experts, output norms, biases and sinks, in bf16, FP8 and MXFP4. */
static void reads_the_files_of_experts(void **state)
{
    static const char *const models[] = {
        "tiny-qwen3.5-moe",   "tiny-qwen3-next", "tiny-qwen3-moe",
        "tiny-qwen3-moe-fp8", "tiny-gpt-oss",    "tiny-gemma3"};
    char dir[64];

    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct split_model shapes;
        struct model_config c;

        snprintf(dir, sizeof dir, MODELS "/%s", models[i]);
        agrees_with_shards(dir);
        /* config.json alone gives the same. */
        c = fixture_load_config(dir);
        shapes = model;
        costs_of_shapes(&model, &c, &f32);
        assert_memory_equal(&model, &shapes, sizeof model);
    }
}

static void says_which_tensor_is_missing(void **state)
{
    json_t *j = fixture_config("llama");
    struct writer_options o = {.without = "layers.2.mlp.up_proj.weight"};
    const char *dir = fixture_model("without", j, &o);
    struct model_config c = fixture_load_config(dir);
    struct checkpoint *files;

    (void)state;
    costs_of_shapes(&model, &c, &f32);
    assert_int_equal(checkpoint_open(&files, dir, &e), ST_OK);
    assert_int_equal(costs_of_files(&model, &c, files, &e), ST_NOT_FOUND);
    checkpoint_close(&files);
    json_decref(j);
}

/* Compared with what the CPU backend allocates: no less, and little more. */
static void bounds_the_scratch(const char *dir, const uint32_t ends[2],
                               uint32_t tokens, double bits, uint32_t drafts,
                               bool int8)
{
    struct model_config c = fixture_load_config(dir);
    struct costs_step step = {.tokens = tokens,
                              .rows = 64,
                              .threads = 3,
                              .logits = 64,
                              .plans = 2,
                              .block_tokens = 32,
                              .context = c.shape.context,
                              .int8 = int8};
    struct kv_request request = {.bits = bits};
    struct kv_format kv;

    assert_int_equal(kv_format_choose(&kv, &c, &request, &e), ST_OK);
    c.drafts = drafts > 0;
    step.keep_tokens = costs_keep_tokens(drafts, step.rows);
    step.kept = kv.dtype;
    for (int i = 0; i < 2; i++) {
        struct shard *s;
        struct kernels_options o = {.device = "cpu",
                                    .kv = kv,
                                    .block_tokens = 32,
                                    .max_tokens = step.tokens,
                                    .max_rows = 64,
                                    .keep_tokens = step.keep_tokens,
                                    .n_threads = step.threads,
                                    .products =
                                        int8 ? PRODUCTS_INT8 : PRODUCTS_FLOAT};
        struct kernels_sizes sizes;
        struct sizes z;
        struct kernels *k;
        uint64_t computed = costs_stage_scratch(&c, &step, 0, ends[i]);

        computed -=
            ends[i] < c.shape.n_layers ? costs_hidden_scratch(&c, &step) : 0;
        assert_int_equal(shard_load(&s, &c, dir, 0, ends[i], NULL, &e), ST_OK);
        assert_int_equal(backend_new(&k, shard_weights(s), &o, &e), ST_OK);
        kernels_sizes(k, &sizes);
        z = sizes_of(&c, 0, ends[i], 32, &o.kv);
        assert_int_equal(sizes.page_bytes, z.page_bytes);
        assert_int_equal(sizes.pages_per_block, z.pages_per_block);
        assert_int_equal(sizes.pages_per_slot, z.pages_per_slot);
        assert_int_equal(sizes.window_pages, z.window_pages);
        assert_in_range(computed, sizes.scratch_bytes,
                        sizes.scratch_bytes + sizes.scratch_bytes / 10);
        kernels_free(&k);
        shard_free(&s);
    }
}

static void bounds_the_scratch_of_the_cpu(void **state)
{
    static const double bits[] = {0, 8, 4, 3.5};

    (void)state;
    for (int i = 0; i < 4; i++) {
        bounds_the_scratch(TINY_HYBRID, (uint32_t[]){4, 8}, 512, bits[i], 0,
                           i % 2);
        bounds_the_scratch(TINY_HYBRID, (uint32_t[]){4, 8}, 512, bits[i], 4,
                           false);
    }
}

/* Steps shorter and longer than the tokens whose experts run together. */
static void bounds_the_scratch_of_experts_and_windows(void **state)
{
    static const struct {
        const char *dir;
        uint32_t ends[2];
    } rows[] = {
        {MODELS "/tiny-qwen3.5-moe", {3, 4}},
        {MODELS "/tiny-qwen3-moe", {2, 3}},
        {MODELS "/tiny-qwen3-moe-fp8", {1, 2}},
        {MODELS "/tiny-gpt-oss", {1, 4}},
        {MODELS "/tiny-gemma3", {5, 7}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (uint32_t tokens = 512; tokens <= 2048; tokens *= 4) {
            bounds_the_scratch(rows[i].dir, rows[i].ends, tokens, 0, 0, false);
            bounds_the_scratch(rows[i].dir, rows[i].ends, tokens, 0, 0, true);
        }
    }
}

/* 8 drafts of 64 rows, and their last known tokens. */
static void keeps_inputs_of_at_most_64_rows(void **state)
{
    struct model_config c = published("qwen3.5-9b");
    struct costs_step step = {.keep_tokens = 10, .kept = DTYPE_BF16};
    uint64_t layer = sizes_kept(&c.shape, MIXER_DELTANET, DTYPE_BF16);

    (void)state;
    assert_int_equal(costs_keep_tokens(0, 64), 0);
    assert_int_equal(costs_keep_tokens(1, 1), 2);
    assert_int_equal(costs_keep_tokens(3, 63), 4 * 63);
    assert_int_equal(costs_keep_tokens(8, COSTS_KEEP_ROWS), 576);
    assert_int_equal(costs_keep_tokens(8, COSTS_KEEP_ROWS + 1), 576);
    assert_int_equal(costs_kept(&c, &step, 0, 32), 24 * 10 * layer);
    assert_int_equal(costs_kept(&c, &step, 3, 4), 0);
    costs_of_shapes(&model, &c, &f32);
    costs_add_kept(&model, &c, &step);
    assert_int_equal(model.layers[0].kept_bytes, 10 * layer);
    assert_int_equal(model.layers[3].kept_bytes, 0);
    assert_int_equal(costs_stage_scratch(&c, &step, 4, 8) -
                         costs_stage_scratch(&c, &step, 4, 5),
                     2 * 10 * layer);
}

/* Two plans of 512 tokens of 64 float32, only at a stage without the head. */
static void keeps_the_hidden_states_of_each_plan(void **state)
{
    struct model_config c = {.shape = {.n_layers = 4, .hidden = 64}};
    struct costs_step step = {
        .tokens = 512, .plans = 2, .block_tokens = 32, .context = 4096};

    (void)state;
    assert_int_equal(costs_hidden_scratch(&c, &step), 2 * 512 * 64 * 4);
    assert_int_equal(costs_stage_scratch(&c, &step, 0, 3),
                     costs_scratch(&c, &step) + 2 * 512 * 64 * 4);
    assert_int_equal(costs_stage_scratch(&c, &step, 0, 4),
                     costs_scratch(&c, &step) + costs_head_scratch(&c, &step));
}

/* At the largest hidden size of a frame, and one past it. */
static void a_stage_sends_its_step_in_one_frame(void **state)
{
    struct model_config c = {.shape = {.hidden = 8192}};

    (void)state;
    assert_int_equal(costs_stage_tokens(&c, 2048), 2048);
    assert_int_equal(costs_stage_tokens(&c, 2049), 2048);
    c.shape.hidden++;
    assert_int_equal(costs_stage_tokens(&c, 2048), 2047);
    c.shape.hidden = MODEL_HIDDEN_MAX;
    assert_int_equal(costs_stage_tokens(&c, 2048), 256);
    assert_int_equal(costs_stage_tokens(&c, 100), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_sizes),
        cmocka_unit_test(a_step_reads_the_chosen_experts),
        cmocka_unit_test(reads_the_files_dtypes),
        cmocka_unit_test(reads_the_files_of_experts),
        cmocka_unit_test(says_which_tensor_is_missing),
        cmocka_unit_test(bounds_the_scratch_of_the_cpu),
        cmocka_unit_test(bounds_the_scratch_of_experts_and_windows),
        cmocka_unit_test(a_stage_sends_its_step_in_one_frame),
        cmocka_unit_test(keeps_inputs_of_at_most_64_rows),
        cmocka_unit_test(keeps_the_hidden_states_of_each_plan),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
