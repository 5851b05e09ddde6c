/* cover.h - which pieces make a whole.
 *
 * A piece is layers [begin, end) of a model.  Pieces that stand end to end
 * from layer 0 to the last one make a set.  Of given pieces as many sets as
 * possible are made, each piece in one at most: that is a flow from layer 0
 * to the last over pieces of capacity 1, and the sets are its paths.  Where a
 * path may go on with several, the first in the order given is taken.  A path
 * of more than COVER_STAGES_MAX pieces makes no set.
 *
 * Threading: none, pure functions.  Memory: the caller's, 13 KiB of it on the
 * stack.  Time: sets times pieces times boundaries. */
#ifndef ROUTER_REPLICAS_COVER_H
#define ROUTER_REPLICAS_COVER_H

#include <stdint.h>

#include "router/base/router_limits.h"

#define COVER_PIECES_MAX 128
#define COVER_SETS_MAX   (COVER_PIECES_MAX / 2)
#define COVER_STAGES_MAX STAGES_MAX

struct cover_piece {
    uint32_t begin, end; /* begin < end */
};

struct cover_set {
    uint32_t n;
    uint32_t pieces[COVER_STAGES_MAX]; /* [n] in order of layers */
};

struct cover {
    uint32_t n;
    struct cover_set sets[COVER_SETS_MAX];
};

/* A chain of pieces from layer 0 to the last, and what it lacks. */
struct cover_chain {
    uint32_t n_pieces, n_gaps;
    struct cover_piece gaps[COVER_STAGES_MAX]; /* [n_gaps] in order; those past
                                                * COVER_STAGES_MAX are left out,
                                                * not uncounted */
};

/* Of n <= COVER_PIECES_MAX pieces, none of them all of the model, within
 * n_layers <= MODEL_LAYERS_MAX. */
void cover_find(struct cover *out, const struct cover_piece *p, uint32_t n,
                uint32_t n_layers);

/* Of the same pieces, one at least: the chain of one or more of them that has
 * the fewest gaps, and then the fewest layers in gaps, or the other way round.
 * One gap may take fewer to fill than two, and its layers more. */
enum cover_wish { FEWEST_GAPS, FEWEST_LAYERS };

void cover_chain_find(struct cover_chain *out, const struct cover_piece *p,
                      uint32_t n, uint32_t n_layers, enum cover_wish wish);

#endif
