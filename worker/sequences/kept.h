/* kept.h - Kept sequences whose memory goes to the host tier.
 *
 * A kept sequence holds its slot and blocks until it is continued or its lease
 * ends.  While less than a quarter of the pool is free or cached, those that
 * came first go to the host tier (worker/cache/host.h):
 *
 *     KEPT --no row, heir or range waits; the tier has room--> KEPT, away
 *      |                                                          |
 *      +--continued: the heir takes over its pages                |
 *                                                                 |
 *         the chain becomes that of the heir, whose first <-------+
 *         row brings it back to pages of its own grant
 *
 * Its slot, its blocks from the first unit on that the index lacks, and its
 * window blocks are in a chain.  The index keeps the blocks before those; where
 * it has lost one, the heir is computed from its ids.
 *
 * The router grants the whole need of an heir (router/requests/continuation.h),
 * so nothing changes there: the pages of a sequence that is away are free.
 *
 * A range that is removed from a sequence that is away takes it back to
 * position 0: the states are in the index.  Without linear layers a range must
 * end at its exact position, so such sequences stay in the pool.
 *
 * A sequence that is away keeps its ids and its place in the table, which has
 * room for as many as the host tier holds (sequences.c).
 *
 * Threading, memory: the core's. */
#ifndef WORKER_SEQUENCES_KEPT_H
#define WORKER_SEQUENCES_KEPT_H

#include "worker/sequences/sequences.h"

/* The part of the pool that is to be free or cached. */
#define KEPT_ROOM 4

/* Begins the lease of s, which is KEPT now, with all of its ids. */
void kept_begin(struct sequence *s);

/* Moves kept sequences to the host tier.  Called before each plan. */
void kept_turn(struct sequences *q);

#endif
