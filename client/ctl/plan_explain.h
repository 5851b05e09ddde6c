/* plan_explain.h - `sluicectl plan --explain-blocks`: what a vLLM-like engine
 * would need beside what sluice's pool needs.
 *
 * The engine's cache is plain, of the dtype of sluice's format.  Both have the
 * same pool.  A length's row has, for each of the two, what one sequence takes,
 * the share of it that holds nothing, and the sequences that fill the pool.
 * saved_bytes is what the engine would need more than sluice for as many
 * sequences as sluice holds; slots do not limit either.
 *
 * For a model with window layers: what one sequence holds of each class, and
 * what it would hold if blocks behind the window were kept.
 *
 * Threading: none.  Memory: borrowed. */
#ifndef CLIENT_CTL_PLAN_EXPLAIN_H
#define CLIENT_CTL_PLAN_EXPLAIN_H

#include <jansson.h>

#include "common/model/config.h"
#include "common/model/kv_format.h"
#include "common/split/layer_split.h"

#define EXPLAIN_ALIGNMENTS 2 /* 16 and 32 */

struct plan_explain {
    const struct model_config *config;
    const struct kv_format *kv;
    const struct split *split;
    const struct split_worker *workers; /* those of the split */
    const uint32_t *lengths;            /* [n_lengths] */
    size_t n_lengths;
    uint32_t block_tokens, max_rows;
};

/* Prints the comparison to standard output. */
void plan_explain_print(const struct plan_explain *x);

/* Returns it as an object, which the caller owns. */
json_t *plan_explain_json(const struct plan_explain *x);

#endif
