/* stages.h - runs sequences through a whole shard, and through chains of shards
 * of the same model: every logit must be the same bit for bit.
 *
 * - Whole: one sequence alone, its prompt in one row, then one row a token.
 * - Chain: all side by side, prompts and recomputed tokens in random chunks,
 *   and rows with drafts, some of them wrong.
 *   Each sequence is removed once, its memory freed at every stage, and
 *   continues elsewhere from its prompt and its tokens so far.
 *
 * Threading: one thread.
 * Memory: a script owns tokens and logits; ids are borrowed.
 *
 * Errors end the program, as in runner.h. */
#ifndef TESTS_GOLDEN_STAGES_H
#define TESTS_GOLDEN_STAGES_H

#include "tests/golden/chain.h"
#include "tests/kernels/random_model.h"

#define SCRIPT_LINES_MAX 8

struct script_line {
    const uint32_t *ids;   /* [n_ids] the prompt */
    uint32_t n_ids, steps; /* at least 2 */
    uint32_t *tokens;      /* [steps] greedy choice of the whole shard */
    float *logits;         /* [steps, V] */
};

struct script {
    uint32_t vocab, n;
    struct script_line lines[SCRIPT_LINES_MAX];
};

/* Fills in tokens and logits of lines that have ids. */
void script_whole(struct script *s, const struct shard_weights *whole,
                  const struct kernels_options *o);

/* Counts the steps at which a chain differs, in its token or any bit of a
 * logit. */
uint32_t script_chain(const struct script *s,
                      const struct shard_weights *const *shards, uint32_t n,
                      const struct kernels_options *o, struct dice *d);

void script_free(struct script *s);

#endif
