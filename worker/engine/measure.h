/* measure.h - what a device makes of a layer, before it is known which layers
 * it will have: how fast it reads weights, what the largest step takes.
 *
 * A decode step reads all weights of its layers once, so the speed is the
 * layer's bytes by the time of the quickest of some steps of one token through
 * it.  It is rounded down to a power of MEASURE_STEP, so that two of a kind
 * say the same, or nearly.
 *
 * Threading: the caller's, and those of the kernels.  Memory: that of a step
 * and of one sequence of a block, freed before it returns. */
#ifndef WORKER_ENGINE_MEASURE_H
#define WORKER_ENGINE_MEASURE_H

#include "kernels/kernels.h"

#define MEASURE_STEP 1.125  /* what is nearer than that is taken for noise */
#define MEASURE_US   200000 /* of steps, at least; */
#define MEASURE_RUNS 3      /* and so many of them */

struct measured {
    uint64_t speed;         /* bytes a second, 1 at least */
    uint64_t scratch_bytes; /* of the largest step, without a head */
    uint64_t device_bytes;  /* of a device with memory of its own, else 0 */
    uint32_t n_threads;
};

/* w is one layer of layer_bytes, not the last of its model; o as its worker
 * will have them, with room for the hidden states of n_plans plans.  Errors as
 * backend_new()'s. */
MUST_CHECK enum status measure_layer(struct measured *out,
                                     const struct shard_weights *w,
                                     uint64_t layer_bytes,
                                     const struct kernels_options *o,
                                     uint32_t n_plans, struct error *e);

/* The rounding, 1 at least. */
uint64_t measure_round(double speed);

#endif
