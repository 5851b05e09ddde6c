/* drafts.c - what the MTP layer has beside its mixer and feed-forward. */
#include "kernels/cpu/cpu.h"

struct input_job {
    struct cpu *c;
    const uint32_t *from; /* [n_tokens] rows of h */
};

/* Norms the embedding in place, and h beside it. */
static void pair_task(void *arg, uint32_t t, uint32_t thread)
{
    const struct input_job *j = arg;
    const struct cpu *c = j->c;
    const struct mtp_weights *w = c->w->mtp;
    uint32_t hidden = c->w->shape.hidden;
    float eps = c->w->shape.norm_eps,
          *pair = c->mtp.pair + 2 * (size_t)t * hidden;

    (void)thread;
    c->isa->rms_norm(pair, pair, w->embed_norm, hidden, eps);
    c->isa->rms_norm(pair + hidden, c->mtp.h + (size_t)j->from[t] * hidden,
                     w->hidden_norm, hidden, eps);
}

void cpu_draft_input(struct kernels *k, const uint32_t *tokens,
                     const uint32_t *from)
{
    struct cpu *c = cpu_of(k);
    size_t hidden = c->w->shape.hidden;
    uint32_t n = c->step->n_tokens;
    struct input_job j = {c, from};
    const struct cpu_product out =
        cpu_product_of(&c->w->mtp->fc, NULL, c->mtp.pair, n, c->x);

    c->mtp.steps = true;
    cpu_embed_rows(c, tokens, c->mtp.pair, 2 * hidden);
    cpu_run(c, pair_task, &j, n, n * hidden * 4);
    cpu_matmul(c, &out, 1);
    cpu_tick(c);
}

void cpu_keep_hidden(struct kernels *k)
{
    struct cpu *c = cpu_of(k);

    cpu_norm(c, c->mtp.h, c->x, c->step->n_tokens, cpu_last_norm(c));
    cpu_tick(c);
}
