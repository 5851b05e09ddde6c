/* family.h - Families of models, and what their config.json leaves out.
 *
 * A family is named by model_type, or by the architecture in a file without
 * one.  Defaults are those of its reference implementation.
 *
 * Threading: constant data. */
#ifndef COMMON_MODEL_FAMILY_H
#define COMMON_MODEL_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config_types.h"
#include "common/model/field.h"

/* Attention layers that see a window, if the file has no layer_types. */
enum family_windows {
    FAMILY_WINDOWS_NONE,   /* windows are refused */
    FAMILY_WINDOWS_ALL,    /* every layer */
    FAMILY_WINDOWS_LATE,   /* layers from max_window_layers on */
    FAMILY_WINDOWS_PATTERN /* all but every sliding_window_pattern-th */
};

/* Attention layers without rotary positions. */
enum family_nope {
    FAMILY_NOPE_NONE,
    FAMILY_NOPE_LISTED, /* no_rope_layers, or every
                         * no_rope_layer_interval-th */
    FAMILY_NOPE_FULL    /* those without a window, in a model with windows */
};

/* Defaults of the router and the experts; n is 0 in a dense family. */
struct family_experts {
    uint32_t n, top_k;
    uint32_t dim;    /* 0: an expert has intermediate_size */
    uint32_t shared; /* 0: the family has no shared expert */
    bool normed;     /* norm_topk_prob */
};

/* Details of a family's layers; a zero is what most families have. */
struct family_layers {
    bool tied;              /* the default of tie_word_embeddings */
    const char *o_bias_key; /* key of o's bias; NULL: attention_bias, too */
    bool multipliers;       /* embeddings, outputs of layers, scores, logits */
    enum family_nope nope;
    bool late_norm;              /* norms of q and k behind the rotation */
    bool whole_norm;             /* and over all their heads */
    bool bare_inputs;            /* norms of outputs, and none of inputs */
    bool query_scaling;          /* q grows with the position, beside YaRN */
    bool fused;                  /* tensors of q, k and v, and of gate and up */
    bool rope_alpha;             /* a "dynamic" scaling has an alpha */
    bool plain_windows;          /* no scaling of the rope of window layers */
    double score_cap, logit_cap; /* defaults of soft caps; 0: none */
};

struct family {
    const char *type;         /* model_type */
    const char *architecture; /* used if model_type is absent */
    bool hybrid;   /* Gated DeltaNet layers between attention layers */
    bool qkv_bias; /* always present, whatever attention_bias is */
    bool biased;   /* the default of attention_bias */
    bool qk_norm;
    bool gemma;         /* scaled embeddings, norms of outputs, GELU */
    bool gpt_oss;       /* sinks, clamped experts with biases */
    bool experts_fixed; /* every layer has experts, their weights are normed */
    enum norm_storage norms;
    enum linear_storage linear;
    uint32_t head_dim;        /* 0: hidden / heads */
    uint32_t heads, kv_heads; /* 0: required, and as many as heads */
    uint32_t vocab;           /* 0: required */
    uint32_t context;
    double partial; /* rotated part of a head */
    double theta;
    double window_theta; /* 0: window layers have the same rope */
    double eps;
    enum family_windows windows;
    bool window_flag; /* sliding_window needs use_sliding_window */
    uint32_t window;  /* sliding_window */
    uint32_t pattern; /* sliding_window_pattern */
    struct family_experts experts;
    struct family_layers layers;
};

/* Finds the family of f's file.  Faults and returns NULL if there is none. */
const struct family *family_find(struct fields *f);

/* Faults if the file's architecture is no language model: a classifier, an
 * embedding, a reward model or a drafter has the model_type of its base. */
void family_check_architecture(struct fields *f);

/* Faults if the file has a feature that no family has, such as latent
 * attention. */
void family_refuse_foreign(struct fields *f);

#endif
