#include "common/base/metric.h"

#include <inttypes.h>
#include <string.h>

static const char *kind_name(enum metric_kind kind)
{
    return kind == METRIC_COUNTER ? "counter" : "gauge";
}

/* The exposition format requires counters to end in _total. */
static const char *suffix(enum metric_kind kind)
{
    return kind == METRIC_COUNTER ? "_total" : "";
}

void metric_list(FILE *to, const char *prefix, const struct metric_row *rows,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "%s_%s%s\t%s\t%s\n", prefix, rows[i].name,
                suffix(rows[i].kind), kind_name(rows[i].kind), rows[i].help);
    }
}

static uint64_t value_of(const void *values, size_t i)
{
    uint64_t v;

    memcpy(&v, (const char *)values + i * sizeof v, sizeof v);
    return v;
}

void metric_text(char *out, size_t cap, const struct metric_row *rows, size_t n,
                 const void *values)
{
    size_t used = 0;

    out[0] = '\0';
    for (size_t i = 0; i < n && used < cap; i++) {
        uint64_t v = value_of(values, i);

        if (v != 0) {
            used += (size_t)snprintf(out + used, cap - used, "%s%s=%" PRIu64,
                                     used > 0 ? " " : "", rows[i].name, v);
        }
    }
}

void metric_print(FILE *to, const char *prefix, const struct metric_row *rows,
                  size_t n, const void *values)
{
    for (size_t i = 0; i < n; i++) {
        const char *end = suffix(rows[i].kind);
        uint64_t v = value_of(values, i);

        fprintf(to, "# HELP %s_%s%s %s\n# TYPE %s_%s%s %s\n", prefix,
                rows[i].name, end, rows[i].help, prefix, rows[i].name, end,
                kind_name(rows[i].kind));
        fprintf(to, "%s_%s%s %" PRIu64 "\n", prefix, rows[i].name, end, v);
    }
}
