/* Tests integer products: the same bits on every instruction set, for packed
 * weights and in any batch; close to double precision; no pair of codes
 * saturates; and that packing loses nothing. */
#include <math.h>
#include <string.h>

#include "kernels/isa/int8.h"
#include "kernels/isa/isa.h"
#include "tests/kernels/random_weights.h"
#include "tests/kernels/reference.h"
#include "tests/unit/cmocka.h"

#define WIDEST 2304 /* columns */
#define W_ROWS 19
#define X_ROWS 33

static const char *const isas[] = {"generic", "avx2", "avx512"};

struct world {
    struct random_model m;
    struct tensor t;
    struct quantised packed;                     /* of all rows */
    char groups[3 * PACK_ROWS * (10 * WIDEST)];  /* its planes */
    _Alignas(64) char rows[X_ROWS * 2 * WIDEST]; /* of x */
    struct int8_x qx;
    float x[X_ROWS * WIDEST];
};

/* Packs all rows of w->t into planes of their own. */
static void pack_all(struct world *w)
{
    static char one[PACK_ROWS * 10 * WIDEST];
    struct quantised all = quantised_rows(&w->t, 0);
    size_t data = PACK_ROWS * (size_t)w->t.cols * w->t.bits / 8;
    size_t scales = PACK_ROWS * quantised_scale_bytes(&all);
    char *at[] = {w->groups, w->groups + 3 * data,
                  w->groups + 3 * (data + scales)};

    w->packed = all;
    w->packed.data = (uint8_t *)at[0];
    w->packed.scales = at[1];
    w->packed.biases = all.biases != NULL ? at[2] : NULL;
    for (uint32_t i = 0; i < w->t.rows; i += PACK_ROWS) {
        struct quantised rows = quantised_rows(&w->t, i), g;
        uint32_t left = w->t.rows - i, k = i / PACK_ROWS;

        g = pack_group(&rows, left < PACK_ROWS ? left : PACK_ROWS, one);
        memcpy(at[0] + k * data, g.data, data);
        memcpy(at[1] + k * scales, g.scales, scales);
        if (g.biases != NULL) {
            memcpy(at[2] + k * scales, g.biases, scales);
        }
    }
}

static void quantise_all(struct world *w, const struct cpu_isa *isa)
{
    const uint32_t k = w->t.cols;
    const uint32_t block = int8_block_of(w->t.format, w->t.group);

    w->qx = (struct int8_x){w->rows, k, block, int8_row_bytes(k, block)};
    for (uint32_t i = 0; i < X_ROWS; i++) {
        isa->int8->quantise(w->rows + i * w->qx.row_bytes, w->x + i * k, k,
                            block);
    }
}

/* Makes a matrix of the format and rows of x, some with large values. */
static void make(struct world *w, enum weight_format f, uint32_t round)
{
    struct dice d = {round + 100 * (uint32_t)f};
    uint32_t unit = f == WEIGHT_K4 || f == WEIGHT_K6 ? 256 : 128;

    memset(&w->m, 0, sizeof w->m);
    w->t = (struct tensor){.rows = 1 + dice_below(&d, W_ROWS),
                           .cols = unit * (1 + dice_below(&d, WIDEST / unit)),
                           .dtype = (enum dtype)(round % 3)};
    if (f != WEIGHT_AFFINE && unit == 128) {
        w->t.cols -= 32 * dice_below(&d, 4);
    }
    random_codes(&w->m, &d, &w->t, f, 1.0f);
    for (uint32_t i = 0; i < X_ROWS * w->t.cols; i++) {
        w->x[i] = dice_float(&d, -3.0f, 3.0f);
        w->x[i] *= dice_below(&d, 50) == 0 ? 20.0f : 1.0f;
    }
    pack_all(w);
}

/* Multiplies rows [m, m + n_x) of x with all rows of W. */
static void multiply(const struct world *w, const struct cpu_isa *isa,
                     uint32_t m, uint32_t n_x, bool add, float *out)
{
    static const float bias[W_ROWS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    struct int8_product p = {.w = w->packed,
                             .x = w->qx,
                             .bias = add ? bias : NULL,
                             .out = out,
                             .ld_out = W_ROWS,
                             .n_x = n_x,
                             .n_w = w->t.rows,
                             .add = add};

    p.x.rows += m * w->qx.row_bytes;
    isa->int8->product(&p);
}

/* ---- bits ---- */

static void compare(struct world *w, const struct cpu_isa *isa, bool add)
{
    static float want[X_ROWS * W_ROWS], have[X_ROWS * W_ROWS];
    static const uint32_t sizes[] = {1, 2, 3, 4, 5, 8, 10};
    static char rows[sizeof w->rows];

    memset(want, 0, sizeof want);
    memset(have, 0, sizeof have);
    quantise_all(w, isa_find("generic"));
    memcpy(rows, w->rows, sizeof rows);
    multiply(w, isa_find("generic"), 0, X_ROWS, add, want);
    quantise_all(w, isa);
    assert_memory_equal(w->rows, rows, X_ROWS * w->qx.row_bytes);
    multiply(w, isa, 0, X_ROWS, add, have);
    assert_memory_equal(have, want, sizeof want);
    memset(have, 0, sizeof have);
    for (uint32_t i = 0, m = 0; m < X_ROWS; m += sizes[i++]) {
        multiply(w, isa, m, sizes[i], add, have + m * W_ROWS);
    }
    assert_memory_equal(have, want, sizeof want);
}

static void bits_are_equal_on_every_isa_and_in_any_batch(void **state)
{
    static struct world w;

    (void)state;
    for (uint32_t round = 0; round < 12 * WEIGHT_FORMATS; round++) {
        enum weight_format f = (enum weight_format)(round % WEIGHT_FORMATS);

        if (!pack_fits(f)) {
            continue;
        }
        make(&w, f, round);
        for (size_t i = 0; i < 3; i++) {
            if (isa_find(isas[i]) != NULL) {
                compare(&w, isa_find(isas[i]), round % 3 == 0);
            }
        }
        random_model_free(&w.m);
    }
}

/* ---- values ---- */

/* The terms of a row are at most 4 times its greatest weight, since the bias of
 * a random code is about half of its range.  A block rounds its sum and scale,
 * and each of at most two additions, to 2^-24; the weight of the reference is
 * rounded as well. */
static void check_row(const struct world *w, uint32_t m, uint32_t n, float have)
{
    const int8_t *q = int8_codes(&w->qx, m);
    const float *d = int8_scales(&w->qx, m);
    double sum = 0, size = 0, top = 0;
    uint32_t k = w->t.cols;

    for (uint32_t i = 0; i < k; i++) {
        double x = (double)d[i / w->qx.block] * q[i];
        double v = reference_weight(&w->t, n, i);

        sum += x * v;
        size += fabs(x);
        top = fabs(v) > top ? fabs(v) : top;
    }
    assert_true(fabs(sum - (double)have) <=
                (2.0 * k / w->qx.block + 5) * 0x1p-24 * size * 4 * top);
}

static void sums_are_exact_but_for_the_roundings_of_blocks(void **state)
{
    static struct world w;
    static float out[X_ROWS * W_ROWS];

    (void)state;
    for (uint32_t f = 0; f < WEIGHT_FORMATS; f++) {
        if (!pack_fits((enum weight_format)f)) {
            continue;
        }
        make(&w, (enum weight_format)f, 7 + f);
        quantise_all(&w, isa_find(NULL));
        multiply(&w, isa_find(NULL), 0, X_ROWS, false, out);
        for (uint32_t i = 0; i < X_ROWS * w.t.rows; i++) {
            uint32_t m = i / w.t.rows, n = i % w.t.rows;

            check_row(&w, m, n, out[m * W_ROWS + n]);
        }
        random_model_free(&w.m);
    }
}

/* Half of a step of the block, and one rounding. */
static void codes_are_the_nearest(void **state)
{
    static struct world w;

    (void)state;
    make(&w, WEIGHT_Q8, 3);
    quantise_all(&w, isa_find(NULL));
    for (uint32_t i = 0; i < w.t.cols; i++) {
        double d = (double)int8_scales(&w.qx, 0)[i / 32];
        double x = (double)w.x[i];

        assert_true(fabs(d * int8_codes(&w.qx, 0)[i] - x) <=
                    d * (0.5 + 127 * 0x1p-22));
    }
    random_model_free(&w.m);
}

static void special_blocks_are_zero_or_not_a_number(void **state)
{
    _Alignas(64) char row[512];
    const struct int8_x x = {row, 160, 32, int8_row_bytes(160, 32)};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        float in[160] = {
            [3] = 0x1p-121f,   [40] = NAN,         [70] = INFINITY,
            [99] = 1.0f,       [100] = 0.5f / 127, [128] = -0x1p-120f,
            [101] = 1.5f / 127};
        const struct cpu_isa *isa = isa_find(isas[i]);

        if (isa == NULL) {
            continue;
        }
        isa->int8->quantise(row, in, 160, 32);
        const float *d = int8_scales(&x, 0);
        const int8_t *q = int8_codes(&x, 0);

        assert_true(d[0] == 0.0f && q[3] == 0);
        assert_true(isnan(d[1]) && isnan(d[2]));
        assert_int_equal(q[99], 127);
        assert_int_equal(q[100], 0); /* ties to even */
        assert_int_equal(q[101], 2);
        assert_int_equal(q[128], -127);
        assert_true(d[4] > 0.0f);
    }
}

/* ---- saturation ---- */

/* Sets pair i of a row to codes (a, b), least bits first. */
static void set_pair(uint8_t *row, uint32_t bits, uint32_t i, uint32_t a,
                     uint32_t b)
{
    for (uint32_t j = 0; j < 2 * bits; j++) {
        uint32_t at = i * 2 * bits + j, v = (a | b << bits) >> j & 1;

        row[at / 8] = (uint8_t)((row[at / 8] & ~(1u << at % 8)) | v << at % 8);
    }
}

/* Every pair of codes of a format meets x of every pair of signs, at its
 * greatest; the same pair fills whole rows, so that sums are greatest too. */
static void no_pair_of_codes_saturates(void **state)
{
    static struct world w;
    const uint32_t step = 61; /* odd: all pairs in some place */

    (void)state;
    for (uint32_t f = 0; f < 2 * WEIGHT_FORMATS; f++) {
        enum weight_format format = (enum weight_format)(f % WEIGHT_FORMATS);

        if (!pack_fits(format) || isa_find("avx2") == NULL) {
            continue;
        }
        make(&w, format, 1);
        w.t.cols = w.t.cols < 256 ? w.t.cols : 256; /* whole records */
        const uint32_t bits = w.t.bits, n = 1u << bits, k = w.t.cols;
        uint8_t *data = (uint8_t *)(uintptr_t)w.t.data;

        for (uint32_t i = 0; i < X_ROWS * k; i++) {
            w.x[i] = (i / k + i % 2) % 2 ? 127.0f : -127.0f;
            w.x[i] = i / k % 4 > 1 ? fabsf(w.x[i]) : w.x[i];
        }
        for (uint32_t at = 0; at < n * n; at += w.t.rows) {
            for (uint32_t i = 0; i < w.t.rows * k / 2; i++) {
                uint32_t pair =
                    f < WEIGHT_FORMATS ? at + i / (k / 2) : at + i * step;

                set_pair(data + i / (k / 2) * tensor_row_bytes(&w.t), bits,
                         i % (k / 2), pair % n, pair / n % n);
            }
            pack_all(&w);
            compare(&w, isa_find("avx2"), false);
        }
        random_model_free(&w.m);
    }
}

/* ---- packing ---- */

static void packing_loses_nothing(void **state)
{
    static struct world w;
    static char one[PACK_ROWS * 10 * WIDEST], row[10 * WIDEST];

    (void)state;
    for (uint32_t f = 0; f < WEIGHT_FORMATS; f++) {
        if (!pack_fits((enum weight_format)f)) {
            continue;
        }
        make(&w, (enum weight_format)f, f);
        for (uint32_t i = 0; i < w.t.rows; i++) {
            uint32_t first = i / PACK_ROWS * PACK_ROWS, left = w.t.rows - first;
            struct quantised rows = quantised_rows(&w.t, first), g, back;
            size_t scales = quantised_scale_bytes(&rows);

            g = pack_group(&rows, left < PACK_ROWS ? left : PACK_ROWS, one);
            back = pack_row(&g, i - first, row);
            rows = quantised_rows(&w.t, i);
            assert_memory_equal(back.data, rows.data, tensor_row_bytes(&w.t));
            assert_memory_equal(back.scales, rows.scales, scales);
            if (rows.biases != NULL) {
                assert_memory_equal(back.biases, rows.biases, scales);
            }
        }
        random_model_free(&w.m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_are_equal_on_every_isa_and_in_any_batch),
        cmocka_unit_test(sums_are_exact_but_for_the_roundings_of_blocks),
        cmocka_unit_test(codes_are_the_nearest),
        cmocka_unit_test(special_blocks_are_zero_or_not_a_number),
        cmocka_unit_test(no_pair_of_codes_saturates),
        cmocka_unit_test(packing_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
