#include "tests/bench/demand.h"

#include <math.h>

static void add(struct demand *d, const struct tensor *t)
{
    double n = (double)t->rows * t->cols;

    d->weights += n;
    d->weight_bytes += (double)tensor_bytes(t);
}

static void add_mixer(struct demand *d, const struct layer_weights *l)
{
    if (mixer_attends(l->kind)) {
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

static void add_mlp(struct demand *d, const struct mlp_weights *m)
{
    add(d, &m->gate);
    add(d, &m->up);
    add(d, &m->down);
}

static void add_experts(struct demand *d, const struct expert_weights *x)
{
    const struct tensor *of[] = {&x->gate_up, &x->down};

    add(d, &x->router);
    if (x->shared.gate.data) {
        add_mlp(d, &x->shared);
    }
    if (x->shared_gate.data) {
        add(d, &x->shared_gate);
    }
    for (int i = 0; i < 2; i++) {
        d->expert_weights += (double)of[i]->rows * of[i]->cols / d->n_experts;
        d->expert_bytes += (double)tensor_bytes(of[i]) / d->n_experts;
    }
}

static void add_layer(struct demand *d, const struct layer_weights *l)
{
    add_mixer(d, l);
    if (l->ffn == FFN_EXPERTS) {
        add_experts(d, &l->experts);
    } else {
        add_mlp(d, &l->mlp);
    }
}

/* Returns the demand of a head and no layers. */
static struct demand head_of(const struct shard_weights *w)
{
    return (struct demand){.n_experts = w->shape.n_experts,
                           .top_k = w->shape.top_k,
                           .head = (double)w->head.rows * w->head.cols,
                           .head_bytes = (double)tensor_bytes(&w->head)};
}

void demand_of(struct demand *out, const struct shard_weights *w)
{
    *out = head_of(w);
    for (uint32_t i = 0; i < w->end - w->begin; i++) {
        add_layer(out, &w->layers[i]);
    }
}

void demand_of_draft(struct demand *out, const struct shard_weights *w)
{
    *out = head_of(w);
    add(out, &w->mtp->fc);
    add_layer(out, &w->layers[w->end - w->begin]);
}

/* Returns the experts of a layer that n tokens are expected to choose, if all
 * are equally likely. */
static double experts_of(const struct demand *d, uint32_t n)
{
    double e = d->n_experts;

    return e > 0.0 ? e * (1.0 - pow(1.0 - d->top_k / e, n)) : 0.0;
}

double demand_all_bytes(const struct demand *d)
{
    return d->weight_bytes + d->n_experts * d->expert_bytes + d->head_bytes;
}

double demand_weight_bytes(const struct demand *d, uint32_t n)
{
    return d->weight_bytes + experts_of(d, n) * d->expert_bytes;
}

double demand_decode_bytes(const struct demand *d, uint32_t batch,
                           double context_bytes, double slot_bytes)
{
    return demand_weight_bytes(d, batch) + d->head_bytes +
           batch * (2.0 * slot_bytes + context_bytes);
}

double demand_decode_flops(const struct demand *d, uint32_t batch)
{
    return demand_prefill_flops(d, batch) + 2.0 * batch * d->head;
}

double demand_prefill_flops(const struct demand *d, uint32_t n)
{
    return 2.0 * n * (d->weights + d->top_k * d->expert_weights);
}
