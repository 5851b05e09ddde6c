#include "kernels/opencl/experts.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
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

uint32_t opencl_experts_pairs(const struct opencl *c,
                              const struct opencl_layer *l)
{
    return c->w->shape.top_k + opencl_experts_all(c, l) - c->w->shape.n_experts;
}

void opencl_experts_defines(const struct opencl *c,
                            const struct opencl_layer *l,
                            const struct opencl_tensor *w,
                            char out[EXPERTS_DEFINES])
{
    const struct model_shape *s = &c->w->shape;
    const int shared = s->shared_dim == 0                      ? 0
                       : l->experts.router.rows > s->n_experts ? 2
                                                               : 1;
    char of_w[OPENCL_MATRIX_DEFINES];

    opencl_matrix_defines(c, w, of_w, sizeof of_w);
    (void)snprintf(out, EXPERTS_DEFINES,
                   "%s -DN_EXPERTS=%u -DTOP_K=%u -DTOP_K_NORMED=%d "
                   "-DEXPERT_DIM=%u -DALTERNATE=%d -DSHARED=%d -DPAIRS=%u "
                   "-DN_ALL=%u",
                   of_w, s->n_experts, s->top_k, s->top_k_normed, s->expert_dim,
                   s->gate_up_alternate, shared, opencl_experts_pairs(c, l),
                   opencl_experts_all(c, l));
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
    return st == ST_OK && !choose_all_nv(c, k, l) ? choose_portable(c, k, l, e)
                                                  : st;
}

/* The portable kernels and NVIDIA's have different numbers of sizes. */
bool opencl_experts_decode_nv(const struct opencl *c, uint32_t layer)
{
    const struct experts_kernels *k =
        &opencl_operators(c)->experts->layers[layer];

    return k->n_ways == EXPERTS_WAYS && k->route[0];
}

/* Returns the most tiles of n pairs, at most `tile` in each. */
static size_t tiles_of(const struct opencl *c, size_t n, uint32_t tile)
{
    const size_t experts = c->w->shape.n_experts + 1;

    return n / tile + (n < experts ? n : experts);
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
    opencl_scratch(c, part, &x->tiles, tiles_of(c, pairs, nv_tiles[1]),
                   EXPERTS_TILE_INTS, sizeof(uint32_t));
    opencl_scratch(c, OPENCL_KEEP, &x->tickets, 1, t, sizeof(uint32_t));
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

/* Launches for n tokens; a work-item handles `each` of `cols` columns. */
static void launch_rows(struct opencl_call *a, size_t cols, uint32_t each,
                        uint32_t n, uint64_t bytes)
{
    const size_t local[2] = {a->kernel->variant->wg, 1};
    const size_t items = (cols + each - 1) / each;
    const size_t global[2] = {(items + local[0] - 1) / local[0] * local[0], n};

    opencl_launch(a, 2, global, local, bytes);
}

/* Tokens of one kind, or their pairs. */
struct range {
    uint32_t first, n;
};

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

    /* Once is enough: the kernel leaves its tickets at 0. */
    if (!x->zeroed) {
        opencl_zero(c, &x->tickets, 0, x->tickets.cols * x->tickets.item);
        x->zeroed = true;
    }
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
                           struct range tokens)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct experts_kernels *k = &x->layers[layer];
    const struct opencl_layer *l = &c->model.layers[layer];
    const size_t local = WG_TOKEN, global = tokens.n * local;
    struct opencl_call a = opencl_call(c, k->logits);

    opencl_arg_tensor(&a, &x->logits);
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &l->post_norm);
    opencl_arg_tensor(&a, &l->experts.router);
    opencl_arg_tensor(&a, &l->experts.router_bias);
    opencl_arg_u32(&a, tokens.first);
    opencl_arg_u32(&a, tokens.n);
    launch_rows(&a, l->experts.router.rows, COLS, tokens.n,
                opencl_tensor_bytes(&l->experts.router));
    a = opencl_call(c, k->choose);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, &x->logits);
    opencl_arg_u32(&a, tokens.first);
    opencl_launch(&a, 1, &global, &local,
                  (uint64_t)tokens.n * x->logits.cols * sizeof(float));
}

static void group_pairs(struct opencl *c, const struct experts_kernels *k,
                        struct range pairs, uint32_t tile)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const size_t local = WG_GROUP;
    struct opencl_call a = opencl_call(c, k->group);

    opencl_arg_tensor(&a, &x->order);
    opencl_arg_tensor(&a, &x->tiles);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_u32(&a, pairs.first);
    opencl_arg_u32(&a, pairs.n);
    opencl_arg_u32(&a, (uint32_t)tiles_of(c, pairs.n, tile));
    opencl_arg_u32(&a, tile);
    opencl_launch(&a, 1, &local, &local, (uint64_t)pairs.n * sizeof(uint32_t));
}

/* Returns the least bytes of w that n pairs read: no expert twice. */
static uint64_t bytes_of(const struct opencl *c, const struct opencl_tensor *w,
                         uint32_t n)
{
    const uint32_t experts = c->w->shape.n_experts;
    const uint32_t k = c->w->shape.top_k;
    const uint32_t few = n < experts ? n : experts;

    /* A launch's pairs are those of whole tokens. */
    return opencl_tensor_bytes(w) / experts * (few < k ? k : few);
}

/* Sets the arguments from ids on, and launches; cols: of the output, and those
 * of a work-item of the portable kernels. */
static void launch_pairs(struct opencl_call *a, struct range pairs,
                         const struct opencl_tensor *w, uint32_t cols,
                         uint32_t each)
{
    struct opencl *c = a->c;
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_variant *v = a->kernel->variant;
    const size_t tiles =
        v->tile_rows == 1 ? pairs.n : tiles_of(c, pairs.n, v->tile_rows);
    const size_t cut = v->tile_cols > 0 ? v->tile_cols : (size_t)v->wg * each;
    const size_t local[2] = {v->wg, 1};
    const size_t global[2] = {(cols + cut - 1) / cut * v->wg, tiles};

    opencl_arg_tensor(a, &x->ids);
    opencl_arg_tensor(a, &x->order);
    opencl_arg_tensor(a, &x->tiles);
    opencl_arg_u32(a, pairs.first);
    opencl_arg_u32(a, pairs.n);
    opencl_launch(a, 2, global, local, bytes_of(c, w, pairs.n));
}

static void run_gate_up(struct opencl *c, uint32_t layer, uint32_t way,
                        struct range pairs)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_expert_weights *w = &c->model.layers[layer].experts;
    struct opencl_call a = opencl_call(c, x->layers[layer].gate_up[way]);

    opencl_arg_tensor(&a, &x->gated);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.next);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &w->gate_up);
    opencl_arg_tensor(&a, &w->gate_up_bias);
    launch_pairs(&a, pairs, &w->gate_up, c->w->shape.expert_dim, COLS / 2);
}

static void run_down(struct opencl *c, uint32_t layer, uint32_t way,
                     struct range pairs)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_expert_weights *w = &c->model.layers[layer].experts;
    struct opencl_call a = opencl_call(c, x->layers[layer].down[way]);

    opencl_arg_tensor(&a, &x->y);
    opencl_arg_tensor(&a, &x->gated);
    opencl_arg_tensor(&a, &w->down);
    opencl_arg_tensor(&a, &w->down_bias);
    launch_pairs(&a, pairs, &w->down, c->w->shape.hidden, COLS);
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
static void run_pairs(struct opencl *c, uint32_t layer, struct range tokens)
{
    const struct experts_kernels *k =
        &opencl_operators(c)->experts->layers[layer];
    const uint32_t each = opencl_experts_pairs(c, &c->model.layers[layer]);
    const struct range pairs = {tokens.first * each, tokens.n * each};
    const uint32_t way = way_of(c, layer, tokens.n);

    if (pairs.n == 0) {
        return;
    }
    if (k->route[0] && tokens.first < c->step.n_gen) {
        route_tokens(c, layer, tokens.n);
    } else {
        choose_experts(c, layer, tokens);
    }
    if (way > 0) {
        group_pairs(c, k, pairs, k->gate_up[way]->variant->tile_rows);
    }
    run_gate_up(c, layer, way, pairs);
    run_down(c, layer, way, pairs);
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
    const bool normed = l->ffn_norm.mem != NULL;
    struct opencl_call a = opencl_call(c, x->layers[layer].sum);

    opencl_arg_tensor(&a, normed ? &m->y : &c->x);
    opencl_arg_tensor(&a, &m->norm.next);
    opencl_arg_tensor(&a, normed ? &m->y_ss : &m->norm.ss);
    opencl_arg_tensor(&a, &x->y);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, l->gate_up.mem ? &m->y : &absent);
    opencl_arg_tensor(&a, gamma);
    opencl_arg_u32(&a, c->step.n_tokens);
    launch_rows(&a, c->w->shape.hidden, a.kernel->variant->tile_cols,
                c->step.n_tokens,
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
    run_pairs(c, layer, (struct range){0, s->n_gen});
    run_pairs(c, layer, (struct range){s->n_gen, s->n_tokens - s->n_gen});
    if (l->gate_up.mem) {
        opencl_project_silu(c, &l->gate_up, &opencl_operators(c)->rows->gated);
        /* Overwrites the norm's operand, so it is the last product. */
        opencl_project_y(c, &opencl_operators(c)->rows->gated, &l->down,
                         &absent);
    }
    add_sum(c, layer);
}
