/* score.h - Scores a text under a KV format: the loss of every token, and
 * greedy continuations.
 *
 * Teacher forcing: every window begins with an empty cache and is `window` ids
 * long.  Its first `context` ids are not scored.  Windows begin window -
 * context ids apart, so that each id from text[context] on is scored once,
 * after at least `context` others.  One row of one token per window and step.
 *
 * Greedy: `prompts` prompts of `prompt` ids, evenly spaced in the text, each
 * with `steps` tokens.
 *
 * Threading: one thread.
 * Memory: a score owns its arrays.  Errors end the program, as in runner.h. */
#ifndef TESTS_GOLDEN_SCORE_H
#define TESTS_GOLDEN_SCORE_H

#include "kernels/kernels.h"

#define SCORE_WINDOW_MIN   64
#define SCORE_KEEP_MAX     ((size_t)1 << 30) /* bytes */
#define SCORE_SIDE_BY_SIDE 64 /* most windows, and most prompts */

struct score_plan {
    const uint32_t *text; /* [n_text] ids */
    uint32_t n_text;
    uint32_t window, context; /* SCORE_WINDOW_MIN <= window, context < window */
    uint32_t prompts, prompt, steps;
};

struct score {
    uint32_t n;        /* n_text - context */
    double *loss;      /* [n] -ln p of each scored id */
    double divergence; /* mean of the Kullback-Leibler divergences from the
                        * base's probabilities; NAN: not computed */
    uint32_t *best;    /* [n] the most probable id in its place */
    uint32_t n_greedy; /* prompts * steps */
    uint32_t *greedy;  /* [prompts, steps] */
    float *log_p;      /* [n, V] of a base; NULL if it is none, or if that is
                        * more than SCORE_KEEP_MAX */
};

/* Returns the number of windows of a plan. */
uint32_t score_windows(const struct score_plan *p);

/* Scores with the KV format of the options; without a base, it becomes one. */
void score_run(struct score *s, const struct score_plan *p,
               const struct shard_weights *w, const struct kernels_options *o,
               const struct score *base);
void score_free(struct score *s);

/* The mean of the differences a.loss - b.loss, and its standard error, from the
 * means of blocks of consecutive ids: neighbours are not independent. */
#define SCORE_BLOCK 32

struct score_difference {
    double mean, error;
};

/* Both scores are of the same plan. */
struct score_difference score_compare(const struct score *a,
                                      const struct score *b);

/* Returns the share of equal entries, 0 to 1. */
double score_equal(const uint32_t *a, const uint32_t *b, uint32_t n);

/* Returns the mean loss. */
double score_loss(const struct score *s);

#endif
