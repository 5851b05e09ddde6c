/* tally.h - Adds up weights tensor by tensor, as layout.c places them.
 *
 * Threading, memory: none. */
#ifndef COMMON_MODEL_TALLY_H
#define COMMON_MODEL_TALLY_H

#include <stdint.h>

#include "common/model/config_types.h"

struct tally {
    enum dtype dtype;
    struct quantisation quant;
    uint64_t parameters, bytes;
};

/* Use of a matrix: checkpoints quantise some and leave others. */
enum tally_use {
    TALLY_LAYER,
    TALLY_EXPERTS,
    TALLY_NARROW,
    TALLY_ROUTER,
    TALLY_ENDS
};

/* Adds a matrix [rows, cols]. */
void tally_matrix(struct tally *t, uint64_t rows, uint32_t cols,
                  enum tally_use of);

/* Adds a vector [n], float32 in memory. */
void tally_vector(struct tally *t, uint64_t n);

/* Adds the three matrices of an MLP of `rows` rows. */
void tally_mlp(struct tally *t, uint32_t hidden, uint32_t rows);

#endif
