#include "tests/golden/drafts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "drafts: no memory\n");
        abort();
    }
    return p;
}

/* A prompt whose tokens are forced to be the reference's. */
struct forced {
    const struct golden_prompt *p;
    struct run_seq s;
    uint32_t token, row;
    float *logits; /* [V] of the row's draft */
};

struct check {
    struct runner r;
    struct forced *of; /* [n] */
    uint32_t n, vocab;
    uint32_t n_equal, n_excluded, n_wrong;
    uint32_t n_accepted, n_of;        /* drafts that have a next token */
    uint32_t file_accepted, file_all; /* the same of the file, and all */
    double tie;
};

static void tap_draft(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                      uint32_t i)
{
    const struct check *c = ctx;

    for (uint32_t j = 0; at == 0 && j < c->n; j++) {
        if (c->of[j].row == row) {
            kernels_logits_read(k, i, c->of[j].logits);
        }
    }
}

static void start(struct check *c, struct forced *f,
                  const struct golden_prompt *p)
{
    static const float most = LOGIT_BIAS_MAX;

    f->p = p;
    f->logits = must(calloc(c->vocab, sizeof *f->logits));
    runner_start(&c->r, &f->s, p->ids, p->n_ids, p->steps + 1);
    f->s.mtp = true;
    f->s.propose = 1;
    f->s.sampling.n_biases = 1;
    f->s.sampling.bias_tokens = &f->token;
    f->s.sampling.biases = &most;
    for (uint32_t i = 0; i < p->n_drafts && i < p->steps; i++) {
        c->file_all++;
        c->file_accepted +=
            i + 1 < p->steps && p->drafts[i] == p->expect[i + 1];
    }
}

static void judge(struct check *c, const struct forced *f, uint32_t step)
{
    const struct golden_prompt *p = f->p;
    uint32_t draft = f->s.drafts[0], wanted = p->drafts[step];

    if (f->s.n_drafts == 0 || f->token != p->expect[step]) {
        printf("      %s step %u: no draft, or after another token: WRONG\n",
               p->name, step);
        c->n_wrong++;
        return;
    }
    if (step + 1 < p->steps) {
        c->n_of++;
        c->n_accepted += draft == p->expect[step + 1];
    }
    if (draft == wanted) {
        c->n_equal++;
    } else if ((double)f->logits[draft] - (double)f->logits[wanted] < c->tie) {
        c->n_excluded++;
    } else {
        c->n_wrong++;
        printf("      %s step %u: draft %u for %u, by %.4f: WRONG\n", p->name,
               step, draft, wanted,
               (double)f->logits[draft] - (double)f->logits[wanted]);
    }
}

/* Runs one step of all prompts that have a draft left in the file. */
static bool run_step(struct check *c, uint32_t step)
{
    bool live = false;

    for (uint32_t i = 0; i < c->n; i++) {
        struct forced *f = &c->of[i];

        f->row = UINT32_MAX;
        if (step < f->p->n_drafts && step < f->p->steps) {
            f->token = f->p->expect[step];
            f->row =
                runner_add(&c->r, &f->s, f->s.n_ids - f->s.n_done, true, NULL);
            live = true;
        }
    }
    if (!live) {
        return false;
    }
    runner_step(&c->r);
    for (uint32_t i = 0; i < c->n; i++) {
        struct forced *f = &c->of[i];

        if (f->row != UINT32_MAX) {
            (void)runner_accept(&c->r, &f->s, f->row);
            f->token = f->s.ids[f->s.n_ids - 1];
            judge(c, f, step);
        }
    }
    return true;
}

static uint32_t blocks_of(const struct golden *g, uint32_t block_tokens)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < g->n; i++) {
        n += (g->prompts[i].n_ids + g->prompts[i].steps) / block_tokens + 2;
    }
    return n;
}

/* Returns whether each draft of the file was judged, and as many were accepted
 * as in the file; near-ties may go either way. */
static bool counts_agree(const struct check *c)
{
    uint32_t judged = c->n_equal + c->n_excluded + c->n_wrong;
    uint32_t off = c->n_accepted > c->file_accepted
                       ? c->n_accepted - c->file_accepted
                       : c->file_accepted - c->n_accepted;

    return judged == c->file_all && c->n_equal > 0 && off <= c->n_excluded;
}

uint32_t drafts_check(const struct golden *g, const struct shard_weights *w,
                      const struct kernels_options *o, double tie)
{
    struct check c = {.vocab = w->shape.vocab, .tie = tie, .n = g->n};
    struct forward_tap tap = {.ctx = &c, .draft = tap_draft};

    runner_open(&c.r, w, o, blocks_of(g, o->block_tokens), g->n, 1);
    runner_poison(&c.r);
    runner_tap(&c.r, &tap);
    c.of = must(calloc(g->n, sizeof *c.of));
    for (uint32_t i = 0; i < g->n; i++) {
        start(&c, &c.of[i], &g->prompts[i]);
    }
    for (uint32_t step = 0; run_step(&c, step);) {
        step++;
    }
    printf("drafts: %u equal, %u excluded as near-ties under %.2g, %u wrong; "
           "%u of %u accepted, %u in the file\n",
           c.n_equal, c.n_excluded, tie, c.n_wrong, c.n_accepted, c.n_of,
           c.file_accepted);
    for (uint32_t i = 0; i < g->n; i++) {
        runner_stop(&c.r, &c.of[i].s);
        free(c.of[i].logits);
    }
    free(c.of);
    runner_close(&c.r);
    return c.n_wrong + !counts_agree(&c);
}
