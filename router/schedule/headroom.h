/* headroom.h - options.headroom: keep as much free that what any one worker
 * has finds room at the others, should that one be lost.  A replica of several
 * stages is lost with any of its workers: it counts as one here, and its room
 * is that of its tightest stage.
 *
 *     for every worker v of the model, after the grant, in each class:
 *         load(v) <= sum of the rooms of the other open workers
 *
 * load(v): the needs of v's open sequences that another worker could hold,
 * were it empty.  One that no other could ever hold cannot be absorbed: it is
 * admitted as without this rule, and not counted.  Blocks are compared in
 * tokens; where others have larger blocks, each sequence counts what it may
 * waste in its last one.
 *
 * What was granted before (it moves from a worker that is lost or drained, or
 * its client resumes it) is not held back: the room was kept for it.  Nor is
 * anything while no worker of the model has a sequence: an empty cluster takes
 * all that it can ever hold, and whatever waits gets its turn, since the queue
 * is served in order and what runs ends.  With one open worker the rule would
 * forbid all: it has no effect then, and the log says so each time it comes to
 * that.
 *
 * It is a rule about sums.  With two workers nothing waits after a loss, but
 * for what ledgers take and trials (trial.h) do.  With more, room is found for
 * all but what falls between the workers: each survivor may be left with a
 * remainder that is smaller than the next sequence, which then waits for an
 * end.
 *
 * Threading: the core's.  Cost: O(workers) a candidate of a grant. */
#ifndef ROUTER_SCHEDULE_HEADROOM_H
#define ROUTER_SCHEDULE_HEADROOM_H

#include "router/schedule/schedule.h"

struct schedule;

/* May e be granted its need at w, with what must stay free? */
bool headroom_allows(struct schedule *s, const struct queue_entry *e,
                     const struct worker *w, const struct need *need);

/* e was granted its need at w: count it there if another worker could hold it
 * one day.  And: it counts no longer; idempotent. */
void headroom_charge(struct schedule *s, struct queue_entry *e,
                     struct worker *w, const struct need *need);
void headroom_release(struct queue_entry *e);

#endif
