/* kv_format.h - How the KV cache stores keys and values.
 *
 * A vector is the key or the value of one token and one KV head: hd values.
 *
 *     plain       dtype each
 *     affine      per group of `group` values a scale s and a bias b of dtype,
 *                 and per value an integer q of 8 or 4 bits:  s * q + b
 *     turboquant  a norm (f16), and per value the index of 2 to 4 bits in a
 *                 codebook: the vector divided by its norm and rotated by
 *                 random signs and a Hadamard matrix (kernels/kv_codec.h)
 *
 * Only attention layers are quantised.  The last attention layer of the whole
 * model stays plain if the model has more than two, since its errors reach the
 * logits directly.  Tails of convolutions have dtype, recurrent states are
 * float32, whatever the format.
 *
 * A block of a layer, nkv heads, block_tokens positions bt:
 *
 *     k codes [nkv, bt, k.code_bytes]  v codes [nkv, bt, v.code_bytes]
 *     k parameters [nkv, bt, k.param_bytes]  v parameters [nkv, bt, ..]
 *
 * codes: bit stream in 32-bit words, least significant bit first; value i is at
 * bit i * bits.  Parameters: affine [hd / group][2] dtype, scale then bias;
 * turboquant the norm.  A plain vector has only codes, its values; the cpu
 * backend stores plain keys transposed (kernels/cpu/cpu.h).
 *
 * Threading, memory: pure functions.
 * Limits: KV_*_MIN and KV_*_MAX of common/model/model_limits.h. */
#ifndef COMMON_MODEL_KV_FORMAT_H
#define COMMON_MODEL_KV_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/config_types.h"
#include "common/model/weights.h"

#define KV_BITS       8                   /* affine; default of --kv-bits */
#define KV_TURBO_BITS 3.5                 /* turboquant; default of --kv-bits */
#define KV_GROUP      64                  /* default of --kv-group */
#define KV_NAME_MAX   (KV_FORMAT_MAX + 1) /* bytes of a name, with its 0 */
#define KV_NO_LAYER   UINT32_MAX

/* Rows for the options of a program, which fill a kv_request. */
#define KV_OPTIONS(X)                                                          \
    X(kv_dtype, STRING, "DTYPE", "auto",                                       \
      "dtype of the KV cache: auto, f32, f16 or bf16", 0, 0)                   \
    X(kv_bits, F64, "BITS", NULL,                                              \
      "bits of a quantised key or value: 8 or 4 (affine), 2 to 4 in steps of " \
      "0.5 (turboquant) (default: not quantised)",                             \
      0, 0)                                                                    \
    X(kv_group, U32, "N", NULL,                                                \
      "values that share a scale and a bias: 32, 64 or 128 (default: 64)", 0,  \
      0)                                                                       \
    X(kv_scheme, STRING, "NAME", NULL,                                         \
      "how --kv-bits quantises: affine or turboquant (default: affine; "       \
      "turboquant if the bits are no whole number)",                           \
      0, 0)

enum kv_scheme { KV_PLAIN, KV_AFFINE, KV_TURBOQUANT };

struct kv_format {
    enum dtype dtype;        /* plain layers, tails, scales and biases */
    enum kv_scheme scheme;   /* for the layers that are quantised */
    uint32_t k_bits, v_bits; /* unused if plain */
    uint32_t group;          /* affine: 32, 64 or 128, divides hd */
    uint32_t whole;          /* layer of the model that stays plain, or
                              * KV_NO_LAYER; unused if plain */
};

/* The options of a worker, as given; NULL or 0: absent. */
struct kv_request {
    const char *dtype;  /* auto (bf16 for a model of bf16, else f32), f32, f16,
                         * bf16 */
    const char *scheme; /* affine, turboquant */
    double bits;        /* affine 8 or 4; turboquant 2 to 4 in halves: keys have
                         * the lower, values the upper whole number */
    uint32_t group;
};

/* Bytes of one vector. */
struct kv_vector {
    uint32_t bits; /* per value */
    uint32_t code_bytes, param_bytes;
};

/* A block of one layer: places from its begin, and its size. */
struct kv_block {
    struct kv_vector k, v;
    uint64_t k_codes, v_codes, k_params, v_params;
    uint64_t bytes;
};

/* Returns the format of a request for model c.  Fractional bits mean
 * turboquant, other bits affine, unless the scheme is given; a scheme without
 * bits has KV_BITS or KV_TURBO_BITS; without bits and scheme the cache is
 * plain.  Returns ST_INVALID_ARGUMENT, and what would be right, for
 * values out of range, a group that does not divide the head size, a head size
 * that turboquant cannot rotate (no power of two), a group that nothing uses,
 * or a model without attention layers. */
MUST_CHECK enum status kv_format_choose(struct kv_format *f,
                                        const struct model_config *c,
                                        const struct kv_request *r,
                                        struct error *e);

/* Returns a plain format of dtype. */
struct kv_format kv_format_plain(enum dtype dtype);

/* Returns the format of one layer of the model: f, or plain. */
struct kv_format kv_format_of_layer(const struct kv_format *f, uint32_t layer);

/* Returns whether two formats store the same bytes. */
bool kv_format_same(const struct kv_format *a, const struct kv_format *b);

/* Writes the name, as Hello and logs have it: "bf16", "f32",
 * "affine8/64+bf16", "turboquant3.5+bf16". */
const char *kv_format_name(const struct kv_format *f, char out[KV_NAME_MAX]);

/* Lays out a block of a layer with format f (of that layer). */
void kv_block_make(struct kv_block *b, const struct kv_format *f,
                   uint32_t n_kv_heads, uint32_t head_dim,
                   uint32_t block_tokens);

#endif
