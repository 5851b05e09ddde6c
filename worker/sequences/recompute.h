/* recompute.h - The effect of a failed row or step on its sequences.
 *
 *     a row without finite logits   its sequence ends; the others go on.  What
 *                                   the index has of it is forgotten
 *     a step as a whole             nothing shows which row is the cause: each
 *                                   of its sequences is computed again
 *
 * A sequence that is computed again keeps its memory and its tokens, also those
 * that the router has.  It starts at the deepest checkpoint that the index has
 * of what it had computed (reuse.h), or at position 0 from a zeroed slot, in
 * plans that name no other sequence (batcher.h).  If such a plan fails, the
 * sequence is the cause, and ends; a refused plan behind that one is none.
 *
 *     NONE --its step failed--> WAITS --no plan names it--> ALONE
 *       ^                                                   |   |
 *       +--------------- its next token --------------------+   |
 *                                        ended <--its step failed
 *
 * In WAITS, rows of plans that were under way are ignored: they continue from
 * what the failed step left.  Any ending takes its usual path at any moment.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_RECOMPUTE_H
#define WORKER_SEQUENCES_RECOMPUTE_H

#include "worker/sequences/sequences.h"

/* Ends s, whose row r has no finite logits.  s may be gone afterwards. */
void recompute_damaged(struct sequences *q, struct sequence *s,
                       const struct plan_row *r);

/* Takes s out of the plans to come until it can be computed again, or ends it
 * if it was alone.  q->result has the failure.  s may be gone afterwards. */
void recompute_failed(struct sequences *q, struct sequence *s);

#endif
