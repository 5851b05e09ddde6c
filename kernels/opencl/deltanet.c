#include "kernels/opencl/deltanet.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/nv/deltanet_nv.h"
#include "kernels/opencl/pool.h"
#include "kernels/opencl/rows.h"

struct opencl_deltanet {
    struct opencl_deltanet_nv *nv; /* NVIDIA's kernels; NULL: the portable
                                    * ones */
    struct opencl_kernel *decode, *prefill;
    struct opencl_tensor in;         /* [T, C + Hv*Dv + 2*Hv] f32: u, z, b, a */
    struct opencl_tensor y;          /* [T, Hv*Dv] operand dtype */
    struct opencl_tensor o, tickets; /* for kernels that share a head */
};

static const struct opencl_variant decode[] = {
    {.file = "deltanet", .kernel = "deltanet", .wg = 64},
};
static const struct opencl_variant prefill[] = {
    {.file = "deltanet", .kernel = "deltanet", .wg = 64},
};

/* All layers of a kind have the same shape, so the first stands for all. */
static const struct opencl_layer *first_of(const struct opencl *c)
{
    for (uint32_t i = 0; i < c->w->end - c->w->begin; i++) {
        if (c->layers[i].kind == MIXER_DELTANET) {
            return &c->layers[i];
        }
    }
    return NULL;
}

enum status opencl_deltanet_setup(struct opencl *c, struct error *e)
{
    const struct opencl_layer *l = first_of(c);
    struct opencl_deltanet *d = calloc(1, sizeof *d);
    char defines[64];
    enum status st;

    c->deltanet = d;
    if (!d) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    if (!l) {
        return ST_OK;
    }
    const struct opencl_tensor *w = &l->deltanet.in;
    const struct opencl_shape shape = {w->rows, w->cols, c->kv_dtype};

    (void)snprintf(defines, sizeof defines, "-DOPERAND_DTYPE=%d",
                   (int)c->matmul->operand);
    opencl_scratch(c, OPENCL_IN_DELTANET, &d->in, c->sizes.max_tokens,
                   opencl_rows_of(w, l->deltanet.rest), sizeof(float));
    opencl_scratch(c, OPENCL_IN_DELTANET, &d->y, c->sizes.max_tokens,
                   l->deltanet.out.cols, dtype_bytes(c->matmul->operand));
    st = opencl_deltanet_nv_setup(c, &d->nv, defines, e);
    if (st == ST_OK) {
        st = opencl_choose(c, &d->decode, decode, 1, &shape, defines, e);
    }
    if (st == ST_OK) {
        st = opencl_choose(c, &d->prefill, prefill, 1, &shape, defines, e);
    }
    return st;
}

const struct opencl_tensor *opencl_deltanet_in(const struct opencl *c)
{
    return &c->deltanet->in;
}

void opencl_deltanet_free(struct opencl *c)
{
    if (c->deltanet) {
        opencl_deltanet_nv_free(&c->deltanet->nv);
    }
    free(c->deltanet);
    c->deltanet = NULL;
}

/* Runs rows first .. first + n of the step. */
static void run_rows(struct opencl *c, const struct opencl_layer *l,
                     struct opencl_kernel *kernel, uint32_t first, uint32_t n)
{
    const struct opencl_deltanet *d = c->deltanet;
    const struct opencl_deltanet_weights *w = &l->deltanet;
    struct opencl_call a = opencl_call(c, kernel);
    const size_t local[2] = {kernel->variant->wg, 1};
    const size_t global[2] = {c->w->shape.n_k_heads * local[0], n};

    opencl_arg_tensor(&a, &d->y);
    opencl_arg_tensor(&a, &d->o);
    opencl_arg_tensor(&a, &d->tickets);
    opencl_arg_tensor(&a, &l->state);
    opencl_arg_tensor(&a, &l->tail);
    opencl_arg_u32(&a, l->state.cols);
    opencl_arg_tensor(&a, &d->in);
    opencl_arg_tensor(&a, &w->conv);
    opencl_arg_tensor(&a, &w->a_log);
    opencl_arg_tensor(&a, &w->dt_bias);
    opencl_arg_tensor(&a, &w->norm);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, first);
    opencl_arg_u32(&a, n);
    opencl_launch(&a, 2, global, local,
                  (uint64_t)n * opencl_state_bytes(c) * 2);
}

void opencl_deltanet(struct kernels *k, uint32_t layer)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_deltanet *d = c->deltanet;
    const struct opencl_layer *l = &c->layers[layer];
    const struct opencl_step *s = &c->step;
    const struct opencl_tensor absent = {0};

    /* The MLP before may have computed this layer's first product already. */
    if (!opencl_chain_began(c, layer)) {
        opencl_rows_ready(c, &l->input_norm);
        opencl_project_in(c, &l->deltanet.in, l->deltanet.rest, &absent,
                          &d->in);
    }
    if (d->nv) {
        opencl_deltanet_nv(c, d->nv, l, &d->y, &d->in);
    } else {
        run_rows(c, l, d->decode, 0, s->n_gen_rows);
        run_rows(c, l, d->prefill, s->n_gen_rows, s->n_rows - s->n_gen_rows);
    }
    /* If deferred, the product runs in one launch with the MLP's. */
    if (!opencl_chain_takes(c, layer, &d->y)) {
        opencl_rows_add(c, &d->y, &l->deltanet.out, &absent, &l->mixer_norm,
                        &l->post_norm);
    }
    opencl_operator_end(c);
}
