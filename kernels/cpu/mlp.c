/* mlp.c - embedding, norm, MLP and head: the operators that work token by
 * token. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <string.h>

struct rows_job {
    struct cpu *c;
    float *out;          /* [n, H] */
    const float *x;      /* [n, H] */
    const float *gamma;  /* [H] */
    const uint32_t *ids; /* [n] */
};

static void norm_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct rows_job *j = arg;
    const struct model_shape *s = &j->c->w->shape;
    size_t from = j->ids ? j->ids[t] : t;

    (void)thread;
    j->c->isa->rms_norm(j->out + (size_t)t * s->hidden, j->x + from * s->hidden,
                        j->gamma, s->hidden, s->norm_eps);
}

void cpu_norm(struct cpu *c, float *out, const float *x, uint32_t n,
              const float *gamma)
{
    struct rows_job j = {c, out, x, gamma, NULL};

    cpu_run(c, norm_task, &j, n, (size_t)n * c->w->shape.hidden * 2);
}

static void embed_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct rows_job *j = arg;
    const struct tensor *e = &j->c->w->embed;
    float *out = j->out + (size_t)t * e->cols;

    (void)thread;
    if (e->bits > 0) {
        struct quantised row = quantised_rows(e, j->ids[t]);

        j->c->isa->dequantise(out, &row, 1);
    } else {
        size_t at = j->ids[t] * tensor_row_bytes(e);

        j->c->isa->widen(out, (const char *)e->data + at, e->dtype, e->cols);
    }
}

void cpu_embed(struct kernels *k, const uint32_t *tokens)
{
    struct cpu *c = cpu_of(k);
    struct rows_job j = {c, c->x, NULL, NULL, tokens};

    cpu_run(c, embed_task, &j, c->step->n_tokens,
            (size_t)c->step->n_tokens * c->w->shape.hidden);
    cpu_tick(c);
}

static void activate_task(void *arg, uint32_t t, uint32_t thread)
{
    struct cpu *c = arg;
    size_t width = c->w->shape.intermediate;
    const struct cpu_mlp_scratch *s = &c->of[CPU_MLP].mlp;

    (void)thread;
    c->isa->silu_mul(s->gate + t * width, s->up + t * width, width);
}

void cpu_ffn(struct kernels *k, uint32_t layer)
{
    struct cpu *c = cpu_of(k);
    const struct layer_weights *w = cpu_weights(c, layer);
    const struct model_shape *shape = &c->w->shape;
    const struct cpu_mlp_scratch *s = &c->of[CPU_MLP].mlp;
    uint32_t n = c->step->n_tokens, width = shape->intermediate;
    const struct cpu_product in[] = {
        {&w->mlp.gate, NULL, s->gate, width, false},
        {&w->mlp.up, NULL, s->up, width, false},
    };
    const struct cpu_product out = {&w->mlp.down, NULL, c->x, shape->hidden,
                                    true};

    cpu_norm(c, c->n, c->x, n, w->post_norm);
    cpu_matmul(c, c->n, n, in, 2);
    cpu_run(c, activate_task, c, n, (size_t)n * width * 8);
    cpu_matmul(c, s->gate, n, &out, 1);
    cpu_tick(c);
}

void cpu_head(struct kernels *k, const uint32_t *tokens, uint32_t n)
{
    struct cpu *c = cpu_of(k);
    struct rows_job j = {c, c->n, c->x, c->w->final_norm, tokens};
    const struct cpu_product out = {&c->w->head, NULL, c->logits,
                                    c->w->shape.vocab, false};

    /* The logits buffer has max_logits rows. */
    assert(n <= c->sizes.max_logits);
    cpu_run(c, norm_task, &j, n, (size_t)n * c->w->shape.hidden * 2);
    cpu_matmul(c, c->n, n, &out, 1);
    cpu_tick(c);
}
