/* rope.h - the rotary positions of a config.json.
 *
 * `rope_parameters` wins over the flat rope_theta, rope_scaling and
 * partial_rotary_factor; what it lacks is taken from them.
 *
 * Threading: none.  Memory: none. */
#ifndef COMMON_MODEL_ROPE_H
#define COMMON_MODEL_ROPE_H

#include "common/model/field.h"
#include "common/model/weights.h"

/* Fill r for heads of head_dim dimensions; partial is the part of a head that
 * is rotated where the file does not say.  Faults go to f. */
void rope_parse(struct rope_shape *r, struct fields *f, uint32_t head_dim,
                double partial, uint32_t context);

#endif
