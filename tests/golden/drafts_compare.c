/* drafts_compare.c - tokens with drafts against tokens without. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/chain.h"
#include "tests/golden/drafts.h"
#include "tests/kernels/random_model.h"
#include "worker/engine/forward.h"
#include "worker/model/shard.h"

#define WAYS  2 /* of sampling */
#define SIDES 8 /* sequences of a plan */
#define TOPS  3

static const uint32_t bias_tokens[2] = {10, 300};
static const float biases[2] = {1.5f, -2};

static const struct sampling ways[WAYS] = {
    {.top_p = 1, .repetition_penalty = 1, .logprobs = true},
    {.temperature = 0.9f,
     .top_p = 0.95f,
     .repetition_penalty = 1.1f,
     .frequency_penalty = 0.4f,
     .presence_penalty = 0.2f,
     .seed = 12345,
     .n_biases = 2,
     .bias_tokens = bias_tokens,
     .biases = biases,
     .logprobs = true,
     .n_top_logprobs = TOPS},
};

/* A token, and what was reported with it. */
struct drawn {
    uint32_t token;
    float logprob;
    struct token_logprob top[TOPS];
};

/* A prompt, one way of sampling, and what plain decoding draws. */
struct line {
    const struct golden_prompt *p;
    struct sampling sampling;
    struct drawn *plain; /* [steps] */
    /* With drafts: */
    struct chain_seq s;
    uint32_t k, row, n_made, n_drafts;
    bool samples;
};

struct tally {
    uint32_t n_wrong, n_tokens, n_rows;
    uint32_t proposed[DRAFTS_MAX], accepted[DRAFTS_MAX];
};

struct compare {
    const struct golden *g;
    const struct model_config *config;
    const char *dir;
    struct kernels_options o;
    struct line *lines;
    uint32_t n;
    struct shard *shards[CHAIN_MAX];
    const struct shard_weights *weights[CHAIN_MAX];
    struct dice dice;
};

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "drafts: no memory\n");
        abort();
    }
    return p;
}

/* ---- shards ---- */

static void load(struct compare *c, uint32_t i, uint32_t begin, uint32_t end,
                 bool drafts)
{
    static struct model_config config;
    struct error e;

    config = *c->config;
    config.drafts = drafts;
    if (shard_load(&c->shards[i], &config, c->dir, begin, end, NULL, &e) !=
        ST_OK) {
        fprintf(stderr, "drafts: %s: %s\n", c->dir, e.text);
        exit(1);
    }
    c->weights[i] = shard_weights(c->shards[i]);
}

/* Loads n stages of about equal length. */
static void load_stages(struct compare *c, uint32_t n, bool drafts)
{
    uint32_t layers = c->config->shape.n_layers;

    for (uint32_t i = 0; i < n; i++) {
        load(c, i, layers * i / n, layers * (i + 1) / n, drafts);
    }
}

static void unload(struct compare *c)
{
    for (uint32_t i = 0; i < CHAIN_MAX; i++) {
        shard_free(&c->shards[i]);
    }
}

/* ---- without drafts ---- */

static void take(struct drawn *to, const struct sampling *how, uint32_t token,
                 float logprob, const struct token_logprob *top)
{
    *to = (struct drawn){.token = token, .logprob = logprob};
    memcpy(to->top, top, how->n_top_logprobs * sizeof *top);
}

static void run_plain(struct runner *r, struct line *l)
{
    struct run_seq s;

    l->plain = must(calloc(l->p->steps, sizeof *l->plain));
    runner_start(r, &s, l->p->ids, l->p->n_ids, l->p->steps);
    s.sampling = l->sampling;
    for (uint32_t i = 0; i < l->p->steps; i++) {
        uint32_t row = runner_add(r, &s, s.n_ids - s.n_done, true, NULL);

        runner_step(r);
        take(&l->plain[i], &s.sampling, r->result.tokens[row],
             r->result.logprobs[row], r->result.top[row]);
        run_seq_push(&s, l->plain[i].token);
    }
    runner_stop(r, &s);
}

static uint32_t blocks_of(const struct compare *c, uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        const struct golden_prompt *p = c->lines[i].p;
        uint32_t blocks = (p->n_ids + p->steps) / c->o.block_tokens + 2;

        most = blocks > most ? blocks : most;
    }
    return n * most;
}

static void run_plains(struct compare *c)
{
    struct runner r;

    load_stages(c, 1, false);
    runner_open(&r, c->weights[0], &c->o, blocks_of(c, 1), 1, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        run_plain(&r, &c->lines[i]);
    }
    runner_close(&r);
    unload(c);
}

/* ---- with drafts ---- */

static bool is_done(const struct line *l)
{
    return l->n_made == l->p->steps;
}

static void line_start(struct chain *c, struct line *l, uint32_t k)
{
    const struct golden_prompt *p = l->p;

    l->k = k;
    l->n_made = 0;
    chain_start(c, &l->s, p->ids, p->n_ids, p->steps);
    for (uint32_t i = 0; i < c->n; i++) {
        l->s.of[i].sampling = l->sampling;
        l->s.of[i].mtp = true;
        l->s.of[i].propose = k;
    }
}

/* Adds a part of the prompt, at random, or a row with the proposed drafts.  A
 * part ends where it changes no bit. */
static void line_add(struct chain *c, struct line *l, struct dice *d)
{
    const struct run_seq *s = &l->s.of[c->n - 1];
    uint32_t left = s->n_prompt - s->n_done, n;

    l->n_drafts = 0;
    if (s->n_done < s->n_prompt) {
        n = (1 + dice_below(d, 2)) * FORWARD_CUT - s->n_done % FORWARD_CUT;
        n = left < n ? left : n;
        l->samples = n == left;
        l->row = chain_add(c, &l->s, n, l->samples, NULL);
        return;
    }
    l->samples = true;
    l->n_drafts = s->n_drafts;
    l->row = chain_verify(c, &l->s, s->drafts, s->n_drafts, NULL);
    /* The last tokens have no room for all. */
    l->n_drafts = c->runners[0].plan.rows[l->row].n_drafts;
}

static bool is_same(const struct drawn *a, const struct drawn *b,
                    const struct sampling *how)
{
    return a->token == b->token &&
           memcmp(&a->logprob, &b->logprob, sizeof a->logprob) == 0 &&
           memcmp(a->top, b->top, how->n_top_logprobs * sizeof a->top[0]) == 0;
}

/* Compares a row's tokens with the plain ones.  After a wrong one the others
 * differ as well: the line ends. */
static void line_take(struct chain *c, struct line *l, struct tally *t)
{
    const struct plan_result *out = &c->runners[c->n - 1].result;
    const struct run_seq *s = &l->s.of[c->n - 1];
    uint32_t first = s->n_ids, n;

    if (!l->samples) {
        return;
    }
    n = chain_accept(c, &l->s, l->row);
    t->n_rows++;
    for (uint32_t i = 0; i < l->n_drafts; i++) {
        t->proposed[i]++;
        t->accepted[i] += i + 1 < n;
    }
    for (uint32_t i = 0; i < n && !is_done(l); i++) {
        struct drawn got;

        take(&got, &l->sampling, s->ids[first + i],
             i + 1 < n ? out->draft_logprobs[l->row][i] : out->logprobs[l->row],
             i + 1 < n ? out->draft_top[l->row][i] : out->top[l->row]);
        t->n_tokens++;
        if (!is_same(&got, &l->plain[l->n_made], &l->sampling)) {
            t->n_wrong++;
            l->n_made = l->p->steps;
            return;
        }
        l->n_made++;
    }
}

/* Returns the K of a line in a mixed batch.  Each K comes with each way of
 * sampling, and a line has another one with each number of stages. */
static uint32_t mixed(uint32_t line, uint32_t n_stages)
{
    return 1 + (line / WAYS + (line % WAYS + n_stages) * 3) % DRAFTS_MAX;
}

/* Runs lines side by side: one that ends makes room for the next. */
static void run_lines(struct compare *c, struct chain *chain, uint32_t k,
                      struct tally *t)
{
    struct line *sides[SIDES] = {0};
    uint32_t next = 0, live;

    do {
        live = 0;
        for (uint32_t i = 0; i < SIDES; i++) {
            if (sides[i] != NULL && is_done(sides[i])) {
                chain_stop(chain, &sides[i]->s);
                sides[i] = NULL;
            }
            if (sides[i] == NULL && next < c->n) {
                sides[i] = &c->lines[next];
                line_start(chain, sides[i], k > 0 ? k : mixed(next, chain->n));
                next++;
            }
            if (sides[i] != NULL) {
                line_add(chain, sides[i], &c->dice);
                live++;
            }
        }
        if (live > 0) {
            chain_step(chain);
        }
        for (uint32_t i = 0; i < SIDES; i++) {
            if (sides[i] != NULL) {
                line_take(chain, sides[i], t);
            }
        }
    } while (live > 0);
}

static void print_tally(const struct tally *t, uint32_t n_stages, uint32_t k)
{
    printf("drafts %u%s, %u stages: %u of %u tokens differ; %.2f tokens a row; "
           "accepted by depth:",
           k, k == DRAFTS_MIXED ? " (1 to 8)" : "", n_stages, t->n_wrong,
           t->n_tokens, (double)t->n_tokens / (t->n_rows > 0 ? t->n_rows : 1));
    for (uint32_t i = 0; i < DRAFTS_MAX && t->proposed[i] > 0; i++) {
        printf(" %u/%u", t->accepted[i], t->proposed[i]);
    }
    printf("\n");
}

static uint32_t run_stages(struct compare *c, uint32_t n, uint32_t k)
{
    struct tally t = {0};
    struct chain chain;
    bool none;

    c->dice.state = 100 * n + k;
    load_stages(c, n, true);
    chain_open(&chain, c->weights, n, &c->o, blocks_of(c, SIDES), SIDES, 5);
    run_lines(c, &chain, k, &t);
    chain_close(&chain);
    unload(c);
    print_tally(&t, n, k);
    none = t.accepted[0] == 0 || t.accepted[0] == t.proposed[0];
    return t.n_wrong + none;
}

uint32_t drafts_compare(const struct golden *g, const struct model_config *m,
                        const char *dir, const struct kernels_options *o,
                        uint32_t k)
{
    struct compare c = {
        .g = g, .config = m, .dir = dir, .o = *o, .n = WAYS * g->n};
    uint32_t n_wrong = 0;

    c.o.keep_tokens = SIDES * (DRAFTS_MAX + 1);
    c.lines = must(calloc(c.n, sizeof *c.lines));
    for (uint32_t i = 0; i < c.n; i++) {
        c.lines[i].p = &g->prompts[i / WAYS];
        c.lines[i].sampling = ways[i % WAYS];
    }
    run_plains(&c);
    for (uint32_t n = 1; n <= 3; n++) {
        n_wrong += run_stages(&c, n, k);
    }
    for (uint32_t i = 0; i < c.n; i++) {
        free(c.lines[i].plain);
    }
    free(c.lines);
    return n_wrong;
}
