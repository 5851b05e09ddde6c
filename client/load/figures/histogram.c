#include "client/load/figures/histogram.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/figures/histogram_bucket.h"
#include "common/base/memory.h"

/* A server may report an absurd queue time. */
static int64_t clamp(int64_t value)
{
    return value < 0 ? 0 : value > HISTOGRAM_MAX ? HISTOGRAM_MAX : value;
}

/* ---- counts ---- */

void histogram_fini(struct histogram *h)
{
    free(h->index);
    free(h->counts);
    memset(h, 0, sizeof *h);
}

void histogram_clear(struct histogram *h)
{
    histogram_fini(h);
}

/* By whole doublings, so that a slowly rising maximum costs few copies. */
static void dense_grow(struct histogram *h, uint32_t bucket)
{
    uint32_t size = (bucket / HISTOGRAM_SUB + 1) * HISTOGRAM_SUB;

    h->counts = memory_must(realloc(h->counts, size * sizeof *h->counts));
    memset(h->counts + h->size, 0, (size - h->size) * sizeof *h->counts);
    h->size = size;
}

/* Makes an array of all buckets up to the largest in use. */
static void make_dense(struct histogram *h)
{
    uint32_t *index = h->index, n = h->size;
    uint64_t *counts = h->counts;

    h->index = NULL;
    h->counts = NULL;
    h->size = h->room = 0;
    h->dense = true;
    dense_grow(h, index[n - 1]);
    for (uint32_t i = 0; i < n; i++) {
        h->counts[index[i]] = counts[i];
    }
    free(index);
    free(counts);
}

/* Returns the first entry of a sparse histogram at or after a bucket. */
static uint32_t sparse_find(const struct histogram *h, uint32_t bucket)
{
    uint32_t low = 0, high = h->size;

    while (low < high) {
        uint32_t mid = (low + high) / 2;

        if (h->index[mid] < bucket) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* memmove() of at most HISTOGRAM_SPARSE entries: once for each new bucket. */
static void sparse_insert(struct histogram *h, uint32_t at, uint32_t bucket)
{
    if (h->size == h->room) {
        h->room = h->room == 0 ? 8 : 2 * h->room;
        h->index = memory_must(realloc(h->index, h->room * sizeof *h->index));
        h->counts =
            memory_must(realloc(h->counts, h->room * sizeof *h->counts));
    }
    memmove(h->index + at + 1, h->index + at,
            (h->size - at) * sizeof *h->index);
    memmove(h->counts + at + 1, h->counts + at,
            (h->size - at) * sizeof *h->counts);
    h->index[at] = bucket;
    h->counts[at] = 0;
    h->size++;
}

/* Returns the count of a bucket, made if need be. */
static uint64_t *slot(struct histogram *h, uint32_t bucket)
{
    if (!h->dense) {
        uint32_t at = sparse_find(h, bucket);

        if (at < h->size && h->index[at] == bucket) {
            return &h->counts[at];
        }
        if (h->size < HISTOGRAM_SPARSE) {
            sparse_insert(h, at, bucket);
            return &h->counts[at];
        }
        make_dense(h);
    }
    if (bucket >= h->size) {
        dense_grow(h, bucket);
    }
    return &h->counts[bucket];
}

/* Called before n is raised: n == 0 marks that min and max are not set. */
static void widen(struct histogram *h, int64_t min, int64_t max)
{
    h->min = h->n == 0 || min < h->min ? min : h->min;
    h->max = h->n == 0 || max > h->max ? max : h->max;
}

/* At a ceiling the order of additions does not matter either. */
static void add_to_sum(struct histogram *h, uint64_t value, uint64_t times)
{
    uint64_t product;

    if (__builtin_mul_overflow(value, times, &product) ||
        __builtin_add_overflow(h->sum, product, &h->sum)) {
        h->sum = UINT64_MAX;
    }
}

void histogram_add(struct histogram *h, int64_t value, uint64_t times)
{
    value = clamp(value);
    if (times > 0) {
        *slot(h, histogram_bucket(value)) += times;
        widen(h, value, value);
        h->n += times;
        add_to_sum(h, (uint64_t)value, times);
    }
}

void histogram_lose(struct histogram *h, uint64_t times)
{
    h->lost += times;
}

/* Sets *bucket and *count of the next entry that is not 0. */
static bool next_entry(const struct histogram *h, uint32_t *i, uint32_t *bucket,
                       uint64_t *count)
{
    while (*i < h->size && h->counts[*i] == 0) {
        (*i)++;
    }
    if (*i >= h->size) {
        return false;
    }
    *bucket = h->dense ? *i : h->index[*i];
    *count = h->counts[*i];
    (*i)++;
    return true;
}

void histogram_merge(struct histogram *to, const struct histogram *from)
{
    uint32_t i = 0, bucket;
    uint64_t count;

    assert(to != from);
    while (next_entry(from, &i, &bucket, &count)) {
        *slot(to, bucket) += count;
    }
    if (from->n > 0) {
        widen(to, from->min, from->max);
    }
    to->n += from->n;
    to->lost += from->lost;
    add_to_sum(to, from->sum, 1);
}

bool histogram_next(const struct histogram *h, uint32_t *i, int64_t *from,
                    int64_t *to, uint64_t *count)
{
    uint32_t bucket;

    if (!next_entry(h, i, &bucket, count)) {
        return false;
    }
    histogram_range(bucket, from, to);
    return true;
}

/* ---- figures ---- */

/* Returns the rank of quantile q of n values, 1..n.  0.07 * 100 is a little
 * more than 7 in doubles, which must not make it the 8th value. */
static uint64_t rank_of(double q, uint64_t n)
{
    double rank = ceil(q * (double)n * (1 - 1e-12));

    if (!(rank > 1)) {
        return 1;
    }
    return rank >= (double)n ? n : (uint64_t)rank;
}

int64_t histogram_quantile(const struct histogram *h, double q)
{
    uint64_t rank = rank_of(q, h->n + h->lost), count, seen = 0;
    int64_t from, to = 0;
    uint32_t i = 0;

    if (h->n + h->lost == 0) {
        return 0;
    }
    if (rank > h->n) {
        return HISTOGRAM_LOST;
    }
    if (rank == 1 || rank == h->n) {
        return rank == h->n ? h->max : h->min;
    }
    while (seen < rank && histogram_next(h, &i, &from, &to, &count)) {
        seen += count;
    }
    return to > h->max ? h->max : to;
}

double histogram_mean(const struct histogram *h)
{
    return h->n == 0 ? 0 : (double)h->sum / (double)h->n;
}
