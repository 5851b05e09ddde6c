/* draft.h - the input of the MTP layer, and the hidden states it is made of.
 *
 * keep_hidden copies nothing: begin of the next step exchanges x with another
 * tensor of the same size, and draft_input applies the norm.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_DRAFT_H
#define KERNELS_OPENCL_DRAFT_H

#include "kernels/opencl/host/opencl.h"

MUST_CHECK enum status opencl_draft_setup(struct opencl *c, struct error *e);
void opencl_draft_free(struct opencl *c);

/* Keeps the last step's x if keep_hidden asked for it; a step begins. */
void opencl_draft_begin(struct opencl *c);

/* Compute the operators of the same names in kernels.h. */
void opencl_draft_input(struct kernels *k, const uint32_t *tokens,
                        const uint32_t *from);
void opencl_keep_hidden(struct kernels *k);

#endif
