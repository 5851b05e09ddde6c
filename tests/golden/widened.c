#include "tests/golden/widened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/weight_format.h"

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "widened: no memory\n");
        abort();
    }
    return p;
}

/* Replaces a matrix by its float32 copy; an absent one stays absent. */
static void widen(struct widened *p, struct tensor *t)
{
    struct tensor out = {.dtype = DTYPE_F32, .rows = t->rows, .cols = t->cols};
    float *data;

    if (t->data == NULL) {
        return;
    }
    if (p->n_owned == WIDENED_MATRICES_MAX) {
        fprintf(stderr, "widened: too many matrices\n");
        abort();
    }
    data = must(malloc(((size_t)t->rows * t->cols + 1) * sizeof *data));
    p->owned[p->n_owned++] = data;
    p->n_quantised += t->bits > 0;
    for (uint32_t i = 0; i < t->rows; i++) {
        weight_format_decode(data + (size_t)i * t->cols, t, i, 0, t->cols);
    }
    out.data = data;
    *t = out;
}

static void widen_mixer(struct widened *p, struct layer_weights *l)
{
    struct attention_weights *a = &l->mixer.attention;
    struct deltanet_weights *d = &l->mixer.deltanet;
    struct tensor *const attention[] = {&a->q, &a->k, &a->v, &a->o};
    struct tensor *const deltanet[] = {&d->qkv, &d->z, &d->b, &d->a, &d->out};

    for (size_t i = 0; mixer_attends(l->kind) && i < 4; i++) {
        widen(p, attention[i]);
    }
    for (size_t i = 0; !mixer_attends(l->kind) && i < 5; i++) {
        widen(p, deltanet[i]);
    }
}

static void widen_mlp(struct widened *p, struct mlp_weights *m)
{
    widen(p, &m->gate);
    widen(p, &m->up);
    widen(p, &m->down);
}

static void widen_layer(struct widened *p, struct layer_weights *l)
{
    widen_mixer(p, l);
    if (l->ffn == FFN_DENSE) {
        widen_mlp(p, &l->mlp);
        return;
    }
    widen(p, &l->experts.router);
    widen(p, &l->experts.gate_up);
    widen(p, &l->experts.down);
    widen_mlp(p, &l->experts.shared);
    widen(p, &l->experts.shared_gate);
}

void widened_new(struct widened *p, const struct shard_weights *w)
{
    uint32_t n = shard_layers(w);
    bool tied = w->head.data == w->embed.data;

    memset(p, 0, sizeof *p);
    p->w = *w;
    p->w.shape.dtype = DTYPE_F32;
    p->layers = must(calloc(n, sizeof *p->layers));
    memcpy(p->layers, w->layers, n * sizeof *p->layers);
    p->w.layers = p->layers;
    widen(p, &p->w.embed);
    if (tied) {
        p->w.head = p->w.embed;
    } else {
        widen(p, &p->w.head);
    }
    for (uint32_t i = 0; i < n; i++) {
        widen_layer(p, &p->layers[i]);
    }
    if (w->mtp != NULL) {
        p->mtp = *w->mtp;
        p->w.mtp = &p->mtp;
        widen(p, &p->mtp.fc);
    }
}

void widened_free(struct widened *p)
{
    while (p->n_owned > 0) {
        free(p->owned[--p->n_owned]);
    }
    free(p->layers);
    p->layers = NULL;
}
