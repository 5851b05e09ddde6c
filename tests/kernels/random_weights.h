/* random_weights.h - random matrices in any format of common/model/weights.h.
 *
 * Memory: the caller of random_weights_fn's memory owns it. */
#ifndef TESTS_KERNELS_RANDOM_WEIGHTS_H
#define TESTS_KERNELS_RANDOM_WEIGHTS_H

#include "tests/kernels/random_model.h"

/* Returns memory of the model, which random_model_free() frees. */
void *random_own(struct random_model *m, size_t bytes);

/* Returns n values of dtype t between low and high, of the model's memory. */
void *random_values(struct random_model *m, struct dice *d, size_t n,
                    enum dtype t, float low, float high);

/* Returns whether a matrix of that many columns can have that format. */
bool random_fits(enum weight_format format, uint32_t cols);

/* Sets t's format, and bits and group unless the format is affine. */
void random_sizes(struct tensor *t, enum weight_format format);

/* Fills t, whose dtype, rows and cols are set, with codes of this format; about
 * as wide as a plain matrix of values in [-width, width].  WEIGHT_AFFINE has
 * t->bits and t->group if these are set, or random ones. */
void random_codes(struct random_model *m, struct dice *d, struct tensor *t,
                  enum weight_format format, float width);

#endif
