/* histogram.h - A histogram with three significant digits, as HdrHistogram.
 *
 * Values 0..HISTOGRAM_MAX.  A value below 2048 has a bucket of its own; above,
 * each doubling has 1024 buckets, so a bucket is at most 0.1 % wide.  Merging
 * adds counts: the merged histogram equals that of all values taken together.
 * Layout: http://hdrhistogram.org, with subBucketCount 2048.
 *
 * `lost` counts values that are not known but larger than any: requests that
 * failed.  Quantiles include them.
 *
 * Threading: none.  Memory: grows to the largest value recorded. */
#ifndef CLIENT_LOAD_FIGURES_HISTOGRAM_H
#define CLIENT_LOAD_FIGURES_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_MAX  ((int64_t)1 << 42) /* 50 days of microseconds */
#define HISTOGRAM_LOST INT64_MAX /* quantile that lies among lost values */

struct histogram {
    uint64_t *counts; /* [size] */
    uint32_t size;
    uint64_t n, lost; /* n without lost */
    int64_t min, max; /* exact; of no value: 0 */
    double sum;
};

/* All zeros is an empty histogram. */
void histogram_fini(struct histogram *h);
void histogram_add(struct histogram *h, int64_t value, uint64_t times);
void histogram_lose(struct histogram *h, uint64_t times);
void histogram_merge(struct histogram *to, const struct histogram *from);
void histogram_clear(struct histogram *h);

/* Returns the smallest value that at least q of all values do not exceed, q in
 * 0..1, within the width of its bucket; the exact maximum for q = 1;
 * HISTOGRAM_LOST if it lies among lost values; 0 if the histogram is empty. */
int64_t histogram_quantile(const struct histogram *h, double q);

/* Returns how many values are at most `value`. */
uint64_t histogram_at_most(const struct histogram *h, int64_t value);
double histogram_mean(const struct histogram *h);

/* Runs over buckets in order.  *i starts at 0.  Returns false at the end. */
bool histogram_next(const struct histogram *h, uint32_t *i, int64_t *from,
                    int64_t *to, uint64_t *count);

/* Writes and reads "index:count,..." in base 36 differences, for JSON.  *text
 * is for free().  Reading returns false if the text is malformed. */
char *histogram_write(const struct histogram *h);
bool histogram_read(struct histogram *h, const char *text);

#endif
