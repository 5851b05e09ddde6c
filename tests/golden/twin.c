#include "tests/golden/twin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "twin: no memory\n");
        abort();
    }
    return p;
}

/* Lists pairs of a chosen expert and another whose logits are nearly equal. */
static void find_ties(struct twin_routes *p, const struct model_shape *s,
                      const double *logits, const uint32_t *chosen)
{
    double top = 0.0;

    for (uint32_t e = 0; e < s->n_experts; e++) {
        top = fmax(top, fabs(logits[e]));
    }
    p->n_ties = 0;
    for (uint32_t i = 0; i < s->top_k; i++) {
        for (uint32_t e = 0; e < s->n_experts; e++) {
            bool taken = false;

            for (uint32_t j = 0; j < s->top_k; j++) {
                taken = taken || chosen[j] == e;
            }
            if (!taken && logits[chosen[i]] - logits[e] < TWIN_BOUND * top &&
                p->n_ties < TWIN_TIES) {
                p->ties[p->n_ties].rank = i;
                p->ties[p->n_ties++].other = e;
            }
        }
    }
}

static void route(void *arg, const struct reference *r, uint32_t layer,
                  const double *logits, uint32_t *chosen)
{
    struct twin_routes *p = arg;

    (void)layer;
    if (p->use > 0) {
        chosen[p->ties[p->use - 1].rank] = p->ties[p->use - 1].other;
    } else {
        find_ties(p, &r->w->shape, logits, chosen);
    }
}

static void reference_open(struct twin *t, const struct shard_weights *w,
                           const struct kv_format *kv, enum dtype operand,
                           bool int8)
{
    reference_new(&t->r, w, kv->dtype);
    reference_new(&t->alone, w, kv->dtype);
    kv_codes_follow(&t->codes, &t->r, kv);
    reference_format(&t->alone, kv);
    t->r.routed = route;
    t->r.routed_arg = &t->routes;
    t->r.operand = t->alone.operand = operand;
    t->r.int8 = t->alone.int8 = int8;
    t->first = 0;
}

void twin_open(struct twin *t, const struct shard_weights *w,
               const struct kv_format *kv, enum dtype operand, bool int8)
{
    *t = (struct twin){0};
    reference_open(t, w, kv, operand, int8);
}

void twin_close(struct twin *t)
{
    reference_free(&t->r);
    reference_free(&t->alone);
    free(t->before);
    free(t->after);
    *t = (struct twin){0};
}

void twin_restart(struct twin *t, struct kernels *k, const uint32_t *blocks,
                  uint32_t block_tokens)
{
    const struct reference of = t->r;

    reference_free(&t->r);
    reference_free(&t->alone);
    t->codes.k = k;
    t->codes.blocks = blocks;
    t->codes.block_tokens = block_tokens;
    reference_open(t, of.w, &of.kv, of.operand, of.int8);
}

/* Returns the largest difference of two vectors, relative to the largest value
 * of the second; a NaN is kept. */
static double difference(const float *a, const double *b, uint32_t n)
{
    double most = 0.0, top = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - b[i]);

        top = fabs(b[i]) > top ? fabs(b[i]) : top;
        most = d > most || d != d ? d : most;
    }
    return most > 0.0 || most != most ? most / top : 0.0;
}

static void note(double *most, double d)
{
    *most = d > *most || d != d ? d : *most;
}

/* Runs x [H] through experts; of near-ties takes the choice that is nearest to
 * the device's result. */
static void pass_experts(struct twin *t, uint32_t layer, double *x,
                         const float *device)
{
    const uint32_t h = t->r.w->shape.hidden;
    struct twin_routes *p = &t->routes;
    double *in = must(malloc(h * sizeof *in));
    double *other = must(malloc(h * sizeof *other));
    double least;
    bool exchanged = false;

    memcpy(in, x, h * sizeof *in);
    p->use = 0;
    reference_ffn(&t->r, layer, x);
    least = difference(device, x, h);
    for (p->use = 1; p->use <= p->n_ties; p->use++) {
        memcpy(other, in, h * sizeof *other);
        reference_ffn(&t->r, layer, other);
        if (difference(device, other, h) < least) {
            least = difference(device, other, h);
            memcpy(x, other, h * sizeof *x);
            exchanged = true;
        }
    }
    p->n_routed++;
    p->n_near += p->n_ties > 0;
    p->n_exchanged += exchanged;
    free(other);
    free(in);
}

/* Runs x [H] of the token at t->r.position through a layer; device is what the
 * device made of it. */
static void pass_layer(struct twin *t, uint32_t layer, double *x,
                       const float *device)
{
    const struct layer_weights *l = &t->r.w->layers[layer];

    if (mixer_attends(l->kind)) {
        reference_attention(&t->r, layer, x);
    } else {
        reference_deltanet(&t->r, layer, x);
    }
    if (l->ffn == FFN_EXPERTS) {
        pass_experts(t, layer, x, device);
    } else {
        reference_ffn(&t->r, layer, x);
    }
}

static void note_layer(struct twin *t, double d)
{
    note(&t->layer, d);
    t->n_all++;
    t->n_near += d <= TWIN_NEAR;
}

void twin_layer(struct twin *t, struct kernels *k, uint32_t done, uint32_t n)
{
    size_t h = t->r.w->shape.hidden;
    double *x = must(calloc(h, sizeof *x));
    float *before = t->after;

    if (n > t->room) {
        t->before = must(realloc(t->before, n * h * sizeof *t->before));
        before = must(realloc(t->after, n * h * sizeof *t->after));
        t->room = n;
    }
    t->after = t->before;
    t->before = before;
    t->n = n;
    kernels_hidden_read(k, 0, n, t->after);
    for (uint32_t i = 0; done > 0 && i < n; i++) {
        for (size_t j = 0; j < h; j++) {
            x[j] = (double)t->before[i * h + j];
        }
        t->r.position = t->first + i;
        pass_layer(t, done - 1, x, t->after + i * h);
        note_layer(t, difference(t->after + i * h, x, (uint32_t)h));
    }
    if (done == t->r.w->end - t->r.w->begin) {
        t->first += n;
    }
    free(x);
}

void twin_head(struct twin *t, const float *logits)
{
    const struct model_shape *s = &t->r.w->shape;
    const float *last = t->after + (size_t)(t->n - 1) * s->hidden;
    double *x = must(calloc(s->hidden, sizeof *x));
    double *expect = must(calloc(s->vocab, sizeof *expect));

    for (uint32_t i = 0; i < s->hidden; i++) {
        x[i] = (double)last[i];
    }
    reference_head(&t->r, x, expect);
    note(&t->head, difference(logits, expect, s->vocab));
    free(expect);
    free(x);
}

void twin_alone(struct twin *t, const uint32_t *ids, uint32_t n, float *logits)
{
    uint32_t vocab = t->alone.w->shape.vocab;
    double *exact = must(calloc(vocab, sizeof *exact));

    for (uint32_t i = 0; i < n; i++) {
        reference_token(&t->alone, ids[i], i + 1 < n ? NULL : exact);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        logits[i] = (float)exact[i];
    }
    free(exact);
}
