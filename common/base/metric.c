#include "common/base/metric.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"

static const char *kind_name(enum metric_kind kind)
{
    return kind == METRIC_COUNTER ? "counter" : "gauge";
}

/* The exposition format wants counters to end in _total. */
static const char *suffix(enum metric_kind kind)
{
    return kind == METRIC_COUNTER ? "_total" : "";
}

uint64_t metric_value(const void *values, size_t i)
{
    uint64_t v;

    memcpy(&v, (const char *)values + i * sizeof v, sizeof v);
    return v;
}

void metric_list(FILE *to, const char *prefix, const struct metric_row *rows,
                 size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fprintf(to, "%s_%s%s\t%s\t%s\n", prefix, rows[i].name,
                suffix(rows[i].kind), kind_name(rows[i].kind), rows[i].help);
    }
}

size_t metric_text(char *out, size_t cap, const struct metric_row *rows,
                   size_t n, const void *values)
{
    size_t used = 0, i;

    out[0] = '\0';
    for (i = 0; i < n; i++) {
        uint64_t v = metric_value(values, i);
        size_t bytes;

        if (v == 0) {
            continue;
        }
        bytes = (size_t)snprintf(out + used, cap - used, "%s%s=%" PRIu64,
                                 used > 0 ? " " : "", rows[i].name, v);
        if (bytes >= cap - used) {
            out[used] = '\0';
            break;
        }
        used += bytes;
    }
    return i;
}

void metric_log(const char *event, const struct metric_row *rows, size_t n,
                const void *values)
{
    char text[LOG_LINE];
    const char *at = values;
    size_t done;

    do {
        /* The line starts with the event and a blank. */
        done = metric_text(text, sizeof text - strlen(event) - 1, rows, n, at);
        assert(done > 0 || n == 0); /* one entry fits a line */
        log_info(event, "%s", text);
        rows += done;
        at += done * sizeof(uint64_t);
        n -= done;
    } while (n > 0);
}

/* The format allows any text here, with backslash and newline escaped. */
static void print_help(FILE *to, const char *help)
{
    for (; *help != '\0'; help++) {
        if (*help == '\n') {
            fputs("\\n", to);
        } else if (*help == '\\') {
            fputs("\\\\", to);
        } else {
            fputc(*help, to);
        }
    }
}

void metric_print(FILE *to, const char *prefix, const struct metric_row *rows,
                  size_t n, const void *values)
{
    for (size_t i = 0; i < n; i++) {
        const char *name = rows[i].name, *end = suffix(rows[i].kind);

        fprintf(to, "# HELP %s_%s%s ", prefix, name, end);
        print_help(to, rows[i].help);
        fprintf(to, "\n# TYPE %s_%s%s %s\n", prefix, name, end,
                kind_name(rows[i].kind));
        fprintf(to, "%s_%s%s %" PRIu64 "\n", prefix, name, end,
                metric_value(values, i));
    }
}
