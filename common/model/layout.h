/* layout.h - which tensors a layer range needs, and where they come to lie.
 *
 * A layout pairs every pointer of a struct shard_weights with a piece of the
 * checkpoint (a slice: some rows of one tensor) and a place in the shard's
 * memory.  Matrices keep their dtype; vectors (norms, biases, convolution,
 * A_log, dt_bias) become float32.
 *
 *     X.weight of a quantised matrix [N, K] is U32 [N, K * bits / 32] (element
 *         i at bit bits * (i mod 32/bits) of word i / (32/bits)), beside
 *         X.scales and X.biases [N, K / group], both BF16, F16 or F32.  Where
 *         the configuration has a quantisation, a matrix with scales is
 *         quantised, and these shapes say with how many bits and in which
 *         groups; one without is not.
 *     norms of the families that store gamma - 1: 1 is added, unless the
 *         checkpoint is an MLX conversion, which stores gamma.  It is one if
 *         its convolutions are [C, K, 1] instead of [C, 1, K].
 *     in_proj_qkvz [Hk * (2*Dk + 2*r*Dv), H], r = Hv/Hk: for each key head
 *         rows q (Dk), k (Dk), v (r*Dv), z (r*Dv); in_proj_ba the same with
 *         b (r), a (r).  They are taken apart into qkv, z, b and a.
 *
 * Threading: none.  Memory: borrows config, checkpoint and weights; owns its
 * slices.  Errors: ST_NOT_FOUND names a missing tensor, ST_INVALID_ARGUMENT
 * one of another shape or dtype. */
#ifndef COMMON_MODEL_LAYOUT_H
#define COMMON_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/weights.h"

#define LAYOUT_ALIGN 64 /* of every tensor in the shard's memory */

struct slice {
    const struct checkpoint_tensor *source;
    enum dtype dtype;       /* of one to widen */
    uint64_t offset, bytes; /* in the source */
    uint64_t place;         /* in the shard's memory */
    bool widen;             /* to float32, where it takes room for that */
    float add;              /* to each element of a widened one */
    const void **matrix;    /* what begins here of one, or NULL */
    const float **vector;   /* which begins here, or NULL */
};

struct layout {
    uint32_t n, room;
    struct slice *slices; /* [n] */
    uint64_t bytes;       /* of the shard's memory */
    uint64_t file_bytes;  /* of its slices */
    uint32_t n_tensors;   /* used */
    uint32_t n_unknown;   /* in the range, and nobody's */
    const char *unknown;  /* the first of them, as stored; or NULL */
};

/* Lay out layers [w->begin, w->end) of config; layers is [end - begin], of
 * weights w.  Fills everything of every tensor but its pointers.
 * Released with layout_fini(), also after an error. */
MUST_CHECK enum status layout_make(struct layout *l, struct shard_weights *w,
                                   struct layer_weights *layers,
                                   const struct model_config *config,
                                   const struct checkpoint *checkpoint,
                                   struct error *e);

/* The whole model's layout, to look at: it cannot be placed. */
MUST_CHECK enum status layout_of_model(struct layout *l,
                                       const struct model_config *config,
                                       const struct checkpoint *checkpoint,
                                       struct error *e);

/* Point w's tensors into memory, [layout.bytes]. */
void layout_place(const struct layout *l, struct shard_weights *w,
                  const struct model_config *config, const void *memory);

void layout_fini(struct layout *l);

#endif
