/* quantise_model.h - a model directory, quantised into another one.
 *
 * Every matrix that sluice multiplies with or looks up in, and whose columns
 * are whole groups, becomes U32 words, scales and biases (common/model/
 * layout.h, quantise.h), the latter in the matrix's own dtype; all other
 * tensors are copied.  Files keep their names and their tensors' order;
 * config.json gets `quantization` and is written last, so that what was
 * broken off is no model.  Tokenizer, template and generation_config.json are
 * copied.
 *
 * Threading: none.  Memory: a matrix's scales and biases, some MiB beside.
 * Errors: as config_load() and layout_make(); ST_FAILED_PRECONDITION: it is
 * quantised already; ST_ALREADY_EXISTS: there is an `out`; ST_INVALID_ARGUMENT:
 * a weight is not finite; ST_UNAVAILABLE: a file cannot be written. */
#ifndef CLIENT_CTL_QUANTISE_MODEL_H
#define CLIENT_CTL_QUANTISE_MODEL_H

#include <stdint.h>

#include "common/base/status.h"

struct quantise_options {
    uint32_t bits;  /* 4 or 8 */
    uint32_t group; /* 32, 64 or 128 */
    /* Now and then, or NULL: bytes read of all. */
    void (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *ctx;
};

struct quantise_report {
    uint32_t n_quantised, n_copied; /* tensors */
    uint64_t bytes_in, bytes_out;   /* of all of them */
};

MUST_CHECK enum status quantise_model(struct quantise_report *r, const char *in,
                                      const char *out,
                                      const struct quantise_options *o,
                                      struct error *e);

#endif
