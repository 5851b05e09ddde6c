/* continue.h - Kept sequences that others go on from.
 *
 * A Submit with continue_from names a sequence that is KEPT.  From then on the
 * kept one waits for its heir, and its lease does not end:
 *
 *     Submit   the kept one is there, and of the same tenant
 *     all ids  the first ones are those of the kept one, of the same kinds
 *     plan     blocks and slot change hands (worker/plan/take_over.h), the
 *              kept one is released; the rest of the ids is computed
 *
 * The last block is copied if it is partly filled and others have it too.  If
 * the state of the kept one was lost to a failed step, or covers all ids, the
 * heir is computed as any other sequence; its bits are the same.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_CONTINUE_H
#define WORKER_SEQUENCES_CONTINUE_H

#include "proto/worker.pb-c.h"
#include "worker/sequences/sequences.h"

/* Checks whether a Submit's continue_from can be taken over.  Returns
 * ST_NOT_FOUND if it is not kept here, ST_FAILED_PRECONDITION if it still runs,
 * ST_INVALID_ARGUMENT if its ids cannot be the first ones of m. */
MUST_CHECK enum status continue_check(const struct sequences *q,
                                      const Sluice__V1__SubmitRequest *m,
                                      struct error *e);

/* Binds s, which m became, to the checked sequence. */
void continue_open(struct sequences *q, struct sequence *s,
                   const Sluice__V1__SubmitRequest *m);

/* Compares ids and kinds, when all ids of s have come.  Returns
 * ST_INVALID_ARGUMENT if they differ, ST_NOT_FOUND if the kept one is gone. */
MUST_CHECK enum status continue_complete(struct sequences *q,
                                         struct sequence *s, struct error *e);

/* Removes the bond of s, which ends.  If s is a kept sequence, its heir goes on
 * without it.  If s waited for a kept one, returns that one for the caller to
 * release, or NULL if its lease starts anew: the Submit of s was not accepted.
 */
MUST_CHECK struct sequence *continue_leave(struct sequences *q,
                                           struct sequence *s);

#endif
