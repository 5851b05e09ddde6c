/* config_shape.h - random models in the shape of a model's config.json.
 *
 * Threading, memory: none. */
#ifndef TESTS_BENCH_CONFIG_SHAPE_H
#define TESTS_BENCH_CONFIG_SHAPE_H

#include "common/model/config.h"
#include "tests/kernels/random_model.h"

/* Reads a config.json. */
MUST_CHECK enum status config_shape_read(struct model_config *c,
                                         const char *path, struct error *e);

/* Keeps the first n layers, at least 1, and as large a part of the vocabulary,
 * so that the head keeps its share of a step. */
void config_shape_cut(struct model_config *c, uint32_t n);

/* Sets the shape, with the config's own formats; with bits, all matrices have
 * affine groups of `group` codes. */
void config_shape(struct random_shape *r, const struct model_config *c,
                  uint32_t bits, uint32_t group);

/* Returns whether a path names a config.json, not a model's directory. */
bool config_shape_named(const char *path);

#endif
