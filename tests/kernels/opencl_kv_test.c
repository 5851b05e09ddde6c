/* Tests quantised KV on the opencl backend: what is appended has the bytes of
 * kernels/kv_codec.h, a plain layer beside a quantised one stays plain, and a
 * sequence has the same bits in any batch and chunking.  Blocks move as bytes.
 *
 *     opencl_kv_test [KIND]
 *
 * The expected bytes are the codec's of the keys and values that the same model
 * stores in a float32 cache. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backends/backend.h"
#include "kernels/kv_codec.h"
#include "kernels/opencl/noise.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/test_device.h"
#include "tests/unit/cmocka.h"

#define BLOCK  16
#define PAGES  24
#define TOKENS 80
#define HIDDEN 32

struct kind {
    const char *name;
    struct kv_format format;
    uint32_t head_dim;
};

/* clang-format off */
static const struct kind kinds[] = {
    {"affine8", {DTYPE_BF16, KV_AFFINE, 8, 8, 64, 1}, 64},
    {"affine4", {DTYPE_F32, KV_AFFINE, 4, 4, 32, 1}, 64},
    {"turbo3.5", {DTYPE_BF16, KV_TURBOQUANT, 3, 4, 0, 1}, 64},
    {"affine4-f16", {DTYPE_F16, KV_AFFINE, 4, 4, 64, 1}, 128},
    {"affine8-odd", {DTYPE_F32, KV_AFFINE, 8, 8, 32, 1}, 96},
    {"turbo2.5-small", {DTYPE_BF16, KV_TURBOQUANT, 2, 3, 0, 1}, 16},
};
/* clang-format on */

#define KINDS (sizeof kinds / sizeof kinds[0])

struct fixture {
    const struct kind *kind;
    struct random_model model;
    struct kernels *k, *plain; /* plain: float32 */
    struct kv_format f;        /* of layer 0 */
    struct kv_block block;
    uint32_t table[2][PAGES];
    float x[TOKENS * HIDDEN];
};

static struct random_shape shape_of(const struct kind *k)
{
    return (struct random_shape){
        .shape = {.n_layers = 2,
                  .hidden = HIDDEN,
                  .intermediate = 32,
                  .vocab = 64,
                  .context = 256,
                  .norm_eps = 1e-6f,
                  .dtype = DTYPE_F32,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = k->head_dim,
                  .attn_gated = true,
                  .rope = {.theta = 10000.0, .dim = k->head_dim / 2}},
        .mixers = {MIXER_ATTENTION, MIXER_ATTENTION},
        .qk_norm = true,
    };
}

static struct kernels *open_kernels(const struct fixture *f,
                                    const struct kv_format *kv)
{
    const struct kernels_options o = {.device = test_device_or("0"),
                                      .kv = *kv,
                                      .block_tokens = BLOCK,
                                      .max_tokens = TOKENS};
    struct kernels *k;
    struct error e;

    if (backend_new(&k, &f->model.w, &o, &e) != ST_OK ||
        kernels_alloc(k, PAGES, &e) != ST_OK) {
        fail_msg("%s: %s", f->kind->name, e.text);
    }
    kernels_poison_pages(k, 0, PAGES);
    return k;
}

static struct fixture *open_fixture(const struct kind *kind)
{
    const struct random_shape r = shape_of(kind);
    const struct kv_format plain = kv_format_plain(DTYPE_F32);
    struct fixture *f = calloc(1, sizeof *f);
    struct dice d = {5};

    assert_non_null(f);
    f->kind = kind;
    random_model_new(&f->model, &r, &d);
    f->f = kv_format_of_layer(&kind->format, 0);
    assert_int_equal(f->f.scheme, kind->format.scheme);
    kv_block_make(&f->block, &f->f, 2, kind->head_dim, BLOCK);
    f->k = open_kernels(f, &kind->format);
    f->plain = open_kernels(f, &plain);
    for (uint32_t i = 0; i < TOKENS * HIDDEN; i++) {
        f->x[i] = dice_float(&d, -2.0f, 2.0f);
    }
    for (uint32_t i = 0; i < PAGES; i++) {
        f->table[i % 2][i / 2] = (i * 7 + 3) % PAGES;
    }
    return f;
}

static void close_fixture(struct fixture *f)
{
    kernels_free(&f->k);
    kernels_free(&f->plain);
    random_model_free(&f->model);
    free(f);
}

/* Runs tokens [from, from + n) of a row, in blocks of table `table`, through a
 * layer; out [n, HIDDEN]. */
struct part {
    uint32_t from, n, table;
    bool generated;
};

static void run(const struct fixture *f, struct kernels *k, uint32_t layer,
                const struct part *parts, uint32_t n, float *out)
{
    struct kernel_row rows[2];
    struct kernel_step step = {rows, n, 0};

    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (struct kernel_row){.first = step.n_tokens,
                                      .n_tokens = parts[i].n,
                                      .position = parts[i].from,
                                      .blocks = f->table[parts[i].table],
                                      .generated = parts[i].generated};
        step.n_tokens += parts[i].n;
    }
    kernels_begin(k, &step);
    for (uint32_t i = 0; i < n; i++) {
        kernels_hidden_write(k, rows[i].first, parts[i].n,
                             f->x + parts[i].from * HIDDEN);
    }
    kernels_mixer(k, layer);
    kernels_hidden_read(k, 0, step.n_tokens, out);
    assert_int_equal(kernels_end(k, NULL), ST_OK);
}

/* ---- bytes ---- */

/* Checks a key or value of one head at a position of a block. */
static void check_vector(const struct fixture *f, const char *block,
                         const float *x, bool value, uint32_t at)
{
    static struct kv_turbo turbo[2]; /* of the kind below */
    static const struct kind *made;
    const struct kv_vector *v = value ? &f->block.v : &f->block.k;
    const char *codes = block + (value ? f->block.v_codes : f->block.k_codes) +
                        at * v->code_bytes;
    const char *params = block +
                         (value ? f->block.v_params : f->block.k_params) +
                         at * v->param_bytes;
    char want[KERNELS_HEAD_DIM_MAX], want_params[256];

    if (f->f.scheme == KV_TURBOQUANT && made != f->kind) {
        kv_turbo_make(&turbo[0], f->kind->head_dim, f->f.k_bits, KV_KEYS);
        kv_turbo_make(&turbo[1], f->kind->head_dim, f->f.v_bits, KV_VALUES);
        made = f->kind;
    }
    kv_encode(&f->f, v, &turbo[value], x, f->kind->head_dim, want, want_params);
    if (memcmp(codes, want, v->code_bytes) != 0 ||
        memcmp(params, want_params, v->param_bytes) != 0) {
        fail_msg("%s: the %s at %u differs from the codec's", f->kind->name,
                 value ? "value" : "key", at);
    }
}

/* Checks the first n positions of block i of the sequence in table 0. */
static void check_block(const struct fixture *f, uint32_t i, uint32_t n)
{
    const uint32_t page = f->table[0][i], hd = f->kind->head_dim;
    char *bytes = malloc(f->block.bytes);
    float *kv = malloc(sizeof *kv * 2 * BLOCK * 2 * hd);

    assert_true(bytes != NULL && kv != NULL);
    kernels_block_copy(f->k, 0, page, bytes, false);
    kernels_block_copy(f->plain, 0, page, kv, false);
    for (uint32_t p = 0; p < n; p++) {
        for (uint32_t h = 0; h < 2; h++) {
            const float *key = kv + (p * 2 + h) * hd;

            check_vector(f, bytes, key, false, h * BLOCK + p);
            check_vector(f, bytes, key + BLOCK * 2 * hd, true, h * BLOCK + p);
        }
    }
    free(bytes);
    free(kv);
}

static void appended_bytes_are_those_of_the_codec(const struct fixture *f)
{
    const struct part parts[] = {{0, 40, 0, false}, {40, 1, 0, true}};
    static float out[2][TOKENS * HIDDEN];

    for (uint32_t i = 0; i < 2; i++) {
        run(f, f->k, 0, &parts[i], 1, out[0]);
        run(f, f->plain, 0, &parts[i], 1, out[1]);
    }
    check_block(f, 0, BLOCK);
    check_block(f, 1, BLOCK);
    check_block(f, 2, 9);
}

/* ---- bits ---- */

static void assert_tokens(const struct fixture *f, const char *what,
                          const float *got, const float *want, uint32_t n)
{
    if (memcmp(got, want, n * HIDDEN * sizeof *got) != 0) {
        fail_msg("%s: %s", f->kind->name, what);
    }
}

/* A row in chunks, beside another row, in other blocks: the same bits. */
static void bits_do_not_depend_on_batch_or_chunk(const struct fixture *f)
{
    static float whole[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
    const struct part all = {0, 71, 0, false}, next = {71, 1, 0, true};
    const struct part first = {0, 33, 1, false};
    const struct part both[] = {{0, 9, 0, false}, {33, 38, 1, false}};
    const struct part last[] = {{71, 1, 1, true}, {9, 3, 0, false}};
    float token[HIDDEN];

    run(f, f->k, 0, &all, 1, whole);
    run(f, f->k, 0, &next, 1, token);
    run(f, f->k, 0, &first, 1, out);
    assert_tokens(f, "a first chunk differs", out, whole, 33);
    run(f, f->k, 0, both, 2, out);
    assert_tokens(f, "a row that begins again differs", out, whole, 9);
    assert_tokens(f, "a chunk beside another row differs", out + 9 * HIDDEN,
                  whole + 33 * HIDDEN, 38);
    run(f, f->k, 0, last, 2, out);
    assert_tokens(f, "a generated token in a batch differs", out, token, 1);
}

/* ---- blocks ---- */

/* Bytes read back as written; a copied page serves another sequence. */
static void blocks_move_as_bytes(const struct fixture *f)
{
    const struct part all = {0, 32, 0, false}, more = {32, 5, 0, false};
    const struct part other = {32, 5, 1, false};
    static float want[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
    char *bytes = malloc(2 * f->block.bytes), *again;

    assert_non_null(bytes);
    again = bytes + f->block.bytes;
    run(f, f->k, 0, &all, 1, want);
    run(f, f->k, 0, &more, 1, want);
    kernels_copy_pages(f->k, f->table[0][0], f->table[1][0], 1);
    kernels_block_copy(f->k, 0, f->table[0][1], bytes, false);
    kernels_block_copy(f->k, 0, f->table[1][1], bytes, true);
    kernels_block_copy(f->k, 0, f->table[1][1], again, false);
    assert_memory_equal(bytes, again, f->block.bytes);
    run(f, f->k, 0, &other, 1, out);
    assert_tokens(f, "a sequence in copied blocks differs", out, want, 5);
    free(bytes);
}

/* Layer 1 is the whole one.  Its canonical block is k and v of dtype, and its
 * output that of a plain cache of this dtype. */
static void the_whole_layer_stays_plain(const struct fixture *f)
{
    const struct part all = {0, 40, 0, false}, next = {40, 1, 0, true};
    const struct kv_format plain = kv_format_plain(f->kind->format.dtype);
    struct kernels *k = open_kernels(f, &plain);
    static float want[TOKENS * HIDDEN], out[TOKENS * HIDDEN];
    const size_t bytes =
        (size_t)2 * BLOCK * 2 * f->kind->head_dim * dtype_bytes(plain.dtype);
    char *a = malloc(2 * bytes), *b;

    assert_non_null(a);
    b = a + bytes;
    run(f, k, 1, &all, 1, want);
    run(f, f->k, 1, &all, 1, out);
    assert_tokens(f, "prompt tokens of the whole layer differ", out, want, 40);
    run(f, k, 1, &next, 1, want);
    run(f, f->k, 1, &next, 1, out);
    assert_tokens(f, "a token of the whole layer differs", out, want, 1);
    kernels_block_copy(k, 1, f->table[0][0], a, false);
    kernels_block_copy(f->k, 1, f->table[0][0], b, false);
    assert_memory_equal(a, b, bytes);
    kernels_free(&k);
    free(a);
}

/* The pool of a benchmark reads as numbers. */
static void noise_is_finite(const struct fixture *f)
{
    const struct part token = {TOKENS - 1, 1, 0, true};
    struct error e;
    float out[HIDDEN];

    assert_int_equal(opencl_noise_pool(f->k, 9, &e), ST_OK);
    run(f, f->k, 0, &token, 1, out);
    for (uint32_t i = 0; i < HIDDEN; i++) {
        assert_true(isfinite(out[i]));
    }
}

/* ---- ---- */

static const char *wanted; /* NULL: all kinds */

static void test_formats(void **state)
{
    uint32_t n = 0;

    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct fixture *f;

        if (wanted != NULL && strcmp(wanted, kinds[i].name) != 0) {
            continue;
        }
        f = open_fixture(&kinds[i]);
        appended_bytes_are_those_of_the_codec(f);
        bits_do_not_depend_on_batch_or_chunk(f);
        blocks_move_as_bytes(f);
        the_whole_layer_stays_plain(f);
        noise_is_finite(f);
        close_fixture(f);
        n++;
    }
    assert_true(n > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
    };

    wanted = argc > 1 ? argv[1] : NULL;
    test_device_or("0");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
