/* backend.h - the opencl backend as a whole.
 *
 * Threading, memory: as host/opencl.h. */
#ifndef KERNELS_OPENCL_BACKEND_H
#define KERNELS_OPENCL_BACKEND_H

#include "kernels/kernels.h"

/* Creates an opencl backend, as backend_new() does; o->device selects the
 * device as host/device.h describes. */
MUST_CHECK enum status opencl_new(struct kernels **out,
                                  const struct shard_weights *w,
                                  const struct kernels_options *o,
                                  struct error *e);

#endif
