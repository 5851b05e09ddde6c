/* kv_draw.h - KV formats at random.
 *
 * Threading, memory: pure functions. */
#ifndef TESTS_GOLDEN_KV_DRAW_H
#define TESTS_GOLDEN_KV_DRAW_H

#include "common/model/kv_format.h"
#include "tests/kernels/random_model.h"

/* Draws a format that fits a model of this shape: plain or quantised, any
 * scheme, bits, group and dtype.  A third are plain, more where the head size
 * fits no scheme. */
struct kv_format kv_draw(const struct random_shape *r, struct dice *d);

#endif
