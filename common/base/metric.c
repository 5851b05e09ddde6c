#include "common/base/metric.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/quote.h"

/* ---- histograms ---- */

struct bound {
    uint64_t most;
    const char *le;
};

/* From a step of a small model to a long queue: three bounds a decade. */
static const struct bound times[METRIC_BUCKETS] = {
    {100, "0.0001"},    {250, "0.00025"},     {500, "0.0005"},
    {1000, "0.001"},    {2500, "0.0025"},     {5000, "0.005"},
    {10000, "0.01"},    {25000, "0.025"},     {50000, "0.05"},
    {100000, "0.1"},    {250000, "0.25"},     {500000, "0.5"},
    {1000000, "1"},     {2500000, "2.5"},     {5000000, "5"},
    {10000000, "10"},   {25000000, "25"},     {50000000, "50"},
    {100000000, "100"}, {UINT64_MAX, "+Inf"},
};

static const struct bound sizes[METRIC_BUCKETS] = {
    {1, "1"},           {2, "2"},
    {4, "4"},           {8, "8"},
    {16, "16"},         {32, "32"},
    {64, "64"},         {128, "128"},
    {256, "256"},       {512, "512"},
    {1024, "1024"},     {2048, "2048"},
    {4096, "4096"},     {8192, "8192"},
    {16384, "16384"},   {32768, "32768"},
    {65536, "65536"},   {131072, "131072"},
    {262144, "262144"}, {UINT64_MAX, "+Inf"},
};

static void observe(struct metric_histogram *h, const struct bound *bounds,
                    uint64_t value)
{
    size_t i = 0;

    while (value > bounds[i].most) {
        i++;
    }
    h->count[i]++;
    h->sum += value;
}

void metric_time(struct metric_histogram *h, int64_t us)
{
    observe(h, times, us > 0 ? (uint64_t)us : 0);
}

void metric_size(struct metric_histogram *h, uint64_t n)
{
    observe(h, sizes, n);
}

uint64_t metric_observed(const struct metric_histogram *h)
{
    uint64_t n = 0;

    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        n += h->count[i];
    }
    return n;
}

const char *metric_bound(enum metric_kind kind, size_t i)
{
    assert(i < METRIC_BUCKETS);
    return kind == METRIC_TIMES ? times[i].le : sizes[i].le;
}

/* ---- rows ---- */

static bool is_histogram(enum metric_kind kind)
{
    return kind == METRIC_TIMES || kind == METRIC_SIZES;
}

const char *metric_kind_name(enum metric_kind kind)
{
    return kind == METRIC_COUNTER ? "counter"
           : is_histogram(kind)   ? "histogram"
                                  : "gauge";
}

/* Prometheus wants counters to end in _total, and units in the name. */
const char *metric_suffix(enum metric_kind kind)
{
    return kind == METRIC_COUNTER                        ? "_total"
           : kind == METRIC_TIME || kind == METRIC_TIMES ? "_seconds"
                                                         : "";
}

uint64_t metric_value(const void *values, size_t i)
{
    uint64_t v;

    memcpy(&v, (const char *)values + i * sizeof v, sizeof v);
    return v;
}

size_t metric_kind_width(enum metric_kind kind)
{
    return is_histogram(kind)
               ? sizeof(struct metric_histogram) / sizeof(uint64_t)
               : 1;
}

static size_t rows_width(const struct metric_row *rows, size_t n)
{
    size_t width = 0;

    for (size_t i = 0; i < n; i++) {
        width += metric_kind_width(rows[i].kind);
    }
    return width;
}

size_t metric_width(const struct metric_set *set)
{
    return rows_width(set->rows, set->n_rows);
}

size_t metric_n_labels(const struct metric_set *set)
{
    const char *at = set->labels;
    size_t n = at != NULL;

    while (at != NULL && (at = strchr(at, ',')) != NULL) {
        at++;
        n++;
    }
    return n;
}

size_t metric_labels_bytes(const struct metric_series *s)
{
    size_t n = s->n * metric_n_labels(s->set), bytes = 0;

    while (n-- > 0) {
        bytes += strlen(s->labels + bytes) + 1;
    }
    return bytes;
}

void metric_list(FILE *to, const struct metric_set *set)
{
    for (size_t i = 0; i < set->n_rows; i++) {
        const struct metric_row *row = &set->rows[i];

        fprintf(to, "%s_%s%s\t%s\t%s%s%s\n", set->prefix, row->name,
                metric_suffix(row->kind), metric_kind_name(row->kind),
                row->help, set->labels != NULL ? "\t" : "",
                set->labels != NULL ? set->labels : "");
    }
}

/* ---- the log ---- */

/* Writes the entry of one row; returns its bytes, also if cap is less. */
static size_t row_text(char *out, size_t cap, const struct metric_row *row,
                       const void *values)
{
    const struct metric_histogram *h = values;
    struct metric_histogram copy;

    if (!is_histogram(row->kind)) {
        return (size_t)snprintf(out, cap, "%s%s=%" PRIu64, row->name,
                                row->kind == METRIC_TIME ? "_ns" : "",
                                metric_value(values, 0));
    }
    memcpy(&copy, h, sizeof copy); /* values need not be aligned */
    return (size_t)snprintf(out, cap, "%s_n=%" PRIu64 " %s_%s=%" PRIu64,
                            row->name, metric_observed(&copy), row->name,
                            row->kind == METRIC_TIMES ? "us" : "sum", copy.sum);
}

static bool is_zero(const struct metric_row *row, const void *values)
{
    for (size_t i = 0; i < metric_kind_width(row->kind); i++) {
        if (metric_value(values, i) != 0) {
            return false;
        }
    }
    return true;
}

size_t metric_text(char *out, size_t cap, const struct metric_row *rows,
                   size_t n, const void *values)
{
    const char *at = values;
    size_t used = 0, i;

    out[0] = '\0';
    for (i = 0; i < n; i++) {
        const char *row_values = at;
        size_t gap = used > 0, bytes;

        at += metric_kind_width(rows[i].kind) * sizeof(uint64_t);
        if (is_zero(&rows[i], row_values)) {
            continue;
        }
        if (used + gap >= cap) {
            break;
        }
        bytes =
            row_text(out + used + gap, cap - used - gap, &rows[i], row_values);
        if (bytes >= cap - used - gap) {
            out[used] = '\0';
            break;
        }
        if (gap > 0) {
            out[used] = ' ';
        }
        used += gap + bytes;
    }
    return i;
}

/* Writes 'name="value" ' for each label of a series and moves *labels past its
 * values. */
static size_t labels_text(char *out, size_t cap, const char *names,
                          const char **labels)
{
    size_t used = 0;

    out[0] = '\0';
    while (names != NULL) {
        size_t n = strcspn(names, ",");
        struct quoted value = quote(*labels);

        used += (size_t)snprintf(out + used, cap - used, "%.*s=%s ", (int)n,
                                 names, value.text);
        assert(used < cap);
        *labels += strlen(*labels) + 1;
        names = names[n] == ',' ? names + n + 1 : NULL;
    }
    return used;
}

static void log_series(const char *event, const struct metric_set *set,
                       const char *values, const char **labels)
{
    const struct metric_row *rows = set->rows;
    size_t n = set->n_rows, start, done;
    char text[LOG_LINE];

    start = labels_text(text, sizeof text / 2, set->labels, labels);
    do {
        /* The line starts with the event and a blank. */
        done =
            metric_text(text + start, sizeof text - start - strlen(event) - 1,
                        rows, n, values);
        assert(done > 0 || n == 0); /* one entry fits a line */
        if (text[start] != '\0') {
            log_info(event, "%s", text);
        }
        values += rows_width(rows, done) * sizeof(uint64_t);
        rows += done;
        n -= done;
    } while (n > 0);
}

void metric_log(const char *event, const struct metric_series *s)
{
    size_t bytes = metric_width(s->set) * sizeof(uint64_t);
    const char *labels = s->labels;

    for (size_t i = 0; i < s->n; i++) {
        log_series(event, s->set, (const char *)s->values + i * bytes, &labels);
    }
}
