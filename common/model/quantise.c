#include "common/model/quantise.h"

#include <math.h>
#include <string.h>

#include "common/model/half.h"

struct form {
    float scale, bias;
};

/* Stores f as element i of p and returns the value that will be read back. */
static float store(void *p, uint32_t i, float f, enum dtype t)
{
    uint16_t half;

    if (t == DTYPE_F32) {
        memcpy((char *)p + i * sizeof f, &f, sizeof f);
        return f;
    }
    half = t == DTYPE_BF16 ? half_to_bf16(f) : half_to_f16(f);
    memcpy((char *)p + i * sizeof half, &half, sizeof half);
    return t == DTYPE_BF16 ? half_from_bf16(half) : half_from_f16(half);
}

static struct form form_of(const float *w, uint32_t n, uint32_t bits)
{
    float low = w[0], high = w[0], scale, edge, steps;

    for (uint32_t i = 1; i < n; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
    }
    scale = (high - low) / (float)((1 << bits) - 1);
    scale = scale > 1e-7f ? scale : 1e-7f;
    edge = low;
    if (!(fabsf(low) > fabsf(high))) {
        scale = -scale;
        edge = high;
    }
    steps = rintf(edge / scale);
    return steps == 0 ? (struct form){scale, 0}
                      : (struct form){edge / steps, edge};
}

static uint8_t nearest(float w, struct form f, uint32_t bits)
{
    float most = (float)((1 << bits) - 1), q = rintf((w - f.bias) / f.scale);

    return (uint8_t)(q > 0 ? q < most ? q : most : 0); /* NaN: 0 */
}

bool quantise_all_finite(const float *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(w[i])) {
            return false;
        }
    }
    return true;
}

bool quantise(const struct quantised_groups *out, const float *w, uint32_t n)
{
    uint8_t *to = out->data;

    if (!quantise_all_finite(w, n)) {
        return false;
    }
    for (uint32_t g = 0; g < n / out->group; g++, w += out->group) {
        struct form f = form_of(w, out->group, out->bits);

        f.scale = store(out->scales, g, f.scale, out->dtype);
        f.bias = store(out->biases, g, f.bias, out->dtype);
        for (uint32_t i = 0; i < out->group; i++) {
            uint8_t q = nearest(w[i], f, out->bits);

            if (out->bits == 8) {
                *to++ = q;
            } else if (i % 2 == 0) {
                *to = q;
            } else {
                *to = (uint8_t)(*to | q << 4);
                to++;
            }
        }
    }
    return true;
}
