#include "kernels/opencl/experts_launch.h"

#include <stdio.h>

#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/matmul.h"
#include "kernels/opencl/operators.h"

/* Rows of w per work-item of the portable kernels; of gate_up, half as many
 * columns. */
#define COLS 8

/* ---- figures ---- */

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

size_t opencl_experts_tiles(const struct opencl *c, size_t n, uint32_t tile)
{
    const size_t experts = c->w->shape.n_experts + 1;

    return n / tile + (n < experts ? n : experts);
}

/* ---- launches ---- */

/* The kernels leave both at 0, so once is enough. */
void opencl_experts_zero(struct opencl *c)
{
    struct opencl_experts *x = opencl_operators(c)->experts;

    if (!x->zeroed) {
        opencl_zero(c, &x->tickets, 0, x->tickets.cols * x->tickets.item);
        opencl_zero(c, &x->counts, 0, x->counts.cols * x->counts.item);
        x->zeroed = true;
    }
}

void opencl_experts_logits(struct opencl *c, struct opencl_kernel *k,
                           uint32_t layer, struct experts_range tokens,
                           const size_t global[2])
{
    const struct opencl_layer *l = &c->model.layers[layer];
    const size_t local[2] = {k->variant->wg, 1};
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, &opencl_operators(c)->experts->logits);
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &l->post_norm);
    opencl_arg_tensor(&a, &l->experts.router);
    opencl_arg_tensor(&a, &l->experts.router_bias);
    opencl_arg_u32(&a, tokens.first);
    opencl_arg_u32(&a, tokens.n);
    opencl_launch(&a, 2, global, local,
                  opencl_tensor_bytes(&l->experts.router));
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
static void launch_pairs(struct opencl_call *a, struct experts_range pairs,
                         const struct opencl_tensor *w, uint32_t cols,
                         uint32_t each)
{
    struct opencl *c = a->c;
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_variant *v = a->kernel->variant;
    /* A tile of one pair needs no list of tiles.  The number of tiles that have
     * pairs is known on the device alone, so all that there could be run. */
    const size_t tiles = v->tile_rows == 1
                             ? pairs.n
                             : opencl_experts_tiles(c, pairs.n, v->tile_rows);
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

void opencl_experts_gate_up(struct opencl *c, struct opencl_kernel *k,
                            uint32_t layer, struct experts_range pairs)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_expert_weights *w = &c->model.layers[layer].experts;
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, &x->gated);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.next);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &w->gate_up);
    opencl_arg_tensor(&a, &w->gate_up_bias);
    launch_pairs(&a, pairs, &w->gate_up, c->w->shape.expert_dim, COLS / 2);
}

void opencl_experts_down(struct opencl *c, struct opencl_kernel *k,
                         uint32_t layer, struct experts_range pairs)
{
    const struct opencl_experts *x = opencl_operators(c)->experts;
    const struct opencl_expert_weights *w = &c->model.layers[layer].experts;
    struct opencl_call a = opencl_call(c, k);

    opencl_arg_tensor(&a, &x->y);
    opencl_arg_tensor(&a, &x->gated);
    opencl_arg_tensor(&a, &w->down);
    opencl_arg_tensor(&a, &w->down_bias);
    launch_pairs(&a, pairs, &w->down, c->w->shape.hidden, COLS);
}
