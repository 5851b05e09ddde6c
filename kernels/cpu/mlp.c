/* mlp.c - embedding, norm, sums, MLP and head: the operators that work token
 * by token. */
#include "kernels/cpu/mixer.h"

#include <assert.h>
#include <string.h>

struct rows_job {
    struct cpu *c;
    float *out;          /* [n, H]; of embeddings rows ld apart */
    const float *x;      /* [n, H] */
    const float *gamma;  /* [H], or NULL: rows are copied */
    const uint32_t *ids; /* [n] */
    size_t ld;
};

static void norm_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct rows_job *j = arg;
    const struct model_shape *s = &j->c->w->shape;
    const float *x = j->x + (j->ids ? j->ids[t] : t) * (size_t)s->hidden;
    float *out = j->out + (size_t)t * s->hidden;

    (void)thread;
    if (j->gamma) {
        j->c->isa->rms_norm(out, x, j->gamma, s->hidden, s->norm_eps);
    } else {
        memcpy(out, x, s->hidden * sizeof *out);
    }
}

void cpu_norm(struct cpu *c, float *out, const float *x, uint32_t n,
              const float *gamma)
{
    struct rows_job j = {.c = c, .out = out, .x = x, .gamma = gamma};

    cpu_run(c, norm_task, &j, n, (size_t)n * c->w->shape.hidden * 2);
}

static void embed_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct rows_job *j = arg;
    const struct tensor *e = &j->c->w->embed;
    float scale = j->c->w->shape.stream.embed;
    float *out = j->out + t * j->ld;

    if (e->bits > 0) {
        struct quantised row =
            cpu_stored_row(e, j->ids[t], j->c->lanes[thread].panel);

        j->c->isa->dequantise(out, &row, 1);
    } else {
        size_t at = j->ids[t] * tensor_row_bytes(e);

        j->c->isa->widen(out, (const char *)e->data + at, e->dtype, e->cols);
    }
    for (uint32_t i = 0; scale > 0.0f && i < e->cols; i++) {
        out[i] *= scale;
    }
}

void cpu_embed_rows(struct cpu *c, const uint32_t *tokens, float *out,
                    size_t ld)
{
    struct rows_job j = {.c = c, .out = out, .ids = tokens, .ld = ld};

    cpu_run(c, embed_task, &j, c->step->n_tokens,
            (size_t)c->step->n_tokens * c->w->shape.hidden);
}

void cpu_embed(struct kernels *k, const uint32_t *tokens)
{
    struct cpu *c = cpu_of(k);

    cpu_embed_rows(c, tokens, c->x, c->w->shape.hidden);
    cpu_tick(c);
}

/* ---- sums ---- */

void cpu_add_row(const struct cpu *c, uint32_t t, float *y, const float *gamma)
{
    const struct model_shape *s = &c->w->shape;
    float *x = c->x + (size_t)t * s->hidden;

    if (gamma) {
        c->isa->rms_norm(y, y, gamma, s->hidden, s->norm_eps);
    }
    for (uint32_t i = 0; s->stream.residual > 0.0f && i < s->hidden; i++) {
        y[i] *= s->stream.residual;
    }
    for (uint32_t i = 0; i < s->hidden; i++) {
        x[i] += y[i];
    }
}

static void add_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct rows_job *j = arg;

    (void)thread;
    cpu_add_row(j->c, t, j->out + (size_t)t * j->c->w->shape.hidden, j->gamma);
}

void cpu_add_product(struct cpu *c, const struct tensor *w, const float *bias,
                     const float *x, const float *gamma)
{
    uint32_t n = c->step->n_tokens;
    struct cpu_product out = cpu_product_of(w, bias, x, n, c->x);
    struct rows_job j = {.c = c, .out = c->y, .gamma = gamma};
    bool apart = gamma || c->w->shape.stream.residual > 0.0f;

    out.out = apart ? c->y : c->x;
    out.add = !apart;
    cpu_matmul(c, &out, 1);
    if (apart) {
        cpu_run(c, add_task, &j, n, (size_t)n * w->rows * 4);
    }
}

/* ---- feed-forward ---- */

void cpu_activate(const struct cpu *c, float *gate, const float *up, size_t n)
{
    const struct model_shape *s = &c->w->shape;
    const struct activation_task t = {
        .gate = gate,
        .up = up,
        .n = n,
        .kind = s->activation.kind,
        .alpha = s->activation.alpha,
        .limit = s->activation.limit,
    };

    c->isa->activate(&t);
}

static void cut(struct cutter *k, struct cpu *c, size_t n)
{
    struct cpu_mlp_scratch *m = &c->of[CPU_MLP].mlp;

    m->gate = cutter_floats(k, n, c->w->shape.intermediate);
    m->up = cutter_floats(k, n, c->w->shape.intermediate);
}

static void activate_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct cpu *c = arg;
    size_t width = c->w->shape.intermediate;
    const struct cpu_mlp_scratch *s = &c->of[CPU_MLP].mlp;

    (void)thread;
    cpu_activate(c, s->gate + t * width, s->up + t * width, width);
}

static void run_mlp(struct cpu *c, const struct layer_weights *w)
{
    const struct cpu_mlp_scratch *s = &c->of[CPU_MLP].mlp;
    uint32_t n = c->step->n_tokens;
    const struct cpu_product in[] = {
        cpu_product_of(&w->mlp.gate, NULL, c->n, n, s->gate),
        cpu_product_of(&w->mlp.up, NULL, c->n, n, s->up),
    };

    cpu_matmul(c, in, 2);
    cpu_run(c, activate_task, c, n, (size_t)n * w->mlp.gate.rows * 8);
    cpu_add_product(c, &w->mlp.down, NULL, s->gate, w->ffn_norm);
}

static void matrices(const struct layer_weights *w, cpu_matrix_fn fn, void *arg)
{
    cpu_mlp_matrices(&w->mlp, fn, arg);
}

const struct cpu_ffn cpu_ffn_dense = {
    .cut = cut,
    .matrices = matrices,
    .run = run_mlp,
};

/* ---- head ---- */

static void scale_task(void *arg, uint32_t i, uint32_t thread)
{
    const struct cpu *c = arg;
    const struct stream_shape *s = &c->w->shape.stream;
    size_t vocab = c->w->shape.vocab;
    float *l = c->logits + i * vocab;

    (void)thread;
    for (size_t v = 0; s->logits > 0.0f && v < vocab; v++) {
        l[v] *= s->logits;
    }
    if (s->cap > 0.0f) {
        c->isa->soft_cap(l, s->cap, vocab);
    }
}

void cpu_head(struct kernels *k, const uint32_t *tokens, uint32_t n)
{
    struct cpu *c = cpu_of(k);
    const struct stream_shape *s = &c->w->shape.stream;
    struct rows_job j = {.c = c,
                         .out = c->n,
                         .x = c->x,
                         .gamma = cpu_last_norm(c),
                         .ids = tokens};
    const struct cpu_product out =
        cpu_product_of(&c->w->head, NULL, c->n, n, c->logits);

    /* The logits buffer has max_logits rows. */
    assert(n <= c->sizes.max_logits);
    cpu_run(c, norm_task, &j, n, (size_t)n * c->w->shape.hidden * 2);
    cpu_matmul(c, &out, 1);
    if (s->cap > 0.0f || s->logits > 0.0f) {
        cpu_run(c, scale_task, c, n, (size_t)n * c->w->shape.vocab * 8);
    }
    cpu_tick(c);
}
