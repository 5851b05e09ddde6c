/* sampling_message.h - sampling parameters as they travel.
 *
 * Threading: none.  Memory: lists are borrowed both ways. */
#ifndef COMMON_SAMPLING_SAMPLING_MESSAGE_H
#define COMMON_SAMPLING_SAMPLING_MESSAGE_H

#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "proto/common.pb-c.h"

/* Is every value of m within its limits, and every id below vocab?
 * ST_INVALID_ARGUMENT: the sentence names the field, its value and what would
 * be right. */
MUST_CHECK enum status sampling_check(const Sluice__V1__Sampling *m,
                                      uint32_t vocab, struct error *e);

/* Of a checked m; the lists are borrowed from it.  m = NULL: the default.  A
 * seed that is absent reads 0. */
void sampling_read(struct sampling *out, const Sluice__V1__Sampling *m);

/* All of s, the seed too; the lists are borrowed from it. */
void sampling_write(const struct sampling *s, Sluice__V1__Sampling *out);

#endif
