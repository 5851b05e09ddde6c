#include "kernels/rope.h"

#include <math.h>

/* Llama 3.1's rule: long wavelengths are stretched, short ones kept. */
static double llama3(const struct rope_shape *r, double f)
{
    double wave = 2.0 * 3.14159265358979323846 / f;
    double ratio = r->original / wave;

    if (ratio < r->low_freq) {
        return f / r->factor;
    }
    if (ratio > r->high_freq) {
        return f;
    }
    double smooth = (ratio - r->low_freq) / (r->high_freq - r->low_freq);
    return (1.0 - smooth) * f / r->factor + smooth * f;
}

/* Returns the index, not whole, of the frequency that turns `turns` times over
 * the original context. */
static double yarn_index(const struct rope_shape *r, double turns)
{
    return r->dim * log(r->original / (turns * 2.0 * 3.14159265358979323846)) /
           (2.0 * log(r->theta));
}

/* Returns by how much of a YaRN frequency i is divided by the factor, in
 * [0, 1]. */
static double yarn_ramp(const struct rope_shape *r, uint32_t i)
{
    double low = yarn_index(r, r->beta_fast);
    double high = yarn_index(r, r->beta_slow);

    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0.0 ? low : 0.0;
    high = high < r->dim - 1.0 ? high : r->dim - 1.0;
    if (low == high) {
        high += 0.001; /* as in transformers */
    }
    double at = (i - low) / (high - low);

    return at < 0.0 ? 0.0 : at > 1.0 ? 1.0 : at;
}

void rope_frequencies(const struct rope_shape *r, float *freq)
{
    for (uint32_t i = 0; i < r->dim / 2; i++) {
        double f = pow(r->theta, -2.0 * i / r->dim);

        if (r->kind == ROPE_LINEAR) {
            f /= r->factor;
        } else if (r->kind == ROPE_LLAMA3) {
            f = llama3(r, f);
        } else if (r->kind == ROPE_YARN) {
            double ramp = yarn_ramp(r, i);

            f = f / r->factor * ramp + f * (1.0 - ramp);
        }
        /* Rounded once, from double, as in the reference. */
        freq[i] = (float)f;
    }
}

float rope_scale(const struct rope_shape *r)
{
    return r->kind == ROPE_YARN ? (float)r->attention : 1.0f;
}

/* In double, so that every libm rounds the logarithm to the same float32. */
float rope_query_scale(const struct attention_shape *a, uint32_t position)
{
    uint32_t turns = a->query_original > 0 ? position / a->query_original : 0;

    return (float)(1.0 + a->query_beta * log(1.0 + turns));
}

/* The angle is float32, as in the reference.  Its cosine and sine are computed
 * in double, so that every libm rounds them to the same float32. */
void rope_angles(const float *freq, uint32_t half, uint32_t position,
                 float scale, float *cosine, float *sine)
{
    for (uint32_t i = 0; i < half; i++) {
        float angle = (float)position * freq[i];

        cosine[i] = (float)cos((double)angle) * scale;
        sine[i] = (float)sin((double)angle) * scale;
    }
}
