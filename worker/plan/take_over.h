/* take_over.h - The memory of a kept sequence, which becomes that of its heir
 * (worker/sequences/continue.h).
 *
 *     in the pool    full blocks are shared, the slot changes hands
 *     in the tier    its chain becomes the heir's, whose first row brings it
 * back (worker/sequences/kept.h); the index has the first blocks
 *
 * Threading: the core's.  Memory: no call allocates. */
#ifndef WORKER_PLAN_TAKE_OVER_H
#define WORKER_PLAN_TAKE_OVER_H

#include "worker/plan/batcher.h"
#include "worker/plan/first_row.h"

/* Returns whether a plan names the sequence that s takes over. */
bool take_over_waits(const struct sequence *s);

/* Returns the positions that s takes over, if they are usable then. */
uint32_t take_over_position(const struct sequence *s);

/* Takes over what the kept sequence has, for the first row of s, which follows
 * in the same plan; b->spent has the kept one then. */
void take_over_begin(struct batcher *b, struct sequence *s,
                     struct take_over_copies *copies);

#endif
