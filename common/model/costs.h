/* costs.h - A model's costs, the input of common/split/layer_split.h.
 *
 * Bytes are those of sizes.h, which are the bytes that a worker holds and
 * reports in its Hello.  Scratch is an estimate, as each backend measures its
 * own; for the CPU it is within 10 %. */
#ifndef COMMON_MODEL_COSTS_H
#define COMMON_MODEL_COSTS_H

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/split/layer_split.h"

/* The largest step of a worker. */
struct costs_step {
    uint32_t tokens, threads;
    uint32_t logits; /* rows of logits at a time */
};

/* Fills m from the configuration alone, with matrices as in sizes.h. */
void costs_of_shapes(struct split_model *m, const struct model_config *c,
                     enum dtype kv);

/* Replaces the weights of m by those in the headers of the model's files,
 * each tensor as stored.  Errors as layout_make(). */
MUST_CHECK enum status costs_of_files(struct split_model *m,
                                      const struct model_config *c,
                                      const struct checkpoint *files,
                                      struct error *e);

/* Returns the scratch of a step: activations, and with the head also logits
 * and sampling. */
uint64_t costs_scratch(const struct model_config *c,
                       const struct costs_step *step);
uint64_t costs_head_scratch(const struct model_config *c,
                            const struct costs_step *step);

#endif
