/* doubled.h - bounds of float32 logits from a run in double.
 *
 * Rounding in float32 moves the logits of an ill-conditioned model farther than
 * those of another, and at some positions farther than at others, so that no
 * absolute bound suits all.  The run in double is tests/kernels/reference.c
 * over the same ids; only what enters a cache is float32.  Two float32 runs
 * show what rounding does: the file's, of another program, which has logits of
 * a few positions; and the reference again, with x in float32 between its
 * operators.
 *
 *     noise   the largest of: the distance of the file from the run in double,
 *             at this position and at earlier ones of the sequence; the noise
 *             that the file states, float32_noise or the largest
 *             cached_vs_full_max_abs of its prompts; 4 roundings of the largest
 *             logit
 *     single  the largest distance of the second run, likewise
 *     bound   from the run in double to the logits under test: DOUBLED_TIMES
 *             noise, or DOUBLED_SINGLE single if that is larger
 *     tie     a margin below twice the bound, between the two best logits in
 *             double: the step may choose another token, and is counted
 *
 * Each distance is one draw.  The second run rounds less than a backend, by a
 * factor of 5 to 54 where that was measured at ill-conditioned positions.  A
 * file farther away than DOUBLED_FAR of the largest logit shows no noise but
 * other arithmetic, which would make the bounds worthless.
 *
 * Threading: one thread.  Memory: owns its caches and logits.  It ends the
 * program if memory is short, as this is for tests. */
#ifndef TESTS_GOLDEN_DOUBLED_H
#define TESTS_GOLDEN_DOUBLED_H

#include "tests/golden/golden_file.h"
#include "tests/kernels/reference.h"

#define DOUBLED_TIMES  8
#define DOUBLED_SINGLE 128
#define DOUBLED_FAR    0x1p-10

struct doubled {
    struct reference r, single; /* single: x in float32 between operators */
    double *logits;             /* [V] at the newest position, */
    double *other, *x;          /* those of `single`, and its x [H], */
    float *rounded;             /* and the first in float32 */
    double noise, single_noise; /* this sequence's so far */
    double bound, margin;       /* at the newest position */
    double least, most;         /* bounds so far */
    uint32_t n_far; /* positions at which the file is too far away */
};

void doubled_open(struct doubled *d, const struct shard_weights *w);
void doubled_close(struct doubled *d);

/* Begins the sequence of a prompt. */
void doubled_restart(struct doubled *d, const struct golden_prompt *p);

/* Runs the next n >= 1 tokens, the last of which is at a position of p, and
 * sets bound and margin. */
void doubled_run(struct doubled *d, const uint32_t *ids, uint32_t n,
                 const struct golden_prompt *p, uint32_t position);

/* Returns the largest distance of logits [V] from those in double; NaN if one
 * is. */
double doubled_distance(const struct doubled *d, const float *logits);

#endif
