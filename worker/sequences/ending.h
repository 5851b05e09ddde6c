/* ending.h - How a sequence ends, for whatever reason, and who is notified.
 *
 *     ending_finish()            any reason: stop, length, cancel, failure
 *         |
 *         +--keep_ms--> KEPT --ending_release(): lease over, removed--+
 *         |                                                           |
 *         +-----------------------------------------------------------+
 *                                                                     v
 *     RELEASING --its last plan returns and, at a leader, its Remove-->
 *                              memory free, FINISHED, receipts
 *
 * A FINISHED sequence is forgotten when the router has acknowledged its end.
 *
 * Unless stated otherwise, s may be gone after each of these functions; the
 * caller does not touch it again.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_ENDING_H
#define WORKER_SEQUENCES_ENDING_H

#include "proto/stage.pb-c.h"
#include "worker/sequences/sequences.h"

/* Ends s. */
void ending_finish(struct sequences *q, struct sequence *s,
                   enum sequence_finish finish);

/* Ends s with FINISH_FAILED.  The router gets the text with s's name before it.
 */
__attribute__((format(printf, 3, 4))) void
ending_fail(struct sequences *q, struct sequence *s, const char *fmt, ...);

/* Ends s, whose name or grant the router no longer uses: no row is sent. */
void ending_cancel(struct sequences *q, struct sequence *s);

/* Counts a plan that named s as returned.  If a release waited for it, the
 * memory is freed. */
void ending_plan_back(struct sequences *q, struct sequence *s);

/* Frees the memory of a sequence that has ended. */
void ending_release(struct sequences *q, struct sequence *s);

/* Forgets s, which has ended, as soon as it holds nothing: the router needs
 * nothing more of it. */
void ending_forget(struct sequences *q, struct sequence *s);

/* Finishes s: its Remove has returned with what the other stages freed. */
void ending_removed(struct sequences *q, struct sequence *s,
                    const Sluice__V1__StageRemove *m);

/* Serves Cancel or RemoveSequence of a whole sequence.  grant: that of the
 * Submit that is meant, or GRANT_ANY. */
void ending_remove(struct sequences *q, struct peer *p, uint64_t call,
                   const struct sequence_key *key, uint64_t grant);

/* Drops s with its session or its assembly.  It leaves every table at once, so
 * that the next session starts clean.  Memory that a plan in flight names is
 * freed when the plan returns. */
void ending_drop(struct sequences *q, struct sequence *s);

/* Drops all sequences; tombstones stay. */
void ending_drop_all(struct sequences *q);

/* Releases KEPT sequences whose lease is over, and ends orphans and calls whose
 * time is over. */
void ending_expire(struct sequences *q, int64_t now_us);

#endif
