/* layer_kinds.h - The kinds of the layers of a config.json, and experts.
 *
 * Mixers follow layer_types, else the family: every full_attention_interval-th
 * layer of a hybrid model is attention; windows as in family.h.  Feed-forwards
 * follow mlp_only_layers and decoder_sparse_step where the family has them.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_MODEL_LAYER_KINDS_H
#define COMMON_MODEL_LAYER_KINDS_H

#include "common/model/family.h"

/* Sets c->mixers and c->shape.window.  c->shape.n_layers is set. */
void layer_kinds_mixers(struct model_config *c, struct fields *f,
                        const struct family *family);

/* Reads the sizes of each kind of mixer that the model has; the attention row
 * also makes full attention of windows that nothing falls out of. */
void layer_kinds_sizes(struct model_config *c, struct fields *f,
                       const struct family *family);

/* Sets c->ffns, c->shape.intermediate and all that experts have. */
void layer_kinds_ffns(struct model_config *c, struct fields *f,
                      const struct family *family);

#endif
