/* random - compares whole models of random shape with the slow plain reference.
 *
 *     golden_random [CONFIGURATIONS [FIRST]]
 *
 * Drawn at random: head counts and sizes, layer kinds and intervals, biases,
 * norms, rotary scalings, dtypes, tied heads, KV formats, block and chunk
 * sizes, passes, threads.  Two sequences run side by side, the prompt in random
 * chunks, then token by token; every row's logits are compared.
 *
 * The reference reads quantised keys and values as the backend stored them
 * (kv_codes.h).
 *
 * Exit code: 0 if all are within BOUND of the largest logit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/golden/kv_codes.h"
#include "tests/golden/kv_draw.h"
#include "tests/golden/runner.h"
#include "tests/kernels/random_model.h"
#include "tests/kernels/reference.h"

#define SEQS   2
#define PROMPT 40
#define STEPS  4
#define VOCAB  512
#define BOUND  1e-4
/* If two computations round a value to 16 bits differently, it is half a unit
 * in the last place off: 1/256 of the value, which is carried along. */
#define BOUND_16 1e-2

struct side {
    struct run_seq s;
    struct reference ref;
    struct kv_codes codes;
    float logits[VOCAB];
    bool asked;
};

struct trial {
    struct dice dice;
    struct random_shape shape;
    struct random_model model;
    struct kernels_options o;
    struct runner runner;
    struct side sides[SEQS];
    double most; /* largest error, relative to the largest logit; infinite if
                  * a stored value is no neighbour of the reference's */
};

static void draw_options(struct trial *t)
{
    struct dice *d = &t->dice;

    t->o = (struct kernels_options){
        .device = "cpu",
        .kv = dice_below(d, 5) < 2 ? kv_format_plain(DTYPE_F32)
                                   : kv_draw(&t->shape, d),
        .block_tokens = 1u << dice_below(d, 7),
        .max_tokens = 1 + dice_below(d, 100),
        .max_logits = 1 + dice_below(d, 3),
        .n_threads = 1 + dice_below(d, 2),
    };
}

static void open_trial(struct trial *t, uint32_t number)
{
    uint32_t ids[PROMPT];

    t->dice.state = number;
    t->most = 0.0;
    random_shape(&t->shape, &t->dice);
    random_model_new(&t->model, &t->shape, &t->dice);
    draw_options(t);
    runner_open(&t->runner, &t->model.w, &t->o, SEQS * (PROMPT + STEPS), SEQS,
                1 + number);
    runner_poison(&t->runner);
    for (uint32_t i = 0; i < SEQS; i++) {
        struct side *s = &t->sides[i];
        uint32_t n = 1 + dice_below(&t->dice, PROMPT);

        for (uint32_t j = 0; j < n; j++) {
            ids[j] = dice_below(&t->dice, t->model.w.shape.vocab);
        }
        runner_start(&t->runner, &s->s, ids, n, STEPS);
        reference_new(&s->ref, &t->model.w, t->o.kv.dtype);
        s->codes = (struct kv_codes){.k = forward_kernels(t->runner.forward),
                                     .blocks = s->s.blocks,
                                     .block_tokens = t->o.block_tokens};
        kv_codes_follow(&s->codes, &s->ref, &t->o.kv);
    }
}

static void close_trial(struct trial *t)
{
    for (uint32_t i = 0; i < SEQS; i++) {
        runner_stop(&t->runner, &t->sides[i].s);
        reference_free(&t->sides[i].ref);
    }
    runner_close(&t->runner);
    random_model_free(&t->model);
}

/* Advances the reference to the row's end, and compares. */
static void compare(struct trial *t, struct side *s)
{
    double expect[VOCAB], top = 1e-3;
    uint32_t v = t->model.w.shape.vocab;

    while (s->ref.position < s->s.n_done) {
        bool last = s->ref.position + 1 == s->s.n_done;

        reference_token(&s->ref, s->s.ids[s->ref.position],
                        last ? expect : NULL);
    }
    for (uint32_t i = 0; i < v; i++) {
        top = fabs(expect[i]) > top ? fabs(expect[i]) : top;
    }
    for (uint32_t i = 0; i < v; i++) {
        double e = fabs((double)s->logits[i] - expect[i]) / top;

        t->most = e > t->most || e != e ? e : t->most;
    }
    t->most = s->codes.n_far > 0 ? (double)INFINITY : t->most;
}

/* Requests the next chunk of a sequence; returns false at its end. */
static bool ask(struct trial *t, struct side *s)
{
    uint32_t left = s->s.n_ids - s->s.n_done;

    s->asked = left > 0;
    if (left > 0) {
        uint32_t n = 1 + dice_below(&t->dice, left);

        runner_add(&t->runner, &s->s, n, true, s->logits);
    }
    return left > 0;
}

static void run_trial(struct trial *t)
{
    for (uint32_t live = SEQS; live > 0;) {
        live = 0;
        for (uint32_t i = 0; i < SEQS; i++) {
            live += ask(t, &t->sides[i]);
        }
        if (live == 0) {
            return;
        }
        runner_step(&t->runner);
        for (uint32_t i = 0; i < SEQS; i++) {
            struct side *s = &t->sides[i];

            if (!s->asked) {
                continue;
            }
            compare(t, s);
            if (s->s.n_done == s->s.n_ids &&
                s->s.n_ids < s->s.n_prompt + STEPS) {
                run_seq_push(&s->s,
                             dice_below(&t->dice, t->model.w.shape.vocab));
            }
        }
    }
}

static void print_failure(const struct trial *t, uint32_t number)
{
    const struct model_shape *s = &t->model.w.shape;
    char kv[KV_NAME_MAX];

    printf("configuration %u: error %.3g: layers %u, H %u, I %u, V %u, heads "
           "%u/%u of %u, linear %u/%u of %u/%u, K %u, dtype %d, kv %s, block "
           "%u\n",
           number, t->most, s->n_layers, s->hidden, s->intermediate, s->vocab,
           s->n_heads, s->n_kv_heads, s->head_dim, s->n_k_heads, s->n_v_heads,
           s->k_dim, s->v_dim, s->conv, s->dtype, kv_format_name(&t->o.kv, kv),
           t->o.block_tokens);
}

int main(int argc, char **argv)
{
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 200;
    uint32_t first = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    uint32_t n_failed = 0;
    double worst = 0.0, worst_16 = 0.0;
    struct trial *t;

    if (n == 0) {
        fprintf(stderr, "usage: golden_random [CONFIGURATIONS [FIRST]]\n");
        return 2;
    }
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        return 1;
    }
    for (uint32_t i = first; i < first + n; i++) {
        bool wide;

        open_trial(t, i);
        run_trial(t);
        wide = t->o.kv.dtype == DTYPE_F32;
        if (!(t->most <= (wide ? BOUND : BOUND_16))) {
            print_failure(t, i);
            n_failed++;
        }
        if (wide) {
            worst = t->most > worst ? t->most : worst;
        } else {
            worst_16 = t->most > worst_16 ? t->most : worst_16;
        }
        close_trial(t);
    }
    printf("%u configurations, %u failed; largest error relative to the "
           "largest logit: %.2g, with a 16-bit cache %.2g\n",
           n, n_failed, worst, worst_16);
    free(t);
    return n_failed > 0;
}
