/* metric.h - Metrics as tables that print themselves; only the owner writes.
 *
 *     #define ROUTER_METRICS(X)                                           \
 *         X(requests, COUNTER, "generations asked for")                   \
 *         X(waiting, GAUGE, "generations that wait for room")
 *     METRIC_TABLE(router_metrics, ROUTER_METRICS);
 *
 * The macro defines struct router_metrics with one uint64_t per row, and
 * router_metrics_rows.
 *
 * Threading: the owner's.  The text is the Prometheus exposition format. */
#ifndef COMMON_BASE_METRIC_H
#define COMMON_BASE_METRIC_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE };

struct metric_row {
    const char *name;
    enum metric_kind kind;
    const char *help;
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

/* Lists name, kind and meaning of each row, for --list-metrics. */
void metric_list(FILE *to, const char *prefix, const struct metric_row *rows,
                 size_t n);

/* Formats name=value for each value that is not 0 on one line, cut after cap
 * - 1 bytes. */
void metric_text(char *out, size_t cap, const struct metric_row *rows, size_t n,
                 const void *values);

/* Prints the values of a struct of METRIC_TABLE. */
void metric_print(FILE *to, const char *prefix, const struct metric_row *rows,
                  size_t n, const void *values);

#endif
