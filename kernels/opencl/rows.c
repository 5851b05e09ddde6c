#include "kernels/opencl/rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/opencl/chain.h"
#include "kernels/opencl/experts.h"
#include "kernels/opencl/host/launch.h"
#include "kernels/opencl/host/memory.h"
#include "kernels/opencl/operators.h"

#define WG        16
#define CAP_WG    64
#define CAP_ITEMS ((size_t)1 << 16)

static const struct opencl_variant embed[] = {
    {.file = "rows", .kernel = "embed", .wg = WG},
};
static const struct opencl_variant norm[] = {
    {.file = "rows", .kernel = "norm", .wg = WG},
};

static const struct opencl_variant norm_add[] = {
    {.file = "rows", .kernel = "norm_add", .wg = WG},
};
static const struct opencl_variant cap[] = {
    {.file = "rows", .kernel = "cap", .wg = CAP_WG},
};

static enum status choose_kernels(struct opencl *c, struct error *e)
{
    struct opencl_rows *r = opencl_operators(c)->rows;
    const struct model_shape *s = &c->w->shape;
    const struct {
        struct opencl_kernel **out;
        const struct opencl_variant *v;
        bool wanted;
    } of[] = {
        {&r->norm, norm, true},
        {&r->embed, embed, c->model.embed.mem != NULL},
        {&r->norm_add, norm_add, opencl_operators(c)->matmul->y.rows > 0},
        {&r->cap, cap,
         c->has_logits && (s->stream.cap > 0.0f || s->stream.logits > 0.0f)}};
    char of_w[OPENCL_MATRIX_DEFINES], defines[sizeof of_w + 160];
    char residual[48] = "";
    enum status st = ST_OK;

    opencl_matrix_defines(c, &c->model.embed, of_w, sizeof of_w);
    if (s->stream.residual > 0.0f) {
        (void)snprintf(residual, sizeof residual, " -DRESIDUAL=%.9ef",
                       (double)s->stream.residual);
    }
    (void)snprintf(defines, sizeof defines,
                   "%s -DEMBED_SCALE=%.9ef -DLOGIT_SCALE=%.9ef "
                   "-DLOGIT_CAP=%.9ef%s",
                   of_w, s->stream.embed > 0.0f ? (double)s->stream.embed : 1.0,
                   s->stream.logits > 0.0f ? (double)s->stream.logits : 1.0,
                   (double)s->stream.cap, residual);
    for (size_t i = 0; i < sizeof of / sizeof *of && st == ST_OK; i++) {
        if (of[i].wanted) {
            st = opencl_choose(c, of[i].out, of[i].v, 1, NULL, defines, e);
        }
    }
    return st;
}

enum status opencl_rows_setup(struct opencl *c, struct error *e)
{
    const struct model_shape *s = &c->w->shape;
    const uint32_t wide =
        s->intermediate > s->shared_dim ? s->intermediate : s->shared_dim;
    struct opencl_rows *r = calloc(1, sizeof *r);

    opencl_operators(c)->rows = r;
    if (!r) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "not enough memory for kernels");
    }
    r->last = &c->model.final_norm;
    opencl_scratch(c, OPENCL_IN_MLP, &r->gated, c->sizes.max_tokens, wide,
                   dtype_bytes(opencl_operators(c)->matmul->operand));
    if (c->has_logits) {
        opencl_operand_scratch(c, &r->heads, c->sizes.max_logits);
    }
    return choose_kernels(c, e);
}

void opencl_rows_free(struct opencl *c)
{
    free(opencl_operators(c)->rows);
    opencl_operators(c)->rows = NULL;
}

/* A chained product would be added to an x that has changed, so it goes too. */
void opencl_rows_stale(struct opencl *c)
{
    opencl_operators(c)->rows->ready = NULL;
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
    struct opencl_call a = opencl_call(c, opencl_operators(c)->rows->norm);

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
    if (opencl_operators(c)->rows->ready != gamma) {
        make_norm(c, &opencl_operators(c)->matmul->norm, gamma,
                  c->step.n_tokens, UINT32_MAX);
        opencl_operators(c)->rows->ready = gamma;
    }
}

const struct opencl_tensor *opencl_rows_behind(const struct opencl *c,
                                               uint32_t layer)
{
    const uint32_t n = c->w->end - c->w->begin;

    if (layer + 1 < n) {
        return &c->model.layers[layer + 1].input_norm;
    }
    if (layer >= n) {
        return &c->model.mtp.norm;
    }
    return c->has_logits ? &c->model.final_norm
                         : &c->model.layers[layer].input_norm;
}

void opencl_rows_add(struct opencl *c, const struct opencl_tensor *in,
                     const struct opencl_tensor *w,
                     const struct opencl_tensor *bias,
                     const struct opencl_tensor *by,
                     const struct opencl_tensor *gamma)
{
    if (opencl_adds_apart(c, by)) {
        opencl_project_y(c, in, w, bias);
    } else {
        opencl_project_add(c, in, w, bias, gamma);
    }
    opencl_rows_added(c, by, gamma);
}

void opencl_rows_added(struct opencl *c, const struct opencl_tensor *by,
                       const struct opencl_tensor *gamma)
{
    const struct opencl_matmul *m = opencl_operators(c)->matmul;

    opencl_operators(c)->rows->ready = gamma;
    if (opencl_adds_apart(c, by)) {
        struct opencl_call a =
            opencl_call(c, opencl_operators(c)->rows->norm_add);

        opencl_arg_tensor(&a, &c->x);
        opencl_arg_tensor(&a, &m->norm.next);
        opencl_arg_tensor(&a, &m->norm.ss);
        opencl_arg_tensor(&a, &m->y);
        opencl_arg_tensor(&a, &m->y_ss);
        opencl_arg_tensor(&a, by);
        opencl_arg_tensor(&a, gamma);
        opencl_arg_u32(&a, c->step.n_tokens);
        launch_rows(&a, c->step.n_tokens);
    }
}

void opencl_embed(struct kernels *k, const uint32_t *tokens)
{
    struct opencl *c = opencl_of(k);
    struct opencl_call a = opencl_call(c, opencl_operators(c)->rows->embed);
    const struct opencl_tensor *gamma = &c->model.layers[0].input_norm;

    for (uint32_t t = 0; t < c->step.n_tokens; t++) {
        /* No upload of its own: the launch below uploads the step's meta. */
        c->meta.host[c->meta.ids + c->step.place[t]] = (int32_t)tokens[t];
    }
    opencl_arg_tensor(&a, &c->x);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.next);
    opencl_arg_tensor(&a, &opencl_operators(c)->matmul->norm.ss);
    opencl_arg_tensor(&a, &c->model.embed);
    opencl_arg_tensor(&a, gamma);
    opencl_arg_meta(&a);
    opencl_arg_u32(&a, c->step.n_tokens);
    launch_rows(&a, c->step.n_tokens);
    opencl_operators(c)->rows->ready = gamma;
    opencl_operator_end(c);
}

void opencl_ffn(struct kernels *k, uint32_t layer)
{
    struct opencl *c = opencl_of(k);
    const struct opencl_layer *l = &c->model.layers[layer];
    const struct opencl_tensor absent = {0};

    if (opencl_chain_run(c, layer)) {
        return;
    }
    if (l->experts.router.mem) {
        opencl_experts_run(c, layer);
    } else {
        opencl_rows_ready(c, &l->post_norm);
        opencl_project_silu(c, &l->gate_up, &opencl_operators(c)->rows->gated);
        opencl_rows_add(c, &opencl_operators(c)->rows->gated, &l->down, &absent,
                        &l->ffn_norm, opencl_rows_behind(c, layer));
    }
    opencl_operator_end(c);
}

static void cap_logits(struct opencl *c, uint32_t n)
{
    const uint64_t values = (uint64_t)n * c->w->shape.vocab;
    const size_t local = CAP_WG, most = CAP_ITEMS;
    const size_t items = (values + local - 1) / local * local;
    const size_t global = items < most ? items : most;
    struct opencl_call a = opencl_call(c, opencl_operators(c)->rows->cap);

    opencl_arg_tensor(&a, &c->logits);
    opencl_arg_u64(&a, values);
    opencl_launch(&a, 1, &global, &local, values * sizeof(float) * 2);
}

/* Returns the rows of an operand from `first` on. */
static struct opencl_operand operand_from(const struct opencl_operand *o,
                                          uint32_t first)
{
    struct opencl_operand from = *o;

    from.next.at += (size_t)first * o->next.cols * o->next.item;
    from.ss.at += (size_t)first * o->ss.cols * o->ss.item;
    return from;
}

/* Returns whether the last layer left the operand of n rows of the head, those
 * at places: generated tokens, one behind the other.  Kernels read 16 bytes at
 * a time. */
static bool has_operand(const struct opencl *c, const uint32_t *places,
                        uint32_t n)
{
    const struct opencl_operand *o = &opencl_operators(c)->matmul->norm;
    bool all = n > 0 && opencl_operators(c)->rows->ready ==
                            opencl_operators(c)->rows->last;

    for (uint32_t i = 0; i < n && all; i++) {
        all = places[i] == places[0] + i && places[i] < c->step.n_gen;
    }
    return all && (places[0] == 0 || (o->next.cols * o->next.item % 16 == 0 &&
                                      o->ss.cols * o->ss.item % 16 == 0));
}

void opencl_head(struct kernels *k, const uint32_t *tokens, uint32_t n)
{
    struct opencl *c = opencl_of(k);
    uint32_t *places = (uint32_t *)c->meta.host + c->meta.heads;

    assert(n <= c->sizes.max_logits);
    opencl_chain_settle(c);
    for (uint32_t i = 0; i < n; i++) {
        places[i] = c->step.place[tokens[i]];
    }
    if (has_operand(c, places, n)) {
        const struct opencl_operand from =
            operand_from(&opencl_operators(c)->matmul->norm, places[0]);

        opencl_project_rows(c, &from, n, &c->model.head, &c->logits);
    } else {
        /* The step's meta is already on the device; these indices are new. */
        opencl_upload(c, &c->meta.tensor, sizeof *places * c->meta.heads,
                      places, sizeof *places * n);
        make_norm(c, &opencl_operators(c)->rows->heads,
                  opencl_operators(c)->rows->last, n, c->meta.heads);
        opencl_project_rows(c, &opencl_operators(c)->rows->heads, n,
                            &c->model.head, &c->logits);
    }
    if (opencl_operators(c)->rows->cap) {
        cap_logits(c, n);
    }
    opencl_operator_end(c);
}
