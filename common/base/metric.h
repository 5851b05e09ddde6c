/* metric.h - Counters and gauges, declared as tables that print themselves.
 *
 *     #define ROUTER_METRICS(X)                                           \
 *         X(requests, COUNTER, "Generate calls")                          \
 *         X(choices_waiting, GAUGE, "choices that wait for room")
 *     METRIC_TABLE(router_metrics, ROUTER_METRICS);
 *
 * The table gives struct router_metrics, with one uint64_t per row, and the
 * array router_metrics_rows.  A counter counts from the start of the process
 * and never falls.  A gauge is a present value and may be 0.
 *
 * The functions below take the values of n rows as an array of n uint64_t in
 * row order.  A pointer to the struct of METRIC_TABLE is such an array.  Rows
 * and values may also come from another program, as in Status.
 *
 * Threading: one thread, the owner's, writes and prints a table.
 * Memory: everything is borrowed for the call.
 * Limits: names are of a-z, 0-9 and underscore, and start with a letter. */
#ifndef COMMON_BASE_METRIC_H
#define COMMON_BASE_METRIC_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE };

struct metric_row {
    const char *name; /* without prefix and suffix */
    enum metric_kind kind;
    const char *help; /* a noun phrase on one line */
};

#define METRIC_FIELD(name, kind, help) uint64_t name;
#define METRIC_ROW(name, kind, help)   {#name, METRIC_##kind, help},

/* Defines the struct and its rows.  All fields are uint64_t, so the struct is
 * an array of them in row order. */
#define METRIC_TABLE(tag, MAP)                                              \
    struct tag {                                                            \
        MAP(METRIC_FIELD)                                                   \
    };                                                                      \
    __attribute__((unused)) static const struct metric_row tag##_rows[] = { \
        MAP(METRIC_ROW)};                                                   \
    _Static_assert(sizeof(struct tag) ==                                    \
                       sizeof(uint64_t) *                                   \
                           (sizeof tag##_rows / sizeof tag##_rows[0]),      \
                   "one figure a row")

#define METRIC_COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* Returns the value of row i. */
uint64_t metric_value(const void *values, size_t i);

/* Prints one line per row for --list-metrics: the name with prefix and suffix,
 * the kind and the help, with tabs between them.  The suffix of a counter is
 * _total; a gauge has none. */
void metric_list(FILE *to, const char *prefix, const struct metric_row *rows,
                 size_t n);

/* Writes "name=value name=value ..." to out, [cap] with its NUL.  Values of 0
 * are left out.  Stops before the first entry that does not fit whole.
 * Returns the number of rows done; n if all of them are. */
size_t metric_text(char *out, size_t cap, const struct metric_row *rows,
                   size_t n, const void *values);

/* Logs the rows that are not 0 under this event, at level info, in as many
 * lines as they need; one line without rows if all are 0. */
void metric_log(const char *event, const struct metric_row *rows, size_t n,
                const void *values);

/* Prints all rows, those that are 0 too, in the text exposition format of
 * Prometheus: HELP, TYPE and the sample.  The names are those of
 * metric_list(). */
void metric_print(FILE *to, const char *prefix, const struct metric_row *rows,
                  size_t n, const void *values);

#endif
