/* headroom.h - Headroom (options.headroom): free room to absorb one lost place.
 *
 * With the option, the router grants a sequence only if, afterwards, the other
 * places could still take over the sequences of any one place.  A replica of
 * several stages is lost with any of its workers.  It therefore counts as one
 * place here, and its room is that of its tightest stage.
 *
 *     for every place v of the model, after the grant, in blocks, in window
 *     blocks, in slots, and in memory:
 *         load(v) <= sum of the rooms of the other open places
 *
 * load(v) is the sum of the needs of v's open sequences that another place
 * could hold if its pool were empty.  A sequence that no other place could hold
 * cannot be absorbed: it is admitted without this rule and not counted. Blocks,
 * window blocks and memory are compared in tokens; memory counts a slot, and a
 * window block, as the tokens of the blocks that its pages would give.  Where
 * other places have larger blocks, each sequence counts the tokens that it may
 * waste in its last block, and in the first and the last block of its window.
 * Where they have longer chunks, it counts those beyond its own.
 *
 * The rule does not apply to:
 *
 *   - a sequence that was granted before.  It moves from a lost or drained
 *     worker, or its client resumes it, and the room was kept for it;
 *   - a model of which no worker has a sequence.  An empty cluster grants all
 *     that it can ever hold.  Every waiting sequence gets its turn, since the
 *     queue is served in order and running sequences end;
 *   - a model with one open place.  The rule would forbid every grant there,
 *     so it is off, and the router logs "headroom-off" each time the model
 *     gets into this state.
 *
 * The load is what the sequences are expected to need (claims.h), and room is
 * what the sequences of a place leave when they have grown to that
 * (forecast_growth()).  Sequences that become longer may be suspended, or wait.
 * With strict admission both are exact.
 *
 * The rule compares sums.  With two workers, no sequence waits after a loss,
 * except for ledgers and trials (trial.h).  With more, fragmentation remains:
 * each survivor may be left with a remainder smaller than the next sequence,
 * which then waits until a sequence ends.
 *
 * Threading: the core's thread only.  Cost: O(workers) for each candidate of a
 * grant. */
#ifndef ROUTER_SCHEDULE_HEADROOM_H
#define ROUTER_SCHEDULE_HEADROOM_H

#include "router/schedule/schedule.h"

/* Returns true if e may be granted need at w while enough room stays free. */
bool headroom_allows(struct schedule *s, const struct queue_entry *e,
                     const struct worker *w, const struct need *need);

/* Charges need to w if another place could ever hold e; call it when e is
 * granted at w. headroom_release() takes the charge back, and is idempotent. */
void headroom_charge(struct schedule *s, struct queue_entry *e,
                     struct worker *w, const struct need *need);
void headroom_release(struct queue_entry *e);

#endif
