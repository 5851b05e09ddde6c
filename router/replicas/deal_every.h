/* deal_every.h - Exhaustive search for a replica of left-over shards and free
 * workers.
 *
 * It finds replicas that the rules of deal.h miss, for example where shards
 * overlap, or where one worker must leave layers to another.  The search walks
 * states (set of workers used, border between layers):
 *
 *     (workers, border) --shard-----> (workers, end of the shard)
 *                       --worker w--> (workers + w, any border up to which w
 *                                      can hold the layers)
 *
 * From the ways that lead from the first layer to the last with one shard or
 * more, it takes one with the fewest workers.  Speed is not compared, because
 * without this search there would be no replica at all.
 *
 * Threading: a pure function.  Memory: 0.3 MB on the heap during the call.
 * Time: eight different workers, 127 shards and 128 layers took 15 ms of CPU
 * time.  Limits: it uses only the first DEAL_EVERY_WORKERS workers, and finds
 * nothing for models of more than DEAL_EVERY_LAYERS layers, or if the result
 * has more than STAGES_MAX stages. */
#ifndef ROUTER_REPLICAS_DEAL_EVERY_H
#define ROUTER_REPLICAS_DEAL_EVERY_H

#include "router/replicas/deal.h"

#define DEAL_EVERY_WORKERS 8
#define DEAL_EVERY_LAYERS  128

/* Finds a deal that completes a replica with one or more of pieces[0, n), the
 * shards of the task that are in no whole set.  Returns false, and *out is
 * empty, if there is none. */
bool deal_every(struct deal *out, const struct deal_task *t,
                const struct cover_piece *pieces, uint32_t n);

#endif
