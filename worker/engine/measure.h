/* measure.h - Measures a device on one layer, for a worker that has no layers
 * yet: its read bandwidth, and the scratch of the largest step.
 *
 * A decode step reads all weights of its layers once.  The read bandwidth is
 * therefore the layer's bytes divided by the time of the fastest step of one
 * token.  It is rounded down to a power of MEASURE_STEP, so that two equal
 * devices report the same value, or nearly.
 *
 * Threading: the caller's, and those of the kernels.  Memory: a step and a
 * sequence of one block, freed on return. */
#ifndef WORKER_ENGINE_MEASURE_H
#define WORKER_ENGINE_MEASURE_H

#include "kernels/kernels.h"

#define MEASURE_STEP 1.125  /* smaller differences count as noise */
#define MEASURE_US   200000 /* shortest measurement */
#define MEASURE_RUNS 3      /* fewest steps in one */

struct measured {
    uint64_t speed;         /* read bandwidth, bytes a second, at least 1 */
    uint64_t scratch_bytes; /* largest step, without a head */
    uint64_t device_bytes;  /* if the device has its own memory, else 0 */
    uint32_t n_threads;
};

/* Measures the device.  w: one layer of layer_bytes, not the last of its model.
 * o: the options of the worker; n_plans: the plans whose hidden states need
 * room.  Returns the errors of backend_new(). */
MUST_CHECK enum status measure_layer(struct measured *out,
                                     const struct shard_weights *w,
                                     uint64_t layer_bytes,
                                     const struct kernels_options *o,
                                     uint32_t n_plans, struct error *e);

/* Returns the largest power of MEASURE_STEP that is at most `speed`, at least
 * 1. */
uint64_t measure_round(double speed);

#endif
