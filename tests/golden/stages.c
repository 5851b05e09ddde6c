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
    bool planned, samples;
    float *logits; /* [V] */
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
}

/* Requests the next row, if there is one: all that is left of a kind, or
 * some. */
static bool ask(struct chain *c, struct side *a, struct dice *d)
{
    const struct run_seq *s = &a->s.of[0];
    uint32_t end, n;

    a->planned = a->n_made < a->line->steps;
    if (!a->planned) {
        return false;
    }
    if (a->leave_at > 0 && s->n_done >= a->leave_at) {
        chain_stop(c, &a->s);
        start(c, a);
        a->leave_at = 0;
    }
    end = s->n_done < s->n_prompt ? s->n_prompt : s->n_ids;
    n = end - s->n_done < CHUNK_MAX ? end - s->n_done : CHUNK_MAX;
    n = dice_below(d, 3) == 0 ? n : 1 + dice_below(d, n);
    a->samples = s->n_done + n == s->n_ids;
    a->row = chain_add(c, &a->s, n, a->samples, a->logits);
    return true;
}

/* Returns 1 if the token or a bit of the logits differs from the whole shard's.
 * Continues with the whole shard's token, so that one difference does not hide
 * the next. */
static uint32_t take(struct chain *c, struct side *a, uint32_t vocab)
{
    const struct script_line *l = a->line;
    const float *whole = l->logits + (size_t)a->n_made * vocab;
    bool same;

    if (!a->planned || !a->samples) {
        return 0;
    }
    same = chain_token(c, a->row) == l->tokens[a->n_made] &&
           memcmp(a->logits, whole, vocab * sizeof *whole) == 0;
    chain_push(c, &a->s, l->tokens[a->n_made++]);
    return !same;
}

static uint32_t run_sides(struct chain *c, struct side *sides,
                          const struct script *s, struct dice *d)
{
    uint32_t n_wrong = 0;

    for (bool live = true; live;) {
        live = false;
        for (uint32_t i = 0; i < s->n; i++) {
            live |= ask(c, &sides[i], d);
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
        sides[i].logits = must(calloc(s->vocab, sizeof(float)));
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
