/* bypass.h - Entries that go ahead of the first one that waits.
 *
 * The first entry of a queue without room anywhere reserves the place that is
 * expected to have room first.  By the forecast of a place (forecast.h) and the
 * time of its steps,
 *
 *     at     the first horizon from which on the place holds the entry: what
 *            its sequences will hold, the entry from then on, and one standard
 *            deviation stay within its pages
 *     until  now + 1.1 * at * time of a step
 *
 * A later entry goes ahead
 *
 *   - to any other place that has room for it;
 *   - to the reserved place, before `until`, if the first entry still fits
 *     there from the same horizon on;
 *   - to the reserved place at any time, if it can have all of its max_tokens
 *     and costs the first one no time: as soon as any elder ends, a sequence
 *     that was granted before the place was reserved, the first one has room
 *     for all of its own: in each class of units,
 *
 *         growth + most(later) + most(first) <= room + most(elder)
 *
 *     where growth is that of all sequences of the place to their max_tokens.
 *     (EASY backfilling, Lifka 1995: the nodes that are left over at the time
 *     of the reservation are free for jobs of any length.)
 *
 * No entry starves, suspects that wait for a trial aside (trial.h).  Proof: let
 * e be the first of its queue, and w its place.  Past `until`, w is granted
 * other entries only while elders run.  Elders are finite and end, each within
 * its max_tokens.  Then w gets no other entry, what runs there ends, and w
 * holds e, since an entry that can never fit is refused at its arrival.  If w
 * is lost or drained, e reserves another place and gets no new `until`; places
 * are finite, and so are the entries that arrived before e, which is thus the
 * first one in time.
 *
 * Threading: the core's thread only.  Memory: in the entry and the schedule.
 * Cost: O(places) once for each first entry, then O(elders) in each run; an
 * entry is skipped if it needs as much as one that had no room in the same
 * run. */
#ifndef ROUTER_SCHEDULE_BYPASS_H
#define ROUTER_SCHEDULE_BYPASS_H

#include "router/schedule/schedule.h"

#define BYPASS_SKIP_MAX 256 /* entries skipped in a run; it then ends */

/* Begins a run of a queue. */
void bypass_begin(struct schedule *s);

/* Takes in that e has no room.  Returns true if later ones may go ahead. */
bool bypass_waits(struct schedule *s, struct queue_entry *e);

/* Returns true if e needs as much as one that had no room in this run. */
bool bypass_skips(const struct schedule *s, const struct queue_entry *e);

/* Returns true if e may be granted c at w ahead of the first that waits. */
bool bypass_allows(const struct schedule *s, const struct queue_entry *e,
                   const struct worker *w, const struct claim *c);

/* Counts e, which was granted w and charged to it, if it went ahead of the
 * first of its queue to the place of that one, past its time, and may cost it
 * time. For auditors. */
void bypass_granted(const struct schedule *s, const struct queue_entry *e,
                    struct worker *w);

#endif
