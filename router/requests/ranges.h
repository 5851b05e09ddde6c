/* ranges.h - RemoveSequence with a range, of a kept sequence.
 *
 * The positions from `begin` to the end are removed.  The worker takes its
 * state back to a saved one, at most at `begin`, and the receipt has the
 * position reached.  The sequence stays kept, with its first `begin` ids: a
 * request that continues it (continuation.h) computes those after the position
 * anew.
 *
 * One range of a sequence is removed at a time.  If the sequence ends
 * meanwhile, with its worker or its lease, the call fails with UNAVAILABLE.
 *
 * Threading: the core's thread only.  Memory: one heap block per call. */
#ifndef ROUTER_REQUESTS_RANGES_H
#define ROUTER_REQUESTS_RANGES_H

#include "router/requests/request.h"

/* Bit of the tags of calls that remove ranges; grants are below. */
#define RANGE_TAG (UINT64_C(1) << 63)

/* Handles a call of RemoveSequence with a range, by p.  The request_id has been
 * checked. */
void range_called(struct requests *r, struct router_peer *p, uint64_t call,
                  const Sluice__V1__RemoveRequest *m);

/* Handles the worker's answer for choice: its receipt, which range_check() has
 * accepted, or NULL and the error e. */
void range_answered(struct requests *r, struct choice *choice,
                    const Sluice__V1__Receipt *receipt, const struct error *e);

/* Fails the call of choice, whose memory at its worker has ended.  A no-op
 * without one. */
void range_over(struct requests *r, struct choice *choice);

/* Checks a receipt for the range of choice.  Returns ST_DATA_LOSS with a
 * sentence in e if it cannot be true. */
MUST_CHECK enum status range_check(const struct choice *choice,
                                   const Sluice__V1__Receipt *m, int64_t now_us,
                                   struct error *e);

#endif
