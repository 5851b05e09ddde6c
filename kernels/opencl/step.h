/* step.h - permutes a step's rows and writes them to meta; moves x and logits
 * between host and device.
 *
 * Threading: as opencl.h.  Memory: none. */
#ifndef KERNELS_OPENCL_STEP_H
#define KERNELS_OPENCL_STEP_H

#include "kernels/opencl/host/opencl.h"

/* Computes the offsets in meta from c->sizes, and its size c->meta.ints.
 * Returns false if meta would be too large. */
bool opencl_step_layout(struct opencl *c);

/* Start and end a step, and copy x and logits, as the calls of the same names
 * in kernels.h do. */
void opencl_begin(struct kernels *k, const struct kernel_step *step);
enum status opencl_end(struct kernels *k, struct error *e);
void opencl_hidden_read(struct kernels *k, uint32_t first, uint32_t n,
                        float *out);
void opencl_hidden_write(struct kernels *k, uint32_t first, uint32_t n,
                         const float *in);
void opencl_logits_read(struct kernels *k, uint32_t i, float *out);
void opencl_logits_write(struct kernels *k, uint32_t i, const float *in);

#endif
