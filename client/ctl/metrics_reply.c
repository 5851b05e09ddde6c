#include "client/ctl/metrics_reply.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/ctl/escape.h"
#include "common/base/memory.h"
#include "common/base/metric_family.h"
#include "common/base/metric_page.h"

#define LABELS_MAX 4 /* of a table; router and gateway use at most two */

/* ---- checks ---- */

static bool name_ok(const uint8_t *name, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || c == '_';

        if (!letter && (i == 0 || c < '0' || c > '9')) {
            return false;
        }
    }
    return n > 0;
}

/* Returns the number of label names; 0 if any of them is not allowed. */
static size_t count_names(ProtobufCBinaryData names)
{
    size_t n = 0, from = 0;

    for (size_t i = 0; i <= names.len; i++) {
        if (i == names.len || names.data[i] == ',') {
            if (!name_ok(names.data + from, i - from)) {
                return 0;
            }
            from = i + 1;
            n++;
        }
    }
    return n <= LABELS_MAX ? n : 0;
}

static bool kind_of(Sluice__V1__MetricKind kind, enum metric_kind *out)
{
    switch ((int)kind) {
    case SLUICE__V1__METRIC_KIND__METRIC_COUNTER:
        *out = METRIC_COUNTER;
        return true;
    case SLUICE__V1__METRIC_KIND__METRIC_GAUGE:
        *out = METRIC_GAUGE;
        return true;
    case SLUICE__V1__METRIC_KIND__METRIC_TIMES:
        *out = METRIC_TIMES;
        return true;
    case SLUICE__V1__METRIC_KIND__METRIC_SIZES:
        *out = METRIC_SIZES;
        return true;
    default:
        return false;
    }
}

/* ---- a table of the reply ---- */

/* Rows and series with escaped, owned texts. */
struct table {
    struct metric_set set;
    struct metric_row *rows;     /* [set.n_rows] */
    char *labels;                /* the names; NULL: none */
    struct metric_family family; /* if there are labels */
    struct metric_series series;
};

static void table_fini(struct table *t)
{
    for (size_t i = 0; i < t->set.n_rows; i++) {
        free((char *)(uintptr_t)t->rows[i].name);
        free((char *)(uintptr_t)t->rows[i].help);
    }
    free(t->rows);
    free(t->labels);
    metric_family_fini(&t->family);
}

/* Copies the rows.  Returns false if one has a name or kind that is not
 * allowed. */
static bool take_rows(struct table *t, const Sluice__V1__MetricTable *m)
{
    bool ok = true;

    t->rows = memory_must(calloc(m->n_rows + 1, sizeof *t->rows));
    t->set.rows = t->rows;
    for (size_t i = 0; i < m->n_rows; i++) {
        const Sluice__V1__MetricRow *x = m->rows[i];
        struct metric_row *row = &t->rows[t->set.n_rows++];

        row->name = escape_copy(x->name.data, x->name.len);
        row->help = escape_copy(x->help.data, x->help.len);
        ok = ok && name_ok(x->name.data, x->name.len) &&
             kind_of(x->kind, &row->kind);
    }
    return ok && m->n_rows > 0;
}

/* Copies n label values from `labels`, where each ends with a NUL, and moves
 * *at past them.  Returns the number copied: fewer if no more are there. */
static size_t take_labels(ProtobufCBinaryData labels, size_t *at, size_t n,
                          char **out)
{
    size_t k = 0;

    for (; k < n && *at < labels.len; k++) {
        uint8_t *from = labels.data + *at;
        const uint8_t *end = memchr(from, 0, labels.len - *at);

        if (end == NULL) {
            break;
        }
        out[k] = escape_copy(from, (size_t)(end - from));
        *at += (size_t)(end - from) + 1;
    }
    return k;
}

/* Copies the series.  Returns false if labels or values do not fit. */
static bool take_series(struct table *t, const Sluice__V1__MetricTable *m)
{
    size_t n_labels = count_names(m->label_names), at = 0;
    size_t width = metric_width(&t->set), n = m->n_values / width;

    if (n_labels == 0 || m->n_values % width != 0) {
        return false;
    }
    t->labels = escape_copy(m->label_names.data, m->label_names.len);
    t->set.labels = t->labels;
    metric_family_init(&t->family, &t->set);
    for (size_t i = 0; i < n; i++) {
        char *values[LABELS_MAX];
        size_t k = take_labels(m->labels, &at, n_labels, values);

        if (k == n_labels) {
            memcpy(metric_family_add(&t->family, (const char *const *)values),
                   m->values + i * width, width * sizeof *m->values);
        }
        for (size_t j = 0; j < k; j++) {
            free(values[j]);
        }
        if (k < n_labels) {
            return false;
        }
    }
    (void)metric_family_series(&t->family, &t->series);
    return true;
}

static bool table_init(struct table *t, const Sluice__V1__MetricTable *m,
                       const char *prefix)
{
    *t = (struct table){.set.prefix = prefix};
    if (!take_rows(t, m)) {
        return false;
    }
    if (m->has_label_names) {
        return take_series(t, m);
    }
    t->series = (struct metric_series){&t->set, NULL, m->values, 1};
    return m->n_values == metric_width(&t->set);
}

/* ---- print ---- */

static void page_metric(struct metric_page *page, const Sluice__V1__Metric *x,
                        const char *prefix)
{
    char *name = escape_copy(x->name.data, x->name.len),
         *help = escape_copy(x->help.data, x->help.len);
    struct metric_row row = {.name = name, .help = help};
    const struct metric_set set = {prefix, &row, 1, NULL};
    const struct metric_series s = {&set, NULL, &x->value, 1};

    if (name_ok(x->name.data, x->name.len) && kind_of(x->kind, &row.kind) &&
        metric_kind_width(row.kind) == 1) {
        metric_page_add(page, &s);
    }
    free(name);
    free(help);
}

void metrics_reply_print(const Sluice__V1__StatusReply *m, const char *prefix,
                         FILE *to)
{
    struct metric_page page = {.text = NULL};

    for (size_t i = 0; i < m->n_metrics; i++) {
        page_metric(&page, m->metrics[i], prefix);
    }
    for (size_t i = 0; i < m->n_tables; i++) {
        struct table t;

        if (table_init(&t, m->tables[i], prefix)) {
            metric_page_add(&page, &t.series);
        }
        table_fini(&t);
    }
    if (page.n > 0) {
        fwrite(page.text, 1, page.n, to);
    }
    metric_page_fini(&page);
}

/* ---- JSON ---- */

static json_t *number(uint64_t v)
{
    return json_integer((json_int_t)v);
}

static json_t *value_json(enum metric_kind kind, const uint64_t *values)
{
    struct metric_histogram h;
    json_t *j, *buckets;

    if (metric_kind_width(kind) == 1) {
        return number(values[0]);
    }
    memcpy(&h, values, sizeof h);
    j = json_object();
    buckets = json_object();
    json_object_set_new(j, "count", number(metric_observed(&h)));
    json_object_set_new(j, kind == METRIC_TIMES ? "sum_us" : "sum",
                        number(h.sum));
    for (size_t i = 0; i < METRIC_BUCKETS; i++) {
        json_object_set_new(buckets, metric_bound(kind, i), number(h.count[i]));
    }
    json_object_set_new(j, "buckets", buckets);
    return j;
}

/* Adds the labels of one series to j, and moves *values past them. */
static void labels_json(json_t *j, const char *names, const char **values)
{
    while (names != NULL) {
        size_t n = strcspn(names, ",");

        json_object_setn_new(j, names, n, json_string(*values));
        *values += strlen(*values) + 1;
        names = names[n] == ',' ? names + n + 1 : NULL;
    }
}

static json_t *row_json(const struct table *t, enum metric_kind kind, size_t at)
{
    const uint64_t *values = (const uint64_t *)t->series.values + at;
    const char *labels = t->series.labels;
    json_t *list;

    if (t->set.labels == NULL) {
        return value_json(kind, values);
    }
    list = json_array();
    for (size_t i = 0; i < t->series.n; i++) {
        json_t *j = json_object();

        labels_json(j, t->set.labels, &labels);
        json_object_set_new(j, "value", value_json(kind, values));
        json_array_append_new(list, j);
        values += metric_width(&t->set);
    }
    return list;
}

static void table_json(const struct table *t, json_t *j)
{
    size_t at = 0;

    for (size_t i = 0; i < t->set.n_rows; i++) {
        const struct metric_row *row = &t->rows[i];

        json_object_set_new(j, row->name, row_json(t, row->kind, at));
        at += metric_kind_width(row->kind);
    }
}

json_t *metrics_reply_json(const Sluice__V1__StatusReply *m)
{
    json_t *j = json_object();

    for (size_t i = 0; i < m->n_metrics; i++) {
        const Sluice__V1__Metric *x = m->metrics[i];
        char *name = escape_copy(x->name.data, x->name.len);

        if (name_ok(x->name.data, x->name.len)) {
            json_object_set_new(j, name, number(x->value));
        }
        free(name);
    }
    for (size_t i = 0; i < m->n_tables; i++) {
        struct table t;

        if (table_init(&t, m->tables[i], "")) {
            table_json(&t, j);
        }
        table_fini(&t);
    }
    return j;
}
