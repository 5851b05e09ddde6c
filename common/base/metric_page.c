#include "common/base/metric_page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void metric_page_clear(struct metric_page *p)
{
    p->n = 0;
    p->broken = false;
}

void metric_page_fini(struct metric_page *p)
{
    free(p->text);
    *p = (struct metric_page){.text = NULL};
}

/* Returns false without memory. */
static bool reserve(struct metric_page *p, size_t n)
{
    size_t size = p->size > 0 ? p->size : 4096;
    char *text;

    while (size - p->n < n) {
        size *= 2;
    }
    if (size != p->size) {
        text = realloc(p->text, size);
        if (text == NULL) {
            p->broken = true;
            return false;
        }
        p->text = text;
        p->size = size;
    }
    return true;
}

static void put(struct metric_page *p, const char *text, size_t n)
{
    if (reserve(p, n)) {
        memcpy(p->text + p->n, text, n);
        p->n += n;
    }
}

void metric_page_text(struct metric_page *p, const char *text)
{
    put(p, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static void print(struct metric_page *p,
                                                        const char *fmt, ...)
{
    va_list args;
    size_t n;

    for (;;) {
        if (!reserve(p, 1)) {
            return;
        }
        va_start(args, fmt);
        n = (size_t)vsnprintf(p->text + p->n, p->size - p->n, fmt, args);
        va_end(args);
        if (n < p->size - p->n) {
            break;
        }
        if (!reserve(p, n + 1)) {
            return;
        }
    }
    p->n += n;
}

/* The format allows any text, with backslash and newline escaped, and in a
 * label with its quotes escaped too. */
static void put_escaped(struct metric_page *p, const char *text, bool quotes)
{
    while (*text != '\0') {
        size_t n = strcspn(text, quotes ? "\\\n\"" : "\\\n");

        put(p, text, n);
        text += n;
        if (*text != '\0') {
            char escape[2] = {'\\', *text == '\n' ? 'n' : *text};

            put(p, escape, 2);
            text++;
        }
    }
}

/* Adds {name="value",...} with the label le if it is not NULL. */
static void put_labels(struct metric_page *p, const char *names,
                       const char *values, const char *le)
{
    const char *between = "{";

    while (names != NULL) {
        size_t n = strcspn(names, ",");

        print(p, "%s%.*s=\"", between, (int)n, names);
        put_escaped(p, values, true);
        put(p, "\"", 1);
        values += strlen(values) + 1;
        names = names[n] == ',' ? names + n + 1 : NULL;
        between = ",";
    }
    if (le != NULL) {
        print(p, "%sle=\"%s\"", between, le);
        between = ",";
    }
    if (*between == ',') {
        put(p, "}", 1);
    }
}

/* One row of one series. */
struct sample {
    const struct metric_set *set;
    const struct metric_row *row;
    const char *labels; /* values; NULL: none */
};

static void put_name(struct metric_page *p, const struct sample *s,
                     const char *end, const char *le)
{
    print(p, "%s_%s%s%s", s->set->prefix, s->row->name,
          metric_suffix(s->row->kind), end);
    put_labels(p, s->set->labels, s->labels, le);
}

static void put_histogram(struct metric_page *p, const struct sample *s,
                          const struct metric_histogram *h)
{
    uint64_t count = 0;

    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        count += h->count[i];
        put_name(p, s, "_bucket", metric_bound(s->row->kind, i));
        print(p, " %" PRIu64 "\n", count);
    }
    put_name(p, s, "_sum", NULL);
    if (s->row->kind == METRIC_TIMES) {
        print(p, " %" PRIu64 ".%06" PRIu64 "\n", h->sum / 1000000,
              h->sum % 1000000);
    } else {
        print(p, " %" PRIu64 "\n", h->sum);
    }
    put_name(p, s, "_count", NULL);
    print(p, " %" PRIu64 "\n", count);
}

static void put_value(struct metric_page *p, enum metric_kind kind,
                      uint64_t value)
{
    if (kind == METRIC_TIME) {
        print(p, " %" PRIu64 ".%09" PRIu64 "\n", value / 1000000000,
              value % 1000000000);
    } else {
        print(p, " %" PRIu64 "\n", value);
    }
}

static void put_sample(struct metric_page *p, const struct sample *s,
                       const char *values)
{
    struct metric_histogram h;

    if (metric_kind_width(s->row->kind) > 1) {
        memcpy(&h, values, sizeof h);
        put_histogram(p, s, &h);
    } else {
        put_name(p, s, "", NULL);
        put_value(p, s->row->kind, metric_value(values, 0));
    }
}

static void put_head(struct metric_page *p, const struct metric_set *set,
                     const struct metric_row *row)
{
    print(p, "# HELP %s_%s%s ", set->prefix, row->name,
          metric_suffix(row->kind));
    put_escaped(p, row->help, false);
    print(p, "\n# TYPE %s_%s%s %s\n", set->prefix, row->name,
          metric_suffix(row->kind), metric_kind_name(row->kind));
}

/* Returns the labels of the next series. */
static const char *skip_labels(const char *labels, size_t n)
{
    while (n-- > 0) {
        labels += strlen(labels) + 1;
    }
    return labels;
}

void metric_page_add(struct metric_page *p, const struct metric_series *s)
{
    size_t stride = metric_width(s->set) * sizeof(uint64_t);
    size_t n_labels = metric_n_labels(s->set), at = 0;

    /* All samples of a name must follow its TYPE, so the series are walked
     * once per row. */
    for (size_t r = 0; r < s->set->n_rows; r++) {
        struct sample sample = {s->set, &s->set->rows[r], s->labels};

        put_head(p, s->set, sample.row);
        for (size_t i = 0; i < s->n; i++) {
            put_sample(p, &sample, (const char *)s->values + i * stride + at);
            sample.labels = skip_labels(sample.labels, n_labels);
        }
        at += metric_kind_width(sample.row->kind) * sizeof(uint64_t);
    }
}
