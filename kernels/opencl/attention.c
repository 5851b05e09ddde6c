#include "kernels/opencl/attention.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/host/formats.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/kv.h"
#include "kernels/opencl/nv/attention_nv.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/rows.h"

#define WG 64

/* The portable kernels for plain layers, or for quantised ones. */
struct portable {
    struct opencl_kernel *prepare, *decode, *prefill;
};

struct opencl_attention {
    struct opencl_attention_nv *nv; /* NVIDIA's kernels; NULL: the portable
                                     * ones */
    struct portable of[2];          /* [the layer is quantised] */
    struct opencl_tensor in;        /* [T, in.rows] f32: q, k, v as projected */
    struct opencl_tensor query;     /* [T, nh*hd] f32 normed and rotated */
    struct opencl_tensor y;         /* [T, nh*hd] operand dtype */
    struct opencl_tensor part, tickets; /* for kernels that split a context */
};

static const struct opencl_variant prepare[] = {
    {.file = "kv+attention",
     .kernel = "attention_prepare",
     .wg = WG,
     .tile_rows = 4},
};
static const struct opencl_variant decode[] = {
    {.file = "kv+attention", .kernel = "attention", .wg = WG, .tile_rows = 1},
};
static const struct opencl_variant prefill[] = {
    {.file = "kv+attention", .kernel = "attention", .wg = WG, .tile_rows = 4},
};

/* Returns the first attention layer that is quantised or not, or NULL.  All
 * attention layers have the same shape. */
static const struct opencl_layer *first_of(const struct opencl *c,
                                           bool quantised)
{
    for (uint32_t i = 0; i < c->w->end - c->w->begin; i++) {
        if (c->layers[i].kind == MIXER_ATTENTION &&
            opencl_is_quantised(c, i) == quantised) {
            return &c->layers[i];
        }
    }
    return NULL;
}

static void request_scratch(struct opencl *c, const struct opencl_layer *l)
{
    struct opencl_attention *a = c->attention;
    const struct model_shape *s = &c->w->shape;
    const size_t n = c->sizes.max_tokens;
    const size_t wide = (size_t)s->n_heads * s->head_dim;

    opencl_scratch(c, OPENCL_IN_ATTENTION, &a->in, n, l->attention.in.rows,
                   sizeof(float));
    opencl_scratch(c, OPENCL_IN_ATTENTION, &a->query, n, wide, sizeof(float));
    opencl_scratch(c, OPENCL_IN_ATTENTION, &a->y, n, wide,
                   dtype_bytes(c->matmul->operand));
}

static enum status choose_portable(struct opencl *c, struct portable *p,
                                   const struct opencl_layer *l,
                                   const char *defines, struct error *e)
{
    const struct opencl_shape shape = {l->attention.in.rows,
                                       l->attention.in.cols, c->kv_dtype};
    enum status st =
        opencl_choose(c, &p->prepare, prepare, 1, &shape, defines, e);

    if (st == ST_OK) {
        st = opencl_choose(c, &p->decode, decode, 1, &shape, defines, e);
    }
    if (st == ST_OK) {
        st = opencl_choose(c, &p->prefill, prefill, 1, &shape, defines, e);
    }
    return st;
}

/* Chooses the kernels for plain layers, quantised layers, or both. */
static enum status choose_kernels(struct opencl *c, struct error *e)
{
    const struct opencl_layer *plain = first_of(c, false);
    const struct opencl_layer *quantised = first_of(c, true);
    struct opencl_attention *at = c->attention;
    char defines[64], all[OPENCL_KV_DEFINES_MAX + 64];
    char kv[OPENCL_KV_DEFINES_MAX];
    enum status st = quantised ? opencl_kv_defines(c, kv, e) : ST_OK;

    (void)snprintf(defines, sizeof defines, "-DOPERAND_DTYPE=%d",
                   (int)c->matmul->operand);
    if (st == ST_OK && quantised) {
        (void)snprintf(all, sizeof all, "%s %s", defines, kv);
    }
    if (st == ST_OK) {
        st = opencl_attention_nv_setup(c, &at->nv, plain ? defines : NULL,
                                       quantised ? all : NULL, e);
    }
    if (st == ST_OK && plain) {
        st = choose_portable(c, &at->of[false], plain, defines, e);
    }
    if (st == ST_OK && quantised) {
        st = choose_portable(c, &at->of[true], quantised, all, e);
    }
    return st;
}

enum status opencl_attention_setup(struct opencl *c, struct error *e)
{
    const struct opencl_layer *l = first_of(c, false);

    c->attention = calloc(1, sizeof *c->attention);
    if (!c->attention) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    l = l ? l : first_of(c, true);
    if (!l) {
        return ST_OK;
    }
    request_scratch(c, l);
    return choose_kernels(c, e);
}

const struct opencl_tensor *opencl_attention_in(const struct opencl *c)
{
    return &c->attention->in;
}

void opencl_attention_free(struct opencl *c)
{
    if (c->attention) {
        opencl_attention_nv_free(&c->attention->nv);
    }
    free(c->attention);
    c->attention = NULL;
}

/* Prepares the queries of all tokens, and stores their keys and values in the
 * cache. */
static void run_prepare(struct opencl *c, const struct opencl_layer *l,
                        struct opencl_kernel *kernel)
{
    const struct opencl_attention *at = c->attention;
    const struct model_shape *s = &c->w->shape;
    struct opencl_call a = opencl_call(c, kernel);
    const uint32_t n = c->step.n_tokens;
    const size_t local[2] = {kernel->variant->wg, 1};
    const size_t global[2] = {(s->n_heads + s->n_kv_heads) * local[0], n};

    opencl_arg_tensor(&a, &at->query);
    opencl_arg_tensor(&a, &l->kv);
    opencl_arg_u32(&a, l->kv.cols);
    opencl_arg_tensor(&a, &at->in);
    opencl_arg_tensor(&a, &l->attention.q_norm);
    opencl_arg_tensor(&a, &l->attention.k_norm);
    opencl_arg_tensor(&a, &c->rope);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, n);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)n * at->in.cols * sizeof(float) * 2);
}

static void run_attend(struct opencl *c, const struct opencl_layer *l,
                       struct opencl_kernel *kernel, uint32_t first, uint32_t n,
                       uint64_t bytes)
{
    const struct opencl_attention *at = c->attention;
    struct opencl_call a = opencl_call(c, kernel);
    const size_t tile = kernel->variant->tile_rows;
    const size_t local[2] = {kernel->variant->wg, 1};
    const size_t global[2] = {(n + tile - 1) / tile * local[0],
                              c->w->shape.n_heads};

    opencl_arg_tensor(&a, &at->y);
    opencl_arg_tensor(&a, &at->part);
    opencl_arg_tensor(&a, &at->tickets);
    opencl_arg_tensor(&a, &at->query);
    opencl_arg_tensor(&a, &at->in);
    opencl_arg_tensor(&a, &l->kv);
    opencl_arg_u32(&a, l->kv.cols);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, first);
    opencl_arg_u32(&a, n);
    opencl_arg_u32(&a, 1);
    opencl_launch(&a, 2, global, local, bytes);
}

void opencl_attention(struct kernels *k, uint32_t layer)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_attention *at = c->attention;
    const struct opencl_layer *l = &c->layers[layer];
    const struct opencl_step *s = &c->step;
    const struct portable *p = &at->of[opencl_is_quantised(c, layer)];

    /* The MLP before may have computed this layer's first product already. */
    if (!opencl_chain_began(c, layer)) {
        opencl_rows_ready(c, &l->input_norm);
        opencl_project(c, &l->attention.in, &l->attention.in_bias, &at->in);
    }
    run_prepare(c, l, p->prepare);
    if (!opencl_attention_nv(c, at->nv, layer, &at->y, &at->query, &at->in,
                             true)) {
        run_attend(c, l, p->decode, 0, s->n_gen,
                   opencl_context_bytes(c, layer, 0, s->n_gen_rows));
    }
    if (!opencl_attention_nv(c, at->nv, layer, &at->y, &at->query, &at->in,
                             false)) {
        run_attend(c, l, p->prefill, s->n_gen, s->n_tokens - s->n_gen,
                   opencl_context_bytes(c, layer, s->n_gen_rows, s->n_rows));
    }
    /* If deferred, the product runs in one launch with the MLP's. */
    if (!opencl_chain_takes(c, layer, &at->y)) {
        opencl_rows_add(c, &at->y, &l->attention.o, &l->attention.o_bias,
                        &l->mixer_norm, &l->post_norm);
    }
    opencl_operator_end(c);
}
