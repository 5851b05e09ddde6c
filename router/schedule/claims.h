/* claims.h - The grant of a sequence at a place (options.admission).
 *
 *     most      need of prompt + max_tokens
 *     expected  need of prompt + expected length (lengths.h)
 *     need      the grant: ADMISSION_STRICT: most; ADMISSION_EXPECTED: the need
 *               of the prompt, of the tokens that the sequence has, and of
 *               one; of a request with a guarantee: most
 *     grows     need takes fewer pages than most
 *
 * A sequence that grows takes more pages at its worker as it needs them.  A
 * worker whose pool is full suspends one and continues it later, with the same
 * tokens; it is never lost.  The rules:
 *
 *   - Sequences grow only at a worker with all layers whose session has minor
 *     version GROWS_MINOR or later.  Other places are strict.
 *   - A place is granted a sequence if the forecast of what its sequences will
 *     need allows it (forecast.h).
 *   - A place whose newest ledger counts suspended sequences is granted no
 *     sequence: those come back first.  Adoption is no grant of room.
 *   - A sequence that moves, or that its client resumes, has generated n
 *     tokens, and its grant covers these.
 *   - Head-room (headroom.h) counts `expected`.  With it, a sequence that ran
 *     before needs room for its grant only: it goes on at once, and may be
 *     suspended if it becomes longer than expected.
 *
 * Only ledgers change room, as in strict admission: growth shows in the next
 * ledger.  A grant from an older one may meet pages that have been taken since;
 * its worker then suspends a growing sequence.
 *
 * Threading: the core's thread only.  Memory: no call allocates. */
#ifndef ROUTER_SCHEDULE_CLAIMS_H
#define ROUTER_SCHEDULE_CLAIMS_H

#include "router/schedule/schedule.h"

#define GROWS_MINOR 3 /* first minor version of workers that suspend */

/* Prepares the charges of w, which has just been added. */
void claims_open(struct worker *w);

/* Returns true if sequences grow at w. */
bool claims_grow(const struct schedule *s, const struct worker *w);

/* Returns what e would be granted at w now. */
struct claim claim_at(const struct schedule *s, const struct queue_entry *e,
                      const struct worker *w);

/* Returns the claim of e, which lives at w with its memory.  grows: its worker
 * reports that it may grow, so that only its prompt and tokens are sure. */
struct claim claim_of_live(const struct queue_entry *e, const struct worker *w,
                           bool grows);

/* Returns why w, which has room for c, may not be granted e with it for the
 * sake of the rules above; NULL: it may. */
const char *claim_refused(const struct schedule *s, const struct queue_entry *e,
                          const struct worker *w, const struct claim *c);

/* Charges e->claim to w, where e is granted.  claim_release() takes the charge
 * back, and is idempotent. */
void claim_charge(struct queue_entry *e, struct worker *w);
void claim_release(struct queue_entry *e);

/* Take in what e has become at its place: it has n_generated tokens now, or it
 * is suspended. */
void claim_made(const struct schedule *s, struct queue_entry *e,
                uint32_t n_generated);
void claim_suspended(struct queue_entry *e);

/* Takes back what e was charged, which was never granted. */
void claim_dropped(struct queue_entry *e);

/* Learns from e, which has n_generated tokens and has ended by itself, or was
 * cut off by max_tokens, a client or a failure. */
void claim_learn(const struct schedule *s, struct queue_entry *e,
                 uint32_t n_generated, bool by_itself);

#endif
