/* spm_merges.h - Merges of a SentencePiece vocabulary, from its scores.
 *
 * Each token of two or more characters gets a merge for every way to cut it
 * into two tokens.  Merges are ranked by score, the highest first, as in
 * transformers' generate_merges(): equal scores by the characters of the left
 * side, then of the right side, the longest first; then by the ids of token,
 * left and right side.
 *
 * Threading: none.  Memory: 40 bytes a merge; the caller's, to free(). */
#ifndef TEXT_SPM_MERGES_H
#define TEXT_SPM_MERGES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "text/vocab.h"

struct spm_merge {
    double score;
    uint32_t id, left, right;
    uint32_t left_chars, right_chars;
};

/* Makes the merges of all tokens of v; scores is [v->n_ids].  *out is [*n], in
 * the order of their ranks.  Returns ST_OUT_OF_RANGE past TEXT_MERGES,
 * ST_RESOURCE_EXHAUSTED if memory runs out. */
MUST_CHECK enum status spm_merges(struct spm_merge **out, size_t *n,
                                  const struct vocab *v, const double *scores,
                                  struct error *e);

#endif
