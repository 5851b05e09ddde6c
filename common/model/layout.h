/* layout.h - The tensors that a layer range needs, and their place in memory.
 *
 * A layout pairs every pointer of a struct shard_weights with a slice of the
 * checkpoint (rows of one tensor) and a place in the shard's memory. Matrices
 * keep their dtype; vectors (norms, biases, convolution, A_log, dt_bias)
 * become float32.
 *
 *     X.weight of a quantised matrix [N, K] is U32 [N, K * bits / 32] (element
 *         i at bit bits * (i mod 32/bits) of word i / (32/bits)), beside
 *         X.scales and X.biases [N, K / group], both BF16, F16 or F32.  If
 *         the configuration has a quantisation, a matrix with scales is
 *         quantised, and these shapes give bits and group; a matrix without
 *         scales is not.
 *     norms of the families that store gamma - 1: 1 is added, unless the
 *         checkpoint is an MLX conversion, which stores gamma.  It is one if
 *         its convolutions are [C, K, 1] instead of [C, 1, K].
 *     in_proj_qkvz [Hk * (2*Dk + 2*r*Dv), H], r = Hv/Hk: for each key head
 *         rows q (Dk), k (Dk), v (r*Dv), z (r*Dv); in_proj_ba the same with
 *         b (r), a (r).  They are taken apart into qkv, z, b and a.
 *
 * Threading: none.  Memory: borrows config, checkpoint and weights; owns its
 * slices.  Errors: ST_NOT_FOUND names a missing tensor, ST_INVALID_ARGUMENT a
 * tensor of another shape or dtype. */
#ifndef COMMON_MODEL_LAYOUT_H
#define COMMON_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/model/weights.h"

#define LAYOUT_ALIGN 64 /* alignment of every tensor in the shard's memory */

struct slice {
    const struct checkpoint_tensor *source;
    enum dtype dtype;       /* source dtype of a widened slice */
    uint64_t offset, bytes; /* position in the source */
    uint64_t place;         /* position in the shard's memory */
    bool widen;           /* convert to float32; the place has room for that */
    float add;            /* added to each element of a widened slice */
    const void **matrix;  /* pointer that begins here, or NULL */
    const float **vector; /* pointer that begins here, or NULL */
};

struct layout {
    uint32_t n, room;
    struct slice *slices; /* [n] */
    uint64_t bytes;       /* size of the shard's memory */
    uint64_t file_bytes;  /* bytes of its slices in the files */
    uint32_t n_tensors;   /* tensors used */
    uint32_t n_unknown;   /* unrecognised tensors in the range */
    const char *unknown;  /* the first of them, as stored; or NULL */
};

/* Makes the layout of layers [w->begin, w->end) of config.  layers is [end -
 * begin], of weights w.  Fills all fields of every tensor except its
 * pointers. Release with layout_fini(), also after an error. */
MUST_CHECK enum status layout_make(struct layout *l, struct shard_weights *w,
                                   struct layer_weights *layers,
                                   const struct model_config *config,
                                   const struct checkpoint *checkpoint,
                                   struct error *e);

/* Makes the layout of a whole model, for inspection; it cannot be placed. */
MUST_CHECK enum status layout_of_model(struct layout *l,
                                       const struct model_config *config,
                                       const struct checkpoint *checkpoint,
                                       struct error *e);

/* Sets w's pointers into memory, [layout.bytes]. */
void layout_place(const struct layout *l, struct shard_weights *w,
                  const struct model_config *config, const void *memory);

void layout_fini(struct layout *l);

#endif
