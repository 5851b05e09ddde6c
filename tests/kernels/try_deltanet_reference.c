/* try_deltanet_reference.c - see try_deltanet.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/try_deltanet.h"

static float of_half(uint16_t h)
{
    uint32_t b = (uint32_t)h << 16;
    float v;
    memcpy(&v, &b, 4);
    return v;
}

float delta_input(uint32_t seed, const struct delta_shape *s, uint32_t p,
                  uint32_t i)
{
    float scale = i < delta_channels(s) + s->hv * DELTA_DIM ? 1.0f : 3.0f;
    return try_value(seed, (uint64_t)p * delta_in_ld(s) + i, scale, TRY_F32);
}

static double weight(uint32_t seed, uint32_t i, float scale)
{
    return (double)try_value(seed, i, scale, TRY_F32);
}

/* c [C] of token i; inputs before the row are in tail. */
static void convolve(const struct delta_shape *s, uint32_t seed, uint32_t p,
                     uint32_t i, const uint16_t *tail, double *c)
{
    for (uint32_t ch = 0; ch < delta_channels(s); ch++) {
        double sum = 0;
        for (uint32_t j = 0; j < DELTA_TAPS; j++) {
            int32_t back = (int32_t)(DELTA_TAPS - 1 - j),
                    at = (int32_t)i - back;
            double x;
            if (at < 0) {
                x = (double)of_half(
                    tail[(uint32_t)(at + DELTA_TAPS - 1) * delta_channels(s) +
                         ch]);
            } else {
                float v = delta_input(seed, s, p + (uint32_t)at, ch);
                x = (double)(back ? try_bf16(v) : v);
            }
            sum += weight(2, ch * DELTA_TAPS + j, 0.7f) * x;
        }
        c[ch] = sum / (1 + exp(-sum));
    }
}

static void unit(double *x, double scale)
{
    double sum = 1e-6;
    for (uint32_t i = 0; i < DELTA_DIM; i++) {
        sum += x[i] * x[i];
    }
    for (uint32_t i = 0; i < DELTA_DIM; i++) {
        x[i] *= scale / sqrt(sum);
    }
}

static void head_step(double *state, const double *q, const double *k,
                      const double *v, double beta, double decay, double *o)
{
    for (uint32_t j = 0; j < DELTA_DIM; j++) {
        double m = 0;
        o[j] = 0;
        for (uint32_t i = 0; i < DELTA_DIM; i++) {
            state[i * DELTA_DIM + j] *= decay;
            m += k[i] * state[i * DELTA_DIM + j];
        }
        double d = beta * (v[j] - m);
        for (uint32_t i = 0; i < DELTA_DIM; i++) {
            state[i * DELTA_DIM + j] += k[i] * d;
            o[j] += q[i] * state[i * DELTA_DIM + j];
        }
    }
}

/* Computes y [Hv, DELTA_DIM] of one token and advances the state. */
static void token_step(const struct delta_shape *s, uint32_t seed, uint32_t p,
                       double *c, double *state, double *y)
{
    for (uint32_t h = 0; h < 2 * s->hk; h++) {
        unit(c + h * DELTA_DIM, h < s->hk ? 1 / sqrt(DELTA_DIM) : 1);
    }
    for (uint32_t h = 0; h < s->hv; h++) {
        uint32_t key = h / (s->hv / s->hk),
                 z = delta_channels(s) + h * DELTA_DIM;
        uint32_t b = delta_channels(s) + s->hv * DELTA_DIM + h;
        double x =
            (double)delta_input(seed, s, p, b + s->hv) + weight(4, h, 1.0f);
        double g = exp(-exp(weight(3, h, 2.0f)) * log1p(exp(x)));
        double beta = 1 / (1 + exp(-(double)delta_input(seed, s, p, b)));
        double *o = y + h * DELTA_DIM, square = 0;
        head_step(state + h * (size_t)DELTA_DIM * DELTA_DIM,
                  c + key * DELTA_DIM, c + (s->hk + key) * DELTA_DIM,
                  c + (2 * s->hk + h) * DELTA_DIM, beta, g, o);
        for (uint32_t j = 0; j < DELTA_DIM; j++) {
            square += o[j] * o[j];
        }
        for (uint32_t j = 0; j < DELTA_DIM; j++) {
            double gate = (double)delta_input(seed, s, p, z + j);
            o[j] *= weight(5, j, 1.0f) / sqrt(square / DELTA_DIM + 1e-6);
            o[j] *= gate / (1 + exp(-gate));
        }
    }
}

void delta_reference(const struct delta_shape *s, uint32_t seed, uint32_t p,
                     uint32_t n, const uint16_t *tail, double *state, double *y)
{
    double *c = calloc(delta_channels(s), sizeof *c);
    try_must(c ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "calloc");
    for (uint32_t i = 0; i < n; i++) {
        convolve(s, seed, p, i, tail, c);
        token_step(s, seed, p + i, c, state, y + i * (size_t)s->hv * DELTA_DIM);
    }
    free(c);
}
