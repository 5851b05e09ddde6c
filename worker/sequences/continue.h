/* continue.h - Kept sequences: others that go on from them, and the removal of
 * a range.
 *
 * A Submit with continue_from names a sequence that is KEPT.  From then on the
 * kept one waits for its heir, and its lease does not end:
 *
 *     Submit   the kept one is there, and of the same tenant
 *     all ids  the first ones are those of the kept one, of the same kinds
 *     plan     blocks and slot change hands, the kept one is released; the
 *              rest of the ids is computed
 *
 * The last block is copied if it is partly filled and others have it too.  If
 * the state of the kept one was lost to a failed step, or covers all ids, the
 * heir is computed as any other sequence; its bits are the same.
 *
 * Removing [p, end) frees blocks.  With linear layers the state goes back to a
 * checkpoint of the index at p or before; if there is none, to position 0.
 *
 * Threading, memory: the core's.  Limits: a plan loads LOADS_MAX states;
 * further ranges that are removed before it go to position 0. */
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

/* Takes over what the kept sequence has, for the first row of s, which follows
 * in the same plan; b->spent has the kept one then.  *copied: a block of it
 * that the row copies to its last one; PLACE_NONE: none. */
void continue_take(struct batcher *b, struct sequence *s, uint32_t *copied);

/* Removes the bond of s, which ends.  If s waited for a kept sequence, that one
 * ends too; its lease starts anew if the Submit of s was not accepted.  If s is
 * a kept one, its heir goes on without it. */
void continue_leave(struct sequences *q, struct sequence *s);

/* Removes [m->begin, m->end) from a kept sequence.  freed, position: for the
 * receipt.  What a plan in flight names is free when it has come back. */
MUST_CHECK enum status continue_cut(struct sequences *q, struct sequence *s,
                                    const Sluice__V1__RemoveRequest *m,
                                    struct pool_need *freed, uint32_t *position,
                                    struct error *e);

/* Ends the first kept sequence of which a range was removed: it holds few
 * blocks, but all of its ids, for which a Submit has no room.  Not that which m
 * continues.  Returns false if there is none. */
bool continue_make_room(struct sequences *q,
                        const Sluice__V1__SubmitRequest *m);

/* Gives back the memory of a kept sequence behind its position, unless a plan
 * in flight names it. */
void continue_trim(struct sequences *q, struct sequence *s);

#endif
