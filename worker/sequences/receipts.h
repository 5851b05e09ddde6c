/* receipts.h - Receipts: the answers to Cancel and RemoveSequence.
 *
 * A receipt goes out when the memory is free, at the other stages too.  The
 * call that caused the release reports what was freed: the blocks that its
 * table named or was granted, although others or the index may still have some.
 * Calls that join it report zeros.
 *
 * Threading: the core's.  Memory: struct receipt_waiters.  Limits: WAITERS_MAX
 * calls wait at once. */
#ifndef WORKER_SEQUENCES_RECEIPTS_H
#define WORKER_SEQUENCES_RECEIPTS_H

#include "proto/stage.pb-c.h"
#include "worker/sequences/sequences.h"

/* Answers a call at once: nothing is freed by it.  s: the finished sequence of
 * that name, or NULL if there is none. */
void receipts_answer(struct peer *p, uint64_t call,
                     const struct sequence_key *key, const struct sequence *s);

/* Answers the removal of a range of s: what was freed, and the position that
 * its state is at. */
void receipts_cut(struct sequences *q, struct peer *p, uint64_t call,
                  const struct sequence *s, const struct pool_need *freed,
                  uint32_t position);

/* Makes a call wait for the end of s.  Returns false if too many wait. */
MUST_CHECK bool receipts_wait(struct sequences *q, struct sequence *s,
                              uint64_t call);

/* Answers all calls that wait for s, in their order.  others: what the other
 * stages have freed; NULL if there are none. */
void receipts_send(struct sequences *q, struct sequence *s,
                   const Sluice__V1__StageRemove *others);

/* Fails all calls that wait for s: s is dropped with its assembly. */
void receipts_refuse(struct sequences *q, struct sequence *s);

/* Fails one call of a dropped sequence with UNAVAILABLE, if the session is up;
 * call 0 is none.  The router then submits the sequence elsewhere. */
void receipts_refuse_call(struct sequences *q, uint64_t call);

#endif
