/* sample.h - the sampler.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_SAMPLE_H
#define KERNELS_OPENCL_SAMPLE_H

#include "kernels/opencl/host/opencl.h"

/* Chooses the kernels and requests scratch, if the shard has the head. */
MUST_CHECK enum status opencl_sample_setup(struct opencl *c, struct error *e);
void opencl_sample_free(struct opencl *c);

/* Samples a token from each row of logits, see kernels_sample(). */
MUST_CHECK enum status opencl_sample_rows(struct kernels *k,
                                          const struct sample_row *rows,
                                          uint32_t n, struct sample_result *out,
                                          struct error *e);

#endif
