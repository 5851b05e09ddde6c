/* orphans.h - what lives on at a worker whose session has ended, though
 * neither end has died.
 *
 *     runs, or has ended by itself and not been told to its end
 *        |  the session ends
 *        v
 *     ORPHAN: no grant, no rows; keeps its memory, goes on generating
 *        |-- Submit{adopt} of a later session: a grant, rows from have_index
 *        |-- Disown, Cancel, a plain Submit of its name: ends
 *        +-- its time is over: ends
 *
 * Dropped with the session all the same: what had not all its ids, what was
 * cancelled, what the router had acknowledged to the end, the lease of what
 * was kept.  An orphan is not kept at its end either: a lease is of a client.
 *
 * Its time: ORPHAN_US from the end of its session, and once more from when
 * the next one came up and it was told there (Live).  So it ends at most
 * 2 ORPHAN_US after its session, however often sessions come and go.
 *
 * An orphan stands in the columns of the pool where it stood: what is written
 * is held, what was promised is granted.  Neither is free, so an adoption
 * takes nothing.
 *
 * Adopted is what is the same: lengths, sampling, and by hash all the ids up
 * to have_index, those generated included.  So a router that takes one for
 * another, or a client that asks for something else by an old request_id,
 * gets no foreign token; it gets NOT_FOUND.
 *
 * Threading: the core's.  Memory: the sequences' own.  Limits: ORPHAN_US,
 * LIVE_ROWS_MAX rows a Live. */
#ifndef WORKER_SEQUENCES_ORPHANS_H
#define WORKER_SEQUENCES_ORPHANS_H

#include "worker/worker_state.h"

/* The session is over: sequences become orphans, or are dropped. */
void orphans_begin(struct worker_core *w);

/* A session is up: tell of all of them, before anything else. */
void orphans_tell(struct worker_core *w, struct peer *p);

uint32_t orphans_count(const struct worker_core *w);

/* Nobody wants it.  Afterwards s may be gone; what a plan names is freed when
 * the plan returns. */
void orphan_end(struct worker_core *w, struct sequence *s);

/* Its time is over.  Afterwards s may be gone. */
void orphan_expire(struct worker_core *w, struct sequence *s);

/* It ends without having come to its end: nobody is to be told, nobody finds
 * it.  For whoever ends it. */
void orphan_disclaim(struct worker_core *w, struct sequence *s);

/* Forget one that has finished, the oldest, to make room in the table.  False:
 * there is none. */
bool orphans_make_room(struct worker_core *w);

/* Submit{adopt}: everything after the grant; an error is the answer, and
 * nothing has changed. */
MUST_CHECK enum status orphan_adopt(struct worker_core *w,
                                    const struct sequence_key *key,
                                    const Sluice__V1__SubmitRequest *m,
                                    struct error *e);

/* Its ids up to what the router has are about to go: keep their hash. */
void orphan_remember(struct worker_core *w, struct sequence *s);

#endif
