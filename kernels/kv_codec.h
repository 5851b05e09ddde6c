/* kv_codec.h - Quantisation of one vector of the KV cache: what the backends
 * compute, one value at a time.
 *
 * Affine, per group, n = 2^bits - 1, w the values:
 *
 *     s = max((max w - min w) / n, 1e-7)
 *     edge = min w if |min w| > |max w|, else s = -s and edge = max w
 *     q0 = rint(edge / s);  if q0 = 0: b = 0, else: s = edge / q0, b = edge
 *     s and b rounded to dtype
 *     q_i = clamp(rint((w_i - b) / s), 0, n);   read as s * q_i + b, rounded
 * once
 *
 * (MLX's affine form; s and b are rounded before the codes are chosen, so codes
 * fit the scale that is read.)
 *
 * TurboQuant (arXiv 2504.19874), d = hd a power of two, D random signs:
 *
 *     m = |w| rounded to f16,  u = H D w / (|w| sqrt(d))   H Hadamard
 *     q_i = index of the nearest centroid to u_i
 *     read as m * c[q_i] in the rotated basis: a query is rotated once, and
 *     scores are products in that basis; a sum of values is rotated back once
 *
 * Centroids c: Lloyd-Max for the density ~ (1 - x^2)^((d-3)/2) on [-1, 1].
 * Keys and values have signs of their own, from a fixed generator.
 *
 * Threading, memory: pure functions over the caller's memory. */
#ifndef KERNELS_KV_CODEC_H
#define KERNELS_KV_CODEC_H

#include <stdint.h>

#include "common/model/kv_format.h"

#define KV_CENTROIDS_MAX (1 << KV_TURBO_BITS_MAX)

enum kv_half { KV_KEYS, KV_VALUES };

/* TurboQuant of one half, for a backend. */
struct kv_turbo {
    uint32_t d, bits;
    float unit;                        /* 1 / sqrt(d) */
    float centroids[KV_CENTROIDS_MAX]; /* [1 << bits] ascending */
    float edges[KV_CENTROIDS_MAX];     /* [(1 << bits) - 1] midpoints; a code
                                        * is the number of edges below u_i */
    float signs[512];                  /* [d] 1 or -1; KERNELS_HEAD_DIM_MAX */
};

/* Computes centroids and signs: some milliseconds. */
void kv_turbo_make(struct kv_turbo *t, uint32_t d, uint32_t bits,
                   enum kv_half half);

/* x [d] := H D x / sqrt(d), and back.  Butterflies in the order of the stride,
 * 1 first, in float32. */
void kv_turbo_rotate(const struct kv_turbo *t, float *x);
void kv_turbo_rotate_back(const struct kv_turbo *t, float *x);

/* Encodes x [hd] into codes and parameters as kv_format.h lays them out.  t:
 * with turboquant only.  A value that is not finite makes its group, or with
 * turboquant its vector, read as NaN; so do a group whose range is no finite
 * float32, and a turboquant vector whose sum of squares is none.  Norms above
 * 65504 become 65504. */
void kv_encode(const struct kv_format *f, const struct kv_vector *v,
               const struct kv_turbo *t, const float *x, uint32_t hd,
               void *codes, void *params);

/* Decodes into out [hd]; a turboquant vector stays in the rotated basis. */
void kv_decode(const struct kv_format *f, const struct kv_vector *v,
               const struct kv_turbo *t, const void *codes, const void *params,
               uint32_t hd, float *out);

#endif
