/* model_specs.h - The tensors of a model directory of random weights.
 *
 * Threading: none.  Memory: owns its list, some 200 bytes a tensor. */
#ifndef TESTS_BENCH_MODEL_SPECS_H
#define TESTS_BENCH_MODEL_SPECS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/model/config.h"
#include "tests/bench/model_writer.h"

/* Contents of a tensor. */
enum spec_kind {
    SPEC_FLOATS, /* fill, of dtype */
    SPEC_WORDS,  /* any bits, as U32 */
    SPEC_BYTES,  /* any bits, as U8 */
    SPEC_E4M3,   /* any but NaN */
    SPEC_E8M0    /* base or base + 1, as U8 */
};

/* The values of a tensor: middle + spread * [-1, 1). */
struct fill {
    float middle, spread;
};

struct spec {
    char name[128];
    uint32_t rank;
    uint64_t dims[4];
    enum spec_kind kind;
    enum dtype dtype; /* SPEC_FLOATS */
    struct fill fill;
    uint8_t base; /* SPEC_E8M0 */
    uint64_t bytes;
};

struct model_specs {
    uint32_t n, room;
    uint32_t n_main;    /* the others are in the companion */
    struct spec *specs; /* [n] */
    bool failed;        /* out of memory */
};

/* Returns the form that the matrices get. */
enum weight_format model_specs_format(const struct model_config *c,
                                      const struct writer_options *o);

/* Lists the tensors of a model.  Release with model_specs_fini().  Returns
 * false if memory runs out. */
bool model_specs_make(struct model_specs *s, const struct model_config *c,
                      const struct writer_options *o);

/* Returns the companion's name. */
const char *model_specs_companion(const struct writer_options *o);

void model_specs_fini(struct model_specs *s);

/* Returns the prefix of most names. */
const char *model_specs_prefix(enum writer_prefix p);

#endif
