#include "tests/golden/stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_MAX (RUNNER_STAGE_TOKENS / SCRIPT_LINES_MAX)

/* A line of the script, in progress on a chain. */
struct side {
    const struct script_line *line;
    struct chain_seq s;
    uint32_t n_made;   /* tokens so far */
    uint32_t leave_at; /* done ids at which it is removed; 0: it was removed */
    uint32_t row;      /* its row in the current plan */
    bool planned, samples, drafts;
    uint32_t most; /* drafts of a row that fit a pass */
    float *logits; /* [1 + DRAFTS_MAX, V] */
};

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "stages: no memory\n");
        abort();
    }
    return p;
}

static uint32_t blocks_of(const struct script *s, uint32_t block_tokens)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n; i++) {
        const struct script_line *l = &s->lines[i];

        n += (l->n_ids + l->steps + block_tokens - 1) / block_tokens;
    }
    return n;
}

static void run_line(struct runner *r, struct script_line *l, uint32_t vocab)
{
    struct run_seq s;

    l->tokens = must(calloc(l->steps, sizeof *l->tokens));
    l->logits = must(calloc((size_t)l->steps * vocab, sizeof *l->logits));
    runner_start(r, &s, l->ids, l->n_ids, l->steps);
    for (uint32_t i = 0; i < l->steps; i++) {
        uint32_t row = runner_add(r, &s, s.n_ids - s.n_done, true,
                                  l->logits + (size_t)i * vocab);

        runner_step(r);
        l->tokens[i] = runner_token(r, row);
        run_seq_push(&s, l->tokens[i]);
    }
    runner_stop(r, &s);
}

void script_whole(struct script *s, const struct shard_weights *whole,
                  const struct kernels_options *o)
{
    struct runner r;

    s->vocab = whole->shape.vocab;
    runner_open(&r, whole, o, blocks_of(s, o->block_tokens), 1, 0);
    for (uint32_t i = 0; i < s->n; i++) {
        run_line(&r, &s->lines[i], s->vocab);
    }
    runner_close(&r);
}

void script_free(struct script *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        free(s->lines[i].tokens);
        free(s->lines[i].logits);
    }
    memset(s, 0, sizeof *s);
}

static void start(struct chain *c, struct side *a)
{
    const struct script_line *l = a->line;

    chain_start(c, &a->s, l->ids, l->n_ids, l->steps);
    for (uint32_t i = 0; i < a->n_made; i++) {
        chain_push(c, &a->s, l->tokens[i]);
    }
    for (uint32_t i = 0; i < c->n; i++) {
        a->s.of[i].mtp = true;
    }
}

/* Adds a row with drafts: the tokens of the whole shard, a third of them wrong.
 * It leaves a token for the row at which the sequence is removed. */
static void ask_drafts(struct chain *c, struct side *a, struct dice *d,
                       uint32_t vocab)
{
    uint32_t left = a->line->steps - a->n_made - 1 - (a->leave_at > 0);
    uint32_t n = dice_below(d, 1 + (left < a->most ? left : a->most));
    uint32_t drafts[DRAFTS_MAX];

    for (uint32_t i = 0; i < n; i++) {
        uint32_t wrong = dice_below(d, 3) == 0 ? 1 + dice_below(d, vocab) : 0;

        drafts[i] = (a->line->tokens[a->n_made + i] + wrong) % vocab;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        a->s.of[i].propose = dice_below(d, 3);
    }
    a->samples = a->drafts = true;
    a->row = chain_verify(c, &a->s, drafts, n, a->logits);
}

/* Requests the next row, if there is one: all that is left of a kind, or
 * some. */
static bool ask(struct chain *c, struct side *a, struct dice *d, uint32_t vocab)
{
    const struct run_seq *s = &a->s.of[0];
    uint32_t end, n;

    a->drafts = false;
    a->planned = a->n_made < a->line->steps;
    if (!a->planned) {
        return false;
    }
    if (a->leave_at > 0 && s->n_done >= a->leave_at) {
        chain_stop(c, &a->s);
        start(c, a);
        a->leave_at = 0;
    }
    if (a->n_made > 0 && s->n_done + 1 == s->n_ids && dice_below(d, 2) == 0) {
        ask_drafts(c, a, d, vocab);
        return true;
    }
    end = s->n_done < s->n_prompt ? s->n_prompt : s->n_ids;
    n = end - s->n_done < CHUNK_MAX ? end - s->n_done : CHUNK_MAX;
    n = dice_below(d, 3) == 0 ? n : 1 + dice_below(d, n);
    a->samples = s->n_done + n == s->n_ids;
    a->row = chain_add(c, &a->s, n, a->samples, a->logits);
    return true;
}

/* Returns whether the token or a bit of the logits differs from the whole
 * shard's. */
static bool differs(const struct side *a, uint32_t token, const float *logits,
                    uint32_t vocab)
{
    const struct script_line *l = a->line;
    const float *whole = l->logits + (size_t)a->n_made * vocab;

    return token != l->tokens[a->n_made] ||
           memcmp(logits, whole, vocab * sizeof *whole) != 0;
}

/* Counts the tokens of a row with drafts that differ. */
static uint32_t take_drafts(struct chain *c, struct side *a, uint32_t vocab)
{
    uint32_t first = a->s.of[0].n_ids, n = chain_accept(c, &a->s, a->row);
    uint32_t n_wrong = 0;

    for (uint32_t i = 0; i < n; i++) {
        n_wrong += differs(a, a->s.of[0].ids[first + i],
                           a->logits + (size_t)i * vocab, vocab);
        for (uint32_t j = 0; j < c->n; j++) {
            a->s.of[j].ids[first + i] = a->line->tokens[a->n_made];
        }
        a->n_made++;
    }
    return n_wrong;
}

/* Counts the tokens that differ.  Continues with the whole shard's token, so
 * that one difference does not hide the next. */
static uint32_t take(struct chain *c, struct side *a, uint32_t vocab)
{
    uint32_t n_wrong;

    if (!a->planned || !a->samples) {
        return 0;
    }
    if (a->drafts) {
        return take_drafts(c, a, vocab);
    }
    n_wrong = differs(a, chain_token(c, a->row), a->logits, vocab);
    chain_push(c, &a->s, a->line->tokens[a->n_made++]);
    return n_wrong;
}

static uint32_t run_sides(struct chain *c, struct side *sides,
                          const struct script *s, struct dice *d)
{
    uint32_t n_wrong = 0;

    for (bool live = true; live;) {
        live = false;
        for (uint32_t i = 0; i < s->n; i++) {
            live |= ask(c, &sides[i], d, s->vocab);
        }
        if (live) {
            chain_step(c);
        }
        for (uint32_t i = 0; i < s->n; i++) {
            n_wrong += take(c, &sides[i], s->vocab);
        }
    }
    return n_wrong;
}

uint32_t script_chain(const struct script *s,
                      const struct shard_weights *const *shards, uint32_t n,
                      const struct kernels_options *o, struct dice *d)
{
    struct side sides[SCRIPT_LINES_MAX] = {0};
    struct chain c;
    uint32_t n_wrong;

    chain_open(&c, shards, n, o, blocks_of(s, o->block_tokens), s->n,
               1 + dice_below(d, 1000));
    for (uint32_t i = 0; i < s->n; i++) {
        const struct script_line *l = &s->lines[i];

        sides[i].line = l;
        sides[i].leave_at = 1 + dice_below(d, l->n_ids + l->steps - 2);
        sides[i].most =
            o->max_tokens > DRAFTS_MAX ? DRAFTS_MAX : o->max_tokens - 1;
        sides[i].logits =
            must(calloc((1 + DRAFTS_MAX) * (size_t)s->vocab, sizeof(float)));
        start(&c, &sides[i]);
    }
    n_wrong = run_sides(&c, sides, s, d);
    for (uint32_t i = 0; i < s->n; i++) {
        n_wrong += sides[i].leave_at > 0; /* it was never removed */
        chain_stop(&c, &sides[i].s);
        free(sides[i].logits);
    }
    chain_close(&c);
    return n_wrong;
}
