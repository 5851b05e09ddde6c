/* bench.h - runs operators one at a time, over ragged batches, against the slow
 * plain reference.
 *
 * A run writes x, runs one operator and reads x back.  The pool is full of NaN
 * except where sequences have written.  A read of anything else therefore shows
 * as NaN in every later result.  Window blocks become NaN again when the window
 * has passed them, and their tables begin at the first that a row needs.
 *
 * Where a rounding error moves a quantised value across the border of two
 * codes, the result differs by far more than the error.  So the reference reads
 * the backend's codes; the bench counts those that differ, and checks that no
 * value is farther off than a code.
 *
 * Threading: one thread.
 * Memory: the caller owns a bench.  A failure to open it ends the program, as
 * this is for tests. */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

#include "tests/kernels/random_model.h"
#include "tests/kernels/reference.h"

#define BENCH_SEQS   3
#define BENCH_LENGTH 100 /* longest sequence */
#define BENCH_BLOCKS (BENCH_SEQS * BENCH_LENGTH)
#define BENCH_SLOTS  (BENCH_SEQS + 1) /* the last one is a checkpoint */
#define BENCH_HIDDEN 256              /* widest model */
#define BENCH_TABLES 4                /* most pages of a window block */
#define BENCH_VOCAB  512
#define BENCH_BLOCK_BYTES \
    (2 * 4 * KERNELS_BLOCK_MAX * (256 + 2 * 4 * (256 / KV_GROUP_MIN)))

struct bench;

struct bench_seq {
    struct bench *of;
    struct reference ref;
    uint32_t length;
    uint32_t blocks[BENCH_LENGTH];                /* pages */
    uint32_t windows[BENCH_TABLES][BENCH_LENGTH]; /* pages */
    uint32_t slot;                                /* its first page */
};

struct bench {
    struct dice dice;
    struct random_model model;
    struct kernels *k;
    struct kernels_options o;
    enum dtype operand; /* the reference's */
    bool generated;     /* some rows are generated */
    uint32_t chunk;     /* most tokens of a row; 0: many sizes */
    uint32_t pages_per_slot, window_pages, n_pages;
    struct bench_seq seqs[BENCH_SEQS];
    /* Values of quantised vectors, and how many of them differ from the
     * reference's, whose arithmetic is wider: it then takes the backend's. */
    uint32_t n_codes, n_differ;
    float x[BENCH_SEQS * BENCH_LENGTH * BENCH_HIDDEN],
        out[BENCH_SEQS * BENCH_LENGTH * BENCH_HIDDEN];
};

/* Opens a bench for a model of this shape; the caller sets b->dice, b->o and
 * b->operand. */
void bench_open(struct bench *b, const struct random_shape *shape);
void bench_close(struct bench *b);

/* Returns all sequences to their beginning, with new lengths, and fills the
 * pool with NaN. */
void bench_restart(struct bench *b);

/* Returns all sequences to their beginning, but for what is stored. */
void bench_rewind(struct bench *b);

typedef void (*bench_operator_fn)(struct kernels *k, uint32_t layer);
typedef void (*bench_expected_fn)(struct reference *r, uint32_t layer,
                                  double *x);

/* Runs all sequences through one operator.  Returns the largest error, relative
 * to the largest value of its token or 1. */
double bench_run(struct bench *b, uint32_t layer, bench_operator_fn op,
                 bench_expected_fn expected);

/* Embeds n tokens, which must be exact, and runs some through the head.
 * Returns the largest error of a logit. */
double bench_head(struct bench *b, const uint32_t *tokens, uint32_t n);

#endif
