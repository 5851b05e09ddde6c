/* attention.h - the attention mixer.
 *
 * Threading, memory: as opencl.h. */
#ifndef KERNELS_OPENCL_ATTENTION_H
#define KERNELS_OPENCL_ATTENTION_H

#include "kernels/opencl/host/opencl.h"

/* Chooses the kernels and requests scratch. */
MUST_CHECK enum status opencl_attention_setup(struct opencl *c,
                                              struct error *e);
void opencl_attention_free(struct opencl *c);

#endif
