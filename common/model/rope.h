/* rope.h - The rotary positions of a config.json.
 *
 * `rope_parameters` takes precedence; keys that it lacks come from the flat
 * rope_theta, rope_scaling and partial_rotary_factor.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_MODEL_ROPE_H
#define COMMON_MODEL_ROPE_H

#include "common/model/field.h"
#include "common/model/weights.h"

/* Fills r for heads of head_dim dimensions.  partial is the rotated part of a
 * head if the file does not set one.  Faults go to f. */
void rope_parse(struct rope_shape *r, struct fields *f, uint32_t head_dim,
                double partial, uint32_t context);

#endif
