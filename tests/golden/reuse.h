/* reuse.h - reuses what a sequence has computed, in every way that a plan can
 * order it, and compares each logit with a cold run of the whole shard.
 *
 * - Restored: a prompt saves its state while it prefills; later sequences share
 *   its blocks and start from each checkpoint.
 * - Twins: several sequences sample from the last row of one prompt.
 * - Continued: a second turn follows the kept positions of a first one, whose
 *   cold run computes each position with the kind that it had.
 *
 * Before every plan some blocks and slots move to other pages.  All pages that
 * are free hold NaN.
 *
 * Threading: one thread, beside the chain's.  Memory: the caller's. */
#ifndef TESTS_GOLDEN_REUSE_H
#define TESTS_GOLDEN_REUSE_H

#include "tests/golden/chain.h"
#include "tests/kernels/random_model.h"

#define REUSE_IDS   320 /* longest sequence */
#define REUSE_STEPS 12  /* most steps */
#define REUSE_TWINS 4   /* with the leader */
#define REUSE_SAVES 4   /* most checkpoints of a prompt */

struct reuse {
    const struct shard_weights *whole;
    const struct shard_weights *shards[CHAIN_MAX]; /* [n_shards] */
    uint32_t n_shards;
    struct kernels_options o;
    bool any_cut; /* prompts may be cut anywhere, as on the cpu */
    uint32_t steps;
    struct dice dice;
};

/* Counts the steps that differ, for a prompt of n tokens; *n_steps is raised by
 * the steps compared. */
uint32_t reuse_restored(struct reuse *x, uint32_t n, uint32_t *n_steps);
uint32_t reuse_twins(struct reuse *x, uint32_t n, uint32_t *n_steps);
uint32_t reuse_continued(struct reuse *x, uint32_t n, uint32_t *n_steps);

#endif
