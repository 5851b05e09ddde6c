/* widened.h - a copy of a shard with every matrix in float32.
 *
 * Each value is that of common/model/weight_format.h, so the copy is the same
 * model, and a backend computes it with its float32 kernels.
 *
 * Memory: the copy owns its matrices; norms, biases and other vectors are the
 * shard's, which must outlive it.  It ends the program if memory is short, as
 * this is for tests. */
#ifndef TESTS_GOLDEN_WIDENED_H
#define TESTS_GOLDEN_WIDENED_H

#include "common/model/weights.h"

#define WIDENED_MATRICES_MAX 8192

struct widened {
    struct shard_weights w;
    struct layer_weights *layers;
    struct mtp_weights mtp;
    void *owned[WIDENED_MATRICES_MAX];
    uint32_t n_owned;
    uint32_t n_quantised; /* matrices that are not plain in the shard */
};

void widened_new(struct widened *p, const struct shard_weights *w);
void widened_free(struct widened *p);

#endif
