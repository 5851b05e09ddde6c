#include "kernels/opencl/experts.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "kernels/opencl/experts_prompt.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/nv/matmul_nv.h"
#include "kernels/opencl/operators.h"
#include "kernels/opencl/rows.h"

#define WG       8  /* of products */
#define WG_TOKEN 64 /* of a token's choice */
#define WG_GROUP 256
#define WG_ROUTE 128
#define WG_SUM   256
#define COLS     8 /* rows of w per work-item; gate_up: half as many columns */

/* Pairs of a tile of the portable kernels, and of NVIDIA's. */
#define TILE 16
static const uint32_t nv_tiles[EXPERTS_WAYS] = {1, 8, 32, 64};

/* Tokens from which NVIDIA's kernels group pairs. */
#define NV_GROUP_FROM 8

static bool sums_nv(const struct opencl *c, const struct opencl_shape *s)
{
    (void)s;
    return c->device.nvidia >= 80 && c->w->shape.hidden % NORM_PART == 0 &&
           opencl_operators(c)->matmul->operand == DTYPE_BF16;
}

static const struct opencl_variant logits = {
    .file = "route", .kernel = "experts_logits", .wg = WG_TOKEN};
static const struct opencl_variant choose = {
    .file = "route", .kernel = "experts_choose", .wg = WG_TOKEN};
static const struct opencl_variant group = {
    .file = "route", .kernel = "experts_group", .wg = WG_GROUP};
/* tile_cols: columns of a work-item.  Both give the same bits. */
static const struct opencl_variant sums[] = {
    {.file = "nv_experts_sum",
     .kernel = "experts_sum",
     .fits = sums_nv,
     .wg = WG_SUM,
     .tile_cols = 4},
    {.file = "route",
     .kernel = "experts_sum",
     .wg = WG_TOKEN,
     .tile_cols = COLS},
};
/* For one token, and for more. */
static const struct opencl_variant routes[EXPERTS_ROUTES] = {
    {.file = "nv_route",
     .kernel = "experts_route",
     .wg = WG_ROUTE,
     .tile_rows = 1},
    {.file = "nv_route",
     .kernel = "experts_route",
     .wg = WG_ROUTE,
     .tile_rows = 4},
};
static const struct opencl_variant gate_up[] = {
    {.file = "products+experts",
     .kernel = "experts_gate_up",
     .wg = WG,
     .tile_rows = 1},
    {.file = "products+experts",
     .kernel = "experts_gate_up",
     .wg = WG,
     .tile_rows = TILE},
};
static const struct opencl_variant down[] = {
    {.file = "products+experts",
     .kernel = "experts_down",
     .wg = WG,
     .tile_rows = 1},
    {.file = "products+experts",
     .kernel = "experts_down",
     .wg = WG,
     .tile_rows = TILE},
};

/* ---- setup ---- */

static uint32_t n_layers(const struct opencl *c)
{
    return shard_layers(c->w);
}

static bool is_nvidia(const struct opencl *c)
{
    return !c->portable && c->device.nvidia >= 80;
}

static enum status choose_route(struct opencl *c, struct experts_kernels *k,
                                const struct opencl_layer *l, struct error *e)
{
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *v;
        uint32_t n;
    } of[] = {{&k->logits, &logits, 1},
              {&k->choose, &choose, 1},
              {&k->group, &group, 1},
              {&k->sum, sums, sizeof sums / sizeof *sums}};
    enum status st = ST_OK;
    struct error why;
    char defines[EXPERTS_DEFINES];

    opencl_experts_defines(c, l, &l->experts.router, defines);
    for (size_t i = 0; i < sizeof of / sizeof *of && st == ST_OK; i++) {
        st = opencl_choose(c, of[i].out, of[i].v, of[i].n, NULL, defines, e);
    }
    for (int i = 0; i < EXPERTS_ROUTES && st == ST_OK && is_nvidia(c); i++) {
        if (opencl_choose(c, &k->route[i], &routes[i], 1, NULL, defines,
                          &why) != ST_OK) {
            log_warn("kernel-refused", "kernel=%s text=\"%s\"", routes[i].file,
                     why.text);
            k->route[0] = NULL;
            break;
        }
    }
    return st;
}

static enum status choose_portable(struct opencl *c, struct experts_kernels *k,
                                   const struct opencl_layer *l,
                                   struct error *e)
{
    enum status st = ST_OK;
    char defines[EXPERTS_DEFINES];

    k->n_ways = sizeof gate_up / sizeof *gate_up;
    for (uint32_t i = 0; i < k->n_ways && st == ST_OK; i++) {
        opencl_experts_defines(c, l, &l->experts.gate_up, defines);
        st = opencl_choose(c, &k->gate_up[i], &gate_up[i], 1, NULL, defines, e);
        if (st == ST_OK) {
            opencl_experts_defines(c, l, &l->experts.down, defines);
            st = opencl_choose(c, &k->down[i], &down[i], 1, NULL, defines, e);
        }
    }
    return st;
}

/* Chooses NVIDIA's kernel for a product and a size of a tile. */
static bool choose_nv(struct opencl *c, struct experts_kernels *k,
                      const struct opencl_layer *l, bool is_down, uint32_t way)
{
    const struct opencl_tensor *w =
        is_down ? &l->experts.down : &l->experts.gate_up;
    const struct matmul_nv_product p = {
        is_down ? MATMUL_NV_STORE : MATMUL_NV_SILU,
        w->rows / opencl_experts_all(c, l), w->cols, w->bits, true};
    struct opencl_variant *v = &k->nv[is_down][way];
    char of_w[EXPERTS_DEFINES],
        all[EXPERTS_DEFINES + sizeof((struct matmul_nv *)0)->defines];
    struct matmul_nv nv;
    struct error e;

    if (!opencl_matmul_fits_nv(c, w) ||
        !matmul_nv_fits_group(p.op, p.rows, p.cols, w->group) ||
        !matmul_nv_decode(&nv, &p, nv_tiles[way],
                          matmul_nv_local(c->device.nvidia))) {
        return false;
    }
    *v = (struct opencl_variant){.file = nv.file,
                                 .kernel = nv.kernel,
                                 .wg = nv.items,
                                 .tile_rows = nv.tokens,
                                 .tile_cols = is_down ? nv.rows : nv.rows / 2};
    opencl_experts_defines(c, l, w, of_w);
    (void)snprintf(all, sizeof all, "%s %s", of_w, nv.defines);
    if (opencl_choose(c, is_down ? &k->down[way] : &k->gate_up[way], v, 1, NULL,
                      all, &e) != ST_OK) {
        log_warn("kernel-refused", "kernel=%s text=\"%s\"", nv.kernel, e.text);
        return false;
    }
    return true;
}

/* Kernels of one layer must give the same bits, so NVIDIA's are chosen for all
 * sizes of a tile or for none. */
static bool choose_all_nv(struct opencl *c, struct experts_kernels *k,
                          const struct opencl_layer *l)
{
    bool all = is_nvidia(c);

    for (uint32_t i = 0; i < EXPERTS_WAYS && all; i++) {
        all = choose_nv(c, k, l, false, i) && choose_nv(c, k, l, true, i);
    }
    k->n_ways = all ? EXPERTS_WAYS : 0;
    return all;
}

/* Returns whether two layers can share their kernels. */
static bool is_same(const struct opencl_layer *a, const struct opencl_layer *b)
{
    return a->ffn == b->ffn &&
           opencl_tensors_alike(&a->experts.router, &b->experts.router) &&
           opencl_tensors_alike(&a->experts.gate_up, &b->experts.gate_up) &&
           opencl_tensors_alike(&a->experts.down, &b->experts.down) &&
           a->experts.down.rows == b->experts.down.rows;
}

static enum status choose_layer(struct opencl *c, uint32_t layer,
                                struct error *e)
{
    struct experts_kernels *all = opencl_operators(c)->experts->layers,
                           *k = &all[layer];
    const struct opencl_layer *l = &c->model.layers[layer];
    enum status st;

    for (uint32_t i = 0; i < layer; i++) {
        if (is_same(&c->model.layers[i], l)) {
            *k = all[i];
            return ST_OK;
        }
    }
    st = choose_route(c, k, l, e);
    if (st == ST_OK && !choose_all_nv(c, k, l)) {
        return choose_portable(c, k, l, e);
    }
    if (st == ST_OK) {
        opencl_experts_prompt_choose(c, &k->prompt, l);
    }
    return st;
}

/* The portable kernels and NVIDIA's have different numbers of sizes. */
bool opencl_experts_decode_nv(const struct opencl *c, uint32_t layer)
{
    const struct experts_kernels *k =
        &opencl_operators(c)->experts->layers[layer];

    return k->n_ways == EXPERTS_WAYS && k->route[0];
}

static void request_scratch(struct opencl *c)
{
    struct opencl_experts *x = opencl_operators(c)->experts;
    const struct model_shape *s = &c->w->shape;
    const size_t t = c->sizes.max_tokens, pairs = t * (s->top_k + 1);
    const enum opencl_part part = OPENCL_IN_MLP;

    opencl_scratch(c, part, &x->logits, t, s->n_experts + 1, sizeof(float));
    opencl_scratch(c, part, &x->ids, t, s->top_k + 1, sizeof(uint32_t));
    opencl_scratch(c, part, &x->weights, t, s->top_k + 1, sizeof(float));
    opencl_scratch(c, part, &x->gated, pairs, s->expert_dim,
                   dtype_bytes(opencl_operators(c)->matmul->operand));
    opencl_scratch(c, part, &x->y, pairs, s->hidden, sizeof(float));
    opencl_scratch(c, part, &x->order, 1, pairs, sizeof(uint32_t));
    opencl_scratch(c, part, &x->tiles,
                   opencl_experts_tiles(c, pairs, nv_tiles[1]),
                   EXPERTS_TILE_INTS, sizeof(uint32_t));
    opencl_scratch(c, OPENCL_KEEP, &x->tickets, 1, t, sizeof(uint32_t));
    opencl_scratch(c, OPENCL_KEEP, &x->counts, 1, 2 * (s->n_experts + 1) + 1,
                   sizeof(uint32_t));
}

enum status opencl_experts_setup(struct opencl *c, struct error *e)
{
    struct opencl_experts *x = calloc(1, sizeof *x);
    enum status st = ST_OK;
    bool any = false;

    opencl_operators(c)->experts = x;
    if (x) {
        x->layers = calloc(n_layers(c), sizeof *x->layers);
    }
    if (!x || !x->layers) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    for (uint32_t i = 0; i < n_layers(c) && st == ST_OK; i++) {
        if (c->model.layers[i].ffn == FFN_EXPERTS) {
            any = true;
            st = choose_layer(c, i, e);
        }
    }
    if (any) {
        request_scratch(c);
    }
    return st;
}

void opencl_experts_free(struct opencl *c)
{
    if (opencl_operators(c)->experts) {
        free(opencl_operators(c)->experts->layers);
        free(opencl_operators(c)->experts);
        opencl_operators(c)->experts = NULL;
    }
}

/* ---- launches ---- */

/* Chooses the experts of generated tokens, which are the step's first, in one
 * launch. */
static void route_tokens(struct opencl *c, uint32_t layer, uint32_t n)
{
    struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_expert_weights *w = &l->experts;
    struct opencl_kernel *k = x->layers[layer].route[n > 1];
    const uint32_t each = k->variant->tile_rows;
    struct opencl_call a = opencl_call(c, k);
    const size_t local[2] = {WG_ROUTE, 1};
    const size_t global[2] = {(w->router.rows + COLS - 1) / COLS * local[0],
                              (n + each - 1) / each};

    opencl_experts_zero(c);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, &x->logits);
    opencl_arg_tensor(&a, &x->tickets);
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &l->post_norm);
    opencl_arg_tensor(&a, &w->router);
    opencl_arg_tensor(&a, &w->router_bias);
    opencl_arg_u32(&a, n);
    opencl_launch(&a, 2, global, local, opencl_tensor_bytes(&w->router));
}

/* Chooses the experts of some tokens. */
static void choose_experts(struct opencl *c, uint32_t layer,
                           struct experts_range tokens)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct experts_kernels *k = &x->layers[layer];
    const uint32_t rows = c->model.layers[layer].experts.router.rows;
    const size_t local = WG_TOKEN, global = tokens.n * local;
    const size_t of_logits[2] = {
        ((rows + COLS - 1) / COLS + local - 1) / local * local, tokens.n};
    struct opencl_call a = opencl_call(c, k->choose);

    opencl_experts_logits(c, k->logits, layer, tokens, of_logits);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, &x->logits);
    opencl_arg_u32(&a, tokens.first);
    opencl_launch(&a, 1, &global, &local,
                  (uint64_t)tokens.n * x->logits.cols * sizeof(float));
}

static void group_pairs(struct opencl *c, struct opencl_kernel *k,
                        struct experts_range pairs, uint32_t tile)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const size_t local = WG_GROUP;
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, &x->order);
    opencl_arg_tensor(&a, &x->tiles);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_u32(&a, pairs.first);
    opencl_arg_u32(&a, pairs.n);
    opencl_arg_u32(&a, (uint32_t)opencl_experts_tiles(c, pairs.n, tile));
    opencl_arg_u32(&a, tile);
    opencl_launch(&a, 1, &local, &local, (uint64_t)pairs.n * sizeof(uint32_t));
}

/* Returns the size of a tile for the pairs of n tokens: with tiles of several
 * pairs, about as many as an expert has. */
static uint32_t way_of(const struct opencl *c, uint32_t layer, uint32_t n)
{
    const struct experts_kernels *k =
        &opencl_operators(c)->experts->layers[layer];
    const uint32_t experts = c->w->shape.n_experts;
    const uint32_t pairs = n * c->w->shape.top_k;
    uint32_t way = 1;

    if (k->n_ways == EXPERTS_WAYS ? n < NV_GROUP_FROM
                                  : pairs < EXPERTS_GROUP_FROM * experts) {
        return 0;
    }
    while (way + 1 < k->n_ways &&
           pairs > experts * k->gate_up[way]->variant->tile_rows) {
        way++;
    }
    return way;
}

/* Computes y of the pairs of tokens of one kind, from their choice on. */
static void run_pairs(struct opencl *c, uint32_t layer,
                      struct experts_range tokens)
{
    const struct experts_kernels *k =
        &opencl_operators(c)->experts->layers[layer];
    const uint32_t each = opencl_experts_pairs(c, &c->model.layers[layer]);
    const struct experts_range pairs = {tokens.first * each, tokens.n * each};
    const uint32_t way = way_of(c, layer, tokens.n);

    if (pairs.n == 0) {
        return;
    }
    if (k->prompt.logits && tokens.first >= c->step.n_gen) {
        opencl_experts_prompt_run(c, layer, tokens);
        return;
    }
    if (k->route[0] && tokens.first < c->step.n_gen) {
        route_tokens(c, layer, tokens.n);
    } else {
        choose_experts(c, layer, tokens);
    }
    if (way > 0) {
        group_pairs(c, k->group, pairs, k->gate_up[way]->variant->tile_rows);
    }
    opencl_experts_gate_up(c, k->gate_up[way], layer, pairs);
    opencl_experts_down(c, k->down[way], layer, pairs);
}

/* Adds the experts' sum to x, or makes matmul's y of it if its norm is to be
 * added. */
static void add_sum(struct opencl *c, uint32_t layer)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_matmul *m = opencl_operators(c)->matmul;
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_tensor *gamma = opencl_rows_behind(c, layer);
    const struct opencl_tensor absent = {0};
    const bool apart = opencl_adds_apart(c, &l->ffn_norm);
    struct opencl_kernel *k = x->layers[layer].sum;
    const uint32_t each = k->variant->tile_cols, wg = k->variant->wg;
    const size_t local[2] = {wg, 1};
    const size_t items = (c->w->shape.hidden + each - 1) / each;
    const size_t global[2] = {(items + wg - 1) / wg * wg, c->step.n_tokens};
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, apart ? &m->y : &c->x);
    opencl_arg_tensor(&a, &m->norm.next);
    opencl_arg_tensor(&a, apart ? &m->y_ss : &m->norm.ss);
    opencl_arg_tensor(&a, &x->y);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, l->gate_up.mem ? &m->y : &absent);
    opencl_arg_tensor(&a, gamma);
    opencl_arg_u32(&a, c->step.n_tokens);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)c->step.n_tokens * (c->w->shape.top_k + 2) *
                      c->w->shape.hidden * sizeof(float));
    opencl_rows_added(c, &l->ffn_norm, gamma);
}

void opencl_experts_run(struct opencl *c, uint32_t layer)
{
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_step *s = &c->step;
    const struct opencl_tensor absent = {0};

    opencl_rows_ready(c, &l->post_norm);
    run_pairs(c, layer, (struct experts_range){0, s->n_gen});
    run_pairs(c, layer,
              (struct experts_range){s->n_gen, s->n_tokens - s->n_gen});
    if (l->gate_up.mem) {
        opencl_project_silu(c, &l->gate_up, &opencl_operators(c)->rows->gated);
        /* Overwrites the norm's operand, so it is the last product. */
        opencl_project_y(c, &opencl_operators(c)->rows->gated, &l->down,
                         &absent);
    }
    add_sum(c, layer);
}
