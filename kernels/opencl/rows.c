#include "kernels/opencl/rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"

#define WG 16

static const struct opencl_variant embed[] = {
    {.file = "rows", .kernel = "embed", .wg = WG},
};
static const struct opencl_variant norm[] = {
    {.file = "rows", .kernel = "norm", .wg = WG},
};

enum status opencl_rows_setup(struct opencl *c, struct error *e)
{
    const struct model_shape *s = &c->w->shape;
    const struct opencl_shape shape = {s->vocab, s->hidden, c->embed.dtype};
    struct opencl_rows *r = calloc(1, sizeof *r);
    char defines[96];
    enum status st;

    c->rows = r;
    if (!r) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    opencl_matrix_defines(c, &c->embed, defines, sizeof defines);
    opencl_scratch(c, OPENCL_IN_MLP, &r->gated, c->sizes.max_tokens,
                   s->intermediate, dtype_bytes(c->matmul->operand));
    if (c->has_logits) {
        opencl_operand_scratch(c, &r->heads, c->sizes.max_logits);
    }
    st = opencl_choose(c, &r->norm, norm, 1, &shape, defines, e);
    if (st == ST_OK && c->embed.mem) {
        st = opencl_choose(c, &r->embed, embed, 1, &shape, defines, e);
    }
    return st;
}

void opencl_rows_free(struct opencl *c)
{
    free(c->rows);
    c->rows = NULL;
}

/* A chained product would be added to an x that has changed, so it goes too. */
void opencl_rows_stale(struct opencl *c)
{
    c->rows->ready = NULL;
    opencl_chain_stale(c);
}

/* Launches for n rows; a work-item handles NORM_PART columns of a row. */
static void launch_rows(struct opencl_call *a, uint32_t n)
{
    const uint64_t h = a->c->w->shape.hidden;
    const size_t parts = (h + NORM_PART - 1) / NORM_PART;
    const size_t local[2] = {WG, 1};
    const size_t global[2] = {(parts + WG - 1) / WG * WG, n};

    opencl_launch(a, 2, global, local, n * h * sizeof(float) * 2);
}

/* Makes the operand of n rows: of x's rows ids[i] (words of meta), or of row
 * i. */
static void make_norm(struct opencl *c, const struct opencl_operand *out,
                      const struct opencl_tensor *gamma, uint32_t n,
                      uint32_t ids)
{
    struct opencl_call a = opencl_call(c, c->rows->norm);

    opencl_arg_tensor(&a, &out->next);
    opencl_arg_tensor(&a, &out->ss);
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, gamma);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, n);
    opencl_arg_u32(&a, ids);
    launch_rows(&a, n);
}

void opencl_rows_ready(struct opencl *c, const struct opencl_tensor *gamma)
{
    opencl_chain_settle(c);
    /* The address of a norm's weights identifies the norm. */
    if (c->rows->ready != gamma) {
        make_norm(c, &c->matmul->norm, gamma, c->step.n_tokens, UINT32_MAX);
        c->rows->ready = gamma;
    }
}

const struct opencl_tensor *opencl_rows_behind(const struct opencl *c,
                                               uint32_t layer)
{
    const uint32_t n = c->w->end - c->w->begin;

    if (layer + 1 < n) {
        return &c->layers[layer + 1].input_norm;
    }
    return c->has_logits ? &c->final_norm : &c->layers[layer].input_norm;
}

void opencl_rows_add(struct opencl *c, const struct opencl_tensor *in,
                     const struct opencl_tensor *w,
                     const struct opencl_tensor *bias,
                     const struct opencl_tensor *gamma)
{
    opencl_project_add(c, in, w, bias, gamma);
    c->rows->ready = gamma;
}

void opencl_embed(struct kernels *k, const uint32_t *tokens)
{
    struct opencl *c = opencl_of(k);
    struct opencl_call a = opencl_call(c, c->rows->embed);
    const struct opencl_tensor *gamma = &c->layers[0].input_norm;

    for (uint32_t t = 0; t < c->step.n_tokens; t++) {
        /* No upload of its own: the launch below uploads the step's meta. */
        c->meta_host[c->meta_ids + c->step.place[t]] = (int32_t)tokens[t];
    }
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &c->matmul->norm.next);
    opencl_arg_tensor(&a, &c->matmul->norm.ss);
    opencl_arg_tensor(&a, &c->embed);
    opencl_arg_tensor(&a, gamma);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, c->step.n_tokens);
    launch_rows(&a, c->step.n_tokens);
    c->rows->ready = gamma;
    opencl_operator_end(c);
}

void opencl_ffn(struct kernels *k, uint32_t layer)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_layer *l = &c->layers[layer];
    const struct opencl_tensor absent = {0};

    if (opencl_chain_run(c, layer)) {
        return;
    }
    opencl_rows_ready(c, &l->post_norm);
    opencl_project_silu(c, &l->gate_up, &c->rows->gated);
    opencl_rows_add(c, &c->rows->gated, &l->down, &absent,
                    opencl_rows_behind(c, layer));
    opencl_operator_end(c);
}

void opencl_head(struct kernels *k, const uint32_t *tokens, uint32_t n)
{
    struct opencl *c = opencl_of(k);
    uint32_t *places = (uint32_t *)c->meta_host + c->meta_heads;
    /* If all tokens are generated, the last layer left the head's operand. */
    bool all = n == c->step.n_gen && n == c->step.n_tokens;

    assert(n <= c->sizes.max_logits);
    opencl_chain_settle(c);
    for (uint32_t i = 0; i < n; i++) {
        places[i] = c->step.place[tokens[i]];
        all = all && places[i] == i;
    }
    if (all && c->rows->ready == &c->final_norm) {
        opencl_project_rows(c, &c->matmul->norm, n, &c->head, &c->logits);
    } else {
        /* The step's meta is already on the device; these indices are new. */
        opencl_upload(c, &c->meta, sizeof *places * c->meta_heads, places,
                      sizeof *places * n);
        make_norm(c, &c->rows->heads, &c->final_norm, n, c->meta_heads);
        opencl_project_rows(c, &c->rows->heads, n, &c->head, &c->logits);
    }
    opencl_operator_end(c);
}
