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

void rope_frequencies(const struct rope_shape *r, float *freq)
{
    for (uint32_t i = 0; i < r->dim / 2; i++) {
        double f = pow(r->theta, -2.0 * i / r->dim);

        if (r->kind == ROPE_LINEAR) {
            f /= r->factor;
        } else if (r->kind == ROPE_LLAMA3) {
            f = llama3(r, f);
        }
        /* Rounded once, from double, as in the reference. */
        freq[i] = (float)f;
    }
}

/* The angle is float32, as in the reference.  Its cosine and sine are computed
 * in double, so that every libm rounds them to the same float32. */
void rope_angles(const float *freq, uint32_t half, uint32_t position,
                 float *cosine, float *sine)
{
    for (uint32_t i = 0; i < half; i++) {
        float angle = (float)position * freq[i];

        cosine[i] = (float)cos((double)angle);
        sine[i] = (float)sin((double)angle);
    }
}
