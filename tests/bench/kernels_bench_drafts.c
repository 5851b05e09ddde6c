#include "tests/bench/kernels_bench_drafts.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/demand.h"
#include "tests/bench/machine.h"
#include "tests/golden/golden_file.h"

#define PROMPT_MAX 1024 /* of a golden.json */

static uint32_t more_of(void)
{
    return BENCH_DRAFTS_TOKENS + 2;
}

uint32_t bench_drafts_options(const struct bench_drafts *b,
                              struct kernels_options *o)
{
    uint32_t n = b->batch * (b->k + 1);
    uint32_t prompt = b->prompt > PROMPT_MAX ? b->prompt : PROMPT_MAX;

    o->keep_tokens = n;
    o->max_logits = n > KERNELS_LOGIT_ROWS ? n : 0;
    return 2 * b->batch * ((prompt + more_of()) / o->block_tokens + 2);
}

static void start(struct runner *r, struct run_seq *s, const uint32_t *ids,
                  uint32_t n)
{
    runner_start(r, s, ids, n, more_of());
    s->mtp = true;
}

static void start_made(struct runner *r, struct run_seq *s, uint32_t n)
{
    uint32_t *ids = calloc(n, sizeof *ids);

    if (ids == NULL) {
        abort();
    }
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (i * 2654435761u >> 8) % r->w->shape.vocab;
    }
    start(r, s, ids, n);
    free(ids);
}

/* Runs the prompts, each in a plan, and then tokens from there on. */
static void run(struct draft_runs *d, struct run_seq *s, uint32_t rounds)
{
    for (uint32_t i = 0; i < d->batch; i++) {
        uint32_t row = runner_add(d->r, &s[i], s[i].n_prompt, true, NULL);

        runner_step(d->r);
        run_seq_push(&s[i], runner_token(d->r, row));
    }
    for (uint32_t i = 0; i < rounds; i++) {
        draft_runs_add(d, s, BENCH_DRAFTS_TOKENS);
    }
    for (uint32_t i = 0; i < d->batch; i++) {
        runner_stop(d->r, &s[i]);
    }
}

/* Runs the prompts of golden.json, `batch` at a time.  Returns their mean
 * length; 0: there are none. */
static uint32_t run_golden(const struct bench_drafts *b, struct draft_runs *d)
{
    static struct run_seq s[DRAFT_RUNS_BATCH];
    static struct golden g;
    uint64_t sum = 0;
    uint32_t n = 0;
    struct error e;

    if (b->dir == NULL || golden_load(&g, b->dir, &e) != ST_OK) {
        return 0;
    }
    for (uint32_t i = 0; i < g.n; i++) {
        const struct golden_prompt *p = &g.prompts[i];

        if (p->n_ids > PROMPT_MAX) {
            continue;
        }
        sum += p->n_ids;
        start(d->r, &s[n++ % d->batch], p->ids, p->n_ids);
        if (n % d->batch == 0) {
            run(d, s, 1);
        }
    }
    for (uint32_t i = 0; i < n % d->batch; i++) {
        runner_stop(d->r, &s[i]);
    }
    golden_free(&g);
    return n > 0 ? (uint32_t)(sum / n) + 1 : 0;
}

/* Returns the bytes of a draft of the batch: the layer's weights, the head, and
 * the layer's part of the blocks. */
static double draft_bytes(const struct draft_runs *d, uint32_t context)
{
    const struct shard_weights *w = d->r->w;
    struct kernels_sizes z;
    struct demand demand;
    double n_layers = 0;

    for (uint32_t i = 0; i < shard_layers(w); i++) {
        n_layers += w->layers[i].kind == MIXER_ATTENTION;
    }
    forward_sizes(d->r->forward, &z);
    demand_of_draft(&demand, w);
    return demand_decode_bytes(&demand, d->batch,
                               (double)context / d->r->block_tokens *
                                   (double)z.page_bytes / n_layers,
                               0.0);
}

void bench_drafts_run(const struct bench_drafts *b, struct runner *r)
{
    static struct run_seq s[DRAFT_RUNS_BATCH];
    static struct draft_runs d;
    struct kernels_sizes z;
    uint32_t context = 0;
    double bandwidth;

    d = (struct draft_runs){
        .r = r, .batch = b->batch, .k = b->k, .accept = b->accept, .dice = {7}};
    forward_sizes(r->forward, &z);
    bandwidth = machine_read_bandwidth(z.n_threads);
    if (b->accept < 0) {
        context = run_golden(b, &d);
    }
    if (context == 0) {
        for (uint32_t i = 0; i < b->batch; i++) {
            start_made(r, &s[i], b->prompt);
        }
        run(&d, s, b->rounds);
        context = b->prompt;
    }
    if (b->json) {
        printf("{");
        draft_runs_json(&d, draft_bytes(&d, context));
        printf(", \"read_bandwidth\": %.4g}\n", bandwidth);
    } else {
        draft_runs_text(&d, draft_bytes(&d, context), bandwidth);
    }
}
