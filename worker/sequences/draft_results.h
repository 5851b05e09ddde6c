/* draft_results.h - Results of rows with drafts, and the drafts in results.
 *
 * A row got its first n_accepted drafts as tokens, and then the token that the
 * result has.  An accepted draft never ends the sequence: the engine ends the
 * run with the token that does.
 *
 * All functions work on q->result.  Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_DRAFT_RESULTS_H
#define WORKER_SEQUENCES_DRAFT_RESULTS_H

#include "worker/sequences/sequences.h"

/* Returns how many drafts row i got as tokens; 0 if it is not done. */
uint32_t draft_results_accepted(const struct sequences *q,
                                const struct plan_row *row, uint32_t i);

/* Takes the drafts of row i that were refused off the positions of s. Returns
 * the end of those that the row computed. */
uint32_t draft_results_settle(struct sequences *q, const struct plan_row *row,
                              uint32_t i, struct sequence *s);

/* Checks the counts of row i of p, which is done and samples, and its proposed
 * drafts.  The accepted ones are checked by results.c. */
enum status draft_results_check(struct sequences *q, const struct plan *p,
                                uint32_t i);

/* Learns and counts what was accepted in row i of s, which is done, and takes
 * the drafts that the engine proposes. */
void draft_results_take(struct sequences *q, const struct plan_row *row,
                        uint32_t i, struct sequence *s);

/* Learns the times of a step that succeeded. */
void draft_results_learn(struct sequences *q, const struct batch *t);

#endif
