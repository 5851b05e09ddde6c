#include "tests/bench/demand.h"

static void add(struct demand *d, const struct tensor *t)
{
    double n = (double)t->rows * t->cols;

    d->weights += n;
    d->weight_bytes += (double)tensor_bytes(t);
}

static void add_mixer(struct demand *d, const struct layer_weights *l)
{
    if (l->kind == MIXER_ATTENTION) {
        add(d, &l->mixer.attention.q);
        add(d, &l->mixer.attention.k);
        add(d, &l->mixer.attention.v);
        add(d, &l->mixer.attention.o);
    } else {
        add(d, &l->mixer.deltanet.qkv);
        add(d, &l->mixer.deltanet.z);
        add(d, &l->mixer.deltanet.b);
        add(d, &l->mixer.deltanet.a);
        add(d, &l->mixer.deltanet.out);
    }
}

void demand_of(struct demand *out, const struct shard_weights *w)
{
    *out = (struct demand){0};
    for (uint32_t i = 0; i < w->end - w->begin; i++) {
        const struct layer_weights *l = &w->layers[i];

        add_mixer(out, l);
        add(out, &l->mlp.gate);
        add(out, &l->mlp.up);
        add(out, &l->mlp.down);
    }
    out->head = (double)w->head.rows * w->head.cols;
    out->head_bytes = (double)tensor_bytes(&w->head);
}

double demand_decode_bytes(const struct demand *d, uint32_t batch,
                           double context_bytes, double slot_bytes)
{
    return d->weight_bytes + d->head_bytes +
           batch * (2.0 * slot_bytes + context_bytes);
}

double demand_decode_flops(const struct demand *d, uint32_t batch)
{
    return 2.0 * batch * (d->weights + d->head);
}

double demand_prefill_flops(const struct demand *d, uint32_t n)
{
    return 2.0 * d->weights * n;
}
