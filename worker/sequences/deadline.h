/* deadline.h - Sequences whose call has a deadline.
 *
 * Submit carries the time that is left of the call (deadline_ms), not a time of
 * day: the clocks of two hosts need not agree.  At the deadline the router
 * cancels the sequence.  A worker that gets no Cancel by then, because the
 * router or the link is slow, ends the sequence by itself: nobody reads its
 * tokens, and others wait for its memory.
 *
 *     now of the Submit + deadline_ms --> FINISH_CANCELLED, its memory is free
 *
 * A Submit that adopts the sequence sets its deadline anew.  An orphan has
 * ORPHAN_US instead (orphans.h), and a kept sequence its lease: its call has
 * ended.
 *
 * ending_expire() ends it.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_DEADLINE_H
#define WORKER_SEQUENCES_DEADLINE_H

#include "worker/sequences/sequences.h"

/* Sets the deadline of s from its Submit. */
void deadline_open(const struct sequences *q, struct sequence *s,
                   const Sluice__V1__SubmitRequest *m);

/* Starts the time of s, if it runs and has a deadline. */
void deadline_arm(struct sequences *q, struct sequence *s);

/* Returns for how long the one that is most overdue has run past its deadline;
 * 0: none has.  For auditors. */
int64_t deadline_late_us(const struct sequences *q);

#endif
