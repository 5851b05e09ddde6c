/* Tests the opencl backend's operators against the slow plain reference, over
 * rows of one token, odd numbers, and a tile's size plus and minus one; nothing
 * may be written beside a tensor.
 *
 *     opencl_operators_test [KIND]
 *
 * Sizes of a model are constants of its programs, so there are few kinds: with
 * one, odd and tile sizes.  Where the backend rounds the operands of a product
 * to bf16, so does the reference.
 *
 * The linker puts __wrap_opencl_arena_add and __wrap_opencl_scratch in front of
 * the backend's own (-Wl,--wrap).  They add a zone of NaN behind each tensor
 * and share no memory between tensors.  Writes there are found; reads show as
 * NaN in a result. */
#include <stdlib.h>
#include <string.h>

#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/host/opencl.h"
#include "tests/kernels/bench.h"
#include "tests/kernels/opencl_shape.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define ZONE      4096 /* bytes behind a tensor */
#define ZONES_MAX 512

static const uint32_t sizes[] = {1,  2,  7,  8,  9,  15, 16,
                                 17, 31, 32, 33, 63, 64, 65};

#define SIZES (sizeof sizes / sizeof sizes[0])

static size_t stride = 1; /* takes every n-th size, to save time */

/* ---- zones ---- */

struct zone {
    const struct opencl_tensor *of;
    struct opencl_tensor behind; /* [ZONE] bytes */
};

static struct zone zones[ZONES_MAX];
static uint32_t n_zones;

void __real_opencl_arena_add(struct opencl_arena *a, struct opencl_tensor *out,
                             size_t rows, size_t cols, size_t item);
void __wrap_opencl_arena_add(struct opencl_arena *a, struct opencl_tensor *out,
                             size_t rows, size_t cols, size_t item);
void __real_opencl_scratch(struct opencl *c, enum opencl_part part,
                           struct opencl_tensor *out, size_t rows, size_t cols,
                           size_t item);
void __wrap_opencl_scratch(struct opencl *c, enum opencl_part part,
                           struct opencl_tensor *out, size_t rows, size_t cols,
                           size_t item);

void __wrap_opencl_arena_add(struct opencl_arena *a, struct opencl_tensor *out,
                             size_t rows, size_t cols, size_t item)
{
    __real_opencl_arena_add(a, out, rows, cols, item);
    if (a != NULL && rows * cols > 0) {
        struct zone *z = &zones[n_zones++];

        assert_true(n_zones <= ZONES_MAX);
        z->of = out;
        __real_opencl_arena_add(a, &z->behind, 1, ZONE, 1);
    }
}

void __wrap_opencl_scratch(struct opencl *c, enum opencl_part part,
                           struct opencl_tensor *out, size_t rows, size_t cols,
                           size_t item)
{
    (void)part;
    __real_opencl_scratch(c, OPENCL_KEEP, out, rows, cols, item);
}

/* Returns the bytes from the tensor's last byte to the zone's end; *n: how
 * many. */
static struct opencl_tensor zone_bytes(const struct zone *z, size_t *n)
{
    struct opencl_tensor t = z->behind;
    const struct opencl_tensor *of = z->of;
    size_t used = of->bits > 0 ? opencl_tensor_bytes(of)
                               : (size_t)of->rows * of->cols * of->item;

    assert_ptr_equal(z->of->mem, t.mem);
    *n = t.at + ZONE - (z->of->at + used);
    t.at = z->of->at + used;
    return t;
}

static void fill_zones(struct opencl *c)
{
    unsigned char nan[2 * ZONE];
    size_t n;

    memset(nan, 0xff, sizeof nan);
    for (uint32_t i = 0; i < n_zones; i++) {
        struct opencl_tensor t = zone_bytes(&zones[i], &n);

        assert_true(n <= sizeof nan);
        opencl_upload(c, &t, 0, nan, n);
    }
    assert_int_equal(c->health.failed.code, ST_OK);
}

/* Returns how many zones have changed. */
static uint32_t zones_hurt(struct opencl *c)
{
    unsigned char now[2 * ZONE];
    uint32_t n_hurt = 0;
    size_t n;

    for (uint32_t i = 0; i < n_zones; i++) {
        struct opencl_tensor t = zone_bytes(&zones[i], &n);
        bool whole = true;

        opencl_download(c, &t, 0, now, n);
        for (size_t j = 0; j < n; j++) {
            whole = whole && now[j] == 0xff;
        }
        n_hurt += !whole;
    }
    assert_int_equal(c->health.failed.code, ST_OK);
    return n_hurt;
}

/* Checks that every zone is intact, and that one changed byte is detected. */
static void check_zones(struct opencl *c)
{
    const unsigned char byte = 0xfe;
    struct opencl_tensor t;
    size_t n;

    assert_true(n_zones > 20);
    assert_int_equal(zones_hurt(c), 0);
    t = zone_bytes(&zones[n_zones / 2], &n);
    opencl_upload(c, &t, n - 1, &byte, 1);
    assert_int_equal(zones_hurt(c), 1);
}

/* ---- kinds ---- */

struct kind {
    const char *name;
    enum dtype dtype, kv_dtype;
    uint32_t block_tokens;
    uint32_t hidden, intermediate, vocab;
    uint32_t n_heads, n_kv_heads, head_dim, rotated;
    uint32_t n_k_heads, n_v_heads, k_dim, v_dim, conv;
    bool gated, bias, qk_norm;
    bool nvidia; /* suits NVIDIA's kernels, and only runs with them */
};

/* clang-format off */
static const struct kind kinds[] = {
    {"odd", DTYPE_F32, DTYPE_F32, 1, 17, 31, 63, 3, 1, 24, 6,
     1, 3, 5, 7, 2, false, true, false, false},
    {"f16", DTYPE_F16, DTYPE_F16, 64, 65, 160, 500, 2, 2, 128, 64,
     3, 3, 33, 16, 1, false, true, true, false},
    {"one", DTYPE_F32, DTYPE_F32, 32, 1, 1, 2, 1, 1, 2, 2,
     1, 1, 1, 1, 3, true, false, true, false},
    {"nvidia", DTYPE_BF16, DTYPE_BF16, 32, 256, 192, 512, 4, 2, 128, 64,
     2, 4, 128, 128, 4, true, false, true, true},
    {"nvidia-wide", DTYPE_BF16, DTYPE_BF16, 16, 128, 320, 264, 2, 1, 256, 64,
     2, 2, 128, 128, 4, true, false, true, true},
    /* enough columns for work-groups that share them */
    {"nvidia-deep", DTYPE_BF16, DTYPE_BF16, 16, 64, 8192, 264, 2, 1, 64, 32,
     2, 2, 128, 128, 4, true, false, true, true},
};
/* clang-format on */

#define KINDS (sizeof kinds / sizeof kinds[0])

/* Formats of the cache, with the model of bf16; those of NVIDIA's kernels with
 * the model of nvidia-wide.  Only attention reads the cache. */
struct cached {
    const char *name;
    bool nvidia;
    struct kv_format kv;
};

/* clang-format off */
static const struct cached cached[] = {
    {"affine8", false, {DTYPE_BF16, KV_AFFINE, 8, 8, 64, KV_NO_LAYER}},
    {"affine4", false, {DTYPE_BF16, KV_AFFINE, 4, 4, 32, KV_NO_LAYER}},
    {"turbo3.5", false, {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER}},
    {"nvidia-affine8", true, {DTYPE_BF16, KV_AFFINE, 8, 8, 64, KV_NO_LAYER}},
    {"nvidia-affine4", true, {DTYPE_BF16, KV_AFFINE, 4, 4, 128, KV_NO_LAYER}},
    {"nvidia-turbo3.5", true,
     {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, KV_NO_LAYER}},
};
/* clang-format on */

#define CACHED       (sizeof cached / sizeof cached[0])
#define CACHED_SHAPE 4 /* nvidia-wide */

static struct random_shape shape_of(const struct kind *k)
{
    return (struct random_shape){
        .shape = {.n_layers = 2,
                  .hidden = k->hidden,
                  .intermediate = k->intermediate,
                  .vocab = k->vocab,
                  .context = 256,
                  .norm_eps = 1e-6f,
                  .dtype = k->dtype,
                  .n_heads = k->n_heads,
                  .n_kv_heads = k->n_kv_heads,
                  .head_dim = k->head_dim,
                  .attn_gated = k->gated,
                  .rope = {.theta = 10000.0, .dim = k->rotated},
                  .n_k_heads = k->n_k_heads,
                  .n_v_heads = k->n_v_heads,
                  .k_dim = k->k_dim,
                  .v_dim = k->v_dim,
                  .conv = k->conv},
        .mixers = {MIXER_DELTANET, MIXER_ATTENTION},
        .tied = k->bias,
        .qkv_bias = k->bias,
        .o_bias = k->bias,
        .qk_norm = k->qk_norm,
    };
}

/* Features of other families: experts, windows, sinks, caps, norms of outputs
 * and other activations. */
struct features {
    const char *name;
    enum dtype kv_dtype;
    struct random_shape of;
    bool nvidia; /* as in struct kind */
};

#define HEADS                                                    \
    .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .vocab = 257, \
    .context = 256, .norm_eps = 1e-6f, .n_layers = 2

static const struct features features[] = {
    {"norms",
     DTYPE_BF16,
     {.shape = {HEADS, .hidden = 96, .intermediate = 100, .dtype = DTYPE_BF16,
                .rope = {.kind = ROPE_LINEAR,
                         .theta = 1e6,
                         .dim = 64,
                         .factor = 8.0},
                .window_rope = {.theta = 1e4, .dim = 64}, .window = 48,
                .attn_scale = 0.15f, .attn_cap = 3.0f, .stream.embed = 9.8125f,
                .stream.cap = 2.5f, .activation.kind = ACTIVATION_GELU,
                .n_experts = 3, .top_k = 2, .expert_dim = 24, .shared_dim = 40},
      .mixers = {MIXER_WINDOW, MIXER_ATTENTION},
      .ffns = {FFN_DENSE, FFN_EXPERTS},
      .tied = true,
      .qk_norm = true,
      .output_norms = true},
     false},
    {"formats",
     DTYPE_F32,
     {.shape = {HEADS, .hidden = 256, .intermediate = 256,
                .rope = {.theta = 1e4, .dim = 32}, .n_k_heads = 1,
                .n_v_heads = 3, .k_dim = 16, .v_dim = 24, .conv = 4,
                .n_experts = 4, .top_k = 2, .expert_dim = 256},
      .mixers = {MIXER_DELTANET, MIXER_ATTENTION},
      .ffns = {FFN_DENSE, FFN_EXPERTS},
      .qkv_bias = true,
      .quantised = true,
      .formats = RANDOM_FORMATS},
     false},
    /* Sizes that suit NVIDIA's products; 192 and 320 columns are no whole
     * chunks of 4 bits. */
    {"nvidia-experts",
     DTYPE_BF16,
     {.shape = {HEADS, .hidden = 256, .intermediate = 192, .dtype = DTYPE_BF16,
                .rope = {.theta = 1e4, .dim = 64}, .n_experts = 10, .top_k = 3,
                .expert_dim = 64, .shared_dim = 64, .top_k_normed = true},
      .mixers = {MIXER_ATTENTION, MIXER_ATTENTION},
      .ffns = {FFN_EXPERTS, FFN_DENSE},
      .shared_gate = true},
     true},
    {"nvidia-windows",
     DTYPE_BF16,
     {.shape = {HEADS, .hidden = 192, .intermediate = 192, .dtype = DTYPE_BF16,
                .rope = {.theta = 1e4, .dim = 64},
                .window_rope = {.theta = 500.0, .dim = 64}, .window = 24,
                .attn_scale = 0.2f, .activation.kind = ACTIVATION_GELU},
      .mixers = {MIXER_WINDOW, MIXER_ATTENTION},
      .ffns = {FFN_DENSE, FFN_DENSE},
      .sinks = true},
     true},
    {"nvidia-mxfp4",
     DTYPE_BF16,
     {.shape = {HEADS, .hidden = 192, .intermediate = 192, .dtype = DTYPE_BF16,
                .rope = {.theta = 1e4, .dim = 64},
                .activation.kind = ACTIVATION_CLAMPED,
                .activation.alpha = 1.702f, .activation.limit = 1.5f,
                .n_experts = 6, .top_k = 2, .expert_dim = 320,
                .top_k_normed = true, .gate_up_alternate = true},
      .mixers = {MIXER_ATTENTION, MIXER_ATTENTION},
      .ffns = {FFN_EXPERTS, FFN_DENSE},
      .sinks = true,
      .expert_bias = true,
      .experts_only = true,
      .quantised = true,
      .formats = 1u << WEIGHT_MXFP4},
     true},
    {"nvidia-affine",
     DTYPE_BF16,
     {.shape = {HEADS, .hidden = 192, .intermediate = 320, .dtype = DTYPE_BF16,
                .rope = {.theta = 1e4, .dim = 64},
                .activation.kind = ACTIVATION_GELU, .n_experts = 40, .top_k = 4,
                .expert_dim = 192, .shared_dim = 192},
      .mixers = {MIXER_ATTENTION, MIXER_ATTENTION},
      .ffns = {FFN_EXPERTS, FFN_DENSE},
      .quantised = true,
      .bits = 4,
      .group = 64},
     true},
    {"nvidia-fp8",
     DTYPE_BF16,
     {.shape = {HEADS, .hidden = 256, .intermediate = 384, .dtype = DTYPE_BF16,
                .rope = {.theta = 1e4, .dim = 64}, .n_experts = 5, .top_k = 2,
                .expert_dim = 128},
      .mixers = {MIXER_ATTENTION, MIXER_ATTENTION},
      .ffns = {FFN_EXPERTS, FFN_DENSE},
      .experts_only = true,
      .quantised = true,
      .formats = 1u << WEIGHT_FP8 | 1u << WEIGHT_Q8 | 1u << WEIGHT_Q4},
     true},
};

#define FEATURES (sizeof features / sizeof features[0])

/* ---- operators ---- */

/* The sets of formats up to this one are of plain and affine ones. */
#define CODED (1u << WEIGHT_PLAIN | 1u << WEIGHT_AFFINE)

static void open_bench(struct bench *b, const struct random_shape *r,
                       const struct kv_format *kv, uint32_t block_tokens,
                       bool portable)
{
    b->dice.state = 77;
    b->o = (struct kernels_options){
        .device = test_device_or("0"),
        .kv = *kv,
        .block_tokens = block_tokens,
        .max_tokens = OPENCL_SHAPE_TOKENS,
        .portable = portable,
    };
    /* As matmul.h has it: some matrix of these models has another format. */
    b->operand = r->shape.dtype == DTYPE_BF16 || r->formats > CODED ? DTYPE_BF16
                                                                    : DTYPE_F32;
    b->generated = true;
    n_zones = 0;
    bench_open(b, r);
    fill_zones(opencl_of(b->k));
}

static void expected_mlp(struct reference *r, uint32_t layer, double *x)
{
    reference_mlp(r, layer, x);
}

/* float32 sums; and 16-bit operands and caches that may round differently from
 * the reference's, where the two differ in the last bit before rounding. */
static double bound(const struct bench *b)
{
    return b->operand == DTYPE_F32 && b->o.kv.dtype == DTYPE_F32 ? 2e-5 : 6e-3;
}

static void check(struct bench *b, const char *what, uint32_t layer,
                  bench_operator_fn op, bench_expected_fn expected)
{
    double most = 0.0;

    for (size_t i = 0; i < SIZES; i += stride) {
        double error;

        bench_restart(b);
        b->chunk = sizes[i];
        for (uint32_t j = 0; j < BENCH_SEQS; j++) {
            struct bench_seq *s = &b->seqs[j];

            s->length = s->length < sizes[i] ? sizes[i] : s->length;
        }
        error = bench_run(b, layer, op, expected);
        if (!(error < bound(b))) {
            fail_msg("%s, rows of %u: relative error %g", what, sizes[i],
                     error);
        }
        most = error > most ? error : most;
    }
    print_message("  %-10s %.1e of %.1e\n", what, most, bound(b));
}

static void check_head(struct bench *b)
{
    const double allowed = b->operand == DTYPE_F32 ? 1e-4 : 1e-2;
    uint32_t tokens[BENCH_LENGTH];
    double most = 0.0;

    for (size_t i = 0; i < SIZES; i += stride) {
        double error;

        for (uint32_t j = 0; j < sizes[i]; j++) {
            tokens[j] = dice_below(&b->dice, b->model.w.shape.vocab);
        }
        error = bench_head(b, tokens, sizes[i]);
        if (!(error < allowed)) {
            fail_msg("head, a row of %u: error %g", sizes[i], error);
        }
        most = error > most ? error : most;
    }
    print_message("  %-10s %.1e of %.1e\n", "head", most, allowed);
}

static void try_operators(const char *name, const struct random_shape *r,
                          enum dtype kv_dtype, uint32_t block_tokens,
                          bool portable)
{
    const struct kv_format plain = kv_format_plain(kv_dtype);
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    open_bench(b, r, &plain, block_tokens, portable);
    print_message("%s%s:\n", name, portable ? ", portable" : "");
    check_head(b);
    check(b, "deltanet", 0, kernels_mixer, reference_deltanet);
    check(b, "attention", 1, kernels_mixer, reference_attention);
    check(b, "mlp", 1, kernels_ffn, expected_mlp);
    check_zones(opencl_of(b->k));
    bench_close(b);
    free(b);
}

static void try_cached(const struct cached *of, const struct random_shape *r,
                       bool portable)
{
    struct bench *b = calloc(1, sizeof *b);

    assert_non_null(b);
    open_bench(b, r, &of->kv, OPENCL_SHAPE_BLOCK, portable);
    print_message("%s%s:\n", of->name, portable ? ", portable" : "");
    check(b, "attention", 1, kernels_mixer, reference_attention);
    assert_true(b->n_codes > 100000);
    assert_true(b->n_differ < b->n_codes / 100);
    check_zones(opencl_of(b->k));
    bench_close(b);
    free(b);
}

/* The mixer and the feed-forward of each layer, and the head. */
static void try_features(const struct features *of, bool portable)
{
    const struct kv_format plain = kv_format_plain(of->kv_dtype);
    struct bench *b = calloc(1, sizeof *b);

    stride = portable ? 4 : 1;
    assert_non_null(b);
    open_bench(b, &of->of, &plain, OPENCL_SHAPE_BLOCK, portable);
    print_message("%s%s:\n", of->name, portable ? ", portable" : "");
    check_head(b);
    for (uint32_t i = 0; i < of->of.shape.n_layers; i++) {
        if (of->of.mixers[i] == MIXER_DELTANET) {
            check(b, "deltanet", i, kernels_mixer, reference_deltanet);
        } else {
            check(b, of->of.mixers[i] == MIXER_WINDOW ? "window" : "attention",
                  i, kernels_mixer, reference_attention);
        }
        check(b, of->of.ffns[i] == FFN_EXPERTS ? "experts" : "mlp", i,
              kernels_ffn, reference_ffn);
    }
    stride = 1;
    check_zones(opencl_of(b->k));
    bench_close(b);
    free(b);
}

static const char *wanted; /* NULL: all kinds */

static bool is_wanted(const char *name)
{
    return wanted == NULL || strcmp(wanted, name) == 0;
}

static bool is_nvidia(void)
{
    struct opencl_device d;
    struct error e;

    assert_int_equal(opencl_device_find(&d, test_device_or("0"), &e), ST_OK);
    return d.nvidia > 0;
}

/* Tests the portable kernels and, on an NVIDIA device, its own as well. */
static void test_operators(void **state)
{
    const struct random_shape common = opencl_shape();
    const struct features shared[] = {
        {"experts", DTYPE_BF16, opencl_expert_shape(), false},
        {"sinks", DTYPE_F32, opencl_window_shape(), false}};
    const bool nvidia = is_nvidia();
    uint32_t n = 0;

    (void)state;
    for (int portable = nvidia ? 0 : 1; portable < 2; portable++) {
        if (is_wanted("bf16")) {
            try_operators("bf16", &common, DTYPE_BF16, OPENCL_SHAPE_BLOCK,
                          portable);
            n++;
        }
        for (size_t i = 0; i < CACHED; i++) {
            const struct random_shape r = shape_of(&kinds[CACHED_SHAPE]);

            if (is_wanted(cached[i].name) && (nvidia || !cached[i].nvidia)) {
                try_cached(&cached[i], cached[i].nvidia ? &r : &common,
                           portable);
                n++;
            }
        }
        for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
            if (is_wanted(shared[i].name)) {
                try_features(&shared[i], portable);
                n++;
            }
        }
        for (size_t i = 0; i < FEATURES; i++) {
            if (is_wanted(features[i].name) &&
                (nvidia || !features[i].nvidia)) {
                try_features(&features[i], portable);
                n++;
            }
        }
        for (size_t i = 0; i < KINDS; i++) {
            const struct random_shape r = shape_of(&kinds[i]);

            if (is_wanted(kinds[i].name) && (nvidia || !kinds[i].nvidia)) {
                try_operators(kinds[i].name, &r, kinds[i].kv_dtype,
                              kinds[i].block_tokens, portable);
                n++;
            }
        }
    }
    assert_true(n > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
    };

    wanted = argc > 1 ? argv[1] : NULL;
    test_device_or("0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
