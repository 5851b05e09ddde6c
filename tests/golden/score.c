#include "tests/golden/score.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/golden/runner.h"

/* A window or a prompt that runs beside others. */
struct side {
    struct run_seq s;
    uint32_t begin, end; /* ids of the text */
    uint32_t row;
    float *logits; /* [V] */
};

struct run {
    struct runner runner;
    struct side sides[SCORE_SIDE_BY_SIDE];
    uint32_t n, vocab;
    const struct score *base; /* or NULL */
};

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "score: no memory\n");
        abort();
    }
    return p;
}

uint32_t score_windows(const struct score_plan *p)
{
    uint32_t apart = p->window - p->context;

    return (p->n_text - p->context + apart - 1) / apart;
}

/* Returns the logarithm of the sum of exp(logits). */
static double log_sum(const float *logits, uint32_t vocab)
{
    double top = -INFINITY, sum = 0.0;

    for (uint32_t i = 0; i < vocab; i++) {
        top = (double)logits[i] > top ? (double)logits[i] : top;
    }
    for (uint32_t i = 0; i < vocab; i++) {
        sum += exp((double)logits[i] - top);
    }
    return top + log(sum);
}

/* ---- teacher forcing ---- */

static void open_windows(struct run *r, const struct score_plan *p)
{
    r->n = score_windows(p);
    for (uint32_t i = 0; i < r->n; i++) {
        struct side *w = &r->sides[i];

        w->begin = i * (p->window - p->context);
        w->end = w->begin + p->window;
        w->end = w->end < p->n_text ? w->end : p->n_text;
        w->logits = must(calloc(r->vocab, sizeof *w->logits));
        runner_start(&r->runner, &w->s, p->text + w->begin, 1, p->window);
    }
}

/* Adds the row of ids[at] of every window that has another id behind it. */
static bool add_rows(struct run *r, uint32_t at)
{
    bool any = false;

    for (uint32_t i = 0; i < r->n; i++) {
        struct side *w = &r->sides[i];

        if (w->begin + at + 1 < w->end) {
            w->row = runner_add(&r->runner, &w->s, 1, true, w->logits);
            any = true;
        }
    }
    return any;
}

/* Adds the divergence of row i from the base's to the sum. */
static void add_divergence(const struct run *r, const struct side *w,
                           uint32_t i, double norm, struct score *out)
{
    const float *of = r->base->log_p + (size_t)i * r->vocab;

    for (uint32_t k = 0; k < r->vocab; k++) {
        double was = (double)of[k], is = (double)w->logits[k] - norm;

        out->divergence += exp(was) * (was - is);
    }
}

/* Scores id as the i-th one. */
static void score_row(const struct run *r, const struct side *w, uint32_t i,
                      uint32_t id, struct score *out)
{
    double norm = log_sum(w->logits, r->vocab);

    out->loss[i] = norm - (double)w->logits[id];
    out->best[i] = runner_token(&r->runner, w->row);
    for (uint32_t k = 0; out->log_p != NULL && k < r->vocab; k++) {
        out->log_p[(size_t)i * r->vocab + k] =
            (float)((double)w->logits[k] - norm);
    }
    if (r->base != NULL && r->base->log_p != NULL) {
        add_divergence(r, w, i, norm, out);
    }
}

/* Scores the id behind ids[at] of every window, and appends it. */
static void take_rows(struct run *r, const struct score_plan *p, uint32_t at,
                      struct score *out)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct side *w = &r->sides[i];
        uint32_t next = w->begin + at + 1;

        if (next >= w->end) {
            continue;
        }
        if (at + 1 >= p->context) {
            score_row(r, w, next - p->context, p->text[next], out);
        }
        run_seq_push(&w->s, p->text[next]);
    }
}

static void close_sides(struct run *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        runner_stop(&r->runner, &r->sides[i].s);
        free(r->sides[i].logits);
        r->sides[i].logits = NULL;
    }
}

static void run_windows(struct run *r, const struct score_plan *p,
                        struct score *out)
{
    open_windows(r, p);
    for (uint32_t at = 0; add_rows(r, at); at++) {
        runner_step(&r->runner);
        take_rows(r, p, at, out);
    }
    close_sides(r);
}

/* ---- greedy continuations ---- */

static void run_prompts(struct run *r, const struct score_plan *p,
                        struct score *out)
{
    r->n = p->prompts;
    for (uint32_t i = 0; i < r->n; i++) {
        struct side *w = &r->sides[i];

        w->begin = i * ((p->n_text - p->prompt) / p->prompts);
        runner_start(&r->runner, &w->s, p->text + w->begin, p->prompt,
                     p->steps);
        (void)runner_add(&r->runner, &w->s, p->prompt - 1, false, NULL);
        runner_step(&r->runner);
    }
    for (uint32_t at = 0; at < p->steps; at++) {
        for (uint32_t i = 0; i < r->n; i++) {
            struct side *w = &r->sides[i];

            w->row = runner_add(&r->runner, &w->s, 1, true, NULL);
        }
        runner_step(&r->runner);
        for (uint32_t i = 0; i < r->n; i++) {
            struct side *w = &r->sides[i];
            uint32_t token = runner_token(&r->runner, w->row);

            out->greedy[i * p->steps + at] = token;
            run_seq_push(&w->s, token);
        }
    }
    close_sides(r);
}

/* ---- a score ---- */

static uint32_t blocks_of(uint32_t n, uint32_t tokens, uint32_t block_tokens)
{
    return n * ((tokens + block_tokens) / block_tokens + 1);
}

static void score_open(struct score *s, const struct score_plan *p,
                       uint32_t vocab, const struct score *base)
{
    *s = (struct score){.n = p->n_text - p->context,
                        .n_greedy = p->prompts * p->steps};
    s->loss = must(calloc(s->n, sizeof *s->loss));
    s->best = must(calloc(s->n, sizeof *s->best));
    s->greedy = must(calloc(s->n_greedy + 1, sizeof *s->greedy));
    if (base == NULL && s->n <= SCORE_KEEP_MAX / sizeof *s->log_p / vocab) {
        s->log_p = must(calloc((size_t)s->n * vocab, sizeof *s->log_p));
    }
}

void score_run(struct score *s, const struct score_plan *p,
               const struct shard_weights *w, const struct kernels_options *o,
               const struct score *base)
{
    struct run *r = must(calloc(1, sizeof *r));
    uint32_t windows = score_windows(p);
    uint32_t n_slots = windows > p->prompts ? windows : p->prompts;
    uint32_t of_windows = blocks_of(windows, p->window, o->block_tokens);
    uint32_t of_prompts =
        blocks_of(p->prompts, p->prompt + p->steps, o->block_tokens);

    score_open(s, p, w->shape.vocab, base);
    r->base = base;
    r->vocab = w->shape.vocab;
    runner_open(&r->runner, w, o,
                of_windows > of_prompts ? of_windows : of_prompts, n_slots, 0);
    run_windows(r, p, s);
    run_prompts(r, p, s);
    s->divergence /= base == NULL || base->log_p != NULL ? s->n : (double)NAN;
    runner_close(&r->runner);
    free(r);
}

void score_free(struct score *s)
{
    free(s->loss);
    free(s->best);
    free(s->greedy);
    free(s->log_p);
    *s = (struct score){0};
}

/* ---- comparisons ---- */

static double mean_difference(const struct score *a, const struct score *b,
                              uint32_t begin, uint32_t end)
{
    double sum = 0.0;

    for (uint32_t i = begin; i < end; i++) {
        sum += a->loss[i] - b->loss[i];
    }
    return sum / (end - begin);
}

struct score_difference score_compare(const struct score *a,
                                      const struct score *b)
{
    uint32_t n_blocks = a->n / SCORE_BLOCK;
    struct score_difference d = {.mean = mean_difference(a, b, 0, a->n)};
    double squares = 0.0;

    for (uint32_t i = 0; i < n_blocks; i++) {
        double of =
            mean_difference(a, b, i * SCORE_BLOCK, (i + 1) * SCORE_BLOCK) -
            d.mean;

        squares += of * of;
    }
    d.error =
        n_blocks < 2 ? INFINITY : sqrt(squares / (n_blocks - 1.0) / n_blocks);
    return d;
}

double score_equal(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    uint32_t same = 0;

    for (uint32_t i = 0; i < n; i++) {
        same += a[i] == b[i];
    }
    return n > 0 ? (double)same / n : 1.0;
}

double score_loss(const struct score *s)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < s->n; i++) {
        sum += s->loss[i];
    }
    return sum / s->n;
}
