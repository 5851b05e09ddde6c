/* config_types.h - A model's configuration, as config.h reads it.
 *
 * Threading: none.  Memory: a model_config owns nothing and may be copied.
 * Limits: common/model/model_limits.h and proto/limits.h. */
#ifndef COMMON_MODEL_CONFIG_TYPES_H
#define COMMON_MODEL_CONFIG_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/model_limits.h"
#include "common/model/weights.h"

/* How a checkpoint stores a norm's gamma.  The norm inside a Gated DeltaNet
 * is always stored as gamma. */
enum norm_storage {
    NORM_GAMMA,        /* gamma */
    NORM_GAMMA_MINUS_1 /* gamma - 1, unless converted by MLX (shard.h) */
};

/* How a checkpoint stores the input projections of a Gated DeltaNet. */
enum linear_storage {
    LINEAR_SPLIT,  /* in_proj_qkv, in_proj_z, in_proj_b, in_proj_a */
    LINEAR_GROUPED /* in_proj_qkvz, in_proj_ba, interleaved by key head */
};

/* Quantisation of most matrices.  A matrix whose columns are no multiple of
 * group is not quantised. */
struct quantisation {
    enum weight_format format; /* most matrices, or the experts */
    uint32_t bits, group;      /* affine; 0: none */
    bool experts_only;         /* mxfp4: other matrices are plain */
};

struct model_config {
    char name[MODEL_NAME_MAX + 1]; /* empty after config_parse() */
    char family[24];               /* model_type */
    struct model_shape shape;
    /* [shape.n_layers + 1]; the last is the MTP layer, which is attention, with
     * experts if the model has any. */
    enum mixer_kind mixers[MODEL_LAYERS_MAX + 1];
    enum ffn_kind ffns[MODEL_LAYERS_MAX + 1];

    bool tied; /* the head is the embedding */
    enum norm_storage norms;
    enum linear_storage linear;
    struct quantisation quant;
    bool qkv_bias, o_bias; /* biases of attention; no MLP has one */
    bool qk_norm;
    bool sinks;        /* attention has sinks */
    bool output_norms; /* norms of the outputs of mixer and feed-forward */
    bool bare_inputs;  /* no norms of their inputs */
    bool fused;       /* q, k and v are one tensor, and gate and up of an MLP */
    bool expert_bias; /* biases of router and experts */
    bool shared_gate; /* the shared expert has a gate */

    uint32_t n_eos; /* end tokens of config and generation config, each once */
    uint32_t eos[MODEL_EOS_MAX];
    bool has_bos;
    uint32_t bos;
    uint32_t n_mtp; /* multi-token prediction layers; 0: none */
    bool drafts;    /* the MTP layer is loaded and counted in all sizes of a
                     * range with the last layer; n_mtp is 1.  Set by callers,
                     * false after config_parse() */
};

/* Returns whether layers that end at `end` are followed by the MTP layer. */
static inline bool config_drafts_at(const struct model_config *c, uint32_t end)
{
    return c->drafts && end == c->shape.n_layers;
}

/* Counts the layers with a kind of memory in [begin, end), without the MTP
 * layer. */
static inline uint32_t config_count(const struct model_config *c,
                                    enum mixer_memory memory, uint32_t begin,
                                    uint32_t end)
{
    uint32_t n = 0;

    for (uint32_t i = begin; i < end; i++) {
        n += mixer_memory(c->mixers[i]) == memory;
    }
    return n;
}

#endif
