/* orphans.h - Sequences that outlive their session, although neither the worker
 * nor the router has died.
 *
 *     running, or ended by itself and its ending not acknowledged
 *        |  the session ends
 *        v
 *     ORPHAN: no grant, no rows; keeps its memory and goes on generating
 *        |-- Submit{adopt} of a later session: a grant, rows from have_index
 *        |-- Disown, Cancel, or a plain Submit of its name: ends
 *        +-- its time is over: ends
 *
 * Not every sequence becomes an orphan.  The end of a session drops a sequence
 * that lacks ids, was cancelled, or was acknowledged to its end, and it ends
 * the lease of a kept one.  An orphan is not kept at its end either, because a
 * lease belongs to a client.
 *
 * Time: an orphan lives for ORPHAN_US after the end of its session, and once
 * more for ORPHAN_US after the next session has come up and a Live has named
 * it.  It therefore ends at most 2 ORPHAN_US after its session, however often
 * sessions come and go.
 *
 * The pool's columns do not change: what is written stays held, what was
 * promised stays granted.  Neither is free, so an adoption takes nothing.
 *
 * A Submit adopts an orphan only if it is the same sequence: equal lengths,
 * equal sampling, and an equal hash over all ids before have_index, generated
 * ones included.  A router that mistakes one sequence for another, or a client
 * that reuses a request_id for something else, gets NOT_FOUND and never a
 * foreign token.
 *
 * Threading: the core's.  Memory: the sequences' own.  Limits: ORPHAN_US,
 * LIVE_ROWS_MAX rows in a Live. */
#ifndef WORKER_SEQUENCES_ORPHANS_H
#define WORKER_SEQUENCES_ORPHANS_H

#include "worker/sequences/sequences.h"

/* Makes orphans of the session's sequences, or drops them: the session is
 * over. */
void orphans_begin(struct sequences *q);

/* Sends Live for all orphans, before anything else in a new session. */
void orphans_announce(struct sequences *q, struct peer *p);

/* Returns whether s has outlived its session, and no other has adopted it. */
static inline bool orphan_is(const struct sequence *s)
{
    return s->orphan.state != ORPHAN_NONE;
}

/* Returns whether s still has its ids from position `from` on. */
static inline bool orphan_has_ids(const struct sequence *s, uint32_t from)
{
    return from >= s->orphan.n_hashed;
}

uint32_t orphans_count(const struct sequences *q);

/* Ends an orphan that the router does not want.  s may be gone afterwards;
 * memory that a plan names is freed when the plan returns. */
void orphan_end(struct sequences *q, struct sequence *s);

/* Ends an orphan whose time is over.  s may be gone afterwards. */
void orphan_expire(struct sequences *q, struct sequence *s);

/* Turns an orphan into a sequence without a name that sends no rows.  The
 * caller ends it. */
void orphan_disclaim(struct sequences *q, struct sequence *s);

/* Makes s, an orphan or not, none: its assembly or the worker ends. */
void orphan_drop(struct sequence *s);

/* Forgets the oldest orphan that has finished, to make room in the table.
 * Returns false if there is none. */
bool orphans_make_room(struct sequences *q);

/* Serves Submit{adopt} after its grant was counted.  An error is the answer to
 * the call, and nothing has changed then. */
MUST_CHECK enum status orphan_adopt(struct sequences *q,
                                    const struct sequence_key *key,
                                    const Sluice__V1__SubmitRequest *m,
                                    struct error *e);

/* Stores the hash of the ids that the router has, which are about to be
 * dropped. */
void orphan_remember(struct sequences *q, struct sequence *s);

#endif
