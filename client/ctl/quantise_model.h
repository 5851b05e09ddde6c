/* quantise_model.h - Quantisation of a model directory into a new directory.
 *
 * quantise_list.h has the tensors of the new model: matrices become U32 words,
 * scales and biases (common/model/layout.h, quantise.h), experts in the form of
 * MLX; all others are copied.  Scales and biases have the matrix's dtype, those
 * of an FP8 matrix the model's.
 *
 * An MTP layer is quantised too, if it could be loaded (mtp.h), but for its fc
 * and norms.  Files keep their names, a companion's too, and the order of their
 * tensors.  Tokenizer, chat template and generation_config.json are copied.
 * config.json gets the field `quantization` and is written last, so an
 * interrupted run leaves a directory that no worker loads.
 *
 * Threading: none.  Memory: the scales and biases of one matrix, and some MiB.
 *
 * Errors: those of config_load() and layout_make(), and
 *
 *   ST_FAILED_PRECONDITION   the model is already quantised
 *   ST_ALREADY_EXISTS        `out` exists
 *   ST_INVALID_ARGUMENT      a weight is not finite
 *   ST_UNAVAILABLE           a file or the directory cannot be written
 *   ST_RESOURCE_EXHAUSTED    out of memory */
#ifndef CLIENT_CTL_QUANTISE_MODEL_H
#define CLIENT_CTL_QUANTISE_MODEL_H

#include <stdint.h>

#include "common/base/status.h"

struct quantise_options {
    uint32_t bits;  /* 4 or 8 */
    uint32_t group; /* 32, 64 or 128 */
    /* Called after each part, or NULL: bytes of tensors read so far. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

struct quantise_report {
    uint32_t n_quantised, n_copied; /* tensors */
    uint64_t bytes_in, bytes_out;   /* sums over all tensors */
};

/* Quantises the model in `in` into the new directory `out`, and fills *r. */
MUST_CHECK enum status quantise_model(struct quantise_report *r, const char *in,
                                      const char *out,
                                      const struct quantise_options *o,
                                      struct error *e);

#endif
