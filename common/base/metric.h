/* metric.h - Counters, gauges and histograms, declared as tables that print
 * themselves.
 *
 *     #define ROUTER_METRICS(X)                                           \
 *         X(requests, COUNTER, "Generate calls")                          \
 *         X(choices_waiting, GAUGE, "choices that wait for room")
 *     METRIC_TABLE(router_metrics, ROUTER_METRICS);
 *     METRIC_SET(router_metrics, "sluice_router", NULL);
 *
 * The table gives struct router_metrics, with one field per row, and the array
 * router_metrics_rows.  The set adds the prefix of the names and the names of
 * labels.
 *
 *   kind     field             value                       suffix of its name
 *   COUNTER  uint64_t          counts since the start;     _total
 *                              never falls
 *   GAUGE    uint64_t          a present value, may be 0   none
 *   TIME     uint64_t          a present time: nanoseconds _seconds
 *                              as a gauge of seconds
 *   TIMES    metric_histogram  microseconds, printed in    _seconds
 *                              seconds
 *   SIZES    metric_histogram  whole numbers               none
 *
 * A struct of METRIC_TABLE is an array of uint64_t in row order.  A series is
 * one such array.  A set without labels has one series, a set with labels has
 * one per combination of label values (struct metric_series).  Rows and values
 * may also come from another program, as in Status.
 *
 * Threading: one thread, the owner's, writes and prints a table.
 * Memory: everything is borrowed for the call; nothing is allocated.
 * Limits: names are of a-z, 0-9 and underscore, and start with a letter. */
#ifndef COMMON_BASE_METRIC_H
#define COMMON_BASE_METRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum metric_kind {
    METRIC_COUNTER,
    METRIC_GAUGE,
    METRIC_TIMES,
    METRIC_SIZES,
    METRIC_TIME
};

struct metric_row {
    const char *name; /* without prefix and suffix */
    enum metric_kind kind;
    const char *help; /* a noun phrase on one line */
};

#define METRIC_BUCKETS 20 /* the last one has no upper bound */

struct metric_histogram {
    uint64_t count[METRIC_BUCKETS]; /* per bucket, not cumulative */
    uint64_t sum;                   /* sum of the values */
};

struct metric_set {
    const char *prefix; /* without the underscore after it */
    const struct metric_row *rows;
    size_t n_rows;
    const char *labels; /* names, with commas between; NULL: no labels */
};

/* Series of one set.  labels: the values of the labels of series 0, then of
 * series 1, and so on, each ended by a NUL.  values: [n][metric_width()]. */
struct metric_series {
    const struct metric_set *set;
    const char *labels; /* NULL if the set has no labels */
    const void *values;
    size_t n;
};

#define METRIC_TYPE_COUNTER            uint64_t
#define METRIC_TYPE_GAUGE              uint64_t
#define METRIC_TYPE_TIME               uint64_t
#define METRIC_TYPE_TIMES              struct metric_histogram
#define METRIC_TYPE_SIZES              struct metric_histogram
#define METRIC_FIELD(name, kind, help) METRIC_TYPE_##kind name;
#define METRIC_BYTES(name, kind, help) +sizeof(METRIC_TYPE_##kind)
#define METRIC_ROW(name, kind, help)   {#name, METRIC_##kind, help},

/* Defines the struct and its rows. */
#define METRIC_TABLE(tag, MAP)                                              \
    struct tag {                                                            \
        MAP(METRIC_FIELD)                                                   \
    };                                                                      \
    __attribute__((unused)) static const struct metric_row tag##_rows[] = { \
        MAP(METRIC_ROW)};                                                   \
    _Static_assert(sizeof(struct tag) == 0 MAP(METRIC_BYTES),               \
                   "an array of figures")

/* Defines tag_set, the set of a table. */
#define METRIC_SET(tag, prefix, labels)                                  \
    __attribute__((unused)) static const struct metric_set tag##_set = { \
        prefix, tag##_rows, METRIC_COUNT(tag##_rows), labels}

#define METRIC_COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Adds an observation: a time in microseconds (negative counts as 0) to a row
 * of TIMES, a number to a row of SIZES. */
void metric_time(struct metric_histogram *h, int64_t us);
void metric_size(struct metric_histogram *h, uint64_t n);

/* Returns the number of observations. */
uint64_t metric_observed(const struct metric_histogram *h);

/* Returns the upper bound of bucket i < METRIC_BUCKETS as the text of the
 * label `le`: in seconds for TIMES, "+Inf" for the last. */
const char *metric_bound(enum metric_kind kind, size_t i);

/* Returns the value at position i of an array of values. */
uint64_t metric_value(const void *values, size_t i);

/* Returns the uint64_t that a row of this kind takes, or all rows of a set. */
size_t metric_kind_width(enum metric_kind kind);
size_t metric_width(const struct metric_set *set);

/* Returns the number of labels of a set. */
size_t metric_n_labels(const struct metric_set *set);

/* Returns the bytes of all label values of s, with their NULs. */
size_t metric_labels_bytes(const struct metric_series *s);

/* Return the name of a kind for the TYPE line, and the suffix of its names. */
const char *metric_kind_name(enum metric_kind kind);
const char *metric_suffix(enum metric_kind kind);

/* Prints one line per row for --list-metrics, with tabs between its parts: the
 * name with prefix and suffix, the kind, the help, and the names of labels if
 * the set has any. */
void metric_list(FILE *to, const struct metric_set *set);

/* Writes "name=value name=value ..." to out, [cap] with its NUL.  A histogram
 * gives name_n, the number of observations, and name_sum (of TIMES: name_us),
 * and a row of TIME name_ns. Values of 0 are left out.  Stops before the first
 * entry that does not fit whole.  Returns the number of rows done; n if all of
 * them are. */
size_t metric_text(char *out, size_t cap, const struct metric_row *rows,
                   size_t n, const void *values);

/* Logs every series under this event, at level info: its labels and its rows
 * that are not 0, in as many lines as they need.  A set without labels gives
 * one line if all rows are 0; a labelled series of zeros gives none.  Only
 * the beginning of the label "tenant" is logged. */
void metric_log(const char *event, const struct metric_series *s);

#endif
