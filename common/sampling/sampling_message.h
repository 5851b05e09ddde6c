/* sampling_message.h - Sampling parameters as a message.
 *
 * Threading: none.  Memory: lists are borrowed both ways. */
#ifndef COMMON_SAMPLING_SAMPLING_MESSAGE_H
#define COMMON_SAMPLING_SAMPLING_MESSAGE_H

#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "proto/common.pb-c.h"

/* Checks that every value of m is within its limits and every id below vocab.
 * Returns ST_INVALID_ARGUMENT and a sentence that names the field, its value
 * and the limit. */
MUST_CHECK enum status sampling_check(const Sluice__V1__Sampling *m,
                                      uint32_t vocab, struct error *e);

/* Reads a checked m; the lists are borrowed from m.  m = NULL gives the
 * defaults.  An absent seed reads as 0. */
void sampling_read(struct sampling *out, const Sluice__V1__Sampling *m);

/* Writes all of s, with the seed; the lists are borrowed from s. */
void sampling_write(const struct sampling *s, Sluice__V1__Sampling *out);

#endif
