/* twin.h - a device's layers against tests/kernels/reference.c, one by one.
 *
 * The twin is in double and rounds what the device rounds: the operands of
 * products and what enters a cache.  It is given the device's own x before
 * each layer, so that what is compared is one layer's arithmetic and its
 * history, never what layers before it made of a difference.
 *
 * What is left is the order of float32 sums, some 1e-6 of a value, and where
 * such a difference lies across a border of bf16 an operand that is rounded
 * the other way: by 2^-8 of itself.  TWIN_BOUND allows a token as much as one
 * such operand of the size of its largest value, with a weight of one.  Seen:
 * 2.5e-3 with the portable kernels, 3.3e-3 with those for NVIDIA's, whose
 * attention rounds queries and weights as well.
 *
 * And it can go alone, from the tokens: so far is the device expected to be
 * from a reference that rounds nothing.
 *
 * Threading: one.  Memory: a twin owns its caches and copies of x; it ends the
 * program where there is none: this is for tests. */
#ifndef TESTS_GOLDEN_TWIN_H
#define TESTS_GOLDEN_TWIN_H

#include "tests/kernels/reference.h"

#define TWIN_BOUND 0x1p-8 /* of the largest value of x, or of the logits */

struct twin {
    struct reference r;
    struct reference alone;
    uint32_t first;        /* position of the pass' first token */
    float *before, *after; /* [room, H] of the pass' n tokens */
    uint32_t n, room;
    double layer, head; /* largest difference seen, relative as TWIN_BOUND */
};

/* Of products whose operands are of that dtype. */
void twin_open(struct twin *t, const struct shard_weights *w,
               enum dtype kv_dtype, enum dtype operand);
void twin_close(struct twin *t);

/* Another sequence; what was seen stays. */
void twin_restart(struct twin *t);

/* As forward_tap's layer(): x after `done` layers of a pass of n tokens, all
 * of one sequence, in order. */
void twin_layer(struct twin *t, struct kernels *k, uint32_t done, uint32_t n);

/* The twin alone after the next n tokens: its logits [V], float32. */
void twin_alone(struct twin *t, const uint32_t *ids, uint32_t n, float *logits);

/* The logits [V] after the last pass' last token. */
void twin_head(struct twin *t, const float *logits);

#endif
