/* gguf_arch.h - The architecture of a GGUF file: which model, what shapes.
 *
 * general.architecture names the model in llama.cpp's words; ARCH.key has its
 * numbers.  Here are those numbers that the names and orders of tensors depend
 * on (gguf_tensors.h); gguf_config.h reads all of them.
 *
 * Threading: none.  Memory: borrows the header. */
#ifndef COMMON_MODEL_GGUF_ARCH_H
#define COMMON_MODEL_GGUF_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/model/gguf.h"

enum gguf_family {
    GGUF_LLAMA, /* and Mistral */
    GGUF_QWEN2,
    GGUF_QWEN3,
    GGUF_QWEN3_MOE,
    GGUF_QWEN3_NEXT,
    GGUF_QWEN3_5,
    GGUF_QWEN3_5_MOE,
    GGUF_GPT_OSS,
    GGUF_GEMMA3,
    GGUF_FAMILIES
};

struct gguf_arch {
    const struct gguf *file;
    const char *name; /* prefix of its keys */
    const char *type; /* model_type of config.json */
    enum gguf_family family;
    bool hybrid; /* Gated DeltaNet layers; the next five are not 0 then */
    uint32_t k_heads, v_heads, k_dim, v_dim; /* Hk, Hv, Dk, Dv */
    uint32_t conv;                           /* K */
    uint32_t n_layers;                       /* without predicted tokens' */
    uint32_t n_mtp;                          /* layers behind them */
    uint32_t hidden, n_heads, n_kv_heads, head_dim;
};

/* Reads the architecture.  Returns ST_UNIMPLEMENTED for one that is not
 * supported, ST_INVALID_ARGUMENT for a missing key or a value out of range. */
MUST_CHECK enum status gguf_arch_read(struct gguf_arch *a, const struct gguf *g,
                                      struct error *e);

/* Finds ARCH.key, NULL if there is none. */
const struct gguf_value *gguf_arch_find(const struct gguf_arch *a,
                                        const char *key);

/* Read the number or the string ARCH.key, as gguf_get_real() and
 * gguf_get_text(). */
MUST_CHECK enum status gguf_arch_real(const struct gguf_arch *a,
                                      const char *key, double *out,
                                      struct error *e);
MUST_CHECK enum status gguf_arch_text(const struct gguf_arch *a,
                                      const char *key, const char **text,
                                      size_t *n, struct error *e);

/* Reads the whole number ARCH.key in [min, max].  If the key is absent, *out
 * stays as it is.  An array must hold one number, or zeros beside it. */
MUST_CHECK enum status gguf_arch_number(const struct gguf_arch *a,
                                        const char *key, uint32_t min,
                                        uint32_t max, uint32_t *out,
                                        struct error *e);

#endif
