/* quantise.h - float32 to quantised groups (struct tensor, weights.h).
 *
 * For a group of values w, with n = 2^bits - 1:
 *
 *     s = max((max w - min w) / n, 1e-7)
 *     edge = min w if |min w| > |max w|, else max w, and s = -s
 *     q0 = rint(edge / s); if q0 != 0 {s = edge / q0, b = edge} else b = 0
 *     q_i = clamp(rint((w_i - b) / s), 0, n)        rint: ties to even
 *
 * The edge is thus stored exactly, and zero almost exactly wherever it falls
 * in the group's range; the other end may be clipped by up to one step.  s
 * and b are rounded to their stored dtype before any q is chosen, so that q
 * fits the values that are read back.
 *
 * Threading: pure functions.  Memory: the caller's. */
#ifndef COMMON_MODEL_QUANTISE_H
#define COMMON_MODEL_QUANTISE_H

#include <stdbool.h>

#include "common/model/weights.h"

/* Destination of the groups of n values. */
struct quantised_groups {
    uint8_t *data; /* [n * bits / 8]; with 4 bits, the lower half first */
    void *scales;  /* [n / group] dtype */
    void *biases;  /* [n / group] dtype */
    enum dtype dtype;
    uint32_t bits, group;
};

/* Quantises w [n].  n is a multiple of group, bits 4 or 8.  Returns false if
 * a value is not finite; the output is then meaningless. */
bool quantise(const struct quantised_groups *out, const float *w, uint32_t n);

/* Returns whether w[0..n) has neither infinities nor NaNs. */
bool quantise_all_finite(const float *w, uint32_t n);

#endif
