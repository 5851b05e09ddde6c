/* maker_ffn.c - The tensors of a feed-forward: an MLP, or experts in each form
 * that checkpoints have. */
#include <stdio.h>

#include "common/base/quote.h"
#include "common/model/maker.h"

#define EXPERT_ROWS_MAX                                   \
    INT32_MAX /* of all experts of a layer: kernels count \
               * rows in 32 bits */

void maker_mlp(struct maker *m, struct mlp_weights *w, const char *prefix,
               uint32_t rows)
{
    const struct maker_part parts[] = {{&w->gate, rows}, {&w->up, rows}};
    uint32_t hidden = m->config->shape.hidden;
    char name[MAKER_KEY_MAX];

    if (m->config->fused) {
        snprintf(name, sizeof name, "%s.gate_up_proj", prefix);
        maker_parts(m, parts, 2, name, hidden);
    } else {
        snprintf(name, sizeof name, "%s.gate_proj", prefix);
        maker_matrix(m, &w->gate, name, rows, hidden);
        snprintf(name, sizeof name, "%s.up_proj", prefix);
        maker_matrix(m, &w->up, name, rows, hidden);
    }
    snprintf(name, sizeof name, "%s.down_proj", prefix);
    maker_matrix(m, &w->down, name, hidden, rows);
}

/* ---- one tensor for all experts ---- */

/* Puts the rows of a tensor of all experts: expert e has n rows, which become
 * rows [first, first + n) of the out's `each` rows of an expert. */
static void put_all(struct maker *m, const struct maker_target *t,
                    const struct maker_stored *s, uint32_t first, uint32_t each)
{
    uint32_t n = s->each, experts = s->shape.rows / n;

    if (n == each) {
        maker_put(m, t, s, (struct maker_rows){0, 0, s->shape.rows});
        return;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t e = 0; e < experts; e++) {
            maker_put_plane(m, t, s, i,
                            (struct maker_rows){e * n, e * each + first, n});
        }
    }
}

/* gpt-oss in bf16 stores the transpose of this: [E, H, 2*Im]. */
static bool is_transposed(struct maker *m, const struct checkpoint_tensor *t,
                          const struct maker_form *f)
{
    const uint64_t other[] = {f->n, f->cols, f->rows};

    if (t == NULL || !maker_is(t, 3, other) ||
        (f->rows == f->cols && !m->config->shape.gate_up_alternate)) {
        return false;
    }
    MAKER_FAULT(m, ST_UNIMPLEMENTED,
                "%s: tensor %s has the experts' matrices transposed, [%u, %u, "
                "%u]; this form is not supported: use the checkpoint with "
                "MXFP4 experts (_blocks and _scales)",
                quote(m->checkpoint->files[t->file].name).text,
                quote(t->info->name).text, f->n, f->cols, f->rows);
    return true;
}

/* Lays out one matrix of fused experts: name, or name_blocks. */
static void fused(struct maker *m, struct tensor *out, const char *name,
                  const struct maker_form *f)
{
    char blocks[MAKER_KEY_MAX];
    const struct checkpoint_tensor *t;
    struct maker_stored s;
    struct maker_target to;
    bool found;

    snprintf(blocks, sizeof blocks, "%s_blocks", name);
    if (maker_has(m, blocks) ||
        (m->config->quant.format == WEIGHT_MXFP4 && !maker_has(m, name))) {
        found = maker_find_mxfp4(m, &s, maker_find_in_layer(m, blocks), f);
    } else {
        t = maker_find_in_layer(m, name);
        found = !is_transposed(m, t, f) && maker_find_stored(m, &s, t, f);
    }
    if (found) {
        maker_begin(m, &to, out, &s, s.shape.rows);
        put_all(m, &to, &s, 0, f->rows);
    }
}

/* ---- gate, up and down apart ---- */

static bool same_form(const struct tensor *a, const struct tensor *b)
{
    return a->format == b->format && a->dtype == b->dtype &&
           a->bits == b->bits && a->group == b->group;
}

/* A matrix of all experts; begun with the form of its first tensor. */
struct gathered {
    struct tensor *out;
    uint32_t each; /* rows of an expert */
    bool begun;
    struct maker_target target;
};

/* Tensors of one expert, or of all. */
struct gathering {
    struct maker *m;
    char prefix[MAKER_KEY_MAX / 2];
    uint32_t n;      /* experts of a tensor, as in struct maker_form */
    uint32_t expert; /* the first of a tensor */
    struct gathered gate_up, down;
};

/* Adds a tensor whose rows are rows [first, first + rows) of an expert. */
static void gather(struct gathering *g, struct gathered *to, const char *name,
                   uint32_t first, struct maker_form f)
{
    struct maker *m = g->m;
    const struct checkpoint_tensor *t;
    struct maker_stored s;
    char full[MAKER_KEY_MAX];

    snprintf(full, sizeof full, "%s.%s.weight", g->prefix, name);
    t = maker_find_in_layer(m, full);
    if (!maker_find_stored(m, &s, t, &f)) {
        return;
    }
    if (!to->begun) {
        maker_begin(m, &to->target, to->out, &s,
                    m->config->shape.n_experts * to->each);
        to->begun = true;
    } else if (!same_form(to->out, &s.shape)) {
        MAKER_FAULT(m, ST_UNIMPLEMENTED,
                    "%s: tensor %s is stored in another form than the layer's "
                    "other experts; this is not supported",
                    quote(m->checkpoint->files[t->file].name).text,
                    quote(t->info->name).text);
    }
    if (f.n > 0) {
        put_all(m, &to->target, &s, first, to->each);
    } else {
        maker_put(m, &to->target, &s,
                  (struct maker_rows){0, g->expert * to->each + first, f.rows});
    }
}

/* Mixtral's names of gate, up and down. */
static bool is_numbered(const struct maker *m)
{
    return maker_has(m, "block_sparse_moe.gate.weight");
}

static void gather_three(struct gathering *g)
{
    static const char *const names[][3] = {
        {"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};
    const char *const *name = names[is_numbered(g->m)];
    const struct model_shape *s = &g->m->config->shape;
    const struct maker_form rows = {g->n, s->expert_dim, s->hidden};
    const struct maker_form cols = {g->n, s->hidden, s->expert_dim};

    gather(g, &g->gate_up, name[0], 0, rows);
    gather(g, &g->gate_up, name[1], s->expert_dim, rows);
    gather(g, &g->down, name[2], 0, cols);
}

static void apart(struct maker *m, struct expert_weights *w)
{
    const struct model_shape *s = &m->config->shape;
    struct gathering g = {
        .m = m,
        .gate_up = {.out = &w->gate_up, .each = 2 * s->expert_dim},
        .down = {.out = &w->down, .each = s->hidden},
    };

    if (maker_has(m, "mlp.switch_mlp.gate_proj.weight")) {
        g.n = s->n_experts;
        snprintf(g.prefix, sizeof g.prefix, "mlp.switch_mlp");
        gather_three(&g);
        return;
    }
    for (; g.expert < s->n_experts && m->status == ST_OK; g.expert++) {
        snprintf(g.prefix, sizeof g.prefix, "%s.experts.%u",
                 is_numbered(m) ? "block_sparse_moe" : "mlp", g.expert);
        gather_three(&g);
    }
}

/* ---- a layer ---- */

static void router(struct maker *m, struct expert_weights *w)
{
    const struct model_shape *s = &m->config->shape;
    bool named = maker_has(m, "mlp.router.weight");

    maker_matrix(m, &w->router,
                 named            ? "mlp.router"
                 : is_numbered(m) ? "block_sparse_moe.gate"
                                  : "mlp.gate",
                 s->n_experts, s->hidden);
    if (m->config->expert_bias) {
        maker_vector(m, &w->router_bias,
                     named ? "mlp.router.bias" : "mlp.gate.bias", s->n_experts);
    }
}

/* [E, n], a bias of each row of each expert. */
static void bias(struct maker *m, const float **out, const char *name,
                 uint32_t n)
{
    const uint64_t dims[] = {m->config->shape.n_experts, n};
    const struct checkpoint_tensor *t = maker_find_in_layer(m, name);

    if (t != NULL && !maker_is(t, 2, dims)) {
        maker_shape_fault(m, t, 2, dims);
        return;
    }
    maker_elements(m, out, t, m->config->shape.n_experts * n, 0);
}

static void shared_expert(struct maker *m, struct expert_weights *w)
{
    const struct model_shape *s = &m->config->shape;

    if (s->shared_dim > 0) {
        maker_mlp(m, &w->shared, "mlp.shared_expert", s->shared_dim);
        if (m->config->shared_gate) {
            maker_matrix(m, &w->shared_gate, "mlp.shared_expert_gate", 1,
                         s->hidden);
        }
    }
}

/* Rows are counted in 32 bits, here and by kernels. */
static bool too_many(struct maker *m)
{
    const struct model_shape *s = &m->config->shape;
    uint64_t most = 2 * (uint64_t)s->expert_dim;

    most = (most > s->hidden ? most : s->hidden) * s->n_experts;
    if (most > EXPERT_ROWS_MAX) {
        MAKER_FAULT(m, ST_INVALID_ARGUMENT,
                    "the experts of a layer have %llu rows, at most %d are "
                    "supported",
                    (unsigned long long)most, EXPERT_ROWS_MAX);
    }
    return most > EXPERT_ROWS_MAX;
}

/* mxfp4 has no other form: a missing tensor is named as one of it. */
static bool is_fused(const struct maker *m)
{
    return maker_has(m, "mlp.experts.gate_up_proj") ||
           maker_has(m, "mlp.experts.gate_up_proj_blocks") ||
           m->config->quant.format == WEIGHT_MXFP4;
}

void maker_experts(struct maker *m, struct expert_weights *w)
{
    const struct model_shape *s = &m->config->shape;
    const struct maker_form gate_up = {s->n_experts, 2 * s->expert_dim,
                                       s->hidden};
    const struct maker_form down = {s->n_experts, s->hidden, s->expert_dim};

    if (too_many(m)) {
        return;
    }
    router(m, w);
    if (m->checkpoint->gguf) {
        maker_experts_gguf(m, w);
    } else if (is_fused(m)) {
        fused(m, &w->gate_up, "mlp.experts.gate_up_proj", &gate_up);
        fused(m, &w->down, "mlp.experts.down_proj", &down);
    } else {
        apart(m, w);
    }
    if (m->config->expert_bias && !m->checkpoint->gguf) {
        bias(m, &w->gate_up_bias, "mlp.experts.gate_up_proj_bias",
             gate_up.rows);
    }
    if (m->config->expert_bias) {
        bias(m, &w->down_bias, "mlp.experts.down_proj_bias", s->hidden);
    }
    shared_expert(m, w);
}
