/* histogram.h - A histogram with three significant digits, as HdrHistogram.
 *
 * Values 0..HISTOGRAM_MAX; values outside are counted at the nearer end.  A
 * value below 2048 has a bucket of its own; above, each doubling has 1024
 * buckets, so a bucket is at most 0.1 % wide.  Merging adds counts: the merged
 * histogram equals that of all values taken together.
 * Layout: http://hdrhistogram.org, with subBucketCount 2048.
 *
 * `lost` counts values that are not known but larger than any: requests that
 * failed.  Quantiles include them; mean, min and max do not.
 *
 * Threading: none.  Memory: 12 bytes per bucket in use up to
 * HISTOGRAM_SPARSE, then 8 bytes per bucket up to the largest value. */
#ifndef CLIENT_LOAD_FIGURES_HISTOGRAM_H
#define CLIENT_LOAD_FIGURES_HISTOGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_MAX       ((int64_t)1 << 42) /* 50 days of microseconds */
#define HISTOGRAM_LOST      INT64_MAX /* a quantile among lost values */
#define HISTOGRAM_SPARSE    512       /* buckets in use before it is an array */
#define HISTOGRAM_COUNT_MAX ((uint64_t)1 << 53) /* values that are read */

struct histogram {
    uint32_t *index; /* [size] ascending buckets; of a dense one: NULL */
    uint64_t *counts;
    uint32_t size, room; /* entries; dense: buckets 0..size-1 */
    bool dense;
    uint64_t n, lost; /* n without lost */
    int64_t min, max; /* exact; of no value: 0 */
    uint64_t sum;     /* UINT64_MAX: that or more */
};

/* Frees the memory.  An empty histogram is all zeros, before and after. */
void histogram_fini(struct histogram *h);
void histogram_add(struct histogram *h, int64_t value, uint64_t times);
void histogram_lose(struct histogram *h, uint64_t times);
void histogram_merge(struct histogram *to, const struct histogram *from);
void histogram_clear(struct histogram *h);

/* Returns the smallest value that at least q of all values do not exceed, q in
 * 0..1, within the width of its bucket; the exact minimum and maximum at the
 * ends; HISTOGRAM_LOST if it is among lost values; 0 if the histogram is
 * empty. */
int64_t histogram_quantile(const struct histogram *h, double q);

double histogram_mean(const struct histogram *h);

/* Runs over buckets in order.  *i starts at 0.  Returns false at the end. */
bool histogram_next(const struct histogram *h, uint32_t *i, int64_t *from,
                    int64_t *to, uint64_t *count);

/* Writes and reads text for JSON: "LOST,MIN,MAX,SUM;BUCKETS".  BUCKETS is a
 * list of "difference:count" with commas between; difference is the bucket's
 * number less the number of the bucket before it; ":1" is left out.  Numbers
 * are in base 36.  Equal histograms give equal text.  *text
 * is for free().  Reading into an empty histogram returns false if the text is
 * malformed or contradicts itself; the histogram is then empty. */
char *histogram_write(const struct histogram *h);
bool histogram_read(struct histogram *h, const char *text);

#endif
