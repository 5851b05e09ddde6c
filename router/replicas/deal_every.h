/* deal_every.h - every way to make a replica of shards that are left over and
 * workers that are free: for what the rules of deal.h pass by, where shards
 * overlap, or one worker must leave room for another.
 *
 *     (workers taken, border) --a shard--> (the same, its end)
 *                             --worker w--> (with w, any border it can reach)
 *
 * Of all sets of workers that lead, with a shard or more, from the first layer
 * to the last, one of the smallest is taken.  Whoever is first is as good as
 * the fastest: this is for replicas that there would not be otherwise.
 *
 * Threading: none, a pure function.  Memory: 0.3 MB on the heap while it
 * looks.  Time: eight workers that all differ, 127 shards and 128 layers took
 * 15 ms of processor time.  Limits: the first DEAL_EVERY_WORKERS workers,
 * models of DEAL_EVERY_LAYERS; beyond that it finds nothing, nor where what it
 * finds has more than STAGES_MAX stages. */
#ifndef ROUTER_REPLICAS_DEAL_EVERY_H
#define ROUTER_REPLICAS_DEAL_EVERY_H

#include "router/replicas/deal.h"

#define DEAL_EVERY_WORKERS 8
#define DEAL_EVERY_LAYERS  128

/* pieces: [n], of the task's, in no whole set.  False: there is none, and out
 * is empty. */
bool deal_every(struct deal *out, const struct deal_task *t,
                const struct cover_piece *pieces, uint32_t n);

#endif
