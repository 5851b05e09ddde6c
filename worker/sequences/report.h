/* report.h - Report and StepOutput: the ledger, and the tokens that the router
 * has not acknowledged.
 *
 * The worker sends one StepOutput per step.  While no step runs, it repeats
 * unacknowledged rows every REPORT_US; a change, such as a cancel or an ending,
 * goes out within REPORT_CHANGE_US.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_REPORT_H
#define WORKER_SEQUENCES_REPORT_H

#include "worker/sequences/sequences.h"

/* Queues a row of s for the next StepOutput, if s has a grant to send it
 * under. */
void report_add(struct sequences *q, struct sequence *s);

/* Notes that the router needs nothing more of s. */
void report_forget(struct sequence *s);

/* Begins a new grant of s: its rows are sent anew. */
void report_restart(struct sequence *s);

/* Returns whether the router has the ending of s, which has ended: it expects
 * `index` next.  The index proves it only if it could not have been sent before
 * the ending. */
bool report_end_is_known(const struct sequence *s, uint32_t index);

/* Sends what is due at now_us.  Returns when to call again. */
int64_t report_send(struct sequences *q, int64_t now_us);

#endif
