#include "common/model/quantise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/half.h"
#include "tests/unit/cmocka.h"

#define N 128

struct groups {
    uint8_t data[N];
    float scales[N / 32], biases[N / 32]; /* or halves */
};

static bool make(struct groups *g, const float *w, uint32_t bits,
                 uint32_t group, enum dtype t)
{
    const struct quantised_groups out = {g->data, g->scales, g->biases,
                                         t,       bits,      group};

    memset(g, 0xee, sizeof *g);
    return quantise(&out, w, N);
}

static uint32_t value(const struct groups *g, uint32_t i, uint32_t bits)
{
    return bits == 8 ? g->data[i] : g->data[i / 2] >> i % 2 * 4 & 15;
}

/* Computed by hand: from -1 to 14 in steps of one, 4 bits.  The edge is 14,
 * so s = -1 and b = 14; the other end is 15 steps away. */
static void quantises_by_hand(void **state)
{
    struct groups g;
    float w[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        w[i] = (float)(i % 16 - 1);
    }
    assert_true(make(&g, w, 4, 32, DTYPE_F32));
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(value(&g, i, 4), 15 - i % 16);
        assert_true(g.scales[i / 32] == -1.0f);
        assert_true(g.biases[i / 32] == 14.0f);
    }
    /* The edge is the lower end.  s = 16 / 15 would not reach zero, so the
     * step is -15 / rint(-15 / s) = 15 / 14, and 1 is at its end. */
    for (int i = 0; i < N; i++) {
        w[i] = (float)(i % 17 - 15);
    }
    assert_true(make(&g, w, 4, 128, DTYPE_F32));
    assert_true(g.scales[0] == 15.0f / 14.0f);
    assert_true(g.biases[0] == -15.0f);
    assert_int_equal(value(&g, 0, 4), 0);
    assert_int_equal(value(&g, 15, 4), 14);
    assert_int_equal(value(&g, 16, 4), 15);
}

/* One value everywhere, also zero, and ties. */
static void quantises_odd_groups(void **state)
{
    static const float same[] = {0.0f, 3.5f, -2.0f, 1e-9f};
    struct groups g;
    float w[N];

    (void)state;
    for (int k = 0; k < 4; k++) {
        for (uint32_t bits = 4; bits <= 8; bits += 4) {
            for (int i = 0; i < N; i++) {
                w[i] = same[k];
            }
            assert_true(make(&g, w, bits, 64, DTYPE_F32));
            for (uint32_t i = 0; i < N; i++) {
                float back = fmaf((float)value(&g, i, bits), g.scales[i / 64],
                                  g.biases[i / 64]);

                assert_true(fabsf(back - same[k]) <= 1e-7f);
            }
        }
    }
    /* Half a step above 2 and 3 with s = 1, b = 0: rounded to even. */
    for (int i = 0; i < N; i++) {
        w[i] = (float)(i % 16);
    }
    w[0] = 0.0f;
    w[1] = 2.5f;
    w[2] = 3.5f;
    assert_true(make(&g, w, 4, 128, DTYPE_F32));
    assert_true(g.scales[0] == -1.0f && g.biases[0] == 15.0f);
    assert_int_equal(value(&g, 1, 4), 12); /* of 12.5 */
    assert_int_equal(value(&g, 2, 4), 12); /* of 11.5 */
}

/* The values read back: the edge exactly, zero, the rest within one step. */
static void comes_near(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 2000; round++) {
        uint32_t bits = round % 2 ? 4 : 8, group = 32u << round % 3;
        enum dtype t = (enum dtype)(round / 2 % 3);
        float w[N], middle = (float)(round % 7 - 3) * 0.25f;
        struct groups g;

        for (int i = 0; i < N; i++) {
            seed = seed * 1664525u + 1013904223u;
            w[i] = middle + (float)(int32_t)seed * 0x1p-31f;
            w[i] = half_from_bf16(half_to_bf16(w[i]));
            w[i] = half_from_f16(half_to_f16(w[i]));
        }
        assert_true(make(&g, w, bits, group, t));
        for (uint32_t i = 0; i < N; i++) {
            const uint16_t *s = (const void *)g.scales;
            const uint16_t *b = (const void *)g.biases;
            uint32_t at = i / group;
            float scale = t == DTYPE_F32    ? g.scales[at]
                          : t == DTYPE_BF16 ? half_from_bf16(s[at])
                                            : half_from_f16(s[at]);
            float bias = t == DTYPE_F32    ? g.biases[at]
                         : t == DTYPE_BF16 ? half_from_bf16(b[at])
                                           : half_from_f16(b[at]);
            float back = fmaf((float)value(&g, i, bits), scale, bias);
            float top = 0.0f;

            for (uint32_t k = at * group; k < (at + 1) * group; k++) {
                bool edge = fabsf(w[k]) > fabsf(top) ||
                            (fabsf(w[k]) >= fabsf(top) && w[k] > top);

                top = edge ? w[k] : top;
            }
            /* The clipped end, and up to 255 steps of a rounded scale. */
            assert_true(fabsf(back - w[i]) <= 2.0f * fabsf(scale));
            if (w[i] == top) {
                assert_true(back == top);
            }
        }
    }
}

static void refuses_what_is_not_finite(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct groups g;

    (void)state;
    for (int i = 0; i < 3; i++) {
        float w[N] = {0};

        w[N - 1] = bad[i];
        assert_false(make(&g, w, 8, 32, DTYPE_F32));
    }
}

/* Every half converted there and back, and all halfway cases. */
static void turns_halves(void **state)
{
    (void)state;
    for (uint32_t v = 0; v < 65536; v++) {
        float b = half_from_bf16((uint16_t)v), f = half_from_f16((uint16_t)v);

        assert_true(b != b || half_to_bf16(b) == v);
        assert_true(f != f || half_to_f16(f) == v);
        assert_true(b == b || (half_to_bf16(b) & 0x7fff) > 0x7f80);
        assert_true(f == f || (half_to_f16(f) & 0x7fff) > 0x7c00);
    }
    assert_int_equal(half_to_bf16(1.0f + 0x1p-8f), 0x3f80);
    assert_int_equal(half_to_bf16(1.0f + 0x3p-8f), 0x3f82);
    assert_int_equal(half_to_f16(1.0f + 0x1p-11f), 0x3c00);
    assert_int_equal(half_to_f16(0x1p-25f), 0);
    assert_int_equal(half_to_f16(65520.0f), 0x7c00);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantises_by_hand),
        cmocka_unit_test(quantises_odd_groups),
        cmocka_unit_test(comes_near),
        cmocka_unit_test(refuses_what_is_not_finite),
        cmocka_unit_test(turns_halves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
