#include "worker/model/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/model/sizes.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define MODELS "tests/vectors/models"

/* Checks dir, and expects the code and every text up to a NULL in the
 * output. */
static void expect(const char *dir, const struct check_options *o,
                   enum status code, const char *const *texts)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    struct error e = {.text = ""};
    enum status st;

    assert_non_null(out);
    st = model_check(out, dir, o, &e);
    fclose(out);
    for (; *texts != NULL; texts++) {
        if (strstr(text, *texts) == NULL) {
            fail_msg("no \"%s\" in:\n%s", *texts, text);
        }
    }
    if (st != code) {
        fail_msg("%s: %s", status_name(st), e.text);
    }
    free(text);
}

#define EXPECT(dir, o, code, ...) \
    expect(dir, o, code, (const char *const[]){__VA_ARGS__, NULL})

static void would_load_tiny_hybrid(void **state)
{
    struct check_options o = {.budget_bytes = 67108864};

    (void)state;
    EXPECT(TINY_HYBRID, &o, ST_OK, "family qwen3_5_text, bfloat16",
           "[0, 8) of 8: 6 linear, 2 attention", "108 tensors in 2 files",
           "15 tensors (vision, MTP)", "2048 bytes", "65536 bytes",
           "1609728 bytes", "25 a slot or checkpoint",
           "rounding               28672 bytes  a slot (1.75 %)",
           "5 of 4096 tokens, 0.29 % unused", "verdict      would load\n");
}

static void checks_a_range(void **state)
{
    struct check_options o = {.begin = 4, .end = 7, .block_tokens = 16};

    (void)state;
    EXPECT(TINY_HYBRID, &o, ST_OK, "[4, 7) of 8: 3 linear, 0 attention",
           "0 a block of 16 tokens, 1 a slot", "42 tensors",
           "whole        [0, 8): 6 linear, 2 attention",
           "  weights           16925440 bytes",
           "  block                32768 bytes",
           "  slot               1609728 bytes");
    o = (struct check_options){.begin = 3, .end = 4, .kv.dtype = "f32"};
    EXPECT(TINY_HYBRID, &o, ST_OK, "token                   2048 bytes");
    o.end = 9;
    EXPECT(TINY_HYBRID, &o, ST_INVALID_ARGUMENT, "layers 3-9 of a model of 8");
    o = (struct check_options){.block_tokens = 65536};
    EXPECT(TINY_HYBRID, &o, ST_OK, "would load");
    o.block_tokens++;
    EXPECT(TINY_HYBRID, &o, ST_INVALID_ARGUMENT, "blocks of 65537 tokens");
}

static const char *config_only(const char *name, const char *from)
{
    const char *dir = fixture_path(name);
    char path[512], *text;
    size_t len;

    snprintf(path, sizeof path, CONFIGS "/%s", from);
    text = fixture_read(path, &len);
    assert_int_equal(mkdir(dir, 0777), 0);
    snprintf(path, sizeof path, "%s/config.json", dir);
    fixture_write(path, text, len);
    free(text);
    return dir;
}

static void sizes_a_config_alone(void **state)
{
    const char *dir = config_only("qwen", "qwen3.5-27b.json");
    /* 27 B parameters in bfloat16 and one sequence of 262,144 tokens: 8192
     * blocks and 74 pages for a slot of 153944064 bytes */
    const uint64_t page = 2097152, full = (8192 + 74) * page;
    struct check_options o = {.budget_bytes = 1};

    (void)state;
    EXPECT(dir, NULL, ST_OK, "26895998464", "153944064 bytes", "65536 bytes",
           "none here", "verdict      no weights to load");
    EXPECT(dir, &o, ST_RESOURCE_EXHAUSTED, "budget of 0.0 MiB is too small",
           "verdict      would not load: ");
    o.budget_bytes = 53799800000u + full;
    EXPECT(dir, &o, ST_OK, "1 of 262144 tokens");
    o.budget_bytes -= 30000000;
    EXPECT(dir, &o, ST_RESOURCE_EXHAUSTED,
           "one sequence of 262144 tokens 16532.0 MiB");
    /* 8266 pages hold 77 sequences of 32 blocks and a slot, if rows allow. */
    o.budget_bytes += 30000000;
    EXPECT(dir, &o, ST_OK, "slots                     64 at most\n",
           "64 of 1024 tokens, ", "1 of 262144 tokens");
    o.max_rows = 512;
    EXPECT(dir, &o, ST_OK, "slots                    111 at most\n",
           "77 of 1024 tokens");
    o.slots = 2;
    EXPECT(dir, &o, ST_OK, "slots                      2 at most\n",
           "2 of 1024 tokens", "1 of 262144 tokens");
    o.slots = 4096; /* a cap reserves nothing */
    EXPECT(dir, &o, ST_OK, "slots                    111 at most\n");
    o = (struct check_options){.context = 262144};
    EXPECT(dir, &o, ST_OK, "no weights to load");
    o.context++;
    EXPECT(dir, &o, ST_INVALID_ARGUMENT, "at most 262144 tokens");
}

static void slots_need_linear_layers(void **state)
{
    json_t *j = fixture_config("llama");
    struct writer_options plain = {.dtype = DTYPE_BF16};
    const char *dir = fixture_model("dense", j, &plain);
    struct check_options o = {.slots = 1};

    (void)state;
    EXPECT(dir, &o, ST_INVALID_ARGUMENT, "no linear layers");
    o.slots = 0;
    EXPECT(dir, &o, ST_OK, "would load");
    EXPECT(TINY_HYBRID, &(struct check_options){.slots = 1}, ST_OK,
           "would load");
    json_decref(j);
}

/* Published sizes, as printed. */
static void sizes_the_family(void **state)
{
    static const struct {
        const char *file, *slot, *token;
    } rows[] = {
        {"qwen3.5-0.8b.json", "slot                19537920 bytes",
         "token                  12288 bytes"},
        {"qwen3.5-4b.json", "slot                51511296 bytes",
         "token                  32768 bytes"},
        {"qwen3.5-9b.json", "slot                51511296 bytes",
         "token                  32768 bytes"},
        {"qwen3.5-27b.json", "slot               153944064 bytes",
         "token                  65536 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        EXPECT(config_only(rows[i].file, rows[i].file), NULL, ST_OK,
               rows[i].slot, rows[i].token);
    }
}

/* The verdict for a budget of these weights and one sequence of full length,
 * and for one byte less. */
static void weighs(const char *dir, uint32_t begin, uint32_t end)
{
    struct model_config c = fixture_load_config(dir);
    struct shard *s = fixture_shard(dir, begin, end);
    struct kv_format kv =
        kv_format_plain(c.shape.dtype == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32);
    struct sizes z = sizes_of(&c, begin, end, CHECK_BLOCK_TOKENS, &kv);
    uint64_t bytes = shard_report(s)->bytes;
    struct check_options o = {.begin = begin, .end = end};
    char line[64];

    shard_free(&s);
    snprintf(line, sizeof line, "weights      %15" PRIu64 " bytes", bytes);
    o.budget_bytes =
        bytes +
        z.page_bytes *
            (z.pages_per_slot +
             (z.n_attention > 0 ? c.shape.context : 0) / CHECK_BLOCK_TOKENS +
             z.window_pages *
                 sizes_window_blocks(c.shape.window, CHUNK_TOKENS_CPU,
                                     CHECK_BLOCK_TOKENS, c.shape.context));
    EXPECT(dir, &o, ST_OK, line, "verdict      would load");
    o.budget_bytes--;
    EXPECT(dir, &o, ST_RESOURCE_EXHAUSTED, line, "verdict      would not");
    o.budget_bytes = bytes - 1;
    EXPECT(dir, &o, ST_RESOURCE_EXHAUSTED, line, "budget of", "would not load");
}

/* The sizes of the whole model are printed beside a part. */
static void weighs_all(const char *dir)
{
    struct shard *s = fixture_shard_all(dir);
    struct check_options o = {.begin = 1, .end = 2};
    char line[64];

    snprintf(line, sizeof line, "  weights    %15" PRIu64 " bytes",
             shard_report(s)->bytes);
    shard_free(&s);
    EXPECT(dir, &o, ST_OK, line, "each of 1 linear");
    weighs(dir, 0, 4);
    weighs(dir, 0, 1);
    weighs(dir, 1, 4);
}

/* The files count, whatever config.json states about dtype and quantisation. */
static void weighs_the_files(void **state)
{
    static const struct {
        enum dtype stored;
        const char *said;
    } rows[] = {{DTYPE_BF16, "float32"}, {DTYPE_F32, "bfloat16"}};
    struct writer_options o = {.dtype = DTYPE_BF16, .bits = 8, .group = 32};
    json_t *j = fixture_config("qwen3_5");
    char path[512];
    const char *dir;

    (void)state;
    dir = fixture_model("bits", j, &o);
    snprintf(path, sizeof path, "%s/config.json", dir);
    json_object_set_new(j, "quantization",
                        json_pack("{s:i, s:i}", "bits", 4, "group_size", 32));
    assert_int_equal(json_dump_file(j, path, 0), 0);
    weighs_all(dir);
    json_object_del(j, "quantization");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct writer_options plain = {.dtype = rows[i].stored};

        json_object_set_new(j, "dtype", json_string(rows[i].said));
        weighs_all(fixture_model(rows[i].said, j, &plain));
    }
    json_decref(j);
}

/* Half of the layers are stored in bfloat16, half in float32. */
static void weighs_each_layer(void **state)
{
    struct writer_options o = {.dtype = DTYPE_BF16, .n_files = 2};
    json_t *j = fixture_config("llama");
    const char *dir = fixture_model("mixed", j, &o);
    char layers[2][64], path[512], *bytes;
    size_t len;

    (void)state;
    o.dtype = DTYPE_F32;
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors",
             fixture_model("whole", j, &o));
    bytes = fixture_read(path, &len);
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", dir);
    fixture_write(path, bytes, len);
    free(bytes);
    for (uint32_t i = 0; i < 2; i++) {
        /* [1, 2) and [2, 3): neither embedding nor head */
        struct shard *s = fixture_shard(dir, i + 1, i + 2);

        snprintf(layers[i], sizeof layers[i],
                 "layer        %15" PRIu64 " bytes  each of ",
                 shard_report(s)->bytes);
        shard_free(&s);
    }
    assert_string_not_equal(layers[0], layers[1]);
    EXPECT(dir, NULL, ST_OK, layers[0], layers[1]);
    json_decref(j);
}

static void checks_experts_and_windows(void **state)
{
    struct check_options o = {.budget_bytes = 67108864};

    (void)state;
    EXPECT(MODELS "/tiny-gpt-oss", &o, ST_OK,
           "quantised    experts: mxfp4, a scale each 32\n",
           "[0, 4) of 4: 0 linear, 2 attention, 2 window\n",
           "shape        hidden 96, vocabulary 640, context 4096\n",
           "window       32 positions, in 2 of the layers\n",
           "experts      2 of 6 a token, each of 64; in 4 of 4 layers\n",
           "active                424200 of the whole model\n",
           "each of 2 window, experts: a step of 8 rows reads 98.4 %\n",
           "window block           16384 bytes",
           "1 a window block; a sequence has 10 at most\n", "would load\n");
    EXPECT(MODELS "/tiny-qwen3-moe", NULL, ST_OK, "in 2 of 3 layers\n",
           "shape        hidden 96, intermediate 160, ",
           "each of 1 attention, dense\n");
    EXPECT(MODELS "/tiny-qwen3-moe-fp8", NULL, ST_OK,
           "quantised    fp8, a scale each 128 x 128\n");
    EXPECT(MODELS "/tiny-qwen3.5-moe", NULL, ST_OK,
           "4 of 12 a token, each of 32, and a shared one of 48;");
    o = (struct check_options){.begin = 4, .end = 6, .chunk_tokens = 16};
    EXPECT(MODELS "/tiny-gemma3", &o, ST_OK,
           "[4, 6) of 7: 0 linear, 1 attention, 1 window\n",
           "1 a window block; a sequence has 3 at most\n",
           "whole        [0, 7): 0 linear, 1 attention, 6 window\n",
           "  window               24576 bytes");
}

static void weighs_experts_and_windows(void **state)
{
    (void)state;
    weighs(MODELS "/tiny-qwen3.5-moe", 0, 4);
    weighs(MODELS "/tiny-qwen3-moe", 1, 3);
    weighs(MODELS "/tiny-qwen3-moe-fp8", 0, 2);
    weighs(MODELS "/tiny-gpt-oss", 0, 4);
    weighs(MODELS "/tiny-gemma3", 0, 7);
    weighs(MODELS "/tiny-gemma3", 0, 5); /* windows alone */
}

static void says_why_not(void **state)
{
    json_t *j = fixture_config("qwen3_5");
    struct writer_options o = {.without = "layers.1.linear_attn.dt_bias",
                               .n_files = 2};
    const char *dir = fixture_model("lacking", j, &o);

    (void)state;
    EXPECT(dir, NULL, ST_NOT_FOUND,
           "would not load: tensor \"layers.1.linear_attn.dt_bias\" is "
           "missing");
    assert_int_equal(unlink(fixture_path("lacking/model-00001-of-00002."
                                         "safetensors")),
                     0);
    EXPECT(dir, NULL, ST_NOT_FOUND, "would not load: \"model-00001-of-00002");
    EXPECT("models", NULL, ST_NOT_FOUND,
           "would not load: there is no config.json");
    json_decref(j);
}

static void counts_the_mtp_layer(void **state)
{
    struct check_options o = {
        .drafts = 3,
        .budget_bytes = 67108864,
        .step = {
            .tokens = 512, .rows = 64, .threads = 2, .logits = 64, .plans = 2}};
    struct model_config c = fixture_load_config(TINY_HYBRID);
    struct costs_step step = o.step;
    char scratch[64];

    (void)state;
    c.drafts = true;
    step.keep_tokens = 4 * 64;
    step.kept = DTYPE_BF16;
    step.block_tokens = CHECK_BLOCK_TOKENS;
    step.context = c.shape.context;
    snprintf(scratch, sizeof scratch, "scratch      %15" PRIu64 " bytes",
             costs_stage_scratch(&c, &step, 0, 8));
    EXPECT(
        TINY_HYBRID, &o, ST_OK, "[0, 8) of 8: 6 linear, 2 attention, 1 MTP\n",
        "MTP layer    drafts: 1 layer, 15 tensors\n", "123 tensors in 2 files",
        "2104320 bytes  the MTP layer", "weights             19029760 bytes",
        "token                   3072 bytes",
        "block                  98304 bytes",
        "kept                   21696 bytes  a token (1.35 % of a slot), "
        "with drafts; 256 tokens in scratch\n",
        scratch, "would load\n");
    o.end = 7;
    EXPECT(TINY_HYBRID, &o, ST_OK, "[0, 7) of 8: 6 linear, 1 attention\n",
           "drafts: 1 layer, 15 tensors\n", "kept                   21696",
           "whole        [0, 8): 6 linear, 2 attention, 1 MTP\n");
    o.drafts = DRAFTS_MAX;
    EXPECT(TINY_HYBRID, &o, ST_OK, "576 tokens in scratch\n");
    o.drafts++;
    EXPECT(TINY_HYBRID, &o, ST_INVALID_ARGUMENT,
           "--drafts 9: at most 8 are allowed");
}

static void leaves_the_mtp_layer_out_if_not_wanted(void **state)
{
    struct check_options o = {.drafts = 3, .from_text = true};

    (void)state;
    EXPECT(TINY_HYBRID, &o, ST_OK,
           "15 tensors; not loaded with --drafter ngram\n",
           "set aside    15 tensors", "256 tokens in scratch\n",
           "weights             16925440 bytes");
    o.drafts = 0;
    o.from_text = false;
    EXPECT(TINY_HYBRID, &o, ST_OK, "15 tensors; not loaded without --drafts\n",
           "set aside    15 tensors", "weights             16925440 bytes");
}

static void checks_drafts_without_the_weights(void **state)
{
    struct check_options o = {.drafts = 1};
    json_t *j = fixture_config("qwen3_5");
    const char *dir;

    (void)state;
    json_object_set_new(j, "mtp_num_hidden_layers", json_integer(1));
    dir = fixture_model("no-mtp", j, &(struct writer_options){0});
    EXPECT(dir, &o, ST_OK,
           "MTP layer    config.json declares an MTP layer, but the weights "
           "are not there: no drafts\n",
           "3 linear, 1 attention\n", "a token (", "would load\n");
    EXPECT(dir, NULL, ST_OK, "are not there: no drafts\n");
    fixture_write(fixture_path("no-mtp/mtp.safetensors"), "broken", 6);
    EXPECT(dir, &o, ST_DATA_LOSS, "would not load: \"mtp.safetensors\"");
    EXPECT(dir, NULL, ST_OK, "would load\n");
    EXPECT(config_only("drafts", "qwen3.5-9b.json"), &o, ST_OK,
           "MTP layer    drafts: 1 layer\n", "24 linear, 8 attention, 1 MTP",
           "each of 24 linear", "bytes  the MTP layer\n");
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_the_mtp_layer),
        cmocka_unit_test(leaves_the_mtp_layer_out_if_not_wanted),
        cmocka_unit_test(checks_drafts_without_the_weights),
        cmocka_unit_test(would_load_tiny_hybrid),
        cmocka_unit_test(checks_a_range),
        cmocka_unit_test(sizes_a_config_alone),
        cmocka_unit_test(slots_need_linear_layers),
        cmocka_unit_test(sizes_the_family),
        cmocka_unit_test(weighs_the_files),
        cmocka_unit_test(weighs_each_layer),
        cmocka_unit_test(checks_experts_and_windows),
        cmocka_unit_test(weighs_experts_and_windows),
        cmocka_unit_test(says_why_not),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
