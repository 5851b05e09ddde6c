#include "tests/golden/reuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (REUSE_TWINS + REUSE_SAVES + 4)
#define TURN  37 /* tokens of a second turn */
#define KEPT  6  /* generated tokens before it */
#define CUT   FORWARD_CUT

/* A cold run: ids, and the tokens and logits that follow them. */
struct story {
    uint32_t ids[REUSE_IDS], n_ids, n_prompt, again, choice;
    struct sampling sampling;
    uint32_t tokens[REUSE_STEPS];
    float *logits; /* [steps, V] */
};

/* A sequence in progress on the chain. */
struct side {
    struct chain_seq s;
    const struct story *story;
    uint32_t row;
    bool planned, samples;
    float *logits; /* [V] */
};

/* The checkpoints of a prompt. */
struct saved {
    uint32_t n, position[REUSE_SAVES];
    struct chain_state state[REUSE_SAVES];
};

static void *must(void *p)
{
    if (p == NULL) {
        fprintf(stderr, "reuse: no memory\n");
        abort();
    }
    return p;
}

static uint32_t n_blocks(const struct reuse *x, uint32_t n_seqs)
{
    return n_seqs * ((REUSE_IDS + x->o.block_tokens - 1) / x->o.block_tokens);
}

/* ---- the cold run ---- */

static void draw_ids(struct reuse *x, struct story *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        t->ids[t->n_ids++] = dice_below(&x->dice, x->whole->shape.vocab);
    }
}

/* Begins a story with a prompt of n random ids. */
static void story_new(struct reuse *x, struct story *t, uint32_t n)
{
    memset(t, 0, sizeof *t);
    t->sampling = sampling_default();
    t->sampling.temperature = 0;
    draw_ids(x, t, n);
    t->n_prompt = n;
    t->logits = must(
        calloc((size_t)x->steps * x->whole->shape.vocab, sizeof *t->logits));
}

static void story_sequence(const struct story *t, struct run_seq *s)
{
    s->sampling = t->sampling;
    s->choice = t->choice;
    s->n_prompt = t->n_prompt;
    s->again = t->again;
    s->n_again = t->again > 0 ? t->n_ids : 0;
}

/* Runs the story alone, each span of one kind in one row. */
static void story_run(struct reuse *x, struct story *t)
{
    size_t vocab = x->whole->shape.vocab;
    struct runner r;
    struct run_seq s;

    runner_open(&r, x->whole, &x->o, n_blocks(x, 1), 1, 0);
    runner_start(&r, &s, t->ids, t->n_ids, x->steps);
    story_sequence(t, &s);
    while (s.n_ids - t->n_ids < x->steps) {
        uint32_t n, step = s.n_ids - t->n_ids, row;
        bool samples;

        runner_is_prompt(&s, &n);
        samples = s.n_done + n == s.n_ids;
        row = runner_add(&r, &s, n, samples, t->logits + step * vocab);
        runner_step(&r);
        if (samples) {
            t->tokens[step] = runner_token(&r, row);
            run_seq_push(&s, t->tokens[step]);
        }
    }
    runner_stop(&r, &s);
    runner_close(&r);
}

/* ---- the chain ---- */

static void open_chain(struct reuse *x, struct chain *c)
{
    chain_open(c, x->shards, x->n_shards, &x->o, n_blocks(x, REUSE_TWINS + 2),
               SLOTS, 1 + dice_below(&x->dice, 1000));
}

static void side_open(struct reuse *x, struct side *a, const struct story *t)
{
    memset(a, 0, sizeof *a);
    a->story = t;
    a->logits = must(calloc(x->whole->shape.vocab, sizeof *a->logits));
}

static void side_start(struct reuse *x, struct chain *c, struct side *a,
                       const struct story *t)
{
    side_open(x, a, t);
    chain_start(c, &a->s, t->ids, t->n_ids, REUSE_IDS - t->n_ids);
    for (uint32_t i = 0; i < c->n; i++) {
        story_sequence(t, &a->s.of[i]);
    }
}

static void side_stop(struct chain *c, struct side *a)
{
    chain_stop(c, &a->s);
    free(a->logits);
}

/* Moves a block of its own, and sometimes the slot, at every stage. */
static void move_some(struct reuse *x, struct chain *c, struct side *a)
{
    for (uint32_t i = 0; i < c->n; i++) {
        struct run_seq *s = &a->s.of[i];

        uint32_t own = s->n_blocks - s->n_shared;

        runner_move_block(&c->runners[i], s,
                          s->n_shared + dice_below(&x->dice, own));
        if (dice_below(&x->dice, 3) == 0) {
            runner_move_slot(&c->runners[i], s);
        }
    }
}

/* Returns how many of `span` ids of a kind go into the next row. */
static uint32_t draw_chunk(struct reuse *x, uint32_t at, uint32_t span,
                           bool prompt)
{
    uint32_t first = CUT - at % CUT; /* to the next multiple */

    if (dice_below(&x->dice, 3) == 0 || (!x->any_cut && !prompt)) {
        return span;
    }
    if (x->any_cut) {
        return 1 + dice_below(&x->dice, span);
    }
    first += CUT * dice_below(&x->dice, 3);
    return first < span ? first : span;
}

/* Saves at the multiples of CUT inside the newest row, [at, at + n). */
static void save_some(struct chain *c, struct saved *v, uint32_t at, uint32_t n)
{
    for (uint32_t p = (at / CUT + 1) * CUT; p <= at + n && v->n < REUSE_SAVES;
         p += CUT) {
        v->position[v->n] = p;
        chain_take_slot(c, &v->state[v->n]);
        chain_save(c, p, &v->state[v->n++]);
    }
}

/* Adds the next row of a side, unless it has all its tokens. */
static void side_ask(struct reuse *x, struct chain *c, struct side *a,
                     struct saved *v)
{
    const struct run_seq *s = &a->s.of[0];
    uint32_t at = s->n_done, span, n;
    bool prompt;

    a->planned = s->n_ids - a->story->n_ids < x->steps;
    if (!a->planned) {
        return;
    }
    prompt = runner_is_prompt(s, &span);
    n = draw_chunk(x, at, span, prompt);
    a->samples = at + n == s->n_ids;
    a->row = chain_add(c, &a->s, n, a->samples, a->logits);
    if (v != NULL) {
        save_some(c, v, at, n);
    }
}

/* Returns 1 if the step differs.  Continues with the cold run's token. */
static uint32_t side_take(struct reuse *x, struct chain *c, struct side *a)
{
    size_t vocab = x->whole->shape.vocab;
    uint32_t step = a->s.of[0].n_ids - a->story->n_ids;
    bool same;

    if (!a->planned || !a->samples) {
        return 0;
    }
    same = chain_token(c, a->row) == a->story->tokens[step] &&
           memcmp(a->logits, a->story->logits + step * vocab,
                  vocab * sizeof *a->logits) == 0;
    chain_push(c, &a->s, a->story->tokens[step]);
    return !same;
}

static bool any_left(const struct reuse *x, const struct side *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (a[i].s.of[0].n_ids - a[i].story->n_ids < x->steps) {
            return true;
        }
    }
    return false;
}

/* Runs sides to their ends, in one batch.  A single one is moved about, and
 * saves to v, which may be NULL. */
static uint32_t finish(struct reuse *x, struct chain *c, struct side *a,
                       uint32_t n, struct saved *v)
{
    uint32_t n_wrong = 0;

    while (any_left(x, a, n)) {
        if (n == 1) {
            move_some(x, c, a);
        }
        for (uint32_t i = 0; i < n; i++) {
            side_ask(x, c, &a[i], v);
        }
        chain_step(c);
        for (uint32_t i = 0; i < n; i++) {
            n_wrong += side_take(x, c, &a[i]);
        }
    }
    return n_wrong;
}

/* ---- the ways of reuse ---- */

/* Restores a checkpoint of a sequence that has ended its first run, and runs
 * the rest of the prompt and all steps again. */
static uint32_t restore(struct reuse *x, struct chain *c, const struct side *of,
                        uint32_t position, const struct chain_state *from)
{
    struct side a;
    uint32_t n_wrong;

    side_open(x, &a, of->story);
    chain_fork(c, &a.s, &of->s, position, from);
    for (uint32_t i = 0; i < c->n; i++) {
        a.s.of[i].n_ids = a.story->n_ids;
    }
    n_wrong = finish(x, c, &a, 1, NULL);
    side_stop(c, &a);
    return n_wrong;
}

uint32_t reuse_restored(struct reuse *x, uint32_t n, uint32_t *n_steps)
{
    struct saved v = {.n = 0};
    struct story t;
    struct chain c;
    struct side a;
    uint32_t n_wrong;

    story_new(x, &t, n);
    story_run(x, &t);
    open_chain(x, &c);
    side_start(x, &c, &a, &t);
    for (uint32_t i = 0; i < c.n; i++) {
        a.s.of[i].keeps_windows = true;
    }
    n_wrong = finish(x, &c, &a, 1, &v);
    *n_steps += x->steps;
    for (uint32_t i = 0; i < v.n; i++) {
        if (v.position[i] < n) {
            n_wrong += restore(x, &c, &a, v.position[i], &v.state[i]);
            *n_steps += x->steps;
        }
        chain_give_slot(&c, &v.state[i]);
    }
    side_stop(&c, &a);
    chain_close(&c);
    free(t.logits);
    return n_wrong;
}

/* Runs the leader's prompt but for its last row, then that row with the
 * twins. */
static uint32_t lead(struct reuse *x, struct chain *c, struct side *a,
                     const struct story *t)
{
    uint32_t n_wrong = 0;

    do {
        side_ask(x, c, &a[0], NULL);
        if (!a[0].samples) {
            chain_step(c);
        }
    } while (!a[0].samples);
    for (uint32_t i = 1; i < REUSE_TWINS; i++) {
        side_open(x, &a[i], &t[i]);
        for (uint32_t j = 0; j < c->n; j++) {
            a[i].s.of[j].choice = t[i].choice;
        }
        a[i].row = chain_twin(c, &a[i].s, &a[0].s, a[0].row, a[i].logits);
        a[i].planned = a[i].samples = true;
    }
    chain_step(c);
    for (uint32_t i = 0; i < REUSE_TWINS; i++) {
        n_wrong += side_take(x, c, &a[i]);
    }
    return n_wrong;
}

/* The choices differ, as those of one request; each has its own cold run. */
uint32_t reuse_twins(struct reuse *x, uint32_t n, uint32_t *n_steps)
{
    static struct story t[REUSE_TWINS];
    struct side a[REUSE_TWINS];
    struct chain c;
    uint32_t n_wrong;

    story_new(x, &t[0], n);
    t[0].sampling.temperature = 1;
    t[0].sampling.seed = n;
    for (uint32_t i = 0; i < REUSE_TWINS; i++) {
        if (i > 0) {
            t[i] = t[0];
            t[i].logits = must(calloc((size_t)x->steps * x->whole->shape.vocab,
                                      sizeof *t[i].logits));
        }
        t[i].choice = i;
        story_run(x, &t[i]);
    }
    open_chain(x, &c);
    side_start(x, &c, &a[0], &t[0]);
    n_wrong = lead(x, &c, a, t);
    n_wrong += finish(x, &c, a, REUSE_TWINS, NULL);
    *n_steps += REUSE_TWINS * x->steps;
    for (uint32_t i = REUSE_TWINS; i > 0; i--) {
        side_stop(&c, &a[i - 1]);
        free(t[i - 1].logits);
    }
    chain_close(&c);
    return n_wrong;
}

/* Generates KEPT tokens after a prompt.  The last one is not computed yet. */
static void first_turn(struct reuse *x, struct chain *c, struct side *a,
                       struct story *first, uint32_t n)
{
    uint32_t steps = x->steps;

    x->steps = KEPT;
    story_new(x, first, n);
    story_run(x, first);
    side_start(x, c, a, first);
    (void)finish(x, c, a, 1, NULL);
    x->steps = steps;
}

/* Pushes the second turn's ids, and makes all not computed ones a prompt's. */
static void second_turn(struct chain *c, struct side *a, const struct story *t)
{
    a->story = t;
    for (uint32_t i = 0; i < c->n; i++) {
        struct run_seq *s = &a->s.of[i];

        while (s->n_ids < t->n_ids) {
            run_seq_push(s, t->ids[s->n_ids]);
        }
        story_sequence(t, s);
    }
}

/* Twice from the same kept positions: a copy of them first, then they
 * themselves. */
uint32_t reuse_continued(struct reuse *x, uint32_t n, uint32_t *n_steps)
{
    struct story first, t;
    struct chain_state kept = {{0}};
    struct chain c;
    struct side a, b;
    uint32_t n_wrong;

    open_chain(x, &c);
    first_turn(x, &c, &a, &first, n);
    story_new(x, &t, n);
    memcpy(t.ids, first.ids, n * sizeof *t.ids);
    memcpy(t.ids + n, first.tokens, KEPT * sizeof *t.ids);
    t.n_ids = n + KEPT;
    t.again = a.s.of[0].n_done;
    draw_ids(x, &t, TURN);
    story_run(x, &t);
    side_open(x, &b, &t);
    for (uint32_t i = 0; i < c.n; i++) {
        kept.page[i] = a.s.of[i].slot;
    }
    chain_fork(&c, &b.s, &a.s, t.again, &kept);
    second_turn(&c, &b, &t);
    n_wrong = finish(x, &c, &b, 1, NULL);
    side_stop(&c, &b);
    second_turn(&c, &a, &t);
    n_wrong += finish(x, &c, &a, 1, NULL);
    *n_steps += 2 * x->steps;
    side_stop(&c, &a);
    chain_close(&c);
    free(first.logits);
    free(t.logits);
    return n_wrong;
}
