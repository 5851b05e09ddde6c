/* deal.h - Deals layers of a model to free workers, so that they complete a
 * replica together with the shards that are loaded or expected.
 *
 * The steps, in this order:
 *
 *     1. Leave out shards that form whole sets (router/replicas/cover.h).
 *     2. Among the remaining shards, find the chain with the fewest layers in
 *        gaps and the chain with the fewest gaps.  Give each gap to as few
 *        workers as can hold it, the gap that needs the most bytes first.  Use
 *        the chain whose gaps can all be filled; of two, the one that takes
 *        fewer workers.
 *     3. Else try every way to fill gaps (router/replicas/deal_every.h).
 *     4. Else, if there are n_stages workers, divide all layers among that many
 *        of them.
 *
 * common/split/layer_split.h divides a gap or a model among workers, for the
 * largest number of sequences with the whole context.
 *
 * Threading: a pure function.  Memory: 2.2 MB on the heap during the call.
 * Limits: STAGES_MAX workers, COVER_PIECES_MAX shards.  Time: one search
 * of layer_split.h per number of workers whose budgets could suffice.  Eight
 * different workers and 128 layers took 61 ms of CPU time.  With more than
 * OFFER_ORDER_LAYERS layers, workers keep the order given, to bound the
 * time. */
#ifndef ROUTER_REPLICAS_DEAL_H
#define ROUTER_REPLICAS_DEAL_H

#include "common/split/layer_split.h"
#include "router/replicas/cover.h"

/* A model, its shards, and the free workers. */
struct deal_task {
    const struct split_layer *layers; /* [n_layers], borrowed */
    uint64_t embed_bytes, head_bytes; /* at the first and the last layer */
    uint32_t n_layers;
    uint32_t n_stages; /* stages wanted if all layers are divided */
    uint32_t block_tokens, context, max_rows;
    uint32_t window_tokens, chunk_tokens; /* 0 without window layers */
    bool no_gaps; /* deal nothing while shards are left over */
    struct cover_piece pieces[COVER_PIECES_MAX]; /* [n_pieces] shards */
    uint32_t n_pieces;
    struct split_worker workers[STAGES_MAX]; /* [n_workers] */
    uint32_t n_workers;
};

/* Layers for n workers; only all of them together complete the replica. */
struct deal {
    uint32_t n;
    uint32_t workers[STAGES_MAX];         /* [n] indices into task.workers */
    struct cover_piece given[STAGES_MAX]; /* [n] layers for each */
};

/* Deals the layers of one replica.  To deal another, add the layers given to
 * the pieces and call again.  Returns NOT_FOUND if there is nothing to do with
 * these workers, and RESOURCE_EXHAUSTED if they cannot hold the layers, with
 * the shortfall in *e.  *out is empty after an error. */
MUST_CHECK enum status deal_find(struct deal *out, const struct deal_task *t,
                                 struct error *e);

#endif
