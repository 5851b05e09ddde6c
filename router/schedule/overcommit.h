/* overcommit.h - Optimistic admission (options.overcommit, F).
 *
 * Strict admission (F = 1, the default) grants a sequence all that it can ever
 * need.  With F > 1 the grant covers the prompt and the length that is expected
 * of its output (lengths.h), and the sequence grows past it at its worker:
 *
 *     most    = need of prompt + max_tokens
 *     need    = need of prompt + expected length; the grant
 *     grows   = need takes fewer pages than most
 *
 * A worker whose pool is full suspends a growing sequence and continues it
 * later, with the same tokens.  It is never lost.  The rules:
 *
 *   - A place is overcommitted only if it is one worker with all layers whose
 *     session has minor version GROWS_MINOR or later.  Others stay strict.
 *   - At each such place, the sum of `most` over the sequences granted there
 * and not ended is at most F times the pages of its pool.
 *   - A place whose newest ledger counts suspended sequences is granted no
 *     sequence: those come back first.  Adoption is no grant of room.
 *   - The length is expected anew for each grant.  A sequence that moves, or
 * that its client resumes, has generated n tokens, and its grant covers more
 * than these.
 *   - Head-room (headroom.h) counts `need`: a place that is lost gives its
 *     sequences to others by these rules again.
 *
 * Only ledgers change room, as in strict admission: growth shows in the next
 * ledger.  A grant from an older one may meet pages that have been taken since;
 * its worker then suspends a growing sequence.
 *
 * Threading: the core's thread only.  Memory: one struct lengths per model with
 * an ended sequence.  Limits: OVERCOMMIT_MAX. */
#ifndef ROUTER_SCHEDULE_OVERCOMMIT_H
#define ROUTER_SCHEDULE_OVERCOMMIT_H

#include "router/schedule/schedule.h"

#define GROWS_MINOR 3 /* first minor version of workers that suspend */

/* Returns what e would be granted at w now. */
struct claim overcommit_claim(const struct schedule *s,
                              const struct queue_entry *e,
                              const struct worker *w);

/* Returns the claim of e, which lives at w with its memory.  grows: its worker
 * reports that it may grow, so that only its prompt and tokens are sure. */
struct claim overcommit_claim_of_live(const struct queue_entry *e,
                                      const struct worker *w, bool grows);

/* Returns why w may not be granted c for the sake of the rules above; NULL: it
 * may. */
const char *overcommit_refuses(const struct schedule *s, const struct worker *w,
                               const struct claim *c);

/* Returns the pages that the sequences of w may need at most by the rules; 0: w
 * is not overcommitted. */
uint64_t overcommit_bound(const struct schedule *s, const struct worker *w);

/* Charges e->claim to w, where e is granted.  overcommit_release() takes the
 * charge back, and is idempotent. */
void overcommit_charge(struct queue_entry *e, struct worker *w);
void overcommit_release(struct queue_entry *e);

/* Adds the length of e, which has n_generated tokens and has ended by itself,
 * or was cut off, to the distribution of its model. */
void overcommit_learn(const struct schedule *s, const struct queue_entry *e,
                      uint32_t n_generated, bool by_itself);

#endif
