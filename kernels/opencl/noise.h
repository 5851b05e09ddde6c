/* noise.h - random values made on the device, to measure a model's shape
 * without its weights, which may be larger than the host's memory.
 *
 * A matrix whose data is opencl_noise_data has no contents; upload.h makes them
 * on the device.  opencl_noise_other does the same for a matrix that must count
 * as a different one, such as a head that is not the embedding.  No other
 * backend supports this.
 *
 * Threading: as opencl.h.  Memory: none. */
#ifndef KERNELS_OPENCL_NOISE_H
#define KERNELS_OPENCL_NOISE_H

#include "kernels/opencl/host/opencl.h"

extern const char opencl_noise_data[1], opencl_noise_other[1];

static inline bool opencl_is_noise(const void *data)
{
    return data == opencl_noise_data || data == opencl_noise_other;
}

/* Fills t with uniform values in [-width, width).  A quantised tensor gets any
 * values, with scales and biases that give about that width.  Bytes between its
 * end and the next tensor of its arena may be overwritten. */
void opencl_noise(struct opencl *c, const struct opencl_tensor *t, float width,
                  uint64_t seed);

/* Fills all pages of an opencl backend, as if sequences had used them.
 * Waits. */
MUST_CHECK enum status opencl_noise_pool(struct kernels *k, uint64_t seed,
                                         struct error *e);

#endif
