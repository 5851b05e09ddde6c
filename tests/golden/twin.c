#include "tests/golden/twin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "twin: no memory\n");
        abort();
    }
    return p;
}

static void reference_open(struct twin *t, const struct shard_weights *w,
                           const struct kv_format *kv, enum dtype operand)
{
    reference_new(&t->r, w, kv->dtype);
    reference_new(&t->alone, w, kv->dtype);
    kv_codes_follow(&t->codes, &t->r, kv);
    reference_format(&t->alone, kv);
    t->r.operand = t->alone.operand = operand;
    t->first = 0;
}

void twin_open(struct twin *t, const struct shard_weights *w,
               const struct kv_format *kv, enum dtype operand)
{
    *t = (struct twin){0};
    reference_open(t, w, kv, operand);
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
    reference_open(t, of.w, &of.kv, of.operand);
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

/* Runs x [H] of the token at t->r.position through a layer. */
static void pass_layer(struct twin *t, uint32_t layer, double *x)
{
    if (t->r.w->layers[layer].kind == MIXER_ATTENTION) {
        reference_attention(&t->r, layer, x);
    } else {
        reference_deltanet(&t->r, layer, x);
    }
    reference_mlp(&t->r, layer, x);
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
        pass_layer(t, done - 1, x);
        note(&t->layer, difference(t->after + i * h, x, (uint32_t)h));
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
