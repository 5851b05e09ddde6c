/* kv_names.h - KV formats by the names that kv_format_name() gives them.
 *
 *     f32  f16  bf16
 *     affine8  affine4/32  turboquant3.5  affine4/64+f32
 *
 * A name without a group has KV_GROUP; without a dtype, the dtype of
 * `--kv-dtype auto` for the model.
 *
 * Threading, memory: pure functions. */
#ifndef TESTS_GOLDEN_KV_NAMES_H
#define TESTS_GOLDEN_KV_NAMES_H

#include "common/model/kv_format.h"

/* Reads the format of a name for model c; returns ST_INVALID_ARGUMENT for other
 * names and what kv_format_choose() refuses. */
MUST_CHECK enum status kv_names_read(struct kv_format *f, const char *name,
                                     const struct model_config *c,
                                     struct error *e);

/* As kv_names_read(); prints an error and exits with 2. */
struct kv_format kv_names_must(const char *name, const struct model_config *c);

#define KV_NAMES_MAX 16

struct kv_names {
    struct kv_format of[KV_NAMES_MAX];
    uint32_t n;
};

/* Reads a list of names, with commas between them, as kv_names_must(). */
void kv_names_list(struct kv_names *l, const char *list,
                   const struct model_config *c);

/* Returns the bytes per token of all attention layers of the model. */
double kv_names_bytes(const struct kv_format *f, const struct model_config *c);

#endif
