/* quantise.h - float32 to quantised groups (struct tensor, weights.h).
 *
 * Of a group of values w, with n = 2^bits - 1:
 *
 *     s = max((max w - min w) / n, 1e-7)
 *     edge = min w if |min w| > |max w|, else max w, and s = -s
 *     q0 = rint(edge / s); if q0 != 0 {s = edge / q0, b = edge} else b = 0
 *     q_i = clamp(rint((w_i - b) / s), 0, n)        rint: ties to even
 *
 * so that the edge is stored exactly, and zero nearly so wherever it lies in
 * the group's range; the other end may be clipped by up to a step.  s and b
 * are rounded to the dtype they are stored in before any q is chosen, so that
 * the q fit what is read back.
 *
 * Threading: pure functions.  Memory: the caller's. */
#ifndef COMMON_MODEL_QUANTISE_H
#define COMMON_MODEL_QUANTISE_H

#include <stdbool.h>

#include "common/model/weights.h"

/* Where the groups of n values go. */
struct quantised_groups {
    uint8_t *data; /* [n * bits / 8], of 4 bits the lower half first */
    void *scales;  /* [n / group] dtype */
    void *biases;  /* the same */
    enum dtype dtype;
    uint32_t bits, group;
};

/* w [n], n a multiple of group, bits 4 or 8.  False if a value is not finite:
 * then what was written means nothing. */
bool quantise(const struct quantised_groups *out, const float *w, uint32_t n);

#endif
