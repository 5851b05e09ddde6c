#include "kernels/backends/backend.h"

#include <string.h>

#include "common/model/ffn.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/pack.h"
#include "kernels/opencl/backend.h"

/* An inclusive range for one figure of a model or an option. */
struct limit {
    const char *name;
    uint32_t value, least, most;
};

static enum status check_limits(const struct limit *l, size_t n,
                                struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (l[i].value < l[i].least || l[i].value > l[i].most) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "%s is %u; the kernels support %u to %u",
                             l[i].name, l[i].value, l[i].least, l[i].most);
        }
    }
    return ST_OK;
}

static enum status check_attention(const struct model_shape *s, struct error *e)
{
    const struct limit limits[] = {
        {"head size", s->head_dim, 2, KERNELS_HEAD_DIM_MAX},
        {"number of key/value heads", s->n_kv_heads, 1, s->n_heads},
        {"rotated part of a head", s->rope.dim, 0, s->head_dim},
        {"rotated part of a head of a window layer", s->window_rope.dim, 0,
         s->head_dim},
    };
    enum status st = check_limits(limits, 4, e);

    if (st != ST_OK) {
        return st;
    }
    if (s->n_heads % s->n_kv_heads != 0 || s->rope.dim % 2 != 0 ||
        s->window_rope.dim % 2 != 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u query heads, %u key/value heads and %u rotated "
                         "dimensions: the query heads must be a multiple of "
                         "the key/value heads, and the dimensions even",
                         s->n_heads, s->n_kv_heads, s->rope.dim);
    }
    /* After the check above, so the division is exact. */
    const struct limit group = {"query heads per key/value head",
                                s->n_heads / s->n_kv_heads, 1,
                                KERNELS_GROUP_MAX};
    return check_limits(&group, 1, e);
}

static enum status check_deltanet(const struct model_shape *s, struct error *e)
{
    const struct limit limits[] = {
        {"key size of a linear layer", s->k_dim, 1, KERNELS_STATE_DIM_MAX},
        {"value size of a linear layer", s->v_dim, 1, KERNELS_STATE_DIM_MAX},
        {"convolution kernel", s->conv, 1, KERNELS_CONV_MAX},
        {"number of linear key heads", s->n_k_heads, 1, s->n_v_heads},
    };
    enum status st = check_limits(limits, 4, e);

    if (st == ST_OK && s->n_v_heads % s->n_k_heads != 0) {
        st = error_set(
            e, ST_INVALID_ARGUMENT,
            "%u linear value heads are not a multiple of %u key heads",
            s->n_v_heads, s->n_k_heads);
    }
    return st;
}

static enum status check_experts(const struct model_shape *s, struct error *e)
{
    const struct limit limits[] = {
        {"number of experts", s->n_experts, 1, KERNELS_EXPERTS_MAX},
        {"number of experts of a token", s->top_k, 1,
         s->n_experts < KERNELS_TOP_K_MAX ? s->n_experts : KERNELS_TOP_K_MAX},
        {"intermediate size of an expert", s->expert_dim, 1, UINT32_MAX / 2},
    };

    return check_limits(limits, 3, e);
}

/* Checks what only some layers need. */
static enum status check_layers(const struct shard_weights *w, struct error *e)
{
    const struct limit window = {"window of a layer", w->shape.window, 1,
                                 UINT32_MAX};
    enum status st = ST_OK;

    for (uint32_t i = 0; i < shard_layers(w) && st == ST_OK; i++) {
        if (mixer_memory(w->layers[i].kind) == MIXER_IN_WINDOWS) {
            st = check_limits(&window, 1, e);
        }
        if (ffn_rows[w->layers[i].ffn]->chosen != NULL && st == ST_OK) {
            st = check_experts(&w->shape, e);
        }
    }
    return st;
}

/* Checks the MTP layer, which shares embedding and head with the model. */
static enum status check_mtp(const struct shard_weights *w, struct error *e)
{
    const struct tensor *fc = &w->mtp->fc;
    uint32_t hidden = w->shape.hidden;

    if (w->end != w->shape.n_layers || w->embed.data == NULL ||
        w->head.data == NULL || w->final_norm == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a shard of layers %u-%u of %u has an MTP layer: only "
                         "a shard with the last layer, the embedding and the "
                         "head can have one",
                         w->begin, w->end - 1, w->shape.n_layers);
    }
    if (mixer_memory(w->layers[w->end - w->begin].kind) != MIXER_IN_BLOCKS) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the MTP layer is not full attention; the kernels "
                         "support no other kind");
    }
    if (fc->rows != hidden || fc->cols != 2 * hidden) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the MTP layer's fc is [%u, %u]; hidden size %u needs "
                         "[%u, %u]",
                         fc->rows, fc->cols, hidden, hidden, 2 * hidden);
    }
    return ST_OK;
}

static enum status check_options(const struct kernels_options *o,
                                 struct error *e)
{
    const struct limit limits[] = {
        {"block_tokens", o->block_tokens, 1, KERNELS_BLOCK_MAX},
        {"tokens per step", o->max_tokens, 0, KERNELS_STEP_TOKENS_MAX},
        {"rows per step", o->max_rows, 0, KERNELS_STEP_TOKENS_MAX},
        {"rows of logits", o->max_logits, 0, KERNELS_STEP_TOKENS_MAX},
        {"tokens that rows keep", o->keep_tokens, 0, KERNELS_KEEP_TOKENS_MAX},
        {"number of threads", o->n_threads, 0, KERNELS_THREADS_MAX},
    };
    enum status st = check_limits(limits, 6, e);

    if (st == ST_OK && (o->block_tokens & (o->block_tokens - 1)) != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "block_tokens is %u; it must be a power of two",
                       o->block_tokens);
    }
    return st;
}

/* Repeats what kv_format_choose() checks, since the kernels rely on it. */
static enum status check_format(const struct model_shape *s,
                                const struct kv_format *f, struct error *e)
{
    const struct limit turbo[] = {
        {"bits of a key", f->k_bits, KV_TURBO_BITS_MIN, KV_TURBO_BITS_MAX},
        {"bits of a value", f->v_bits, KV_TURBO_BITS_MIN, KV_TURBO_BITS_MAX},
        {"head size", s->head_dim, KV_TURBO_DIM_MIN, KERNELS_HEAD_DIM_MAX},
    };
    const struct limit group = {"group of a KV cache", f->group, KV_GROUP_MIN,
                                KV_GROUP_MAX};
    enum status st = ST_OK;

    if (f->scheme == KV_TURBOQUANT) {
        st = check_limits(turbo, 3, e);
    } else if (f->scheme == KV_AFFINE) {
        st = check_limits(&group, 1, e);
    }
    if (st == ST_OK && f->scheme == KV_TURBOQUANT &&
        (s->head_dim & (s->head_dim - 1)) != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "head size %u: turboquant needs a power of two",
                       s->head_dim);
    }
    if (st == ST_OK && f->scheme == KV_AFFINE &&
        (s->head_dim % f->group != 0 || f->k_bits != f->v_bits ||
         (f->k_bits != 4 && f->k_bits != 8))) {
        st = error_set(e, ST_INVALID_ARGUMENT,
                       "head size %u, groups of %u and %u bits: affine needs "
                       "whole groups and 4 or 8 bits",
                       s->head_dim, f->group, f->k_bits);
    }
    return st;
}

/* Checks here, once for all backends: a backend may rely on these limits for
 * its fixed-size arrays. */
static enum status check_arguments(const struct shard_weights *w,
                                   const struct kernels_options *o,
                                   struct error *e)
{
    const struct model_shape *s = &w->shape;
    enum status st = check_options(o, e);

    /* A shape of 0 heads means that the shard has no layer of that kind. */
    if (st == ST_OK && s->n_heads > 0) {
        st = check_attention(s, e);
        st = st == ST_OK ? check_format(s, &o->kv, e) : st;
    }
    if (st == ST_OK && s->n_v_heads > 0) {
        st = check_deltanet(s, e);
    }
    if (st == ST_OK && w->mtp != NULL) {
        st = check_mtp(w, e);
    }
    return st == ST_OK ? check_layers(w, e) : st;
}

enum status backend_new(struct kernels **out, const struct shard_weights *w,
                        const struct kernels_options *o, struct error *e)
{
    enum status st = check_arguments(w, o, e);

    *out = NULL;
    if (st != ST_OK) {
        return st;
    }
    /* Every other name is a selector of an OpenCL device. */
    return strcmp(o->device, "cpu") == 0 ? cpu_new(out, w, o, e)
                                         : opencl_new(out, w, o, e);
}

enum status backend_pack(struct shard_weights *w,
                         const struct kernels_options *o, struct error *e)
{
    return strcmp(o->device, "cpu") == 0 && o->products == PRODUCTS_INT8
               ? cpu_pack(w, o->n_threads, e)
               : ST_OK;
}

bool backend_has_isa(const char *name)
{
    return cpu_has_isa(name);
}
