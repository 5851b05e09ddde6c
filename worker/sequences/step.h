/* step.h - Plans to the engine, results back into the sequences.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_STEP_H
#define WORKER_SEQUENCES_STEP_H

#include "worker/sequences/sequences.h"

/* Processes every result that is ready: the whole step of a worker that is
 * alone. */
void step_take_results(struct sequences *q);

/* Submits as many plans of the batcher as the engine takes. */
void step_submit_plans(struct sequences *q);

/* Polls the engine for the result of plan p into q->result.  Returns false if
 * it is not ready.  If the device is lost, the worker has stopped on return. */
MUST_CHECK bool step_poll(struct sequences *q, const struct plan *p);

/* Gives the rows of batch t what q->result, checked and counted, has for
 * them. */
void step_apply(struct sequences *q, const struct batch *t);

/* Returns how many plans the engine has. */
uint32_t step_n_planned(const struct sequences *q);
/* Returns the oldest of them, NULL if there is none. */
const struct batch *step_oldest(const struct sequences *q);
/* Returns how long the engine has had it, 0 if there is none. */
uint64_t step_age_us(const struct sequences *q, int64_t now_us);

/* Returns the work done so far: the engine's ticks, and one for each result,
 * because a plan that fails at once has no tick. */
uint64_t step_ticks(const struct sequences *q);

/* Returns FINISH_NONE if s needs another token, else the reason to end. */
enum sequence_finish step_finish(const struct sequences *q,
                                 const struct sequence *s);

#endif
