#include "kernels/opencl/attention.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/host/formats.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/kv.h"
#include "kernels/opencl/mixer.h"
#include "kernels/opencl/nv/attention_nv.h"
#include "kernels/opencl/operators.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/rows.h"

#define WG      64
#define DEFINES (OPENCL_KV_DEFINES_MAX + 192)

/* Layers that differ in kernels; those behind WINDOW do not rotate. */
enum attention_kind { PLAIN, QUANTISED, WINDOW, STILL, STILL_QUANTISED, KINDS };

/* The portable kernels for layers of a kind. */
struct portable {
    struct opencl_kernel *prepare, *decode, *prefill;
};

struct opencl_attention {
    struct opencl_attention_nv *nv; /* NVIDIA's kernels; NULL: the portable
                                     * ones */
    struct portable of[KINDS];
    struct opencl_tensor in;    /* [T, in.rows] f32: q, k, v as projected */
    struct opencl_tensor query; /* [T, nh*hd] f32 normed and rotated */
    struct opencl_tensor y;     /* [T, nh*hd] operand dtype */
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

static enum attention_kind kind_of(const struct opencl *c, uint32_t layer)
{
    const enum mixer_kind kind = c->model.layers[layer].kind;
    const bool coded = opencl_is_quantised(c, layer);

    if (shape_window(&c->w->shape, kind) > 0) {
        return WINDOW;
    }
    if (shape_rope(&c->w->shape, kind)->dim == 0) {
        return coded ? STILL_QUANTISED : STILL;
    }
    return coded ? QUANTISED : PLAIN;
}

/* Returns the first layer of a kind, or NULL.  All of a kind have the same
 * shape. */
static const struct opencl_layer *first_of(const struct opencl *c,
                                           enum attention_kind kind)
{
    for (uint32_t i = 0; i < shard_layers(c->w); i++) {
        if (mixer_attends(c->model.layers[i].kind) && kind_of(c, i) == kind) {
            return &c->model.layers[i];
        }
    }
    return NULL;
}

static void request_scratch(struct opencl *c, const struct opencl_layer *l)
{
    struct opencl_attention *a = opencl_operators(c)->attention;
    const struct model_shape *s = &c->w->shape;
    const size_t n = c->sizes.max_tokens;
    const size_t wide = (size_t)s->n_heads * s->head_dim;

    opencl_scratch(c, OPENCL_IN_ATTENTION, &a->in, n,
                   opencl_rows_of(&l->attention.in, l->attention.rest),
                   sizeof(float));
    opencl_scratch(c, OPENCL_IN_ATTENTION, &a->query, n, wide, sizeof(float));
    opencl_scratch(c, OPENCL_IN_ATTENTION, &a->y, n, wide,
                   dtype_bytes(opencl_operators(c)->matmul->operand));
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

/* Returns whether scores are scaled by 1 / sqrt(hd). */
static bool has_usual_scale(const struct model_shape *s)
{
    return s->attn_scale == 0.0f ||
           s->attn_scale == 1.0f / sqrtf((float)s->head_dim);
}

/* Returns the defines of a kind of layers, or of the other, or NULL if there
 * are none: NVIDIA's kernels run behind the rotation. */
static const char *defines_of(const struct opencl *c, char (*defines)[DEFINES],
                              enum attention_kind kind,
                              enum attention_kind other)
{
    kind = first_of(c, kind) ? kind : other;
    return first_of(c, kind) ? defines[kind] : NULL;
}

/* Writes the defines of layers of a kind; "" if there are none. */
static enum status write_defines(const struct opencl *c,
                                 enum attention_kind kind, char out[DEFINES],
                                 struct error *e)
{
    const struct model_shape *s = &c->w->shape;
    const struct opencl_layer *l = first_of(c, kind);
    char kv[OPENCL_KV_DEFINES_MAX] = "", scale[64] = "";
    enum status st = ST_OK;

    out[0] = '\0';
    if (!l) {
        return ST_OK;
    }
    if (kind == QUANTISED || kind == STILL_QUANTISED) {
        st = opencl_kv_defines(c, kv, e);
    }
    if (!has_usual_scale(s)) {
        (void)snprintf(scale, sizeof scale, " -DATTN_SCALE=%.9ef",
                       (double)s->attn_scale);
    }
    (void)snprintf(out, DEFINES,
                   "-DOPERAND_DTYPE=%d -DROTATED=%u -DWINDOW=%u "
                   "-DLATE_NORM=%d -DWHOLE_NORM=%d -DATTN_CAP=%.9ef%s %s",
                   (int)opencl_operators(c)->matmul->operand,
                   shape_rope(s, l->kind)->dim, kind == WINDOW ? s->window : 0,
                   s->attention.late_norm, s->attention.whole_norm,
                   (double)s->attn_cap, scale, kv);
    return st;
}

/* Chooses the kernels for the kinds of layers that the shard has. */
static enum status choose_kernels(struct opencl *c, struct error *e)
{
    char defines[KINDS][DEFINES];
    enum status st = ST_OK;

    for (int kind = 0; kind < KINDS && st == ST_OK; kind++) {
        st = write_defines(c, (enum attention_kind)kind, defines[kind], e);
    }
    /* NVIDIA's kernels do not cap scores. */
    if (st == ST_OK && c->w->shape.attn_cap == 0.0f) {
        const struct opencl_attention_defines of = {
            defines_of(c, defines, PLAIN, STILL),
            defines_of(c, defines, QUANTISED, STILL_QUANTISED),
            defines_of(c, defines, WINDOW, WINDOW)};

        st = opencl_attention_nv_setup(c, &opencl_operators(c)->attention->nv,
                                       &of, e);
    }
    for (int kind = 0; kind < KINDS && st == ST_OK; kind++) {
        const struct opencl_layer *l = first_of(c, (enum attention_kind)kind);

        if (l) {
            st = choose_portable(c, &opencl_operators(c)->attention->of[kind],
                                 l, defines[kind], e);
        }
    }
    return st;
}

enum status opencl_attention_setup(struct opencl *c, struct error *e)
{
    const struct opencl_layer *l = NULL;

    opencl_operators(c)->attention =
        calloc(1, sizeof *opencl_operators(c)->attention);
    if (!opencl_operators(c)->attention) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    for (int kind = 0; kind < KINDS; kind++) {
        l = l ? l : first_of(c, (enum attention_kind)kind);
    }
    if (!l) {
        return ST_OK;
    }
    request_scratch(c, l);
    return choose_kernels(c, e);
}

static const struct opencl_tensor *input(const struct opencl *c)
{
    return &opencl_operators(c)->attention->in;
}

void opencl_attention_free(struct opencl *c)
{
    if (opencl_operators(c)->attention) {
        opencl_attention_nv_free(&opencl_operators(c)->attention->nv);
    }
    free(opencl_operators(c)->attention);
    opencl_operators(c)->attention = NULL;
}

/* Prepares the queries of all tokens, and stores their keys and values in the
 * cache. */
static void run_prepare(struct opencl *c, uint32_t layer,
                        struct opencl_kernel *kernel)
{
    const struct opencl_attention *at = opencl_operators(c)->attention;
    const struct model_shape *s = &c->w->shape;
    const struct opencl_layer *l = &c->model.layers[layer];
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
    opencl_arg_tensor(&a, shape_window(s, l->kind) > 0 ? &c->model.window_rope
                                                       : &c->model.rope);
    opencl_arg_tensor(&a, &c->model.query_scale);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, n);
    opencl_arg_u32(&a, c->cache.pages.layers[layer].table);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)n * at->in.cols * sizeof(float) * 2);
}

/* Attends from the generated or the prompt tokens of the step. */
static void run_attend(struct opencl *c, uint32_t layer,
                       struct opencl_kernel *kernel, bool generated)
{
    const struct opencl_attention *at = opencl_operators(c)->attention;
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_step *s = &c->step;
    const uint32_t first = generated ? 0 : s->n_gen;
    const uint32_t n = generated ? s->n_gen : s->n_tokens - s->n_gen;
    const uint64_t bytes =
        opencl_context_bytes(c, layer, generated ? 0 : s->n_gen_rows,
                             generated ? s->n_gen_rows : s->n_rows);
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
    opencl_arg_tensor(&a, &l->attention.sinks);
    opencl_arg_u32(&a, c->cache.pages.layers[layer].table);
    opencl_launch(&a, 2, global, local, bytes);
}

static void run(struct kernels *k, uint32_t layer)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_attention *at = opencl_operators(c)->attention;
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct portable *p = &at->of[kind_of(c, layer)];

    /* The MLP before may have computed this layer's first product already. */
    if (!opencl_chain_began(c, layer)) {
        opencl_rows_ready(c, &l->input_norm);
        opencl_project_in(c, &l->attention.in, l->attention.rest,
                          &l->attention.in_bias, &at->in);
    }
    run_prepare(c, layer, p->prepare);
    for (int generated = 1; generated >= 0; generated--) {
        if (!opencl_attention_nv(c, at->nv, layer, &at->y, &at->query, &at->in,
                                 generated)) {
            run_attend(c, layer, generated ? p->decode : p->prefill, generated);
        }
    }
    /* If deferred, the product runs in one launch with the MLP's. */
    if (!opencl_chain_takes(c, layer, &at->y)) {
        opencl_rows_add(c, &at->y, &l->attention.o, &l->attention.o_bias,
                        &l->mixer_norm, &l->post_norm);
    }
    opencl_operator_end(c);
}

static struct opencl_products products(const struct opencl_layer *l)
{
    const struct opencl_attention_weights *w = &l->attention;

    return (struct opencl_products){.in = &w->in,
                                    .in_bias = &w->in_bias,
                                    .rest = w->rest,
                                    .out = &w->o,
                                    .out_bias = &w->o_bias};
}

/* Serves window layers and those without rotary positions, too. */
const struct opencl_mixer opencl_mixer_attention = {
    .products = products,
    .input = input,
    .run = run,
};
