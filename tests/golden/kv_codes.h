/* kv_codes.h - Lets a reference read the codes of a backend.
 *
 * Two computations of a key differ in the order of sums.  Near the border of
 * two codes they choose different ones, and the results differ by far more than
 * the sums.  So the reference takes over what the backend stored, if no value
 * is farther from its own than neighbouring codes are.  The differing values
 * are counted.
 *
 * Threading: one thread.  Memory: the kernels and the table are borrowed. */
#ifndef TESTS_GOLDEN_KV_CODES_H
#define TESTS_GOLDEN_KV_CODES_H

#include "tests/kernels/reference.h"

struct kv_codes {
    struct kernels *k;
    const uint32_t *blocks; /* table of the reference's sequence */
    uint32_t block_tokens;
    uint64_t n_values, n_differ;
    uint64_t n_far; /* values farther apart than neighbouring codes: faults */
};

/* Makes r store as the backend in its format; c outlives r.  A plain format
 * changes nothing. */
void kv_codes_follow(struct kv_codes *c, struct reference *r,
                     const struct kv_format *f);

#endif
