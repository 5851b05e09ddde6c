/* quantise_data.h - The data of a tensor of a quantised model.
 *
 * Rows are read one at a time, decoded to float32, and stored in the new form:
 * the words of all rows, then the scales, then the biases, as the file has
 * them one after another.
 *
 * Threading: none.  Memory: the scales and biases of one tensor, and some MiB.
 *
 * Errors: ST_INVALID_ARGUMENT if a value is not finite, ST_UNAVAILABLE if a
 * file cannot be written, those of document_pread(). */
#ifndef CLIENT_CTL_QUANTISE_DATA_H
#define CLIENT_CTL_QUANTISE_DATA_H

#include <stdio.h>

#include "client/ctl/quantise_list.h"

struct quantise_reader {
    const struct checkpoint *files;
    const int *fds;
    uint32_t bits, group;
    void (*read)(void *ctx, uint64_t bytes); /* after each part */
    void *ctx;
    struct error *error;
};

/* Returns the form of t's matrix in the new model, all rows in one.  t
 * is not a copy. */
struct tensor quantise_data_shape(const struct quantise_reader *r,
                                  const struct quantise_tensor *t);

MUST_CHECK enum status quantise_data_write(const struct quantise_reader *r,
                                           const struct quantise_tensor *t,
                                           FILE *to);

/* Sets the error of a failed write. */
enum status quantise_data_cannot_write(struct error *e);

#endif
