/* drafts.h - the drafts of a model's MTP layer: against those of its
 * golden.json, and tokens with drafts against tokens without.
 *
 * Threading: one thread, beside the engines' own.  Memory: none is kept.
 * Errors end the program, as in runner.h. */
#ifndef TESTS_GOLDEN_DRAFTS_H
#define TESTS_GOLDEN_DRAFTS_H

#include "common/model/config.h"
#include "tests/golden/golden_file.h"
#include "tests/golden/runner_drafts.h"

#define DRAFTS_MIXED 0 /* instead of K: 1 to DRAFTS_MAX, by sequence */

/* Compares the first draft after every token of the reference with that of the
 * file, and prints how many are equal and how many the next token accepts.  A
 * draft whose logit is less than `tie` above that of the file's draft is
 * excluded, and counted.  All prompts run side by side.  Returns the number of
 * wrong drafts; not 0 either if a draft of the file was not judged, or if
 * others were accepted than in the file, but for near-ties. */
uint32_t drafts_check(const struct golden *g, const struct shard_weights *w,
                      const struct kernels_options *o, double tie);

/* Runs each prompt without drafts, alone, greedy and then sampled with
 * penalties and logprobs; then side by side, in random chunks, with k drafts a
 * step of the MTP layer, over 1, 2 and 3 stages.  Prints for each how many
 * tokens differ, in themselves or in a bit of their logprobs, and acceptance by
 * depth.  Returns the number of tokens that differ; not 0 either if all drafts
 * were accepted or none. */
uint32_t drafts_compare(const struct golden *g, const struct model_config *c,
                        const char *dir, const struct kernels_options *o,
                        uint32_t k);

#endif
