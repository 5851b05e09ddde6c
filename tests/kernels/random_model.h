/* random_model.h - models of any shape, with random weights.
 *
 * Weights are drawn so that activations stay near one: matrices uniform with
 * variance 1 / cols, gammas in [0.5, 1.5], decays from slow to fast.  Each
 * matrix of a quantised model has its own bits and groups.
 *
 * Memory: a random_model owns its weights; random_model_free() releases it. */
#ifndef TESTS_KERNELS_RANDOM_MODEL_H
#define TESTS_KERNELS_RANDOM_MODEL_H

#include "common/model/kv_format.h"
#include "common/model/weights.h"

#define RANDOM_LAYERS_MAX 64
#define RANDOM_TENSORS    4096

struct dice {
    uint64_t state;
};

uint32_t dice_u32(struct dice *d);
uint32_t dice_below(struct dice *d, uint32_t n);
float dice_float(struct dice *d, float low, float high);
/* Picks one of the n values at `of`. */
uint32_t dice_pick(struct dice *d, const uint32_t *of, uint32_t n);

struct random_shape {
    struct model_shape shape;
    enum mixer_kind mixers[RANDOM_LAYERS_MAX];
    enum ffn_kind ffns[RANDOM_LAYERS_MAX + 1];
    bool mtp; /* behind the last layer is an MTP layer, with the
               * feed-forward that ffns has behind the last */
    bool tied, qkv_bias, o_bias, qk_norm;
    bool sinks, output_norms, bare_inputs;
    bool expert_bias; /* router, gate, up and down have one */
    bool shared_gate;
    bool equal_experts; /* the router's last row is its first */
    uint32_t formats;   /* for quantised matrices, a set: 1u << weight_format
                         * each; 0: affine */
    bool hollow;        /* matrices without contents (kernels/opencl/noise.h);
                         * quantised only with bits */
    bool experts_only;  /* only the experts' matrices are quantised */
    bool quantised; /* most matrices whose columns 32 divides; with bits, all
                     * whose columns group divides */
    uint32_t bits, group; /* for all matrices; 0: drawn for each */
};

struct random_model {
    struct shard_weights w;
    struct layer_weights layers[RANDOM_LAYERS_MAX + 1];
    struct mtp_weights mtp;
    void *owned[RANDOM_TENSORS];
    uint32_t n_owned;
    bool hollow;
    bool quantised, experts_only;
    uint32_t bits, group, formats;
};

/* All formats of weights.h. */
#define RANDOM_FORMATS ((1u << WEIGHT_FORMATS) - 1)

/* Draws a shape that the kernels support, small enough to be fast.  It has
 * attention over all positions, linear layers and MLPs. */
void random_shape(struct random_shape *r, struct dice *d);

/* Changes a drawn shape: some attention layers get windows, some MLPs become
 * experts, and it may have sinks, caps, scales, norms of outputs, YaRN and any
 * activation. */
void random_features(struct random_shape *r, struct dice *d);

/* Changes a drawn shape: its matrices have this format, where their columns
 * allow it.  Hidden, intermediate and expert sizes become multiples of 256 for
 * k4 and k6, of 32 for the others but fp8. */
void random_format(struct random_shape *r, enum weight_format format);

/* The number of formats that random_kv_format() makes. */
#define RANDOM_KV_FORMATS 16

/* Makes the n-th format of a KV cache: plain ones, affine ones of every size
 * and dtype, turboquant ones.  Changes the head size of the shape, if it must,
 * to one that the format supports.  Any layer is quantised. */
struct kv_format random_kv_format(uint32_t n, struct model_shape *s);

/* Makes the model.  An allocation failure ends the program, as this is for
 * tests. */
void random_model_new(struct random_model *m, const struct random_shape *r,
                      struct dice *d);
void random_model_free(struct random_model *m);

#endif
