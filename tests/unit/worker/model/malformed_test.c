/* Weights of models with experts, FP8 and MXFP4 that must not load, each with
 * the message that names the cause; and every byte of those that do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"
#include "tests/unit/worker/model/rewrite.h"
#include "worker/model/shard.h"

#define MODELS "tests/vectors/models/"
#define FP8    MODELS "tiny-qwen3-moe-fp8"
#define MXFP4  MODELS "tiny-gpt-oss"
#define QWEN3  MODELS "tiny-qwen3-moe"

#define L0 "model.layers.0."
#define E0 L0 "mlp.experts.0."
#define E1 L0 "mlp.experts.1."
#define EX L0 "mlp.experts."

/* ---- changes of one tensor ---- */

/* Gives a tensor another dtype and shape; its bytes are cut or zero-filled. */
static void reshape(struct rewrite *r, const char *name, const char *dtype,
                    uint32_t element, const uint64_t dims[4])
{
    struct rewrite_tensor *t = rewrite_find(r, name);
    size_t n = element;

    snprintf(t->dtype, sizeof t->dtype, "%s", dtype);
    for (t->rank = 0; t->rank < 4 && dims[t->rank] > 0; t->rank++) {
        t->dims[t->rank] = dims[t->rank];
        n *= dims[t->rank];
    }
    t->bytes = realloc(t->bytes, n + 1);
    assert_non_null(t->bytes);
    if (n > t->n) {
        memset(t->bytes + t->n, 0, n - t->n);
    }
    t->n = n;
}

struct fault {
    const char *model, *tensor;
    const char *dtype; /* NULL: the tensor is removed */
    uint32_t element;  /* bytes */
    uint64_t dims[4];
    enum status code;
    const char *text;
};

static void try_fault(const struct fault *f)
{
    struct rewrite r;

    rewrite_open(&r, f->model);
    if (f->dtype == NULL) {
        rewrite_remove(&r, f->tensor);
    } else {
        reshape(&r, f->tensor, f->dtype, f->element, f->dims);
    }
    fixture_refused(rewrite_write(&r, "fault"), f->code, f->text);
    rewrite_close(&r);
}

#define BAD ST_INVALID_ARGUMENT

static const struct fault fp8_faults[] = {
    {FP8,
     E1 "gate_proj.weight_scale_inv",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "experts.1.gate_proj.weight\" is F8_E4M3 and has no "
     "layers.0.mlp.experts.1.gate_proj.weight_scale_inv"},
    {FP8,
     L0 "self_attn.q_proj.weight",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.self_attn.q_proj.weight\" is missing"},
    {FP8,
     E1 "down_proj.weight",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.mlp.experts.1.down_proj.weight\" is missing"},
    {FP8,
     E0 "up_proj.weight_scale_inv",
     "F32",
     4,
     {1, 2},
     BAD,
     "is [1, 2], the configuration needs [2, 2]"},
    {FP8,
     E0 "up_proj.weight_scale_inv",
     "F32",
     4,
     {2, 3},
     BAD,
     "is [2, 3], the configuration needs [2, 2]"},
    {FP8,
     E0 "up_proj.weight_scale_inv",
     "F32",
     4,
     {4},
     BAD,
     "is [4], the configuration needs [2, 2]"},
    {FP8,
     E0 "up_proj.weight_scale_inv",
     "F32",
     4,
     {2, 2, 1},
     BAD,
     "is [2, 2, 1], the configuration needs [2, 2]"},
    {FP8,
     E0 "up_proj.weight_scale_inv",
     "F16",
     2,
     {2, 2},
     BAD,
     "are F16; F32 and BF16 are supported"},
    {FP8,
     E0 "up_proj.weight_scale_inv",
     "F8_E8M0",
     1,
     {2, 2},
     BAD,
     "are F8_E8M0; F32 and BF16 are supported"},
    {FP8,
     E0 "down_proj.weight",
     "F8_E4M3",
     1,
     {136, 192},
     BAD,
     "is [136, 192], the configuration needs [192, 136]"},
    {FP8,
     E0 "down_proj.weight",
     "F8_E4M3",
     1,
     {1, 192, 136},
     BAD,
     "is [1, 192, 136], the configuration needs [192, 136]"},
    {FP8,
     E0 "down_proj.weight",
     "F8_E5M2",
     1,
     {192, 136},
     BAD,
     "is F8_E5M2; F32, BF16 and F16 are supported"},
    {FP8,
     E0 "down_proj.weight",
     "U8",
     1,
     {192, 136},
     BAD,
     "is U8; F32, BF16 and F16 are supported"},
    {FP8,
     E1 "down_proj.weight",
     "BF16",
     2,
     {192, 136},
     ST_UNIMPLEMENTED,
     "in another form than the layer's other experts"},
    {FP8,
     E1 "up_proj.weight",
     "BF16",
     2,
     {136, 192},
     ST_UNIMPLEMENTED,
     "in another form than the layer's other experts"},
    {FP8,
     "model.norm.weight",
     "F8_E4M3",
     1,
     {192},
     BAD,
     "is F8_E4M3; F32, BF16 and F16 are supported, or F8_E4M3 for "
     "matrices beside weight_scale_inv"},
};

static void refuses_fp8_with_a_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof fp8_faults / sizeof fp8_faults[0]; i++) {
        try_fault(&fp8_faults[i]);
    }
}

static const struct fault mxfp4_faults[] = {
    {MXFP4,
     EX "gate_up_proj_blocks",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.mlp.experts.gate_up_proj_blocks\" is missing"},
    {MXFP4,
     EX "down_proj_blocks",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.mlp.experts.down_proj_blocks\" is missing"},
    {MXFP4,
     EX "down_proj_scales",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "experts.down_proj_blocks\" has no scales beside it"},
    {MXFP4,
     EX "down_proj_blocks",
     "U8",
     1,
     {6, 96, 2, 15},
     BAD,
     "is [6, 96, 2, 15], the configuration needs [6, 96, 2, 16]"},
    {MXFP4,
     EX "down_proj_blocks",
     "U8",
     1,
     {6, 96, 32},
     BAD,
     "is [6, 96, 32], the configuration needs [6, 96, 2, 16]"},
    {MXFP4,
     EX "down_proj_blocks",
     "U8",
     1,
     {5, 96, 2, 16},
     BAD,
     "is [5, 96, 2, 16], the configuration needs [6, 96, 2, 16]"},
    {MXFP4,
     EX "down_proj_blocks",
     "I8",
     1,
     {6, 96, 2, 16},
     BAD,
     "is I8, not U8"},
    {MXFP4,
     EX "gate_up_proj_scales",
     "U8",
     1,
     {6, 128, 4},
     BAD,
     "is [6, 128, 4], the configuration needs [6, 128, 3]"},
    {MXFP4,
     EX "gate_up_proj_scales",
     "U8",
     1,
     {6, 128, 3, 1},
     BAD,
     "is [6, 128, 3, 1], the configuration needs [6, 128, 3]"},
    {MXFP4,
     EX "gate_up_proj_scales",
     "F8_E8M0",
     1,
     {6, 128, 3},
     BAD,
     "is F8_E8M0, not U8"},
    {MXFP4,
     EX "gate_up_proj_bias",
     "BF16",
     2,
     {6, 96},
     BAD,
     "is [6, 96], the configuration needs [6, 128]"},
    {MXFP4,
     EX "down_proj_bias",
     "BF16",
     2,
     {576},
     BAD,
     "is [576], the configuration needs [6, 96]"},
    {MXFP4,
     EX "down_proj_bias",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.mlp.experts.down_proj_bias\" is missing"},
    {MXFP4,
     L0 "mlp.router.bias",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.mlp.router.bias\" is missing"},
    {MXFP4,
     L0 "mlp.router.weight",
     "BF16",
     2,
     {5, 96},
     BAD,
     "is [5, 96], the configuration needs [6, 96]"},
    {MXFP4,
     L0 "self_attn.sinks",
     "BF16",
     2,
     {2},
     BAD,
     "is [2], the configuration needs [4]"},
    {MXFP4,
     L0 "self_attn.sinks",
     NULL,
     0,
     {0},
     ST_NOT_FOUND,
     "\"layers.0.self_attn.sinks\" is missing"},
};

static void refuses_mxfp4_with_a_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mxfp4_faults / sizeof mxfp4_faults[0]; i++) {
        try_fault(&mxfp4_faults[i]);
    }
}

static void refuses_experts_with_a_fault(void **state)
{
    static const struct fault faults[] = {
        {QWEN3,
         L0 "mlp.gate.weight",
         NULL,
         0,
         {0},
         ST_NOT_FOUND,
         "\"layers.0.mlp.gate.weight\" is missing"},
        {QWEN3,
         L0 "mlp.experts.9.up_proj.weight",
         NULL,
         0,
         {0},
         ST_NOT_FOUND,
         "\"layers.0.mlp.experts.9.up_proj.weight\" is missing"},
        {QWEN3,
         E0 "gate_proj.weight",
         NULL,
         0,
         {0},
         ST_NOT_FOUND,
         "\"layers.0.mlp.experts.0.gate_proj.weight\" is missing"},
        {QWEN3,
         E1 "down_proj.weight",
         "BF16",
         2,
         {40, 96},
         BAD,
         "is [40, 96], the configuration needs [96, 40]"},
        {QWEN3,
         E1 "down_proj.weight",
         "F32",
         4,
         {96, 40},
         ST_UNIMPLEMENTED,
         "in another form than the layer's other experts"},
        {QWEN3,
         E1 "down_proj.weight",
         "F8_E4M3",
         1,
         {96, 40},
         BAD,
         "is F8_E4M3; F32, BF16 and F16 are supported, and config.json has no "
         "quantization_config of fp8"},
        {QWEN3,
         "model.layers.1.mlp.up_proj.weight",
         NULL,
         0,
         {0},
         ST_NOT_FOUND,
         "\"layers.1.mlp.up_proj.weight\" is missing"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        try_fault(&faults[i]);
    }
}

static void refuses_fused_experts_with_a_fault(void **state)
{
    static const uint64_t transposed[] = {10, 96, 80, 0};
    static const uint64_t fewer[] = {9, 96, 40, 0};
    struct rewrite r;

    (void)state;
    rewrite_open(&r, QWEN3);
    rewrite_fuse(&r);
    reshape(&r, EX "down_proj", "BF16", 2, fewer);
    fixture_refused(rewrite_write(&r, "fused"), BAD,
                    "is [9, 96, 40], the configuration needs [10, 96, 40]");
    reshape(&r, EX "gate_up_proj", "BF16", 2, transposed);
    fixture_refused(rewrite_write(&r, "fused"), ST_UNIMPLEMENTED,
                    "has the experts' matrices transposed, [10, 96, 80]");
    rewrite_remove(&r, EX "gate_up_proj");
    fixture_refused(rewrite_write(&r, "fused"), ST_NOT_FOUND,
                    "\"layers.0.mlp.experts.0.gate_proj.weight\" is missing");
    rewrite_close(&r);
}

/* More experts than the configuration has are reported, not loaded. */
static void reports_experts_too_many(void **state)
{
    struct rewrite r;
    struct shard *s;

    (void)state;
    rewrite_open(&r, QWEN3);
    (void)rewrite_add(&r, L0 "mlp.experts.10.up_proj.weight",
                      rewrite_find(&r, E0 "up_proj.weight"),
                      rewrite_find(&r, E0 "up_proj.weight")->n);
    s = fixture_shard_all(rewrite_write(&r, "many"));
    assert_int_equal(shard_report(s)->n_unknown, 1);
    assert_non_null(
        strstr(shard_report(s)->unknown.text, "experts.10.up_proj"));
    shard_free(&s);
    rewrite_close(&r);
}

/* ---- codes ---- */

/* A byte of a tensor becomes code; refused unless text is NULL. */
static void try_code(const char *model, const char *tensor, size_t at,
                     uint8_t code, const char *text)
{
    struct rewrite r;
    struct rewrite_tensor *t;
    const char *dir;
    struct shard *s;

    rewrite_open(&r, model);
    t = rewrite_find(&r, tensor);
    t->bytes[at < t->n ? at : t->n - 1] = code;
    dir = rewrite_write(&r, "code");
    if (text != NULL) {
        fixture_refused(dir, ST_DATA_LOSS, text);
    } else {
        s = fixture_shard_all(dir);
        shard_free(&s);
    }
    rewrite_close(&r);
}

static void refuses_codes_that_are_nan(void **state)
{
    const char *fp8 = "a value (E4M3) is NaN", *e8m0 = "a scale (E8M0) is NaN";

    (void)state;
    for (size_t at = 0; at < 9; at++) {
        try_code(FP8, E0 "gate_proj.weight", at, 0x7f, fp8);
        try_code(FP8, E0 "gate_proj.weight", at, 0xff, fp8);
        try_code(FP8, E0 "gate_proj.weight", at, 0x7e, NULL);
        try_code(FP8, E0 "gate_proj.weight", at, 0xfe, NULL);
        try_code(MXFP4, EX "down_proj_scales", at, 255, e8m0);
        try_code(MXFP4, EX "down_proj_scales", at, 254, NULL);
        try_code(MXFP4, EX "down_proj_scales", at, 0x7f, NULL);
    }
    try_code(FP8, "model.layers.1.self_attn.v_proj.weight", SIZE_MAX, 0xff,
             fp8);
    try_code(MXFP4, EX "gate_up_proj_scales", SIZE_MAX, 255, e8m0);
    /* Any code of E2M1 is a value. */
    try_code(MXFP4, EX "gate_up_proj_blocks", 3, 255, NULL);
}

/* A stage refuses a model for codes of layers that it does not keep too. */
static void every_stage_refuses_nan(void **state)
{
    struct rewrite r;
    struct model_config c = fixture_load_config(FP8);
    struct shard *s;
    struct error e;

    (void)state;
    rewrite_open(&r, FP8);
    rewrite_find(&r, E1 "down_proj.weight")->bytes[77] = 0x7f;
    assert_int_equal(
        shard_load(&s, &c, rewrite_write(&r, "stage"), 1, 2, NULL, &e),
        ST_DATA_LOSS);
    rewrite_close(&r);
}

/* ---- what the configuration leaves open ---- */

static void edit_config(const char *dir, const char *key)
{
    char path[512];
    json_t *j;

    snprintf(path, sizeof path, "%s/config.json", dir);
    j = json_load_file(path, 0, NULL);
    assert_non_null(j);
    assert_int_equal(json_object_del(j, key), 0);
    assert_int_equal(json_dump_file(j, path, 0), 0);
    json_decref(j);
}

static void config_and_tensors_have_to_agree(void **state)
{
    struct rewrite r;
    const char *dir;

    (void)state;
    rewrite_open(&r, FP8);
    dir = rewrite_write(&r, "no-fp8");
    edit_config(dir, "quantization_config");
    fixture_refused(dir, BAD,
                    "is F8_E4M3; F32, BF16 and F16 are supported, and "
                    "config.json has no quantization_config of fp8");
    rewrite_close(&r);
    rewrite_open(&r, MXFP4);
    dir = rewrite_write(&r, "no-mxfp4");
    edit_config(dir, "quantization_config");
    fixture_refused(dir, BAD,
                    "is MXFP4, and config.json has no quantization_config of "
                    "mxfp4");
    rewrite_close(&r);
}

/* Modules that were not converted stay plain; scales may be bf16. */
static void takes_plain_matrices_and_scales_in_bf16(void **state)
{
    static const uint64_t q[] = {256, 192, 0, 0}, scales[] = {2, 2, 0, 0};
    const uint16_t values[4] = {0x3f80, 0x4000, 0x3e80, 0xbf80};
    const float floats[4] = {1, 2, 0.25f, -1};
    struct rewrite r;
    struct shard *s;
    const struct tensor *t;

    (void)state;
    rewrite_open(&r, FP8);
    reshape(&r, L0 "self_attn.q_proj.weight", "BF16", 2, q);
    rewrite_remove(&r, L0 "self_attn.q_proj.weight_scale_inv");
    reshape(&r, L0 "self_attn.o_proj.weight_scale_inv", "BF16", 2, scales);
    memcpy(rewrite_find(&r, L0 "self_attn.o_proj.weight_scale_inv")->bytes,
           values, sizeof values);
    s = fixture_shard_all(rewrite_write(&r, "mixed"));
    assert_int_equal(shard_weights(s)->layers[0].mixer.attention.q.format,
                     WEIGHT_PLAIN);
    t = &shard_weights(s)->layers[0].mixer.attention.o;
    assert_int_equal(t->format, WEIGHT_FP8);
    for (uint32_t row = 0; row < 192; row++) {
        assert_memory_equal((const float *)t->scales + 2 * row,
                            floats + row / 128 * 2, 8);
    }
    shard_free(&s);
    rewrite_close(&r);
}

/* ---- every byte ---- */

static bool is_sampled(const char *name)
{
    return strstr(name, "layers.0.") != NULL || strstr(name, "layers.") == NULL
               ? strstr(name, ".experts.") == NULL ||
                     strstr(name, ".experts.1.") != NULL ||
                     strstr(name, "_proj_") != NULL
               : strstr(name, "layers.1.mlp.") != NULL &&
                     strstr(name, ".experts.") == NULL;
}

static void a_byte_of_any_tensor_counts(void **state)
{
    static const char *const dirs[] = {MODELS "tiny-qwen3.5-moe",
                                       MODELS "tiny-qwen3-next",
                                       QWEN3,
                                       FP8,
                                       MODELS "tiny-gemma3",
                                       MXFP4};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct shard *all = fixture_shard_all(dirs[i]), *s;
        uint32_t n = shard_weights(all)->shape.n_layers, tried = 0;
        struct rewrite r;

        rewrite_open(&r, dirs[i]);
        for (uint32_t k = 0; k < r.n; k++) {
            struct rewrite_tensor *t = &r.tensors[k];
            size_t at = (k * 7919 + 13) % t->n;

            if (!is_sampled(t->name)) {
                continue;
            }
            t->bytes[at] ^= 1;
            /* NaN codes do not load. */
            s = (t->bytes[at] & 0x7f) == 0x7f
                    ? NULL
                    : fixture_shard(rewrite_write(&r, "byte"), k % n, n);
            if (s != NULL) {
                assert_memory_not_equal(shard_fingerprint(s),
                                        shard_fingerprint(all), 16);
                tried++;
            }
            shard_free(&s);
            t->bytes[at] ^= 1;
        }
        assert_in_range(tried, 10, 60);
        rewrite_close(&r);
        shard_free(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_fp8_with_a_fault),
        cmocka_unit_test(refuses_mxfp4_with_a_fault),
        cmocka_unit_test(refuses_experts_with_a_fault),
        cmocka_unit_test(refuses_fused_experts_with_a_fault),
        cmocka_unit_test(reports_experts_too_many),
        cmocka_unit_test(refuses_codes_that_are_nan),
        cmocka_unit_test(every_stage_refuses_nan),
        cmocka_unit_test(config_and_tensors_have_to_agree),
        cmocka_unit_test(takes_plain_matrices_and_scales_in_bf16),
        cmocka_unit_test(a_byte_of_any_tensor_counts),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
