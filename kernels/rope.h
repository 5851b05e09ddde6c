/* rope.h - the frequencies of rotary positions, shared by the backends.
 *
 *       f_i = theta^(-2i/R), i in [0, R/2), float32
 *       linear: f_i / factor
 *       llama3: f_i kept above high_freq, / factor below low_freq, blended
 *               between, by wavelength against the original context
 *       yarn:   f_i / factor * ramp(i) + f_i (1 - ramp(i)); the ramp goes from
 *               0 to 1 between the frequencies that turn beta_fast and
 *               beta_slow times over the original context; cosine and sine are
 *               multiplied by `attention`
 *       angle of position p: (float)p * f_i, rounded to float32, as in the
 *               reference
 *
 * Threading: no state. */
#ifndef KERNELS_ROPE_H
#define KERNELS_ROPE_H

#include "common/model/weights.h"

/* Computes freq [R/2] float32. */
void rope_frequencies(const struct rope_shape *r, float *freq);

/* Returns the factor of cosine and sine: 1 but for yarn. */
float rope_scale(const struct rope_shape *r);

/* Returns the factor of a query at a position (struct attention_shape). */
float rope_query_scale(const struct attention_shape *a, uint32_t position);

/* Computes the cosine and sine [R/2] float32 of one position's angles, times
 * `scale`. */
void rope_angles(const float *freq, uint32_t half, uint32_t position,
                 float scale, float *cosine, float *sine);

#endif
