/* Histograms as text.  A run has hundreds of them, so numbers are in base 36
 * and most buckets cost three characters. */
#include <stdlib.h>
#include <string.h>

#include "client/load/figures/histogram_bucket.h"
#include "common/base/affix.h"
#include "common/base/memory.h"

#define DIGITS   13 /* of a uint64_t in base 36 */
#define HEAD_MAX (4 * (DIGITS + 1))
#define ITEM_MAX (2 * (DIGITS + 1)) /* "difference:count," */

/* ---- writing ---- */

static char *put_number(char *to, uint64_t v)
{
    char digits[DIGITS];
    size_t n = 0;

    do {
        digits[n++] = "0123456789abcdefghijklmnopqrstuvwxyz"[v % 36];
        v /= 36;
    } while (v > 0);
    while (n > 0) {
        *to++ = digits[--n];
    }
    return to;
}

static char *put_head(char *to, const struct histogram *h)
{
    const uint64_t numbers[] = {h->lost, (uint64_t)h->min, (uint64_t)h->max,
                                h->sum};

    for (size_t i = 0; i < 4; i++) {
        to = put_number(to, numbers[i]);
        *to++ = i < 3 ? ',' : ';';
    }
    return to;
}

char *histogram_write(const struct histogram *h)
{
    char *text = memory_must(malloc(HEAD_MAX + (size_t)h->size * ITEM_MAX + 1)),
         *to;
    uint32_t i = 0, bucket, last = 0;
    int64_t low, high;
    uint64_t count;

    to = put_head(text, h);
    while (histogram_next(h, &i, &low, &high, &count)) {
        bucket = histogram_bucket(low);
        to = put_number(to, bucket - last);
        last = bucket;
        if (count != 1) {
            *to++ = ':';
            to = put_number(to, count);
        }
        *to++ = ',';
    }
    to -= to[-1] == ',';
    *to = '\0';
    return text;
}

/* ---- reading ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'z' ? c - 'a' + 10
                                  : -1;
}

/* Takes a number of at most `most` off the front of *text. */
static bool take_number(const char **text, uint64_t most, uint64_t *out)
{
    uint64_t v = 0;

    if (digit(**text) < 0) {
        return false;
    }
    for (; digit(**text) >= 0; (*text)++) {
        if (__builtin_mul_overflow(v, (uint64_t)36, &v) ||
            __builtin_add_overflow(v, (uint64_t)digit(**text), &v) ||
            v > most) {
            return false;
        }
    }
    *out = v;
    return true;
}

/* Figures of the head; the buckets must agree. */
struct head {
    uint64_t lost, min, max, sum;
};

static bool take_head(const char **text, struct head *out)
{
    const uint64_t most = (uint64_t)HISTOGRAM_MAX;

    return take_number(text, HISTOGRAM_COUNT_MAX, &out->lost) &&
           skip_char(text, ',') && take_number(text, most, &out->min) &&
           skip_char(text, ',') && take_number(text, most, &out->max) &&
           skip_char(text, ',') && take_number(text, UINT64_MAX, &out->sum) &&
           skip_char(text, ';');
}

static bool take_buckets(const char **text, struct histogram *h)
{
    const uint32_t most = histogram_bucket(HISTOGRAM_MAX);
    uint64_t bucket = 0, step, count;
    int64_t from, to;

    while (**text != '\0') {
        count = 1;
        if ((bucket > 0 || h->n > 0) && !skip_char(text, ',')) {
            return false;
        }
        if (!take_number(text, most - bucket, &step) ||
            (step == 0 && h->n > 0) ||
            (skip_char(text, ':') &&
             !take_number(text, HISTOGRAM_COUNT_MAX, &count)) ||
            count == 0 || count > HISTOGRAM_COUNT_MAX - h->n) {
            return false;
        }
        bucket += step;
        histogram_range((uint32_t)bucket, &from, &to);
        histogram_add(h, from, count);
    }
    return true;
}

/* Takes the exact figures of the head if they fit the buckets' own. */
static bool settle(struct histogram *h, const struct head *head)
{
    int64_t min = (int64_t)head->min, max = (int64_t)head->max;
    double n = (double)h->n;

    if (h->n == 0) {
        h->lost = head->lost;
        return min == 0 && max == 0 && head->sum == 0;
    }
    if (histogram_bucket(min) != histogram_bucket(h->min) ||
        histogram_bucket(max) != histogram_bucket(h->max) || min > max ||
        (double)head->sum > (double)max * n * (1 + 1e-9) ||
        (head->sum < UINT64_MAX &&
         (double)head->sum < (double)min * n * (1 - 1e-9))) {
        return false;
    }
    h->min = min;
    h->max = max;
    h->sum = head->sum;
    h->lost = head->lost;
    return true;
}

bool histogram_read(struct histogram *h, const char *text)
{
    struct head head = {0};

    if (take_head(&text, &head) && take_buckets(&text, h) && settle(h, &head)) {
        return true;
    }
    histogram_fini(h);
    return false;
}
