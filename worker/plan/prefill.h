/* prefill.h - The prompt rows of a plan, and those of a sequence that is
 * computed again.
 *
 *     prompt_share.h    which prompts, and in which order
 *     step_room.h       how many tokens they have together
 *     chunks            cut at absolute multiples of `cut` (batcher.h)
 *
 * A row begins where the index or a kept sequence lets it, which shows when the
 * first row of a sequence is added.  From then on the plan must have that row:
 * its copies go with it.
 *
 * Threading, memory: the batcher's. */
#ifndef WORKER_PLAN_PREFILL_H
#define WORKER_PLAN_PREFILL_H

#include "worker/plan/batcher.h"

/* Adds rows of the prompts that wait, as far as there is room. */
void prefill_plan(struct batcher *b, struct batch *t);

/* Adds a row of a sequence whose step failed, if the plan has no other row. */
void prefill_again(struct batcher *b, struct batch *t);

#endif
