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

/* Two layers with sinks and clamped experts, the first one with a window; odd
 * sizes, in float32. */
static inline struct random_shape opencl_window_shape(void)
{
    return (struct random_shape){
        .shape = {.n_layers = 2,
                  .hidden = 41,
                  .vocab = 257,
                  .context = 256,
                  .norm_eps = 1e-6f,
                  .n_heads = 4,
                  .n_kv_heads = 2,
                  .head_dim = 64,
                  .rope = {.kind = ROPE_YARN,
                           .theta = 1e4,
                           .dim = 64,
                           .factor = 8.0,
                           .beta_fast = 32.0,
                           .beta_slow = 1.0,
                           .attention = 1.2,
                           .original = 64},
                  .window_rope = {.theta = 500.0, .dim = 32},
                  .window = 20,
                  .activation.kind = ACTIVATION_CLAMPED,
                  .activation.alpha = 1.702f,
                  .activation.limit = 1.5f,
                  .n_experts = 5,
                  .top_k = 2,
                  .expert_dim = 33,
                  .top_k_normed = true,
                  .gate_up_alternate = true},
        .mixers = {MIXER_WINDOW, MIXER_ATTENTION},
        .ffns = {FFN_EXPERTS, FFN_EXPERTS},
        .qkv_bias = true,
        .o_bias = true,
        .sinks = true,
        .expert_bias = true,
        .equal_experts = true,
    };
}

/* A hybrid with an MTP layer that suits NVIDIA's kernels, whose products are
 * chained in steps of one token. */
static inline struct random_shape opencl_tuned_shape(bool experts)
{
    struct random_shape r = opencl_shape();
    struct model_shape *s = &r.shape;

    s->n_layers = 3;
    s->hidden = 256;
    s->intermediate = 192;
    s->head_dim = s->k_dim = s->v_dim = 128;
    r.mixers[2] = MIXER_DELTANET;
    r.qkv_bias = false;
    r.mtp = true;
    if (experts) {
        s->n_experts = 10;
        s->top_k = 3;
        s->expert_dim = s->shared_dim = 64;
        s->top_k_normed = true;
        r.shared_gate = true;
        for (uint32_t i = 0; i <= s->n_layers; i++) {
            r.ffns[i] = FFN_EXPERTS;
        }
    }
    return r;
}

#endif
