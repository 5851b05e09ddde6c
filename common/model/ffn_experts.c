/* ffn_experts.c - The row of a mixture of experts. */
#include "common/model/ffn.h"

static void tensors(struct maker *m, struct layer_weights *w)
{
    maker_experts(m, &w->experts);
}

/* The matrices of n experts, as in struct expert_weights. */
static void experts(struct tally *t, const struct model_shape *s, uint64_t n)
{
    tally_matrix(t, 2 * n * s->expert_dim, s->hidden, TALLY_EXPERTS);
    tally_matrix(t, n * s->hidden, s->expert_dim, TALLY_EXPERTS);
}

/* Router, n experts and the shared one with its gate. */
static void tally(struct tally *t, const struct model_config *c, uint64_t n)
{
    const struct model_shape *s = &c->shape;

    tally_matrix(t, s->n_experts, s->hidden, TALLY_ROUTER);
    experts(t, s, n);
    if (c->expert_bias) {
        tally_vector(t, s->n_experts);
        tally_vector(t, 2 * n * s->expert_dim);
        tally_vector(t, n * s->hidden);
    }
    if (s->shared_dim > 0) {
        tally_mlp(t, s->hidden, s->shared_dim);
    }
    if (c->shared_gate) {
        tally_matrix(t, 1, s->hidden, TALLY_ROUTER);
    }
}

static void tally_chosen(struct tally *t, const struct model_config *c)
{
    experts(t, &c->shape, c->shape.n_experts);
}

static uint32_t chosen(const struct layer_weights *w,
                       const struct tensor *out[FFN_CHOSEN_MAX])
{
    out[0] = &w->experts.gate_up;
    out[1] = &w->experts.down;
    return 2;
}

const struct ffn ffn_experts = {
    .name = "experts",
    .a_ffn = "a layer with experts",
    .tensors = tensors,
    .tally = tally,
    .tally_chosen = tally_chosen,
    .chosen = chosen,
};
