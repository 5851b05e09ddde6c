/* costs.h - what common/split/layer_split.h asks about a model.
 *
 * Bytes are those of sizes.h: what a worker holds, and tells in its Hello.
 * Scratch is an estimate, as each backend measures its own; for the CPU it is
 * within a tenth. */
#ifndef COMMON_MODEL_COSTS_H
#define COMMON_MODEL_COSTS_H

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "common/split/layer_split.h"

/* The largest step of a worker. */
struct costs_step {
    uint32_t tokens, threads;
    uint32_t logits; /* rows of them at a time */
};

/* From the configuration alone: matrices as sizes.h says. */
void costs_of_shapes(struct split_model *m, const struct model_config *c,
                     enum dtype kv);

/* The weights of m anew, from the headers of the model's files, each tensor as
 * it is stored.  Errors as layout_make(). */
MUST_CHECK enum status costs_of_files(struct split_model *m,
                                      const struct model_config *c,
                                      const struct checkpoint *files,
                                      struct error *e);

/* What the activations of the step take, and the logits and the sampling
 * where the head is. */
uint64_t costs_scratch(const struct model_config *c,
                       const struct costs_step *step);
uint64_t costs_head_scratch(const struct model_config *c,
                            const struct costs_step *step);

#endif
