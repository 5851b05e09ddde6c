/* ffn_dense.c - The row of an MLP. */
#include "common/model/ffn.h"

static void tensors(struct maker *m, struct layer_weights *w)
{
    maker_mlp(m, &w->mlp, "mlp", m->config->shape.intermediate);
}

static void tally(struct tally *t, const struct model_config *c, uint64_t n)
{
    (void)n;
    tally_mlp(t, c->shape.hidden, c->shape.intermediate);
}

const struct ffn ffn_dense = {
    .name = "dense",
    .a_ffn = "an MLP",
    .tensors = tensors,
    .tally = tally,
};
