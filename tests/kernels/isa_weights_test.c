/* Tests that quantised weights have exactly the values of their formats on
 * every instruction set, and that products as stored equal those with float32
 * rows. */
#include <string.h>

#include "common/model/weight_format.h"
#include "kernels/isa/isa.h"
#include "tests/kernels/random_weights.h"
#include "tests/kernels/reference.h"
#include "tests/unit/cmocka.h"

static void fill(struct dice *d, float *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        p[i] = dice_float(d, -3.0f, 3.0f);
    }
}

static void store(void *out, const float *in, enum dtype t, size_t n)
{
    isa_find("generic")->narrow(out, in, t, n);
}

#define WIDEST 2304 /* more than 16 groups of 128 */

struct quantised_case {
    uint8_t data[7 * WIDEST];
    float scales[7 * WIDEST / 32], biases[7 * WIDEST / 32]; /* or 16-bit
                                                             * values */
    float x[QUANTISED_X * WIDEST];
    struct quantised w;
    uint32_t n_w;
};

static void quantised_case(struct quantised_case *q, uint32_t round)
{
    static const uint32_t groups[] = {1, 2, 15, 16, 17, 18};
    static float plain[7 * WIDEST / 32];
    struct dice d = {round};
    uint32_t group = 32u << round % 3;

    q->n_w = 1 + round % 7;
    q->w = (struct quantised){.format = WEIGHT_AFFINE,
                              .data = q->data,
                              .scales = q->scales,
                              .biases = q->biases,
                              .dtype = (enum dtype)(round / 2 % 3),
                              .k = groups[round % 6] * group,
                              .bits = round % 2 ? 4 : 8,
                              .group = group};
    for (size_t i = 0; i < sizeof q->data; i++) {
        q->data[i] = (uint8_t)dice_below(&d, 256);
    }
    fill(&d, q->x, QUANTISED_X * WIDEST);
    fill(&d, plain, sizeof plain / sizeof *plain);
    store(q->scales, plain, q->w.dtype, sizeof plain / sizeof *plain);
    fill(&d, plain, sizeof plain / sizeof *plain);
    store(q->biases, plain, q->w.dtype, sizeof plain / sizeof *plain);
}

/* Compares a product with rows as stored with that of wide [n_w, k]. */
static void compare_products(const struct cpu_isa *isa,
                             const struct quantised *w, const float *x,
                             const float *wide, uint32_t n_w, uint32_t n_x)
{
    static float out[2][QUANTISED_X * 8], turned[QUANTISED_STRIP * WIDEST];
    float bias[7] = {1, 2, 3, 4, 5};
    struct quantised_block b = {.w = *w,
                                .turned = turned,
                                .b = {.x = x,
                                      .bias = n_x % 4 ? bias : NULL,
                                      .out = out[0],
                                      .ld_x = w->k,
                                      .ld_out = 8,
                                      .n_x = n_x,
                                      .n_w = n_w,
                                      .k = w->k,
                                      .add = n_x % 5 == 0}};
    struct matmul_block plain = b.b;

    memset(out, 0, sizeof out);
    plain.w = wide;
    plain.dtype = DTYPE_F32;
    plain.out = out[1];
    isa->matmul_quantised(&b);
    isa->matmul(&plain);
    assert_memory_equal(out[0], out[1], sizeof out[0]);
}

/* A row's values must be exactly those that weights.h defines, and a product
 * with the row must equal, to the bit, the product with the float32 row. */
static void test_quantised(void **state)
{
    static const char *const all[] = {"generic", "avx2", "avx512"};
    static struct quantised_case q;
    static float wide[7 * WIDEST];

    (void)state;
    for (uint32_t round = 0; round < 216; round++) {
        const struct cpu_isa *isa = isa_find(all[round / 72]);

        if (isa == NULL) {
            continue;
        }
        quantised_case(&q, round);
        isa->dequantise(wide, &q.w, q.n_w);
        const struct tensor t = {.data = q.data,
                                 .format = WEIGHT_AFFINE,
                                 .dtype = q.w.dtype,
                                 .rows = q.n_w,
                                 .cols = q.w.k,
                                 .bits = q.w.bits,
                                 .group = q.w.group,
                                 .scales = q.scales,
                                 .biases = q.biases};
        for (uint32_t i = 0; i < q.n_w * q.w.k; i++) {
            double want = reference_weight(&t, i / q.w.k, i % q.w.k);

            assert_true((double)wide[i] == want);
        }
        static const uint32_t sizes[] = {1, 2, 3, 4,  5,  6,
                                         7, 8, 9, 15, 16, QUANTISED_X};

        compare_products(isa, &q.w, q.x, wide, q.n_w, sizes[round / 6 % 12]);
    }
}

/* Puts the least and the greatest scales, and negative ones, among others. */
static void extreme_scales(const struct tensor *t)
{
    /* The model's own memory. */
    uint8_t *s = (uint8_t *)(uintptr_t)t->scales;
    const float fp8[] = {0x1p-149f, 0x1p119f, -3.0f, 0.0f};
    const uint16_t f16[] = {0x0001, 0x7bff, 0xbc00, 0x8000};
    const uint8_t mxfp4[] = {0, 1, 254, 127};

    switch (t->format) {
    case WEIGHT_FP8:
        memcpy(s, fp8,
               tensor_scale_bytes(t) < sizeof fp8 ? tensor_scale_bytes(t)
                                                  : sizeof fp8);
        break;
    case WEIGHT_MXFP4:
        memcpy(s, mxfp4, t->cols < 128 ? 1 : sizeof mxfp4);
        break;
    case WEIGHT_K4:
        memcpy(s + 16, &f16[2], 2);
        memset(s, 255, 4);
        break;
    case WEIGHT_K6:
        memcpy(s + 16, &f16[0], 2);
        memset(s, 0x80, 4);
        break;
    default:
        memcpy(s, f16, t->cols < 128 ? 2 : sizeof f16);
    }
}

/* A matrix in any format but affine, of whole and of started groups. */
static struct tensor format_case(struct random_model *m, uint32_t round,
                                 enum weight_format f)
{
    static const uint32_t fp8[] = {1, 15, 16, 100, 128, 200, 257, 2304};
    struct dice d = {round};
    uint32_t unit = f == WEIGHT_K4 || f == WEIGHT_K6 ? 256 : 32;
    struct tensor t = {.rows = 1 + round % 7,
                       .cols = unit * (1 + dice_below(&d, WIDEST / unit))};

    t.cols = f == WEIGHT_FP8 ? fp8[round % 8] : t.cols;
    memset(m, 0, sizeof *m);
    random_codes(m, &d, &t, f, 1.0f);
    if (round % 3 == 0) {
        extreme_scales(&t);
    }
    return t;
}

/* Every format on every instruction set has the values of its definition, to
 * the bit, and products with rows as stored those with the float32 rows. */
static void formats_have_the_bits_of_their_definition(void **state)
{
    static const char *const all[] = {"generic", "avx2", "avx512"};
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, QUANTISED_X};
    static float wide[7 * WIDEST], want[7 * WIDEST], x[QUANTISED_X * WIDEST];
    static struct random_model m;
    struct dice d = {77};

    (void)state;
    fill(&d, x, sizeof x / sizeof *x);
    for (uint32_t round = 0; round < 3 * 20 * WEIGHT_FORMATS; round++) {
        const struct cpu_isa *isa = isa_find(all[round % 3]);
        enum weight_format f = (enum weight_format)(round / 3 % WEIGHT_FORMATS);
        struct tensor t;
        struct quantised w;

        if (isa == NULL || f == WEIGHT_PLAIN || f == WEIGHT_AFFINE) {
            continue;
        }
        t = format_case(&m, round / 3, f);
        w = quantised_rows(&t, 0);
        isa->dequantise(wide, &w, t.rows);
        for (uint32_t i = 0; i < t.rows; i++) {
            weight_format_decode(want + i * t.cols, &t, i, 0, t.cols);
        }
        assert_memory_equal(wide, want, (size_t)t.rows * t.cols * sizeof *wide);
        for (uint32_t i = 0; i < t.rows * t.cols; i++) {
            assert_true((double)wide[i] ==
                        reference_weight(&t, i / t.cols, i % t.cols));
        }
        compare_products(isa, &w, x, wide, t.rows, sizes[round / 24 % 10]);
        random_model_free(&m);
    }
}

/* Rows from any row on are those of the whole matrix. */
static void rows_of_a_matrix_are_found(void **state)
{
    static float wide[7 * WIDEST], one[WIDEST];
    static struct random_model m;

    (void)state;
    for (uint32_t f = WEIGHT_FP8; f < WEIGHT_FORMATS; f++) {
        struct tensor t = format_case(&m, 6, (enum weight_format)f);
        struct quantised w = quantised_rows(&t, 0);

        isa_find(NULL)->dequantise(wide, &w, t.rows);
        for (uint32_t i = 0; i < t.rows; i++) {
            w = quantised_rows(&t, i);
            isa_find(NULL)->dequantise(one, &w, 1);
            assert_memory_equal(one, wide + i * t.cols, t.cols * sizeof *one);
        }
        random_model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantised),
        cmocka_unit_test(formats_have_the_bits_of_their_definition),
        cmocka_unit_test(rows_of_a_matrix_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
