/* noise.h - random values made on the device, to measure a model's shape
 * without the model: it may be larger than the host's memory.
 *
 * A matrix whose data is opencl_noise_data (or _other, where it must not be
 * taken for the same, as a head that is not the embedding) has no contents:
 * upload.h has the device make them.  No other backend knows this.
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

/* All of t, uniform in [-width, width); of a quantised one any values, with
 * scales and biases that give about that width.  What lies between its end and
 * the next tensor of its arena may be written too. */
void opencl_noise(struct opencl *c, const struct opencl_tensor *t, float width,
                  uint64_t seed);

/* All blocks, slots and checkpoints of an opencl backend, as if sequences had
 * been there.  Waits. */
MUST_CHECK enum status opencl_noise_pool(struct kernels *k, uint64_t seed,
                                         struct error *e);

#endif
