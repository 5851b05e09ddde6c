#include "kernels/opencl/chain.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "kernels/opencl/experts.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/mixer.h"
#include "kernels/opencl/nv/matmul_nv.h"
#include "kernels/opencl/operators.h"
#include "kernels/opencl/rows.h"

#define PRODUCTS 4  /* out, gate_up, down, in */
#define ROUTED   32 /* most experts of a token that a warp chooses */
#define NONE     UINT32_MAX

/* The chained products of a layer. */
struct chain {
    const struct opencl_tensor *w[PRODUCTS];
    uint32_t n; /* products; the last layer, and the MTP layer, has no in
                 * behind it */
    struct matmul_nv_route route;  /* without experts: 0 */
    struct opencl_kernel *kernel;  /* NULL: not chained */
    struct opencl_variant variant; /* its variant, in the first layer with it */
};

struct opencl_chain {
    struct chain *layers;       /* [shard_layers()] */
    struct opencl_tensor posts; /* values that work-groups exchange */
    uint32_t launched;          /* number of the last launch */
    bool zeroed;
    uint32_t waits;                /* layer with a deferred out, or NONE */
    const struct opencl_tensor *y; /* its input */
    uint32_t began;                /* layer with a computed in, or NONE */
};

static uint32_t n_layers(const struct opencl *c)
{
    return shard_layers(c->w);
}

/* Returns whether the next layer of the shard runs behind this one: not the MTP
 * layer, which has steps of its own. */
static bool has_next(const struct opencl *c, uint32_t layer)
{
    return layer + 1 < c->w->end - c->w->begin;
}

static struct opencl_products products_of(const struct opencl_layer *l)
{
    return opencl_mixers[l->kind]->products(l);
}

/* Returns whether the layer has experts, which begin with a router. */
static bool has_experts(const struct opencl_layer *l)
{
    return l->experts.router.mem != NULL;
}

/* ---- setup ---- */

/* Returns whether the kernels have what comes between a layer's products. */
static bool fits_layer(const struct opencl *c, uint32_t layer)
{
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_expert_weights *x = &l->experts;

    if (opencl_adds_apart(c, &l->mixer_norm) ||
        opencl_adds_apart(c, &l->ffn_norm) ||
        c->w->shape.activation.kind != ACTIVATION_SILU) {
        return false;
    }
    return !has_experts(l) ||
           (opencl_experts_decode_nv(c, layer) && !l->gate_up.mem &&
            x->router.dtype == DTYPE_BF16 && x->router.bits == 0 &&
            x->router.format == WEIGHT_PLAIN && !x->router_bias.mem &&
            !x->gate_up_bias.mem && !x->down_bias.mem &&
            !c->w->shape.gate_up_alternate && c->w->shape.top_k <= ROUTED);
}

/* Sets the products between out and in. */
static void describe_ffn(const struct opencl *c, const struct opencl_layer *l,
                         struct chain *out)
{
    out->w[1] = &l->gate_up;
    out->w[2] = &l->down;
    if (has_experts(l)) {
        out->w[1] = &l->experts.gate_up;
        out->w[2] = &l->experts.down;
        out->route = (struct matmul_nv_route){l->experts.router.rows,
                                              opencl_experts_pairs(c, l)};
    }
}

/* Returns whether NVIDIA's kernels compute the i-th product; those of experts
 * were checked. */
static bool decodes(const struct opencl *c, const struct chain *of, uint32_t i)
{
    return ((i == 1 || i == 2) && of->route.pairs > 0) ||
           opencl_matmul_decodes_nv(c, of->w[i]);
}

/* Returns false if matrices differ in form, or if one has portable kernels,
 * which give other bits. */
static bool describe_layer(const struct opencl *c, uint32_t layer,
                           struct chain *out)
{
    const struct opencl_layer *l = &c->model.layers[layer];
    bool fits = fits_layer(c, layer);

    out->n = 3;
    out->w[0] = products_of(l).out;
    describe_ffn(c, l, out);
    if (has_next(c, layer)) {
        out->w[out->n++] = products_of(l + 1).in;
        fits = fits && !products_of(l + 1).rest[0].mem;
    }
    for (uint32_t i = 0; i < out->n; i++) {
        fits = fits && opencl_tensors_alike(out->w[i], out->w[0]) &&
               decodes(c, out, i);
    }
    return fits;
}

/* Returns whether two layers can share a kernel. */
static bool is_same(const struct chain *a, const struct chain *b)
{
    bool same = a->n == b->n && opencl_tensors_alike(a->w[0], b->w[0]) &&
                a->route.logits == b->route.logits &&
                a->route.pairs == b->route.pairs;

    for (uint32_t i = 0; i < a->n && same; i++) {
        same = a->w[i]->rows == b->w[i]->rows && a->w[i]->cols == b->w[i]->cols;
    }
    return same;
}

/* Describes the products of a layer for matmul_nv_chain(). */
static void describe_products(const struct opencl *c,
                              const struct opencl_layer *l,
                              const struct chain *of,
                              struct matmul_nv_product out[PRODUCTS])
{
    static const enum matmul_nv_op ops[PRODUCTS] = {
        MATMUL_NV_ADD, MATMUL_NV_SILU, MATMUL_NV_ADD, MATMUL_NV_STORE};

    for (uint32_t i = 0; i < of->n; i++) {
        out[i] = (struct matmul_nv_product){
            ops[i], of->w[i]->rows, of->w[i]->cols, of->w[i]->bits, false};
    }
    if (of->route.pairs > 0) {
        out[2].op = MATMUL_NV_STORE;
        for (uint32_t i = 1; i <= 2; i++) {
            out[i].rows /= opencl_experts_all(c, l);
            out[i].expert = true;
        }
    }
}

static void choose_kernel(struct opencl *c, const struct opencl_layer *l,
                          struct chain *of)
{
    struct matmul_nv_product products[PRODUCTS];
    struct matmul_nv nv;
    char of_w[EXPERTS_DEFINES], all[sizeof nv.defines + sizeof of_w];
    struct error e;

    describe_products(c, l, of, products);
    if (!matmul_nv_chain(&nv, products, of->n,
                         of->route.pairs > 0 ? &of->route : NULL,
                         c->device.units)) {
        return;
    }
    of->variant = (struct opencl_variant){
        .file = nv.file, .kernel = nv.kernel, .wg = nv.items};
    if (of->route.pairs > 0) {
        opencl_experts_defines(c, l, of->w[1], of_w);
    } else {
        opencl_matrix_defines(c, of->w[0], of_w, sizeof of_w);
    }
    (void)snprintf(all, sizeof all, "%s %s", of_w, nv.defines);
    if (opencl_choose(c, &of->kernel, &of->variant, 1, NULL, all, &e) !=
        ST_OK) {
        of->kernel = NULL;
        log_warn("kernel-refused", "kernel=%s text=\"%s\"", nv.kernel, e.text);
    }
}

/* Chooses a layer's kernel; layers with the same shapes share one. */
static void choose_layer(struct opencl *c, uint32_t layer)
{
    struct chain *all = opencl_operators(c)->chain->layers, *of = &all[layer];

    if (!describe_layer(c, layer, of)) {
        return;
    }
    for (uint32_t i = 0; i < layer; i++) {
        if (all[i].kernel && is_same(&all[i], of)) {
            of->kernel = all[i].kernel;
            return;
        }
    }
    choose_kernel(c, &c->model.layers[layer], of);
}

/* Returns the posts of all layers, which take turns. */
static size_t most_posts(const struct opencl *c)
{
    const uint32_t hidden = c->w->shape.hidden;
    size_t most = matmul_nv_posts(hidden, c->w->shape.intermediate);

    for (uint32_t i = 0; i < n_layers(c); i++) {
        const struct matmul_nv_route *route =
            &opencl_operators(c)->chain->layers[i].route;
        const size_t n =
            matmul_nv_expert_posts(hidden, c->w->shape.expert_dim, route);

        if (route->pairs > 0 && n > most) {
            most = n;
        }
    }
    return most;
}

enum status opencl_chain_setup(struct opencl *c, struct error *e)
{
    struct opencl_chain *ch = calloc(1, sizeof *ch);

    opencl_operators(c)->chain = ch;
    if (ch) {
        ch->layers = calloc(n_layers(c), sizeof *ch->layers);
    }
    if (!ch || !ch->layers) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    opencl_chain_stale(c);
    if (c->portable || c->device.nvidia < 80 ||
        opencl_operators(c)->matmul->operand != DTYPE_BF16) {
        return ST_OK;
    }
    for (uint32_t i = 0; i < n_layers(c); i++) {
        choose_layer(c, i);
    }
    opencl_scratch(c, OPENCL_KEEP, &ch->posts, 1, most_posts(c),
                   sizeof(uint64_t));
    return ST_OK;
}

void opencl_chain_free(struct opencl *c)
{
    if (opencl_operators(c)->chain) {
        free(opencl_operators(c)->chain->layers);
        free(opencl_operators(c)->chain);
        opencl_operators(c)->chain = NULL;
    }
}

/* ---- in a step ---- */

void opencl_chain_stale(struct opencl *c)
{
    opencl_operators(c)->chain->waits = NONE;
    opencl_operators(c)->chain->began = NONE;
}

bool opencl_chain_began(struct opencl *c, uint32_t layer)
{
    const bool yes = opencl_operators(c)->chain->began == layer;

    opencl_operators(c)->chain->began = NONE;
    return yes;
}

bool opencl_chain_takes(struct opencl *c, uint32_t layer,
                        const struct opencl_tensor *y)
{
    /* nv_chain_decode.cl computes one token. */
    if (!opencl_operators(c)->chain->layers[layer].kernel ||
        c->step.n_tokens != 1 || c->step.n_gen != 1) {
        return false;
    }
    opencl_operators(c)->chain->waits = layer;
    opencl_operators(c)->chain->y = y;
    return true;
}

void opencl_chain_settle(struct opencl *c)
{
    struct opencl_chain *ch = opencl_operators(c)->chain;
    const struct opencl_tensor absent = {0};

    if (ch->waits != NONE) {
        const struct opencl_layer *l = &c->model.layers[ch->waits];
        const struct opencl_products of = products_of(l);

        ch->waits = NONE;
        opencl_rows_add(c, ch->y, of.out, of.out_bias, &absent, &l->post_norm);
    }
}

/* Arguments behind down's: the output and weights of the next layer's first
 * product. */
struct next_product {
    struct opencl_tensor in, w, bias;
};

static struct next_product find_next(const struct opencl *c, uint32_t layer)
{
    const struct opencl_layer *l = &c->model.layers[layer + 1];
    struct opencl_products of;

    if (!has_next(c, layer)) {
        return (struct next_product){{0}, {0}, {0}};
    }
    of = products_of(l);
    return (struct next_product){*opencl_mixers[l->kind]->input(c), *of.in,
                                 *of.in_bias};
}

/* Returns the bytes of weights that a launch reads: experts' of its pairs. */
static uint64_t bytes_of(const struct opencl *c, const struct opencl_layer *l,
                         const struct chain *of)
{
    const uint32_t pairs = of->route.pairs;
    uint64_t bytes = pairs > 0 ? opencl_tensor_bytes(&l->experts.router) : 0;

    for (uint32_t i = 0; i < of->n; i++) {
        const uint64_t all = opencl_tensor_bytes(of->w[i]);

        bytes += pairs > 0 && (i == 1 || i == 2)
                     ? all / opencl_experts_all(c, l) * pairs
                     : all;
    }
    return bytes;
}

static void launch_layer(struct opencl *c, uint32_t layer)
{
    struct opencl_chain *ch = opencl_operators(c)->chain;
    const struct chain *of = &ch->layers[layer];
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_products products = products_of(l);
    const struct next_product next = find_next(c, layer);
    struct opencl_call a = opencl_call(c, of->kernel);
    const size_t local = of->kernel->variant->wg;
    const size_t global = c->device.units * local;

    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.next);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &next.in);
    opencl_arg_tensor(&a, &ch->posts);
    opencl_arg_tensor(&a, ch->y);
    opencl_arg_tensor(&a, products.out);
    opencl_arg_tensor(&a, products.out_bias);
    opencl_arg_tensor(&a, &l->post_norm);
    if (of->route.pairs > 0) {
        opencl_arg_tensor(&a, &l->experts.router);
    }
    opencl_arg_tensor(&a, of->w[1]);
    opencl_arg_tensor(&a, of->w[2]);
    opencl_arg_tensor(&a, opencl_rows_behind(c, layer));
    opencl_arg_tensor(&a, &next.w);
    opencl_arg_tensor(&a, &next.bias);
    /* Marks the posts of this launch, so that posts need no clearing. */
    opencl_arg_u32(&a, ++ch->launched);
    opencl_launch(&a, 1, &global, &local, bytes_of(c, l, of));
}

bool opencl_chain_run(struct opencl *c, uint32_t layer)
{
    struct opencl_chain *ch = opencl_operators(c)->chain;

    if (ch->waits != layer) {
        return false;
    }
    if (!ch->zeroed) {
        opencl_zero(c, &ch->posts, 0, ch->posts.cols * ch->posts.item);
        ch->zeroed = true;
    }
    ch->waits = NONE;
    launch_layer(c, layer);
    ch->began = has_next(c, layer) ? layer + 1 : NONE;
    opencl_operators(c)->rows->ready = opencl_rows_behind(c, layer);
    opencl_operator_end(c);
    return true;
}
