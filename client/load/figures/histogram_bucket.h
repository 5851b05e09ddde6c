/* histogram_bucket.h - The numbers of a histogram's buckets.
 *
 * Bucket b < 2048 holds the value b.  Above, bucket s * 1024 + m with m in
 * 1024..2047 holds the values m << s to ((m + 1) << s) - 1.
 *
 * For histogram.c and histogram_text.c.  Threading, memory: none. */
#ifndef CLIENT_LOAD_FIGURES_HISTOGRAM_BUCKET_H
#define CLIENT_LOAD_FIGURES_HISTOGRAM_BUCKET_H

#include <stdint.h>

#include "client/load/figures/histogram.h"

#define HISTOGRAM_SUB_BITS 10
#define HISTOGRAM_SUB      (1u << HISTOGRAM_SUB_BITS) /* buckets of a doubling */

/* Returns the bucket of a value in 0..HISTOGRAM_MAX. */
static inline uint32_t histogram_bucket(int64_t value)
{
    uint64_t v = (uint64_t)value;
    unsigned shift = 0;

    if (v >= 2 * HISTOGRAM_SUB) {
        shift = 63u - (unsigned)__builtin_clzll(v) - HISTOGRAM_SUB_BITS;
    }
    return shift * HISTOGRAM_SUB + (uint32_t)(v >> shift);
}

/* Sets the smallest and the largest value of a bucket. */
static inline void histogram_range(uint32_t bucket, int64_t *from, int64_t *to)
{
    unsigned shift =
        bucket < 2 * HISTOGRAM_SUB ? 0 : bucket / HISTOGRAM_SUB - 1;

    *from = (int64_t)(bucket - shift * HISTOGRAM_SUB) << shift;
    *to = *from + ((int64_t)1 << shift) - 1;
}

#endif
