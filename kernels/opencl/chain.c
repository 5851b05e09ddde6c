#include "kernels/opencl/chain.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "kernels/opencl/attention.h"
#include "kernels/opencl/deltanet.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/nv/matmul_nv.h"
#include "kernels/opencl/rows.h"

#define PRODUCTS 4 /* out, gate_up, down, in */
#define NONE     UINT32_MAX

/* The chained products of a layer. */
struct chain {
    const struct opencl_tensor *w[PRODUCTS];
    uint32_t n; /* products; the last layer has no in behind it */
    struct opencl_kernel *kernel;  /* NULL: not chained */
    struct opencl_variant variant; /* its variant, in the first layer with it */
};

struct opencl_chain {
    struct chain *layers;       /* [end - begin] */
    struct opencl_tensor posts; /* values that work-groups exchange */
    uint32_t launched;          /* number of the last launch */
    bool zeroed;
    uint32_t waits;                /* layer with a deferred out, or NONE */
    const struct opencl_tensor *y; /* its input */
    uint32_t began;                /* layer with a computed in, or NONE */
};

static uint32_t n_layers(const struct opencl *c)
{
    return c->w->end - c->w->begin;
}

static const struct opencl_tensor *in_of(const struct opencl_layer *l)
{
    return mixer_attends(l->kind) ? &l->attention.in : &l->deltanet.in;
}

/* Returns whether the matrix before the mixer is one. */
static bool has_one_in(const struct opencl_layer *l)
{
    return !l->attention.rest[0].mem && !l->deltanet.rest[0].mem;
}

static const struct opencl_tensor *out_of(const struct opencl_layer *l)
{
    return mixer_attends(l->kind) ? &l->attention.o : &l->deltanet.out;
}

/* ---- setup ---- */

/* Returns false if matrices differ in form, or if one has portable kernels,
 * which give other bits. */
static bool describe_layer(const struct opencl *c, uint32_t layer,
                           struct chain *out)
{
    const struct opencl_layer *l = &c->layers[layer];
    /* nv_chain_decode.cl has neither of those. */
    bool fits = l->ffn == FFN_DENSE && !l->mixer_norm.mem && !l->ffn_norm.mem &&
                c->w->shape.activation == ACTIVATION_SILU;

    out->n = 3;
    out->w[0] = out_of(l);
    out->w[1] = &l->gate_up;
    out->w[2] = &l->down;
    if (layer + 1 < n_layers(c)) {
        out->w[out->n++] = in_of(l + 1);
        fits = fits && has_one_in(l + 1);
    }
    for (uint32_t i = 0; i < out->n; i++) {
        fits = fits && opencl_tensors_alike(out->w[i], out->w[0]) &&
               opencl_matmul_decodes_nv(c, out->w[i]);
    }
    return fits;
}

/* Returns whether two layers can share a kernel. */
static bool is_same(const struct chain *a, const struct chain *b)
{
    bool same = a->n == b->n && opencl_tensors_alike(a->w[0], b->w[0]);

    for (uint32_t i = 0; i < a->n && same; i++) {
        same = a->w[i]->rows == b->w[i]->rows && a->w[i]->cols == b->w[i]->cols;
    }
    return same;
}

static void choose_kernel(struct opencl *c, struct chain *of)
{
    static const enum matmul_nv_op ops[PRODUCTS] = {
        MATMUL_NV_ADD, MATMUL_NV_SILU, MATMUL_NV_ADD, MATMUL_NV_STORE};
    struct matmul_nv_product products[PRODUCTS];
    struct matmul_nv nv;
    char of_w[OPENCL_MATRIX_DEFINES], all[sizeof nv.defines + sizeof of_w];
    struct error e;

    for (uint32_t i = 0; i < of->n; i++) {
        products[i] = (struct matmul_nv_product){
            ops[i], of->w[i]->rows, of->w[i]->cols, of->w[i]->bits, false};
    }
    if (!matmul_nv_chain(&nv, products, of->n, c->device.units)) {
        return;
    }
    of->variant = (struct opencl_variant){
        .file = nv.file, .kernel = nv.kernel, .wg = nv.items};
    opencl_matrix_defines(c, of->w[0], of_w, sizeof of_w);
    (void)snprintf(all, sizeof all, "%s %s", of_w, nv.defines);
    if (opencl_choose(c, &of->kernel, &of->variant, 1, NULL, all, &e) !=
        ST_OK) {
        of->kernel = NULL;
        log_warn("kernel-refused", "kernel=%s text=\"%s\"", nv.file, e.text);
    }
}

/* Chooses a layer's kernel; layers with the same shapes share one. */
static void choose_layer(struct opencl *c, uint32_t layer)
{
    struct chain *all = c->chain->layers, *of = &all[layer];

    if (!describe_layer(c, layer, of)) {
        return;
    }
    for (uint32_t i = 0; i < layer; i++) {
        if (all[i].kernel && is_same(&all[i], of)) {
            of->kernel = all[i].kernel;
            return;
        }
    }
    choose_kernel(c, of);
}

enum status opencl_chain_setup(struct opencl *c, struct error *e)
{
    struct opencl_chain *ch = calloc(1, sizeof *ch);

    c->chain = ch;
    if (ch) {
        ch->layers = calloc(n_layers(c), sizeof *ch->layers);
    }
    if (!ch || !ch->layers) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    opencl_chain_stale(c);
    if (c->portable || c->device.nvidia < 80 ||
        c->matmul->operand != DTYPE_BF16) {
        return ST_OK;
    }
    opencl_scratch(
        c, OPENCL_KEEP, &ch->posts, 1,
        matmul_nv_posts(c->w->shape.hidden, c->w->shape.intermediate),
        sizeof(uint64_t));
    for (uint32_t i = 0; i < n_layers(c); i++) {
        choose_layer(c, i);
    }
    return ST_OK;
}

void opencl_chain_free(struct opencl *c)
{
    if (c->chain) {
        free(c->chain->layers);
        free(c->chain);
        c->chain = NULL;
    }
}

/* ---- in a step ---- */

void opencl_chain_stale(struct opencl *c)
{
    c->chain->waits = NONE;
    c->chain->began = NONE;
}

bool opencl_chain_began(struct opencl *c, uint32_t layer)
{
    const bool yes = c->chain->began == layer;

    c->chain->began = NONE;
    return yes;
}

bool opencl_chain_takes(struct opencl *c, uint32_t layer,
                        const struct opencl_tensor *y)
{
    /* nv_chain_decode.cl computes one token. */
    if (!c->chain->layers[layer].kernel || c->step.n_tokens != 1 ||
        c->step.n_gen != 1) {
        return false;
    }
    c->chain->waits = layer;
    c->chain->y = y;
    return true;
}

void opencl_chain_settle(struct opencl *c)
{
    struct opencl_chain *ch = c->chain;
    const struct opencl_tensor absent = {0};

    if (ch->waits != NONE) {
        const struct opencl_layer *l = &c->layers[ch->waits];

        ch->waits = NONE;
        opencl_rows_add(c, ch->y, out_of(l),
                        mixer_attends(l->kind) ? &l->attention.o_bias : &absent,
                        &absent, &l->post_norm);
    }
}

/* Arguments behind down's: the output and weights of the next layer's first
 * product. */
struct next_product {
    struct opencl_tensor in, w, bias;
};

static struct next_product find_next(const struct opencl *c, uint32_t layer)
{
    const struct opencl_layer *l = &c->layers[layer + 1];

    if (layer + 1 == n_layers(c)) {
        return (struct next_product){{0}, {0}, {0}};
    }
    if (mixer_attends(l->kind)) {
        return (struct next_product){*opencl_attention_in(c), l->attention.in,
                                     l->attention.in_bias};
    }
    return (struct next_product){*opencl_deltanet_in(c), l->deltanet.in, {0}};
}

static uint64_t bytes_of(const struct chain *of)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < of->n; i++) {
        bytes += opencl_tensor_bytes(of->w[i]);
    }
    return bytes;
}

static void launch_layer(struct opencl *c, uint32_t layer)
{
    struct opencl_chain *ch = c->chain;
    const struct chain *of = &ch->layers[layer];
    const struct opencl_layer *l = &c->layers[layer];
    const struct next_product next = find_next(c, layer);
    const struct opencl_tensor absent = {0};
    struct opencl_call a = opencl_call(c, of->kernel);
    const size_t local = of->kernel->variant->wg;
    const size_t global = c->device.units * local;

    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &c->matmul->norm.next);
    opencl_arg_tensor(&a, &c->matmul->norm.ss);
    opencl_arg_tensor(&a, &next.in);
    opencl_arg_tensor(&a, &ch->posts);
    opencl_arg_tensor(&a, ch->y);
    opencl_arg_tensor(&a, out_of(l));
    opencl_arg_tensor(&a,
                      mixer_attends(l->kind) ? &l->attention.o_bias : &absent);
    opencl_arg_tensor(&a, &l->post_norm);
    opencl_arg_tensor(&a, &l->gate_up);
    opencl_arg_tensor(&a, &l->down);
    opencl_arg_tensor(&a, opencl_rows_behind(c, layer));
    opencl_arg_tensor(&a, &next.w);
    opencl_arg_tensor(&a, &next.bias);
    /* Marks the posts of this launch, so that posts need no clearing. */
    opencl_arg_u32(&a, ++ch->launched);
    opencl_launch(&a, 1, &global, &local, bytes_of(of));
}

bool opencl_chain_run(struct opencl *c, uint32_t layer)
{
    struct opencl_chain *ch = c->chain;

    if (ch->waits != layer) {
        return false;
    }
    if (!ch->zeroed) {
        opencl_zero(c, &ch->posts, 0, ch->posts.cols * ch->posts.item);
        ch->zeroed = true;
    }
    ch->waits = NONE;
    launch_layer(c, layer);
    ch->began = layer + 1 < n_layers(c) ? layer + 1 : NONE;
    c->rows->ready = opencl_rows_behind(c, layer);
    opencl_operator_end(c);
    return true;
}
