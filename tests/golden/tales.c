#include "tests/golden/tales.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTHING TALES
#define ALL     UINT32_MAX

enum draw { GREEDY, DRAWN, PENALISED };

static const struct {
    const char *name;
    enum tale base;         /* has its first ids; NOTHING: none */
    uint32_t n_base, n_new; /* ids of the base, and random ones behind */
    enum draw draw;
    uint32_t choice;
} table[TALES] = {
    [TALE_A0] = {"A0", NOTHING, 0, 189, GREEDY, 0},
    [TALE_A1] = {"A1", NOTHING, 0, 200, DRAWN, 0},
    [TALE_A2] = {"A2", NOTHING, 0, 128, PENALISED, 0},
    [TALE_A3] = {"A3", NOTHING, 0, 65, GREEDY, 0},
    [TALE_A4] = {"A4", NOTHING, 0, 20, DRAWN, 0},
    [TALE_B0] = {"B0", TALE_A1, 130, 60, GREEDY, 0},
    [TALE_B1] = {"B1", TALE_A1, 70, 30, DRAWN, 0},
    [TALE_T0] = {"T0", NOTHING, 0, 140, DRAWN, 0},
    [TALE_T1] = {"T1", TALE_T0, 140, 0, DRAWN, 1},
    [TALE_T2] = {"T2", TALE_T0, 140, 0, DRAWN, 2},
    [TALE_T3] = {"T3", TALE_T0, 140, 0, DRAWN, 3},
    [TALE_U0] = {"U0", TALE_A1, 200, 0, PENALISED, 0},
    [TALE_U1] = {"U1", TALE_A1, 200, 0, PENALISED, 1},
    [TALE_C0] = {"C0", TALE_A0, ALL, 37, GREEDY, 0},
    [TALE_C1] = {"C1", TALE_C0, ALL, 40, DRAWN, 0},
    [TALE_D0] = {"D0", TALE_A0, TALE_CUT_D0, 50, GREEDY, 0},
    [TALE_D1] = {"D1", TALE_A0, TALE_CUT_D1, 45, DRAWN, 0},
    [TALE_E0] = {"E0", TALE_A0, ALL, 30, DRAWN, 0},
    [TALE_E1] = {"E1", TALE_E0, ALL - 1, 0, DRAWN, 1},
    [TALE_G0] = {"G0", NOTHING, 0, 75, DRAWN, 0},
    [TALE_G1] = {"G1", TALE_G0, ALL, 0, DRAWN, 0},
};

/* Returns whether tale i is the second half of a long run, whose first is its
 * base. */
static bool is_half(enum tale i)
{
    return i == TALE_G1;
}

const char *tales_name(enum tale i)
{
    return table[i].name;
}

static Sluice__V1__Sampling sampling(enum tale i, uint32_t steps)
{
    Sluice__V1__Sampling s = SLUICE__V1__SAMPLING__INIT;
    enum draw draw = table[i].draw;

    if (is_half(i)) {
        s = sampling(table[i].base, steps);
        s.has_draw_index = true;
        s.draw_index = steps;
        return s;
    }
    s.has_seed = s.has_ignore_eos = s.ignore_eos = true;
    s.seed = 100 + i - table[i].choice;
    s.has_logprobs = s.logprobs = true;
    s.has_top_logprobs = true;
    s.top_logprobs = (i - table[i].choice) % 4;
    s.has_temperature = true;
    s.temperature = draw == GREEDY ? 0 : 0.9f;
    if (draw == PENALISED) {
        s.has_frequency_penalty = s.has_repetition_penalty = true;
        s.frequency_penalty = 0.4f;
        s.repetition_penalty = 1.2f;
    }
    return s;
}

/* Adds a run of n positions; runs of one kind become one. */
static void add_run(struct replica_ask *a, bool prompt, uint32_t n)
{
    if (n == 0) {
        return;
    }
    if (a->n_spans > 0 && (a->n_spans % 2 == 1) == prompt) {
        a->spans[a->n_spans - 1] += n;
        return;
    }
    if (a->n_spans == REPLICA_SPANS) {
        abort();
    }
    a->spans[a->n_spans++] = n;
}

/* Takes over n ids of prompt ++ tokens of b, with their kinds. */
static void take_base(struct replica_ask *a, uint32_t *ids,
                      const struct replica_ask *b, uint32_t n)
{
    uint32_t left = n;

    for (uint32_t k = 0; k < b->n_spans; k++) {
        uint32_t run = b->spans[k] < left ? b->spans[k] : left;

        add_run(a, k % 2 == 0, run);
        left -= run;
    }
    add_run(a, false, left);
    for (uint32_t k = 0; k < n; k++) {
        ids[k] = k < b->n_prompt ? b->ids[k] : b->tokens[k - b->n_prompt];
    }
}

static void make(struct tales *t, enum tale i, uint32_t vocab, uint32_t *random)
{
    struct replica_ask *a = &t->cold[i];
    enum tale base = table[i].base;
    uint32_t n = table[i].n_base;

    if (n >= ALL - 1) {
        n = t->cold[base].n_prompt + (n == ALL ? t->steps : 0);
    }
    *a = (struct replica_ask){.ids = t->ids[i],
                              .n_prompt = n + table[i].n_new,
                              .max_tokens = t->steps,
                              .sampling = sampling(i, t->steps),
                              .choice = table[i].choice,
                              .cold = true};
    if (n > 0) {
        take_base(a, t->ids[i], &t->cold[base], n);
    }
    add_run(a, true, table[i].n_new);
    for (uint32_t k = n; k < a->n_prompt; k++) {
        *random = *random * 1664525u + 1013904223u;
        t->ids[i][k] = (*random >> 8) % vocab;
    }
}

/* Compares two halves with one run that is as long as both. */
static void check_halves(const struct tales *t, struct replica *r)
{
    static struct replica_ask whole;

    for (enum tale i = 0; i < TALES; i++) {
        const struct replica_ask *a, *b = &t->cold[i];
        size_t bytes = t->steps * sizeof *b->tokens;

        if (!is_half(i)) {
            continue;
        }
        a = &t->cold[table[i].base];
        tales_ask(t, table[i].base, &whole);
        whole.cold = true;
        whole.max_tokens = 2 * t->steps;
        replica_run(r, &whole, 1);
        if (memcmp(whole.tokens, a->tokens, bytes) != 0 ||
            memcmp(whole.tokens + t->steps, b->tokens, bytes) != 0) {
            fprintf(stderr, "tales: two halves differ from one run\n");
            abort();
        }
    }
}

void tales_run_cold(struct tales *t, struct replica *r, uint32_t vocab)
{
    uint32_t random = 1;

    for (enum tale i = 0; i < TALES; i++) {
        make(t, i, vocab, &random);
        replica_run(r, &t->cold[i], 1);
    }
    check_halves(t, r);
    if (replica_counts(r).reused > 0) {
        fprintf(stderr, "tales: a cold run reused something\n");
        abort();
    }
}

void tales_ask(const struct tales *t, enum tale i, struct replica_ask *out)
{
    const struct replica_ask *a = &t->cold[i];

    *out = (struct replica_ask){.ids = a->ids,
                                .n_prompt = a->n_prompt,
                                .max_tokens = a->max_tokens,
                                .sampling = a->sampling,
                                .choice = a->choice,
                                .n_spans = a->n_spans};
    memcpy(out->spans, a->spans, sizeof a->spans);
}

bool tales_same(const struct tales *t, enum tale i,
                const struct replica_ask *got)
{
    const struct replica_ask *a = &t->cold[i];
    size_t top = a->sampling.top_logprobs, skip = got->n_generated;
    size_t n = a->n - skip;

    return got->n == a->n && a->n == t->steps && got->finish == a->finish &&
           got->n_logprobs == n * (1 + top) && got->n_top_tokens == n * top &&
           memcmp(got->tokens, a->tokens, a->n * sizeof *a->tokens) == 0 &&
           memcmp(got->logprobs, a->logprobs + skip * (1 + top),
                  n * (1 + top) * sizeof *a->logprobs) == 0 &&
           memcmp(got->top_tokens, a->top_tokens + skip * top,
                  n * top * sizeof *a->top_tokens) == 0;
}
