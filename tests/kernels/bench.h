/* bench.h - operators one at a time, over ragged batches, against the slow
 * plain reference.
 *
 * x is written, one operator runs, x is read back.  The pool is full of NaN
 * but for what the sequences have written, so a value that is read from where
 * nothing was written shows in every result behind it.
 *
 * Threading: one.  Memory: a bench is the caller's; opening ends the program
 * if it cannot: this is for tests. */
#ifndef TESTS_KERNELS_BENCH_H
#define TESTS_KERNELS_BENCH_H

#include "tests/kernels/random_model.h"
#include "tests/kernels/reference.h"

#define BENCH_SEQS   3
#define BENCH_LENGTH 100 /* of a sequence, at most */
#define BENCH_BLOCKS (BENCH_SEQS * BENCH_LENGTH)
#define BENCH_HIDDEN 256 /* at most */
#define BENCH_VOCAB  512

struct bench_seq {
    struct reference ref;
    uint32_t length;
    uint32_t blocks[BENCH_LENGTH];
};

struct bench {
    struct dice dice;
    struct random_model model;
    struct kernels *k;
    struct kernels_options o;
    enum dtype operand; /* of the reference */
    bool generated;     /* rows are generated, some */
    uint32_t chunk;     /* tokens of a row, at most; 0: of many sizes */
    struct bench_seq seqs[BENCH_SEQS];
    float x[BENCH_SEQS * BENCH_LENGTH * BENCH_HIDDEN],
        out[BENCH_SEQS * BENCH_LENGTH * BENCH_HIDDEN];
};

/* b->dice, b->o and b->operand are the caller's; a model of that shape. */
void bench_open(struct bench *b, const struct random_shape *shape);
void bench_close(struct bench *b);

/* All sequences to their beginning, of other lengths; the pool to NaN. */
void bench_restart(struct bench *b);

typedef void (*bench_operator_fn)(struct kernels *k, uint32_t layer);
typedef void (*bench_expected_fn)(struct reference *r, uint32_t layer,
                                  double *x);

/* All sequences through one operator; the largest error, relative to the
 * largest value of its token, at least 1. */
double bench_run(struct bench *b, uint32_t layer, bench_operator_fn op,
                 bench_expected_fn expected);

/* n tokens are embedded, exactly, and some go through the head; the largest
 * error of a logit. */
double bench_head(struct bench *b, const uint32_t *tokens, uint32_t n);

#endif
