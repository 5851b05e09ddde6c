/* results.h - Checks and counts the results of the engine's plans.
 *
 * A result that breaks the engine's contract counts as failed, whatever status
 * it has.  All functions work on q->result.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_RESULTS_H
#define WORKER_SEQUENCES_RESULTS_H

#include "worker/sequences/sequences.h"

/* Checks the whole result of batch t and counts it. */
void results_note(struct sequences *q, const struct batch *t);

/* Counts the result, which was checked, without the engine's own count. */
void results_count(struct sequences *q, const struct batch *t);

/* Learns the cost of the step, if it succeeded. */
void results_learn(struct sequences *q, const struct batch *t);

/* Check the shape of the answer, and the tokens and logprobs of rows that
 * sample. They set the result's status and error. */
void results_check_answer(struct sequences *q, const struct plan *p);
void results_check_choices(struct sequences *q, const struct plan *p);

/* Returns whether the token ends a sequence with that sampling. */
bool results_ends(const struct sequences *q, const struct sampling *s,
                  uint32_t id);

/* Makes q->result that of a plan which the engine refused. */
void results_refuse(struct sequences *q, const struct plan *p);

#endif
