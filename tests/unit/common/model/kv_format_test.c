/* Formats of the KV cache: choice, names, and the bytes of blocks. */
#include "common/model/kv_format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

static struct error e;

static struct model_config config(const char *name)
{
    struct model_config c;
    char path[128], *text;
    size_t len;

    snprintf(path, sizeof path, CONFIGS "/%s.json", name);
    text = fixture_read(path, &len);
    if (config_parse(&c, text, len, &e) != ST_OK) {
        fail_msg("%s: %s", path, e.text);
    }
    free(text);
    return c;
}

/* A model of n attention layers with linear layers between. */
static struct model_config model(uint32_t n_attention, uint32_t head_dim)
{
    struct model_config c = {.shape = {.n_layers = 4 * n_attention,
                                       .n_kv_heads = 2,
                                       .head_dim = head_dim,
                                       .dtype = DTYPE_BF16}};

    for (uint32_t i = 0; i < c.shape.n_layers; i++) {
        c.mixers[i] = i % 4 == 2 ? MIXER_ATTENTION : MIXER_DELTANET;
    }
    return c;
}

static struct kv_format chosen(const struct model_config *c,
                               struct kv_request r)
{
    struct kv_format f;

    if (kv_format_choose(&f, c, &r, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return f;
}

static void refuses(const struct model_config *c, struct kv_request r,
                    const char *text)
{
    struct kv_format f;

    assert_int_equal(kv_format_choose(&f, c, &r, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, text);
}

static void has_name(const struct model_config *c, struct kv_request r,
                     const char *name)
{
    char out[KV_NAME_MAX];
    struct kv_format f = chosen(c, r);

    assert_string_equal(kv_format_name(&f, out), name);
}

static void is_plain_unless_asked(void **state)
{
    struct model_config c = model(4, 256);
    struct kv_format f = chosen(&c, (struct kv_request){0});

    (void)state;
    assert_int_equal(f.scheme, KV_PLAIN);
    assert_int_equal(f.dtype, DTYPE_BF16);
    assert_int_equal(f.whole, KV_NO_LAYER);
    has_name(&c, (struct kv_request){.dtype = "auto"}, "bf16");
    has_name(&c, (struct kv_request){.dtype = "f32"}, "f32");
    has_name(&c, (struct kv_request){.dtype = "f16"}, "f16");
    has_name(&c, (struct kv_request){.dtype = "bf16"}, "bf16");
    /* Only bf16 is kept as it is. */
    c.shape.dtype = DTYPE_F16;
    has_name(&c, (struct kv_request){0}, "f32");
    c.shape.dtype = DTYPE_F32;
    has_name(&c, (struct kv_request){.dtype = "auto"}, "f32");
    has_name(&c, (struct kv_request){.dtype = "bf16"}, "bf16");
}

static void chooses_the_scheme_by_bits(void **state)
{
    struct model_config c = model(4, 256);

    (void)state;
    has_name(&c, (struct kv_request){.bits = 8}, "affine8/64+bf16");
    has_name(&c, (struct kv_request){.bits = 4, .group = 32, .dtype = "f32"},
             "affine4/32+f32");
    has_name(&c, (struct kv_request){.bits = 3.5}, "turboquant3.5+bf16");
    has_name(&c, (struct kv_request){.bits = 3, .scheme = "turboquant"},
             "turboquant3+bf16");
    has_name(&c, (struct kv_request){.bits = 2, .scheme = "turboquant"},
             "turboquant2+bf16");
    has_name(&c, (struct kv_request){.scheme = "turboquant", .dtype = "f16"},
             "turboquant3.5+f16");
    has_name(&c, (struct kv_request){.scheme = "affine"}, "affine8/64+bf16");
    has_name(&c, (struct kv_request){.scheme = "affine", .group = 128},
             "affine8/128+bf16");
}

static void gives_keys_the_lower_bits(void **state)
{
    struct model_config c = model(4, 256);
    struct kv_format f = chosen(&c, (struct kv_request){.bits = 3.5});

    (void)state;
    assert_int_equal(f.k_bits, 3);
    assert_int_equal(f.v_bits, 4);
    f = chosen(&c, (struct kv_request){.bits = 4, .scheme = "turboquant"});
    assert_int_equal(f.k_bits, 4);
    assert_int_equal(f.v_bits, 4);
    f = chosen(&c, (struct kv_request){.bits = 2.5});
    assert_int_equal(f.k_bits, 2);
    assert_int_equal(f.v_bits, 3);
}

/* The last attention layer, if there are more than two. */
static void keeps_the_last_attention_layer_whole(void **state)
{
    static const uint32_t whole[] = {
        [1] = KV_NO_LAYER, [2] = KV_NO_LAYER, [3] = 10, [4] = 14};

    (void)state;
    for (uint32_t n = 1; n <= 4; n++) {
        struct model_config c = model(n, 256);
        struct kv_format f = chosen(&c, (struct kv_request){.bits = 8});
        uint32_t quantised = 0;

        assert_int_equal(f.whole, whole[n]);
        for (uint32_t i = 0; i < c.shape.n_layers; i++) {
            struct kv_format of = kv_format_of_layer(&f, i);

            assert_int_equal(of.dtype, DTYPE_BF16);
            assert_int_equal(of.whole, KV_NO_LAYER);
            quantised += c.mixers[i] == MIXER_ATTENTION && of.scheme;
        }
        assert_int_equal(quantised, n > 2 ? n - 1 : n);
    }
}

static void refuses_unknown_names(void **state)
{
    struct model_config c = model(4, 256);

    (void)state;
    refuses(&c, (struct kv_request){.dtype = "f64"},
            "--kv-dtype f64: give auto, f32, f16 or bf16");
    refuses(&c, (struct kv_request){.dtype = ""},
            "--kv-dtype : give auto, f32, f16 or bf16");
    refuses(&c, (struct kv_request){.scheme = "uniform", .bits = 8},
            "--kv-scheme uniform: give affine or turboquant");
}

static void limits_affine_bits(void **state)
{
    static const double wrong[] = {-8, -1, 1, 2, 3, 5, 7, 9, 16, 1e300};
    struct model_config c = model(4, 256);
    struct kv_format f;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct kv_request r = {.bits = wrong[i], .scheme = "affine"};

        assert_int_equal(kv_format_choose(&f, &c, &r, &e), ST_INVALID_ARGUMENT);
    }
    refuses(&c, (struct kv_request){.bits = 3},
            "--kv-bits 3: affine values have 4 or 8 bits; give 4 or 8, or "
            "--kv-scheme turboquant for 2 to 4");
    refuses(&c, (struct kv_request){.bits = NAN, .scheme = "affine"},
            "--kv-bits nan: affine values have 4 or 8 bits; give 4 or 8, or "
            "--kv-scheme turboquant for 2 to 4");
}

static void limits_turboquant_bits(void **state)
{
    static const double wrong[] = {-2, 1, 1.5, 2.25, 3.75, 4.25, 4.5, 5, 8};
    struct model_config c = model(4, 256);
    struct kv_format f;

    (void)state;
    for (double b = KV_TURBO_BITS_MIN; b <= KV_TURBO_BITS_MAX; b += 0.5) {
        f = chosen(&c, (struct kv_request){.bits = b, .scheme = "turboquant"});
        assert_int_equal(f.k_bits + f.v_bits, (uint32_t)(2 * b));
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct kv_request r = {.bits = wrong[i], .scheme = "turboquant"};

        assert_int_equal(kv_format_choose(&f, &c, &r, &e), ST_INVALID_ARGUMENT);
    }
    refuses(&c, (struct kv_request){.bits = 4.5},
            "--kv-bits 4.5: turboquant values have 2 to 4 bits in steps of "
            "0.5");
    refuses(&c, (struct kv_request){.bits = NAN},
            "--kv-bits nan: turboquant values have 2 to 4 bits in steps of "
            "0.5");
    refuses(&c, (struct kv_request){.bits = INFINITY, .scheme = "turboquant"},
            "--kv-bits inf: turboquant values have 2 to 4 bits in steps of "
            "0.5");
}

static void limits_groups(void **state)
{
    struct model_config c = model(4, 256), odd = model(4, 96);

    (void)state;
    for (uint32_t g = KV_GROUP_MIN; g <= KV_GROUP_MAX; g *= 2) {
        assert_int_equal(
            chosen(&c, (struct kv_request){.bits = 8, .group = g}).group, g);
    }
    refuses(&c, (struct kv_request){.bits = 8, .group = KV_GROUP_MIN - 1},
            "--kv-group 31: give 32, 64 or 128");
    refuses(&c, (struct kv_request){.bits = 4, .group = KV_GROUP_MAX + 1},
            "--kv-group 129: give 32, 64 or 128");
    refuses(&c, (struct kv_request){.bits = 4, .group = 96},
            "--kv-group 96: give 32, 64 or 128");
    refuses(&odd, (struct kv_request){.bits = 8},
            "--kv-group 64 does not divide the head size 96; give --kv-group "
            "32");
    has_name(&odd, (struct kv_request){.bits = 8, .group = 32},
             "affine8/32+bf16");
    odd.shape.head_dim = 80;
    refuses(&odd, (struct kv_request){.bits = 8},
            "--kv-scheme affine: the head size 80 is no multiple of 32, the "
            "smallest group; omit --kv-bits");
}

static void refuses_groups_that_nothing_uses(void **state)
{
    struct model_config c = model(4, 256);

    (void)state;
    refuses(&c, (struct kv_request){.group = 64},
            "--kv-group 64: a cache without --kv-bits has no groups; give "
            "--kv-bits 8 or 4, or omit the option");
    refuses(&c, (struct kv_request){.group = 64, .bits = 3.5},
            "--kv-group 64: turboquant has no groups; omit the option");
}

static void limits_the_heads_of_turboquant(void **state)
{
    struct kv_request r = {.bits = 3.5};
    struct model_config c = model(4, 96);

    (void)state;
    refuses(&c, r,
            "--kv-scheme turboquant: the head size 96 is not 16 or a larger "
            "power of two; give --kv-scheme affine --kv-bits 4");
    for (c.shape.head_dim = KV_TURBO_DIM_MIN;
         c.shape.head_dim <= MODEL_HEAD_DIM_MAX; c.shape.head_dim *= 2) {
        assert_int_equal(chosen(&c, r).scheme, KV_TURBOQUANT);
    }
    c.shape.head_dim = KV_TURBO_DIM_MIN / 2;
    refuses(&c, r,
            "--kv-scheme turboquant: the head size 8 is not 16 or a larger "
            "power of two; give --kv-scheme affine --kv-bits 4");
}

static void refuses_models_without_attention(void **state)
{
    struct model_config c = {.shape = {.n_layers = 2, .dtype = DTYPE_BF16},
                             .mixers = {MIXER_DELTANET, MIXER_DELTANET}};

    (void)state;
    refuses(&c, (struct kv_request){.bits = 8},
            "--kv-bits: the model has no attention layers, and its recurrent "
            "states are not quantised; omit the option");
    has_name(&c, (struct kv_request){0}, "bf16");
}

static void compares_what_is_stored(void **state)
{
    struct kv_format a = {DTYPE_BF16, KV_AFFINE, 8, 8, 64, 14}, b = a;

    (void)state;
    assert_true(kv_format_same(&a, &b));
    b.dtype = DTYPE_F16;
    assert_false(kv_format_same(&a, &b));
    b = a;
    b.group = 32;
    assert_false(kv_format_same(&a, &b));
    b = a;
    b.whole = 10;
    assert_false(kv_format_same(&a, &b));
    b = a;
    b.k_bits = 4;
    assert_false(kv_format_same(&a, &b));
    b = a;
    b.v_bits = 4;
    assert_false(kv_format_same(&a, &b));
    b = a;
    b.scheme = KV_TURBOQUANT;
    assert_false(kv_format_same(&a, &b));
    /* Fields that a scheme does not use do not count. */
    a = b;
    b.group = 0;
    assert_true(kv_format_same(&a, &b));
    a.scheme = KV_PLAIN;
    b = kv_format_plain(DTYPE_BF16);
    assert_true(kv_format_same(&a, &b));
}

/* B 4, H 32, S 512, D 128. */
static uint64_t published(struct kv_format f)
{
    struct kv_block b;

    kv_block_make(&b, &f, 32, 128, 512);
    return 4 * b.bytes;
}

static void equals_the_published_bytes(void **state)
{
    struct kv_format f = kv_format_plain(DTYPE_F32);

    (void)state;
    assert_int_equal(published(f), 67108864);
    f = (struct kv_format){DTYPE_F32, KV_AFFINE, 8, 8, 64, KV_NO_LAYER};
    assert_int_equal(published(f), 18874368);
    f.k_bits = f.v_bits = 4;
    assert_int_equal(published(f), 10485760);
    /* The same with scales of 16 bits. */
    assert_int_equal(published(kv_format_plain(DTYPE_F16)), 33554432);
    f.dtype = DTYPE_F16;
    assert_int_equal(published(f), 9437184);
    f.k_bits = f.v_bits = 8;
    assert_int_equal(published(f), 17825792);
}

/* Returns the bytes of one token in all layers of a model. */
static uint64_t token_bytes(const struct model_config *c, double bits)
{
    struct kv_format f = chosen(c, (struct kv_request){.bits = bits});
    uint64_t sum = 0;

    for (uint32_t i = 0; i < c->shape.n_layers; i++) {
        struct kv_format of = kv_format_of_layer(&f, i);
        struct kv_block b;

        kv_block_make(&b, &of, c->shape.n_kv_heads, c->shape.head_dim, 1);
        sum += c->mixers[i] == MIXER_ATTENTION ? b.bytes : 0;
    }
    return sum;
}

static void counts_a_token_of_published_models(void **state)
{
    struct model_config c = config("qwen3.5-0.8b");

    (void)state;
    assert_int_equal(token_bytes(&c, 0), 12288);
    assert_int_equal(token_bytes(&c, 8), 7488);
    assert_int_equal(token_bytes(&c, 4), 4928);
    c = config("qwen3.5-9b");
    assert_int_equal(token_bytes(&c, 0), 32768);
    assert_int_equal(token_bytes(&c, 8), 19328);
    assert_int_equal(token_bytes(&c, 4), 12160);
    /* Seven layers of 4 heads: 98 and 130 bytes. */
    assert_int_equal(token_bytes(&c, 3.5), 7 * 4 * (98 + 130) + 4096);
}

static void counts_a_turboquant_vector(void **state)
{
    struct kv_format f = {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER};
    struct kv_block b;

    (void)state;
    kv_block_make(&b, &f, 1, 256, 1);
    assert_int_equal(b.k.code_bytes, 96);
    assert_int_equal(b.k.param_bytes, 2);
    assert_int_equal(b.v.code_bytes, 128);
    assert_int_equal(b.v.param_bytes, 2);
    /* Codes end on a word. */
    kv_block_make(&b, &f, 1, 16, 1);
    assert_int_equal(b.k.code_bytes, 8); /* 48 bits */
    assert_int_equal(b.v.code_bytes, 8);
}

static void lays_out_a_block(void **state)
{
    struct kv_format f = {DTYPE_BF16, KV_AFFINE, 4, 4, 32, KV_NO_LAYER};
    struct kv_block b;

    (void)state;
    kv_block_make(&b, &f, 3, 128, 5); /* 15 vectors */
    assert_int_equal(b.k.bits, 4);
    assert_int_equal(b.k.code_bytes, 64);
    assert_int_equal(b.k.param_bytes, 16);
    assert_int_equal(b.k_codes, 0);
    assert_int_equal(b.v_codes, 15 * 64);
    assert_int_equal(b.k_params, 30 * 64);
    assert_int_equal(b.v_params, 30 * 64 + 15 * 16);
    assert_int_equal(b.bytes, 30 * (64 + 16));
    f = kv_format_plain(DTYPE_BF16);
    kv_block_make(&b, &f, 3, 128, 5);
    assert_int_equal(b.k.bits, 16);
    assert_int_equal(b.v_codes, 15 * 256);
    assert_int_equal(b.k_params, b.bytes);
    assert_int_equal(b.v_params, b.bytes);
    assert_int_equal(b.bytes, 30 * 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_plain_unless_asked),
        cmocka_unit_test(chooses_the_scheme_by_bits),
        cmocka_unit_test(gives_keys_the_lower_bits),
        cmocka_unit_test(keeps_the_last_attention_layer_whole),
        cmocka_unit_test(refuses_unknown_names),
        cmocka_unit_test(limits_affine_bits),
        cmocka_unit_test(limits_turboquant_bits),
        cmocka_unit_test(limits_groups),
        cmocka_unit_test(refuses_groups_that_nothing_uses),
        cmocka_unit_test(limits_the_heads_of_turboquant),
        cmocka_unit_test(refuses_models_without_attention),
        cmocka_unit_test(compares_what_is_stored),
        cmocka_unit_test(equals_the_published_bytes),
        cmocka_unit_test(counts_a_token_of_published_models),
        cmocka_unit_test(counts_a_turboquant_vector),
        cmocka_unit_test(lays_out_a_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
