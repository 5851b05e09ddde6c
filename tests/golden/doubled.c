#include "tests/golden/doubled.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "doubled: no memory\n");
        abort();
    }
    return p;
}

void doubled_open(struct doubled *d, const struct shard_weights *w)
{
    *d = (struct doubled){.least = INFINITY};
    reference_new(&d->r, w, DTYPE_F32);
    reference_new(&d->single, w, DTYPE_F32);
    d->x = must(calloc(w->shape.hidden, sizeof *d->x));
    d->other = must(calloc(w->shape.vocab, sizeof *d->other));
    d->logits = must(calloc(w->shape.vocab, sizeof *d->logits));
    d->rounded = must(calloc(w->shape.vocab, sizeof *d->rounded));
}

void doubled_close(struct doubled *d)
{
    reference_free(&d->r);
    reference_free(&d->single);
    free(d->x);
    free(d->other);
    free(d->logits);
    free(d->rounded);
    *d = (struct doubled){.noise = 0};
}

void doubled_restart(struct doubled *d, const struct golden_prompt *p)
{
    const struct shard_weights *w = d->r.w;

    reference_free(&d->r);
    reference_free(&d->single);
    reference_new(&d->r, w, DTYPE_F32);
    reference_new(&d->single, w, DTYPE_F32);
    d->noise = p->noise;
    d->single_noise = 0;
}

/* Sets the margin; returns the largest absolute value. */
static double survey(struct doubled *d)
{
    double best = -INFINITY, second = -INFINITY, top = 0;

    for (uint32_t i = 0; i < d->r.w->shape.vocab; i++) {
        double x = d->logits[i];

        d->rounded[i] = (float)x;
        top = fmax(top, fabs(x));
        second = fmax(second, fmin(best, x));
        best = fmax(best, x);
    }
    d->margin = best - second;
    return top;
}

static void to_float32(double *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        x[i] = (double)(float)x[i];
    }
}

/* As reference_token(), with x in float32 between the operators. */
static void token_in_single(struct doubled *d, uint32_t token, bool last)
{
    struct reference *r = &d->single;
    uint32_t h = r->w->shape.hidden;

    reference_embed(r, token, d->x);
    for (uint32_t i = 0; i < r->w->shape.n_layers; i++) {
        to_float32(d->x, h);
        if (mixer_attends(r->w->layers[i].kind)) {
            reference_attention(r, i, d->x);
        } else {
            reference_deltanet(r, i, d->x);
        }
        to_float32(d->x, h);
        reference_ffn(r, i, d->x);
    }
    if (last) {
        to_float32(d->x, h);
        reference_head(r, d->x, d->other);
    }
    r->position++;
}

/* Returns the largest distance of the run in single. */
static double single_distance(const struct doubled *d)
{
    double most = 0;

    for (uint32_t i = 0; i < d->r.w->shape.vocab; i++) {
        most = fmax(most, fabs(d->other[i] - d->logits[i]));
    }
    return most;
}

void doubled_run(struct doubled *d, const uint32_t *ids, uint32_t n,
                 const struct golden_prompt *p, uint32_t position)
{
    uint32_t vocab = d->r.w->shape.vocab;
    double top, far;

    for (uint32_t i = 0; i < n; i++) {
        reference_token(&d->r, ids[i], i + 1 < n ? NULL : d->logits);
        token_in_single(d, ids[i], i + 1 == n);
    }
    top = survey(d);
    far = golden_distance(p, position, d->rounded, vocab);
    d->n_far += !(far <= DOUBLED_FAR * top);
    d->noise = fmax(d->noise, far);
    d->single_noise = fmax(d->single_noise, single_distance(d));
    d->bound = fmax(DOUBLED_TIMES * fmax(d->noise, 0x1p-22 * top),
                    DOUBLED_SINGLE * d->single_noise);
    d->least = fmin(d->least, d->bound);
    d->most = fmax(d->most, d->bound);
}

double doubled_distance(const struct doubled *d, const float *logits)
{
    double most = 0;

    for (uint32_t i = 0; i < d->r.w->shape.vocab; i++) {
        double x = fabs((double)logits[i] - d->logits[i]);

        most = x > most || x != x ? x : most;
    }
    return most;
}
