/* twin.h - compares a device's layers with tests/kernels/reference.c, one by
 * one.
 *
 * The twin computes in double and rounds what the device rounds: the operands
 * of products, and values that enter a cache.  It receives the device's own x
 * before each layer.  So each comparison covers one layer's arithmetic and
 * history, and not what earlier layers made of a difference.
 *
 * The remaining difference is the order of float32 sums, some 1e-6 of a value.
 * If such a difference crosses a border of bf16, an operand is rounded the
 * other way: by 2^-8 of itself.  TWIN_BOUND allows a token as much as one such
 * operand of the size of its largest value, with a weight of one.  Measured:
 * 2.5e-3 with the portable kernels, 3.3e-3 with NVIDIA's, whose attention also
 * rounds queries and weights.
 *
 * The twin reads the device's own codes of a quantised cache, and counts those
 * that differ (kv_codes.h).
 *
 * In the small models with experts, an operand of a mixer that is rounded the
 * other way moves several operands of the experts across borders, and their
 * products are larger than x.  Measured over all their prompts: 4.2e-3.  The
 * bound is TWIN_BOUND_EXPERTS.
 *
 * A difference of that size may also choose another expert.  Where the logits
 * of a chosen expert and of another are within TWIN_BOUND of the largest, the
 * twin computes both choices and takes the one that is nearer to the device's
 * x.  Such tokens, and other choices than the twin's own, are counted.
 *
 * The twin can also run alone, from the tokens.  Its distance from a reference
 * that rounds nothing is the distance expected of the device.
 *
 * Threading: one thread.
 * Memory: a twin owns its caches and copies of x.  It ends the program if
 * memory is short, as this is for tests. */
#ifndef TESTS_GOLDEN_TWIN_H
#define TESTS_GOLDEN_TWIN_H

#include "tests/golden/kv_codes.h"

#define TWIN_BOUND 0x1p-8  /* relative to the largest of x or the logits */
#define TWIN_NEAR  0x1p-18 /* likewise: float32 sums in another order */
#define TWIN_BOUND_EXPERTS \
    6.3e-3           /* relative to x: 1.5 times the largest measured */
#define TWIN_TIES 16 /* most pairs of experts that are tried */

/* The router's near-ties of a token in a layer. */
struct twin_routes {
    struct {
        uint32_t rank, other; /* chosen[rank] may be `other` instead */
    } ties[TWIN_TIES];
    uint32_t n_ties;
    uint32_t use; /* 1 + the tie to exchange; 0: none, and ties are sought */
    uint64_t n_routed, n_near, n_exchanged; /* tokens in layers so far */
};

struct twin {
    struct reference r;
    struct reference alone;
    uint32_t first;        /* position of the pass' first token */
    float *before, *after; /* [room, H] of the pass' n tokens */
    uint32_t n, room;
    struct kv_codes codes;
    struct twin_routes routes;
    double layer, head; /* largest differences so far, relative as TWIN_BOUND */
    uint64_t n_all, n_near; /* layers of tokens, and those within TWIN_NEAR */
};

/* Opens a twin for products whose operands have that dtype, or with int8 those
 * of integer products. */
void twin_open(struct twin *t, const struct shard_weights *w,
               const struct kv_format *kv, enum dtype operand, bool int8);
void twin_close(struct twin *t);

/* Begins another sequence, of this block table; the largest differences
 * stay. */
void twin_restart(struct twin *t, struct kernels *k, const uint32_t *blocks,
                  uint32_t block_tokens);

/* Checks x after `done` layers of a pass of n tokens, all of one sequence, in
 * order; as forward_tap's layer(). */
void twin_layer(struct twin *t, struct kernels *k, uint32_t done, uint32_t n);

/* Runs the twin alone over the next n tokens; returns its logits [V] float32
 * after them. */
void twin_alone(struct twin *t, const uint32_t *ids, uint32_t n, float *logits);

/* Checks the logits [V] after the last pass' last token. */
void twin_head(struct twin *t, const float *logits);

#endif
