/* opencl_shape.h - the model that several tests of the opencl backend share.
 *
 * Programs built for one test are cached for the others, as long as the build
 * options are the same.
 *
 * Two layers, one of each kind, in bf16, with every optional part of every
 * operator. */
#ifndef TESTS_KERNELS_OPENCL_SHAPE_H
#define TESTS_KERNELS_OPENCL_SHAPE_H

#include "tests/kernels/random_model.h"

#define OPENCL_SHAPE_BLOCK  16  /* tokens per block */
#define OPENCL_SHAPE_TOKENS 300 /* most tokens per step */
#define OPENCL_SHAPE_SLOT   3   /* pages of a slot */

static inline struct random_shape opencl_shape(void)
{
    return (struct random_shape){
        .shape = {.n_layers = 2,
                  .hidden = 64,
                  .intermediate = 96,
                  .vocab = 257,
                  .context = 256,
                  .norm_eps = 1e-6f,
                  .dtype = DTYPE_BF16,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 64,
                  .attn_gated = true,
                  .rope = {.theta = 10000.0, .dim = 32},
                  .n_k_heads = 2,
                  .n_v_heads = 4,
                  .k_dim = 32,
                  .v_dim = 32,
                  .conv = 4},
        .mixers = {MIXER_DELTANET, MIXER_ATTENTION},
        .qkv_bias = true,
        .qk_norm = true,
    };
}

/* The same with experts in the first layer, and a shared one. */
static inline struct random_shape opencl_expert_shape(void)
{
    struct random_shape r = opencl_shape();

    r.shape.n_experts = 10;
    r.shape.top_k = 3;
    r.shape.expert_dim = 24;
    r.shape.shared_dim = 32;
    r.shape.top_k_normed = true;
    r.ffns[0] = FFN_EXPERTS;
    r.shared_gate = true;
    return r;
}

#endif
