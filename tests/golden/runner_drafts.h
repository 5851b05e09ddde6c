/* runner_drafts.h - a runner's rows with drafts, and histories for penalties.
 *
 * A sequence with `mtp` runs the MTP layer in all of its rows; one with
 * `propose` gets drafts with each of its tokens.
 *
 * Threading, memory, errors: as runner.h. */
#ifndef TESTS_GOLDEN_RUNNER_DRAFTS_H
#define TESTS_GOLDEN_RUNNER_DRAFTS_H

#include "tests/golden/runner.h"

/* Adds a row of the newest id of a sequence, the only one that is not computed,
 * and of up to n drafts behind it, as many as the sequence has room for.
 * logits [1 + n, V], or NULL, gets those after each token.  Returns the row's
 * number; runner_accept() must follow the step. */
uint32_t runner_verify(struct runner *r, struct run_seq *s,
                       const uint32_t *drafts, uint32_t n, float *logits);

/* Takes the result of such a row, or of any row that sampled: appends the
 * tokens that it got, and remembers what it proposes.  Returns the number of
 * tokens. */
uint32_t runner_accept(const struct runner *r, struct run_seq *s, uint32_t row);

/* Appends the first n_accepted drafts of the last runner_verify() and a token.
 */
void run_seq_accept(struct run_seq *s, uint32_t n_accepted, uint32_t token);

/* Adds a replay to the plan being made, for a row of the last plan that kept
 * its inputs. */
void runner_replay(struct runner *r, uint32_t row, uint32_t n_accepted);

/* Fills in what a row that samples needs for drafts and penalties. */
void runner_add_drafts(struct runner *r, struct run_seq *s, uint32_t n_drafts,
                       struct plan_row *row);

/* Returns how many drafts the next row of a sequence can propose if it has
 * `end` positions. */
uint32_t runner_proposes(const struct runner *r, const struct run_seq *s,
                         uint32_t end);

#endif
