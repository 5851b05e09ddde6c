/* layout.h - The tensors that a layer range needs, and their place in memory.
 *
 * A layout pairs every pointer of a struct shard_weights with slices of the
 * checkpoint (rows of one tensor) and a place in the shard's memory. Matrices
 * keep their form; vectors (norms, biases, sinks, convolution, A_log, dt_bias)
 * become float32.
 *
 * Names are keys (checkpoint.h); X is the name of a module.  The tensors
 * decide how a matrix [N, K] is stored; config.json has to agree:
 *
 *     plain   X.weight F32, BF16 or F16 [N, K]
 *     affine  X.weight U32 [N, K * bits / 32], element i at bit
 *             bits * (i mod 32/bits) of word i / (32/bits), beside X.scales
 *             and X.biases [N, K / group], both BF16, F16 or F32
 *     fp8     X.weight F8_E4M3 [N, K], beside X.weight_scale_inv
 *             [ceil(N / 128), ceil(K / 128)], F32 or BF16.  Each row gets the
 *             scales of its block, in float32
 *     mxfp4   X_blocks U8 [.., N, K / 32, 16], beside X_scales U8
 *             [.., N, K / 32]
 *
 * The experts of a layer become one matrix, whichever of these forms the
 * checkpoint has:
 *
 *     mlp.experts.E.{gate,up,down}_proj   plain, affine or fp8, each expert
 *     mlp.switch_mlp.{gate,up,down}_proj  plain or affine, [E, N, K], of MLX
 *     mlp.experts.{gate_up,down}_proj     plain or fp8 (_scale_inv) [E, N, K],
 *                                         without .weight
 *     mlp.experts.{gate_up,down}_proj_{blocks,scales}    mxfp4
 *
 * Norms of the families that store gamma - 1: 1 is added, unless the
 * checkpoint is an MLX conversion, which stores gamma.  It is one if its
 * convolutions are [C, K, 1] instead of [C, 1, K].
 *
 * The MTP layer (docs/model.md) is laid out if the config drafts and the range
 * ends at the last layer: mtp.fc, mtp.pre_fc_norm_hidden,
 * mtp.pre_fc_norm_embedding, mtp.norm and mtp.layers.0.*, stored as the other
 * layers are, and the embedding.  Its norms in an MLX conversion or a
 * companion file may be gamma or gamma - 1, each of them: one with a mean of
 * at least SLICE_GAMMA_MEAN is gamma.
 *
 * in_proj_qkvz [Hk * (2*Dk + 2*r*Dv), H], r = Hv/Hk: for each key head rows
 * q (Dk), k (Dk), v (r*Dv), z (r*Dv); in_proj_ba the same with b (r), a (r).
 * They are taken apart into qkv, z, b and a.
 *
 * Threading: none.  Memory: borrows config, checkpoint and weights; owns its
 * lists, some 100 bytes a tensor.  Errors: ST_NOT_FOUND names a missing
 * tensor, ST_INVALID_ARGUMENT a tensor of another shape or dtype,
 * ST_UNIMPLEMENTED a form that is not supported. */
#ifndef COMMON_MODEL_LAYOUT_H
#define COMMON_MODEL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/config_types.h"
#include "common/model/layout_types.h"
#include "common/model/weights.h"

/* Parts of a struct shard_weights that it points to. */
struct layout_parts {
    struct layer_weights *layers; /* [end - begin + 1] */
    struct mtp_weights mtp;
};

/* Makes the layout of layers [w->begin, w->end) of config, and of the MTP
 * layer behind the last one if the config drafts.  Fills all fields of every
 * tensor except its pointers; w points to `parts`, which the caller owns.
 * Release with layout_fini(), also after an error. */
MUST_CHECK enum status layout_make(struct layout *l, struct shard_weights *w,
                                   struct layout_parts *parts,
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
