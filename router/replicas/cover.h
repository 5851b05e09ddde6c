/* cover.h - Finds pieces of a model that together cover all its layers.
 *
 * A piece is layers [begin, end) of a model.  Pieces that join end to end from
 * layer 0 to the last layer are a set:
 *
 *     0           4           8           12
 *     |---- A ----|---- B ----|---- C ----|
 *     |---------- D ----------|---- E ----|    sets {A, B, C} and {D, E}
 *
 * cover_find() makes as many sets as possible, with each piece in at most one.
 * This is a maximum flow from layer 0 to the last layer (Edmonds-Karp): the
 * boundaries between layers are the nodes, the pieces are edges of capacity 1,
 * and the sets are the paths of the flow.  Where a path may continue with
 * several pieces, the first one in the order given is taken.  A path of more
 * than COVER_STAGES_MAX pieces makes no set.
 *
 * Threading: pure functions.  Memory: the caller's; 13 KiB on the stack.
 * Limits: COVER_PIECES_MAX pieces, MODEL_LAYERS_MAX layers.  Time:
 * O(sets x pieces x boundaries). */
#ifndef ROUTER_REPLICAS_COVER_H
#define ROUTER_REPLICAS_COVER_H

#include <stdint.h>

#include "router/base/router_limits.h"

#define COVER_PIECES_MAX 128
#define COVER_SETS_MAX   (COVER_PIECES_MAX / 2)
#define COVER_STAGES_MAX STAGES_MAX

struct cover_piece {
    uint32_t begin, end; /* layers [begin, end); begin < end */
};

/* Pieces that cover all layers once, by their index in the list given. */
struct cover_set {
    uint32_t n;
    uint32_t pieces[COVER_STAGES_MAX]; /* [n] in order of layers */
};

struct cover {
    uint32_t n;
    struct cover_set sets[COVER_SETS_MAX];
};

/* A chain of pieces that do not overlap, and the gaps between them. */
struct cover_chain {
    uint32_t n_pieces;
    uint32_t n_gaps;                           /* may exceed COVER_STAGES_MAX */
    struct cover_piece gaps[COVER_STAGES_MAX]; /* the first gaps, in order of
                                                * layers */
};

/* Finds as many sets as possible among the pieces p[0, n) of a model with
 * n_layers layers.  No piece may cover the whole model.  Always succeeds;
 * out->n may be 0. */
void cover_find(struct cover *out, const struct cover_piece *p, uint32_t n,
                uint32_t n_layers);

/* The chain to prefer: fewest gaps, with fewest layers in gaps among equals, or
 * the reverse.  One large gap may need fewer workers than two small ones, or
 * more, so callers try both. */
enum cover_goal { FEWEST_GAPS, FEWEST_LAYERS };

/* Finds the best chain of one or more of the pieces p[0, n), n > 0, in a model
 * with n_layers layers. */
void cover_chain_find(struct cover_chain *out, const struct cover_piece *p,
                      uint32_t n, uint32_t n_layers, enum cover_goal goal);

#endif
