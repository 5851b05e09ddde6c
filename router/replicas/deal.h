/* deal.h - which of the workers that are free gets which layers, given the
 * shards that are there or expected.
 *
 *     whole sets of shards are left alone (router/replicas/cover.h);
 *     through what is left over, chains with the fewest layers in gaps and
 *     with the fewest gaps are looked at; of the one that takes fewer
 *     workers, each gap goes to as few as can hold it, the one that takes
 *     most first, if all can be filled;
 *     else every way to fill them is tried (router/replicas/deal_every.h);
 *     else, if there are as many workers as stages are wanted, all layers are
 *     divided among so many of them.
 *
 * What is divided, a gap or all, is by common/split/layer_split.h, for the most
 * sequences of the whole context.
 *
 * Threading: none, a pure function.  Memory: 2.2 MB on the heap while it
 * looks.  Limits: STAGES_MAX workers, COVER_PIECES_MAX shards.  Time: a
 * search of split.h for each number of workers whose budgets could do.  Eight
 * workers that all differ and 128 layers took 61 ms of processor time; of
 * models of more than OFFER_ORDER_LAYERS workers stand in the order given. */
#ifndef ROUTER_REPLICAS_DEAL_H
#define ROUTER_REPLICAS_DEAL_H

#include "common/split/layer_split.h"
#include "router/replicas/cover.h"

struct deal_task {
    const struct split_layer *layers; /* [n_layers] */
    uint64_t embed_bytes, head_bytes;
    uint32_t n_layers, n_stages; /* n_stages: wanted */
    uint32_t block_tokens, context, max_rows;
    bool no_gaps; /* where shards are left over nothing is dealt */
    struct cover_piece pieces[COVER_PIECES_MAX]; /* [n_pieces] shards */
    uint32_t n_pieces;
    struct split_worker workers[STAGES_MAX]; /* [n_workers] */
    uint32_t n_workers;
};

/* Of these, all or none. */
struct deal {
    uint32_t n;
    uint32_t workers[STAGES_MAX]; /* [n] in the order given */
    struct cover_piece given[STAGES_MAX];
};

/* One replica's worth; once it is among the pieces there may be another.
 * ST_NOT_FOUND: nothing is to be done with those who are there;
 * ST_RESOURCE_EXHAUSTED: they cannot hold it, e says why.  Out is empty then.
 */
MUST_CHECK enum status deal_find(struct deal *out, const struct deal_task *t,
                                 struct error *e);

#endif
