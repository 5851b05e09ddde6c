#include "tests/kernels/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/backends/backend.h"
#include "kernels/philox.h"

/* ---- a backend ---- */

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "sampler: no memory\n");
        abort();
    }
    return p;
}

struct sampler *sampler_open(uint32_t vocab, uint32_t n_threads,
                             const char *isa)
{
    struct sampler *s = must(calloc(1, sizeof *s));
    struct kernels_options o = {.device = "cpu",
                                .block_tokens = 32,
                                .n_threads = n_threads,
                                .max_tokens = 8,
                                .max_logits = SAMPLER_ROWS,
                                .isa = isa};
    struct dice d = {3};
    struct random_shape r;
    struct error e;

    random_shape(&r, &d);
    r.shape.vocab = s->vocab = vocab;
    random_model_new(&s->model, &r, &d);
    s->logits = must(calloc(vocab, sizeof *s->logits));
    for (uint32_t i = 0; i < vocab; i++) {
        s->logits[i] = dice_float(&d, -2.0f, 2.0f);
    }
    if (backend_new(&s->k, &s->model.w, &o, &e) == ST_OK) {
        return s;
    }
    if (e.code != ST_UNIMPLEMENTED) {
        fprintf(stderr, "sampler: %s\n", e.text);
        abort();
    }
    sampler_close(s);
    return NULL;
}

void sampler_close(struct sampler *s)
{
    kernels_free(&s->k);
    random_model_free(&s->model);
    free(s->logits);
    free(s);
}

enum status sampler_try(struct sampler *s, const struct sample_row *rows,
                        uint32_t n, struct sample_result *out, struct error *e)
{
    for (uint32_t i = 0; i < n; i++) {
        kernels_logits_write(s->k, i, s->logits);
    }
    return kernels_sample(s->k, rows, n, out, e);
}

void sampler_choose(struct sampler *s, const struct sample_row *rows,
                    uint32_t n, struct sample_result *out)
{
    struct error e;

    if (sampler_try(s, rows, n, out, &e) != ST_OK) {
        fprintf(stderr, "sampler: %s\n", e.text);
        abort();
    }
}

uint32_t sampler_token(struct sampler *s, const struct sample_row *row)
{
    struct sample_result out;

    sampler_choose(s, row, 1, &out);
    return out.token;
}

/* ---- the reference ---- */

/* An id with its logit, in order of rank. */
struct ranked {
    uint32_t id;
    double l, p;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    return x->l != y->l ? (x->l < y->l) - (x->l > y->l)
                        : (x->id > y->id) - (x->id < y->id);
}

static uint32_t times(const uint32_t *ids, uint32_t begin, uint32_t end,
                      uint32_t id)
{
    uint32_t n = 0;

    for (uint32_t i = begin; i < end; i++) {
        n += ids[i] == id;
    }
    return n;
}

/* Runs steps 1 to 3 for one id. */
static double adjusted(double l, uint32_t id, const struct sample_row *row)
{
    const struct sampling *s = row->sampling;
    double repetition = (double)s->repetition_penalty;
    uint32_t generated = times(row->ids, row->n_prompt, row->n_ids, id);

    for (uint32_t i = 0; i < s->n_biases; i++) {
        l += s->bias_tokens[i] == id ? (double)s->biases[i] : 0.0;
    }
    if (times(row->ids, 0, row->n_ids, id) > 0) {
        l = l > 0.0 ? l / repetition : l * repetition;
    }
    l -= (double)s->frequency_penalty * generated;
    return generated > 0 ? l - (double)s->presence_penalty : l;
}

static bool close_to(double a, double b, double slack)
{
    return a != b && fabs(a - b) <= slack;
}

/* Runs steps 4 to 7: returns how many of r [n], in order of rank, are kept. */
static uint32_t kept_of(struct ranked *r, uint32_t n, const struct sampling *s,
                        bool *near)
{
    bool exact = s->n_biases == 0 && !sampling_penalises(s);
    double most = fmax(1.0, fmax(fabs(r[0].l), fabs(r[n - 1].l)));
    double slack = exact ? 0.0 : 4e-6 * most;
    double mass = 0.0, sum = 0.0, loose = 1e-5, min_p = (double)s->min_p;
    uint32_t kept = n;

    if (s->temperature < KERNELS_TEMPERATURE_MIN) {
        *near = n > 1 && close_to(r[0].l, r[1].l, slack);
        r[0].p = 1.0;
        return 1;
    }
    loose += slack / (double)s->temperature;
    if (s->top_k > 0 && s->top_k < n) {
        kept = s->top_k;
    }
    for (uint32_t i = 0; i < n; i++) {
        r[i].p = exp((r[i].l - r[0].l) / (double)s->temperature);
        mass += i < kept ? r[i].p : 0.0;
    }
    *near = kept < n && close_to(r[kept - 1].l, r[kept].l, slack);
    for (uint32_t i = 0; i < kept && s->top_p < 1.0f; i++) {
        sum += r[i].p;
        *near |= fabs(sum - (double)s->top_p * mass) <= loose * mass;
        if (sum >= (double)s->top_p * mass) {
            kept = i + 1;
        }
    }
    *near |= kept < n && close_to(r[kept - 1].l, r[kept].l, slack);
    for (uint32_t i = 0; i < kept; i++) {
        *near |= r[i].l != r[0].l && close_to(r[i].p, min_p, loose * min_p);
        kept = r[i].p >= min_p ? kept : i;
    }
    return kept;
}

bool sampler_weights(const float *l, uint32_t vocab,
                     const struct sample_row *row, double *weight)
{
    struct ranked *r = must(calloc(vocab, sizeof *r));
    bool near = false;
    uint32_t kept;

    for (uint32_t i = 0; i < vocab; i++) {
        r[i] = (struct ranked){i, adjusted((double)l[i], i, row), 0.0};
        weight[i] = 0.0;
    }
    qsort(r, vocab, sizeof *r, by_rank);
    kept = kept_of(r, vocab, row->sampling, &near);
    for (uint32_t i = 0; i < kept; i++) {
        weight[r[i].id] = r[i].p;
    }
    free(r);
    return near;
}

uint32_t sampler_draw(const double *weight, uint32_t vocab,
                      const struct sample_row *row, bool *near)
{
    double u = philox_uniform(row->sampling->seed, row->choice, row->index);
    double mass = 0.0, sum = 0.0;
    uint32_t token = vocab;

    for (uint32_t i = 0; i < vocab; i++) {
        mass += weight[i];
    }
    for (uint32_t i = 0; i < vocab; i++) {
        sum += weight[i];
        *near |= weight[i] > 0.0 && weight[i] < mass &&
                 fabs(sum - u * mass) <= 1e-5 * mass;
        if (token == vocab && sum > u * mass) {
            token = i;
        }
    }
    return token;
}

void sampler_logprobs(const float *l, uint32_t vocab, double *out)
{
    double top = -INFINITY, sum = 0.0;

    for (uint32_t i = 0; i < vocab; i++) {
        top = fmax(top, (double)l[i]);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        sum += exp((double)l[i] - top);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        out[i] = (double)l[i] - top - log(sum);
    }
}
