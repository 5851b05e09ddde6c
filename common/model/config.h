/* config.h - config.json of a model directory, read and checked.
 *
 * Three layouts are read: flat; nested in `text_config`; nested, with absent
 * keys inherited from the top level.  Families, by model_type:
 *
 *     qwen3_5, qwen3_5_text    Gated DeltaNet and gated full attention, dense
 *     qwen3_5_moe, qwen3_5_moe_text, qwen3_next    the same with experts
 *     llama, mistral, qwen2, qwen3    full attention, dense
 *     qwen3_moe                full attention, experts
 *     gpt_oss                  windows and full attention, experts
 *     gemma3, gemma3_text      windows and full attention, dense
 *
 * Quantised weights: common/model/quantisation.h.
 *
 * Features that sluice cannot compute are refused by name with
 * ST_UNIMPLEMENTED: other families, latent attention, Mamba-2 layers, routing
 * with biases, groups or sigmoids, other rotary scalings, quantisations and
 * activations.  Values out of range or in contradiction are
 * ST_INVALID_ARGUMENT, with the key and the range in the message.
 *
 * Absent keys have the defaults of the family's reference implementation, as
 * listed in family.c; the dtype is bfloat16.
 *
 * Threading: none.  Memory: a model_config owns nothing and may be copied.
 * Limits: common/model/model_limits.h and proto/limits.h. */
#ifndef COMMON_MODEL_CONFIG_H
#define COMMON_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
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
    bool expert_bias;  /* biases of router and experts */
    bool shared_gate;  /* the shared expert has a gate */

    uint32_t n_eos; /* end tokens of config and generation config, each once */
    uint32_t eos[MODEL_EOS_MAX];
    bool has_bos;
    uint32_t bos;
    uint32_t n_mtp; /* multi-token prediction layers; 0: none */
    bool drafts;    /* the MTP layer is loaded and counted in all sizes of a
                     * range with the last layer; n_mtp is 1.  Set by callers,
                     * false after config_parse() */
};

/* Reads dir/config.json, and dir/generation_config.json if it exists.  The
 * name is dir's base name.  Returns ST_NOT_FOUND if there is no config.json;
 * other errors of directory_check() and config_parse(). */
MUST_CHECK enum status config_load(struct model_config *c, const char *dir,
                                   struct error *e);

/* Parses the bytes of a config.json; c->name stays empty. */
MUST_CHECK enum status config_parse(struct model_config *c, const char *json,
                                    size_t len, struct error *e);

/* Adds the end tokens of a generation_config.json to a parsed c. */
MUST_CHECK enum status config_add_generation(struct model_config *c,
                                             const char *json, size_t len,
                                             struct error *e);

/* Sets the model's name, 1 to MODEL_NAME_MAX bytes of UTF-8. */
MUST_CHECK enum status config_set_name(struct model_config *c, const char *name,
                                       struct error *e);

/* Returns whether layers that end at `end` are followed by the MTP layer. */
static inline bool config_drafts_at(const struct model_config *c, uint32_t end)
{
    return c->drafts && end == c->shape.n_layers;
}

/* Counts the layers of a kind in [begin, end), without the MTP layer. */
uint32_t config_count(const struct model_config *c, enum mixer_kind kind,
                      uint32_t begin, uint32_t end);

#endif
