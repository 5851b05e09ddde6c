/* ranges.h - The removal of a range from a kept sequence.
 *
 * Removing [p, end) frees blocks.  With linear layers the state goes back to a
 * checkpoint of the index at p or before; if there is none, to position 0.  The
 * ids below p stay.  While a row of the sequence still runs, the range waits:
 *
 *     RemoveSequence --no row runs--> cut, receipt
 *           |                          ^
 *           +--> waits --row is back---+
 *                  |
 *                  +--the sequence ends, or has an heir--> refused
 *
 * A sequence that was cut holds few blocks, maybe none, and a place of the
 * table.  It ends early where there would be too many, or where its ids are in
 * the way.
 *
 * Threading, memory: the core's.  Limits: a plan loads LOADS_MAX states;
 * further ranges that are removed before it go to position 0.  EMPTY_KEPT_MAX
 * sequences are kept at position 0; one range of a sequence waits. */
#ifndef WORKER_SEQUENCES_RANGES_H
#define WORKER_SEQUENCES_RANGES_H

#include "proto/worker.pb-c.h"
#include "worker/sequences/sequences.h"

/* Kept sequences at position 0, at most: another one ends the first of them. */
#define EMPTY_KEPT_MAX 8

/* Removes [m->begin, m->end) from a kept sequence, and answers the call: at
 * once, or when the last row of s has come back.  Returns another kept sequence
 * for the caller to release, because there are too many at position 0, or NULL.
 */
MUST_CHECK struct sequence *ranges_remove(struct sequences *q, struct peer *p,
                                          uint64_t call, struct sequence *s,
                                          const Sluice__V1__RemoveRequest *m);

/* A row of a kept sequence has come back: removes the range that waits.
 * Returns what ranges_remove() does. */
MUST_CHECK struct sequence *ranges_row_back(struct sequences *q,
                                            struct sequence *s);

/* Returns the first kept sequence of which a range was removed, which the
 * caller may end: it holds few blocks, but all of its ids, for which a Submit
 * has no room.  Not that which m continues; NULL: none. */
struct sequence *ranges_to_end(const struct sequences *q,
                               const Sluice__V1__SubmitRequest *m);

/* Refuses the removal of a range of s that waits, if there is one: s ends, or
 * another request continues it. */
void ranges_refuse(struct sequences *q, struct sequence *s);

#endif
