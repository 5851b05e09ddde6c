#include "kernels/opencl/experts_prompt.h"

#include <stdio.h>

#include "common/base/log.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/nv/experts_nv.h"
#include "kernels/opencl/operators.h"

/* As in nv_route_prefill.cl. */
#define ITEMS    128
#define TOKENS   32 /* of a tile of logits */
#define OCTETS   7  /* most tiles of 8 logits of a work-group */
#define WARPS    4
#define MOST     32 /* experts of a token */
#define WG_GROUP 1024

static const struct opencl_variant logits = {
    .file = "nv_route_prefill", .kernel = "experts_logits", .wg = ITEMS};
static const struct opencl_variant choose = {
    .file = "nv_route_prefill", .kernel = "experts_choose", .wg = ITEMS};
static const struct opencl_variant group = {
    .file = "nv_route_prefill", .kernel = "experts_group", .wg = WG_GROUP};

/* ---- choice ---- */

static enum status choose_route(struct opencl *c, struct experts_prompt *k,
                                const struct opencl_layer *l, struct error *e)
{
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *v;
    } of[] = {
        {&k->logits, &logits}, {&k->choose, &choose}, {&k->group, &group}};
    char of_w[EXPERTS_DEFINES], defines[EXPERTS_DEFINES + 16];
    enum status st = ST_OK;

    opencl_experts_defines(c, l, &l->experts.router, of_w);
    (void)snprintf(defines, sizeof defines, "%s -DMOST=%d", of_w, OCTETS);
    for (size_t i = 0; i < sizeof of / sizeof *of && st == ST_OK; i++) {
        st = opencl_choose(c, of[i].out, of[i].v, 1, NULL, defines, e);
    }
    return st;
}

/* Returns one expert's product. */
static struct matmul_nv_product
product_of(const struct opencl *c, const struct opencl_layer *l, bool is_down)
{
    const struct opencl_tensor *w =
        is_down ? &l->experts.down : &l->experts.gate_up;

    return (struct matmul_nv_product){
        is_down ? MATMUL_NV_STORE : MATMUL_NV_SILU,
        w->rows / opencl_experts_all(c, l), w->cols, w->bits, true};
}

static enum status choose_product(struct opencl *c, struct experts_prompt *k,
                                  const struct opencl_layer *l, bool is_down,
                                  struct error *e)
{
    const struct matmul_nv_product of[2] = {product_of(c, l, false),
                                            product_of(c, l, true)};
    const struct experts_nv_tile tile = experts_nv_tile(of);
    struct opencl_variant *v = &k->nv[is_down];
    char of_w[EXPERTS_DEFINES],
        all[EXPERTS_DEFINES + sizeof((struct matmul_nv *)0)->defines];
    struct matmul_nv nv;

    experts_nv_cut(&nv, &of[is_down], &tile);
    *v = (struct opencl_variant){.file = nv.file,
                                 .kernel = nv.kernel,
                                 .wg = nv.items,
                                 .tile_rows = nv.tokens,
                                 .tile_cols = is_down ? nv.rows : nv.rows / 2};
    opencl_experts_defines(
        c, l, is_down ? &l->experts.down : &l->experts.gate_up, of_w);
    (void)snprintf(all, sizeof all, "%s %s", of_w, nv.defines);
    return opencl_choose(c, is_down ? &k->down : &k->gate_up, v, 1, NULL, all,
                         e);
}

/* A lane keeps the expert of its rank, so a warp chooses at most 32.  The
 * products of a layer read sums of squares that the fold leaves. */
static bool fits(const struct opencl *c)
{
    const struct opencl_matmul *m = opencl_operators(c)->matmul;

    return m->wgmma && m->fold && c->w->shape.top_k <= MOST;
}

void opencl_experts_prompt_choose(struct opencl *c, struct experts_prompt *k,
                                  const struct opencl_layer *l)
{
    struct error e;

    if (!fits(c)) {
        return;
    }
    /* A prompt's bits must not depend on its length, so these kernels take all
     * prompts of the layer or none. */
    if (choose_route(c, k, l, &e) != ST_OK ||
        choose_product(c, k, l, false, &e) != ST_OK ||
        choose_product(c, k, l, true, &e) != ST_OK) {
        log_warn("kernel-refused", "kernel=nv_experts_prefill text=\"%s\"",
                 e.text);
        k->logits = NULL;
    }
}

/* ---- launches ---- */

/* Counts the pairs of each expert too, which group_pairs() needs. */
static void choose_experts(struct opencl *c, const struct experts_prompt *k,
                           struct experts_range tokens)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const size_t local = ITEMS;
    const size_t global = (tokens.n + WARPS - 1) / WARPS * local;
    struct opencl_call a = opencl_call(c, k->choose);

    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, &x->counts);
    opencl_arg_tensor(&a, &x->logits);
    opencl_arg_u32(&a, tokens.first);
    opencl_arg_u32(&a, tokens.n);
    opencl_launch(&a, 1, &global, &local,
                  (uint64_t)tokens.n * x->logits.cols * sizeof(float));
}

/* A work-group has as many pairs as work-items: one work-group for all of a
 * long prompt's pairs took longer than their choice. */
static void group_pairs(struct opencl *c, const struct experts_prompt *k,
                        struct experts_range pairs)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const uint32_t tile = k->nv[0].tile_rows;
    const size_t local = WG_GROUP;
    const size_t global = (pairs.n + local - 1) / local * local;
    struct opencl_call a = opencl_call(c, k->group);

    opencl_arg_tensor(&a, &x->order);
    opencl_arg_tensor(&a, &x->tiles);
    opencl_arg_tensor(&a, &x->counts);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_u32(&a, pairs.first);
    opencl_arg_u32(&a, pairs.n);
    opencl_arg_u32(&a, (uint32_t)opencl_experts_tiles(c, pairs.n, tile));
    opencl_arg_u32(&a, tile);
    opencl_launch(&a, 1, &global, &local, (uint64_t)pairs.n * sizeof(uint32_t));
}

void opencl_experts_prompt_run(struct opencl *c, uint32_t layer,
                               struct experts_range tokens)
{
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct experts_prompt *k =
        &opencl_operators(c)->experts->layers[layer].prompt;
    const uint32_t each = opencl_experts_pairs(c, l);
    const struct experts_range pairs = {tokens.first * each, tokens.n * each};
    const uint32_t octets = (l->experts.router.rows + 7) / 8;
    const size_t of_logits[2] = {(octets + OCTETS - 1) / OCTETS * ITEMS,
                                 (tokens.n + TOKENS - 1) / TOKENS};

    opencl_experts_zero(c);
    opencl_fold_prompt(c);
    opencl_experts_logits(c, k->logits, layer, tokens, of_logits);
    choose_experts(c, k, tokens);
    group_pairs(c, k, pairs);
    opencl_experts_gate_up(c, k->gate_up, layer, pairs);
    opencl_experts_down(c, k->down, layer, pairs);
}
