/* try_deltanet.h - the reference of the Gated DeltaNet: the recurrence token by
 * token, in double, from the same float32 inputs as the kernels.
 *
 * Threading, memory: none. */
#ifndef TESTS_KERNELS_TRY_DELTANET_H
#define TESTS_KERNELS_TRY_DELTANET_H

#include "tests/kernels/opencl_try.h"

#define DELTA_DIM  128 /* Dk and Dv */
#define DELTA_TAPS 4

struct delta_shape {
    const char *name;
    uint32_t hk, hv;
};

static inline uint32_t delta_channels(const struct delta_shape *s)
{
    return (2 * s->hk + s->hv) * DELTA_DIM;
}

static inline uint32_t delta_in_ld(const struct delta_shape *s)
{
    return delta_channels(s) + s->hv * DELTA_DIM + 2 * s->hv;
}

/* Returns inputs of sequence `seed` at position p; weights have seeds below
 * 10. */
float delta_input(uint32_t seed, const struct delta_shape *s, uint32_t p,
                  uint32_t i);

/* Runs n tokens of sequence `seed` from position p: advances state [Hv,
 * DELTA_DIM, DELTA_DIM] and writes y [n, Hv, DELTA_DIM].  tail [DELTA_TAPS - 1,
 * C] bf16 holds the inputs before. */
void delta_reference(const struct delta_shape *s, uint32_t seed, uint32_t p,
                     uint32_t n, const uint16_t *tail, double *state,
                     double *y);

#endif
