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

/* Sends what is due at now_us.  Returns when to call again. */
int64_t report_send(struct sequences *q, int64_t now_us);

#endif
