#include "kernels/opencl/experts.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/rows.h"

#define WG       8  /* of products */
#define WG_TOKEN 64 /* of a token's choice */
#define WG_GROUP 256
#define COLS     8 /* rows of w per work-item; gate_up: half as many columns */
#define DEFINES  320

enum { FEW, MANY }; /* pairs: each its own tile, or grouped by expert */

static const struct opencl_variant logits = {
    .file = "route", .kernel = "experts_logits", .wg = WG_TOKEN};
static const struct opencl_variant choose = {
    .file = "route", .kernel = "experts_choose", .wg = WG_TOKEN};
static const struct opencl_variant sum = {
    .file = "route", .kernel = "experts_sum", .wg = WG_TOKEN};
static const struct opencl_variant group = {
    .file = "route", .kernel = "experts_group", .wg = WG_GROUP};
static const struct opencl_variant gate_up[] = {
    [FEW] = {.file = "products+experts",
             .kernel = "experts_gate_up",
             .wg = WG,
             .tile_rows = 1},
    [MANY] = {.file = "products+experts",
              .kernel = "experts_gate_up",
              .wg = WG,
              .tile_rows = EXPERTS_TILE},
};
static const struct opencl_variant down[] = {
    [FEW] = {.file = "products+experts",
             .kernel = "experts_down",
             .wg = WG,
             .tile_rows = 1},
    [MANY] = {.file = "products+experts",
              .kernel = "experts_down",
              .wg = WG,
              .tile_rows = EXPERTS_TILE},
};

/* ---- setup ---- */

static uint32_t n_layers(const struct opencl *c)
{
    return c->w->end - c->w->begin;
}

/* Writes the defines of a program that reads w. */
static void write_defines(const struct opencl *c, const struct opencl_layer *l,
                          const struct opencl_tensor *w, char out[DEFINES])
{
    const struct model_shape *s = &c->w->shape;
    const int shared = s->shared_dim == 0                      ? 0
                       : l->experts.router.rows > s->n_experts ? 2
                                                               : 1;
    char of_w[OPENCL_MATRIX_DEFINES];

    opencl_matrix_defines(c, w, of_w, sizeof of_w);
    (void)snprintf(out, DEFINES,
                   "%s -DN_EXPERTS=%u -DTOP_K=%u -DTOP_K_NORMED=%d "
                   "-DEXPERT_DIM=%u -DALTERNATE=%d -DSHARED=%d -DTILE=%d",
                   of_w, s->n_experts, s->top_k, s->top_k_normed, s->expert_dim,
                   s->gate_up_alternate, shared, EXPERTS_TILE);
}

static enum status choose_route(struct opencl *c, struct experts_kernels *k,
                                const struct opencl_layer *l, struct error *e)
{
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *v;
    } of[] = {{&k->logits, &logits},
              {&k->choose, &choose},
              {&k->group, &group},
              {&k->sum, &sum}};
    enum status st = ST_OK;
    char defines[DEFINES];

    write_defines(c, l, &l->experts.router, defines);
    for (size_t i = 0; i < sizeof of / sizeof *of && st == ST_OK; i++) {
        st = opencl_choose(c, of[i].out, of[i].v, 1, NULL, defines, e);
    }
    return st;
}

static enum status choose_products(struct opencl *c, struct experts_kernels *k,
                                   const struct opencl_layer *l,
                                   struct error *e)
{
    enum status st = ST_OK;
    char defines[DEFINES];

    for (int i = FEW; i <= MANY && st == ST_OK; i++) {
        write_defines(c, l, &l->experts.gate_up, defines);
        st = opencl_choose(c, &k->gate_up[i], &gate_up[i], 1, NULL, defines, e);
        if (st == ST_OK) {
            write_defines(c, l, &l->experts.down, defines);
            st = opencl_choose(c, &k->down[i], &down[i], 1, NULL, defines, e);
        }
    }
    return st;
}

/* Returns the most tiles of n pairs. */
static size_t tiles_of(const struct opencl *c, size_t n)
{
    const size_t experts = c->w->shape.n_experts;

    return n / EXPERTS_TILE + (n < experts ? n : experts);
}

static void request_scratch(struct opencl *c)
{
    struct opencl_experts *x = c->experts;
    const struct model_shape *s = &c->w->shape;
    const size_t t = c->sizes.max_tokens, pairs = t * s->top_k;
    const enum opencl_part part = OPENCL_IN_MLP;

    opencl_scratch(c, part, &x->logits, t, s->n_experts + 1, sizeof(float));
    opencl_scratch(c, part, &x->ids, t, s->top_k, sizeof(uint32_t));
    opencl_scratch(c, part, &x->weights, t, s->top_k + 1, sizeof(float));
    opencl_scratch(c, part, &x->gated, pairs, s->expert_dim,
                   dtype_bytes(c->matmul->operand));
    opencl_scratch(c, part, &x->y, pairs, s->hidden, sizeof(float));
    opencl_scratch(c, part, &x->order, 1, pairs, sizeof(uint32_t));
    opencl_scratch(c, part, &x->tiles, tiles_of(c, pairs), EXPERTS_TILE_INTS,
                   sizeof(uint32_t));
}

enum status opencl_experts_setup(struct opencl *c, struct error *e)
{
    struct opencl_experts *x = calloc(1, sizeof *x);
    enum status st = ST_OK;
    bool any = false;

    c->experts = x;
    if (x) {
        x->layers = calloc(n_layers(c), sizeof *x->layers);
    }
    if (!x || !x->layers) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    /* Layers with the same forms share kernels. */
    for (uint32_t i = 0; i < n_layers(c) && st == ST_OK; i++) {
        if (c->layers[i].ffn == FFN_EXPERTS) {
            any = true;
            st = choose_route(c, &x->layers[i], &c->layers[i], e);
            st = st == ST_OK
                     ? choose_products(c, &x->layers[i], &c->layers[i], e)
                     : st;
        }
    }
    if (any) {
        request_scratch(c);
    }
    return st;
}

void opencl_experts_free(struct opencl *c)
{
    if (c->experts) {
        free(c->experts->layers);
        free(c->experts);
        c->experts = NULL;
    }
}

/* ---- launches ---- */

/* Launches for n tokens; a work-item handles COLS of `cols` columns. */
static void launch_rows(struct opencl_call *a, size_t cols, uint32_t n,
                        uint64_t bytes)
{
    const size_t local[2] = {a->kernel->variant->wg, 1};
    const size_t items = (cols + COLS - 1) / COLS;
    const size_t global[2] = {(items + local[0] - 1) / local[0] * local[0], n};

    opencl_launch(a, 2, global, local, bytes);
}

/* Chooses the experts of all tokens of the step. */
static void choose_experts(struct opencl *c, uint32_t layer)
{
    const struct opencl_experts *x = c->experts;
    const struct experts_kernels *k = &x->layers[layer];
    const struct opencl_layer *l = &c->layers[layer];
    const uint32_t n = c->step.n_tokens;
    const size_t local = WG_TOKEN, global = n * local;
    struct opencl_call a = opencl_call(c, k->logits);

    opencl_arg_tensor(&a, &x->logits);
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &c->matmul->norm.ss);
    opencl_arg_tensor(&a, &l->post_norm);
    opencl_arg_tensor(&a, &l->experts.router);
    opencl_arg_tensor(&a, &l->experts.router_bias);
    opencl_arg_u32(&a, n);
    launch_rows(&a, l->experts.router.rows, n,
                opencl_tensor_bytes(&l->experts.router));
    a = opencl_call(c, k->choose);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_tensor(&a, &x->weights);
    opencl_arg_tensor(&a, &x->logits);
    opencl_launch(&a, 1, &global, &local,
                  (uint64_t)n * x->logits.cols * sizeof(float));
}

/* Tokens of one kind, and their pairs. */
struct range {
    uint32_t first, n;
};

static void group_pairs(struct opencl *c, const struct experts_kernels *k,
                        struct range pairs)
{
    const struct opencl_experts *x = c->experts;
    const size_t local = WG_GROUP;
    struct opencl_call a = opencl_call(c, k->group);

    opencl_arg_tensor(&a, &x->order);
    opencl_arg_tensor(&a, &x->tiles);
    opencl_arg_tensor(&a, &x->ids);
    opencl_arg_u32(&a, pairs.first);
    opencl_arg_u32(&a, pairs.n);
    opencl_arg_u32(&a, (uint32_t)tiles_of(c, pairs.n));
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

/* Sets the arguments from ids on, and launches. */
static void launch_pairs(struct opencl_call *a, struct range pairs,
                         const struct opencl_tensor *w, uint32_t items)
{
    struct opencl *c = a->c;
    const struct opencl_experts *x = c->experts;
    const struct opencl_variant *v = a->kernel->variant;
    const size_t tiles = v->tile_rows == 1 ? pairs.n : tiles_of(c, pairs.n);
    const size_t local[2] = {v->wg, 1};
    const size_t global[2] = {(items + v->wg - 1) / v->wg * v->wg, tiles};

    opencl_arg_tensor(a, &x->ids);
    opencl_arg_tensor(a, &x->order);
    opencl_arg_tensor(a, &x->tiles);
    opencl_arg_u32(a, pairs.first);
    opencl_arg_u32(a, pairs.n);
    opencl_launch(a, 2, global, local, bytes_of(c, w, pairs.n));
}

static void run_gate_up(struct opencl *c, uint32_t layer, int how,
                        struct range pairs)
{
    const struct opencl_experts *x = c->experts;
    const struct opencl_expert_weights *w = &c->layers[layer].experts;
    struct opencl_call a = opencl_call(c, x->layers[layer].gate_up[how]);

    opencl_arg_tensor(&a, &x->gated);
    opencl_arg_tensor(&a, &c->matmul->norm.next);
    opencl_arg_tensor(&a, &c->matmul->norm.ss);
    opencl_arg_tensor(&a, &w->gate_up);
    opencl_arg_tensor(&a, &w->gate_up_bias);
    launch_pairs(&a, pairs, &w->gate_up,
                 (c->w->shape.expert_dim + COLS / 2 - 1) / (COLS / 2));
}

static void run_down(struct opencl *c, uint32_t layer, int how,
                     struct range pairs)
{
    const struct opencl_experts *x = c->experts;
    const struct opencl_expert_weights *w = &c->layers[layer].experts;
    struct opencl_call a = opencl_call(c, x->layers[layer].down[how]);

    opencl_arg_tensor(&a, &x->y);
    opencl_arg_tensor(&a, &x->gated);
    opencl_arg_tensor(&a, &w->down);
    opencl_arg_tensor(&a, &w->down_bias);
    launch_pairs(&a, pairs, &w->down, (c->w->shape.hidden + COLS - 1) / COLS);
}

/* Computes y of the pairs of tokens of one kind. */
static void run_pairs(struct opencl *c, uint32_t layer, struct range tokens)
{
    const struct model_shape *s = &c->w->shape;
    const struct range pairs = {tokens.first * s->top_k, tokens.n * s->top_k};
    const int how = pairs.n >= EXPERTS_GROUP_FROM * s->n_experts ? MANY : FEW;

    if (pairs.n == 0) {
        return;
    }
    if (how == MANY) {
        group_pairs(c, &c->experts->layers[layer], pairs);
    }
    run_gate_up(c, layer, how, pairs);
    run_down(c, layer, how, pairs);
}

/* Adds the experts' sum to x, or makes matmul's y of it if its norm is to be
 * added. */
static void add_sum(struct opencl *c, uint32_t layer)
{
    const struct opencl_experts *x = c->experts;
    const struct opencl_matmul *m = c->matmul;
    const struct opencl_layer *l = &c->layers[layer];
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
    launch_rows(&a, c->w->shape.hidden, c->step.n_tokens,
                (uint64_t)c->step.n_tokens * (c->w->shape.top_k + 2) *
                    c->w->shape.hidden * sizeof(float));
    opencl_rows_added(c, &l->ffn_norm, gamma);
}

void opencl_experts_run(struct opencl *c, uint32_t layer)
{
    const struct opencl_layer *l = &c->layers[layer];
    const struct opencl_step *s = &c->step;
    const struct opencl_tensor absent = {0};

    opencl_rows_ready(c, &l->post_norm);
    choose_experts(c, layer);
    run_pairs(c, layer, (struct range){0, s->n_gen});
    run_pairs(c, layer, (struct range){s->n_gen, s->n_tokens - s->n_gen});
    if (l->gate_up.mem) {
        opencl_project_silu(c, &l->gate_up, &c->rows->gated);
        /* Overwrites the norm's operand, so it is the last product. */
        opencl_project_y(c, &c->rows->gated, &l->down, &absent);
    }
    add_sum(c, layer);
}
