/* report_json(): a result as JSON. */
#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/report/json_fields.h"
#include "client/load/report/report.h"
#include "common/base/json_must.h"
#include "common/base/memory.h"
#include "common/base/utf8.h"

/* ---- values ---- */

static void append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) {
        (void)memory_must(NULL);
    }
}

/* Returns text, with '?' for each byte that is no UTF-8: a reason of a server,
 * or one that was cut inside a character. */
static json_t *text_of(const char *text, size_t size)
{
    size_t n = strnlen(text, size), at;
    char *copy = memory_must(strndup(text, n));
    json_t *j;

    while (!utf8_valid(copy, n, &at)) {
        copy[at] = '?';
    }
    j = json_stringn(copy, n);
    free(copy);
    return j;
}

static json_t *histogram_of(const struct histogram *h)
{
    char *text = histogram_write(h);
    json_t *j = json_string(text);

    free(text);
    return j;
}

/* memcpy(), as in option.c: a field is addressed without its type. */
static int64_t integer_at(const char *at, size_t size)
{
    int64_t v8 = 0;
    uint32_t v4;
    uint16_t v2;

    switch (size) {
    case 1:
        return *(const unsigned char *)at;
    case 2:
        memcpy(&v2, at, size);
        return v2;
    case 4:
        memcpy(&v4, at, size);
        return v4;
    default:
        memcpy(&v8, at, sizeof v8);
        return v8;
    }
}

static json_t *value_of(const struct field *f, const char *at)
{
    int64_t n = integer_at(at, f->size);
    const char *string;
    double real;

    switch (f->type) {
    case FIELD_REAL:
        memcpy(&real, at, sizeof real);
        return json_real(real);
    case FIELD_BOOL:
        return json_boolean(n);
    case FIELD_TEXT:
        return text_of(at, f->size);
    case FIELD_STRING:
        memcpy(&string, at, sizeof string);
        return string == NULL ? json_null() : text_of(string, strlen(string));
    case FIELD_WORD:
        assert((size_t)n < f->n_words);
        return json_string(f->words[n]);
    case FIELD_HISTOGRAM:
        return histogram_of((const struct histogram *)(const void *)at);
    case FIELD_INT:
        return json_integer(f->size == 4 ? (int32_t)(uint32_t)n : n);
    default:
        return json_integer(n);
    }
}

/* Adds the members of a table. */
static void put_fields(json_t *to, const struct fields *fields,
                       const void *from)
{
    for (size_t i = 0; i < fields->n; i++) {
        const struct field *f = &fields->row[i];

        json_must_set(to, f->name, value_of(f, (const char *)from + f->offset));
    }
}

static json_t *object_of(const struct fields *fields, const void *from)
{
    json_t *j = json_object();

    put_fields(j, fields, from);
    return j;
}

static json_t *array_of(const struct fields *fields, const void *from, size_t n,
                        size_t size)
{
    json_t *array = json_array();

    for (size_t i = 0; i < n; i++) {
        append(array, object_of(fields, (const char *)from + i * size));
    }
    return array;
}

static json_t *outcomes_of(const uint64_t n[OUTCOMES])
{
    json_t *j = json_object();

    for (int i = 0; i < OUTCOMES; i++) {
        json_must_set(j, outcome_names[i], json_integer((json_int_t)n[i]));
    }
    return j;
}

/* ---- metrics, with plain numbers for people ---- */

static const struct plain {
    const char *name;
    double q; /* < 0: the mean */
} plain[] = {
    {"mean", -1},  {"min", 0},    {"p50", 0.5},    {"p90", 0.9},
    {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}, {"max", 1},
};

#define PLAIN (sizeof plain / sizeof plain[0])

/* Returns a number in milliseconds or tokens; null for a value that is lost,
 * or if there is none. */
static json_t *plain_of(const struct histogram *h, double q, double unit)
{
    int64_t v = q < 0 ? 0 : histogram_quantile(h, q);

    if (h->n + (q < 0 ? 0 : h->lost) == 0 || v == HISTOGRAM_LOST) {
        return json_null();
    }
    return json_real((q < 0 ? histogram_mean(h) : (double)v) / unit);
}

static json_t *intervals_of(const struct tally *t, enum metric m, double unit)
{
    json_t *j = json_object();
    struct tally_span span;

    for (size_t i = 0; i < PLAIN; i++) {
        if (tally_interval(t, m, plain[i].q, &span)) {
            json_t *pair = json_array();

            append(pair, json_real(span.low / unit));
            append(pair, json_real(span.high / unit));
            json_must_set(j, plain[i].name, pair);
        }
    }
    return j;
}

static json_t *metric_of(const struct tally *t, enum metric m)
{
    const struct metric_name *name = &metric_table[m];
    const struct histogram *h = &t->metrics[m];
    bool is_time = strcmp(name->unit, "us") == 0;
    double unit = is_time ? 1000 : 1;
    json_t *j = json_object();

    json_must_set(j, "title", json_string(name->title));
    json_must_set(j, "unit", json_string(is_time ? "ms" : name->unit));
    json_must_set(j, "n", json_integer((json_int_t)h->n));
    json_must_set(j, "lost", json_integer((json_int_t)h->lost));
    for (size_t i = 0; i < PLAIN; i++) {
        json_must_set(j, plain[i].name, plain_of(h, plain[i].q, unit));
    }
    json_must_set(j, "intervals", intervals_of(t, m, unit));
    json_must_set(j, "histogram", histogram_of(h));
    return j;
}

/* For people: report_read() computes rates from the tally. */
static json_t *rates_of(const struct run *r)
{
    const struct draft_counts drafts = run_drafts(r);
    const struct tally *t = r->tally;
    json_t *j = json_object();
    uint64_t wanted = tally_wanted(t);

    json_must_set(j, "seconds", json_real(tally_seconds(t)));
    json_must_set(j, "requests_per_s", json_real(tally_requests_per_s(t)));
    json_must_set(j, "output_tokens_per_s", json_real(tally_tokens_per_s(t)));
    json_must_set(j, "goodput_per_s", json_real(tally_goodput(t)));
    json_must_set(j, "good_share",
                  wanted == 0
                      ? json_null()
                      : json_real((double)t->counts.n_good / (double)wanted));
    json_must_set(j, "drafts_accepted_share",
                  drafts.verified == 0 ? json_null()
                                       : json_real((double)drafts.accepted /
                                                   (double)drafts.verified));
    json_must_set(j, "tokens_per_draft_row",
                  drafts.rows == 0 ? json_null()
                                   : json_real(draft_tokens(&drafts)));
    return j;
}

/* ---- tallies, runs, the search ---- */

static json_t *rows_of(const struct tally *t)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < t->n_rows; i++) {
        json_t *j = object_of(&row_fields, &t->rows[i]);

        json_must_set(j, "outcomes", outcomes_of(t->rows[i].n_ended));
        append(array, j);
    }
    return array;
}

static json_t *whys_of(const struct tally *t)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < t->n_whys; i++) {
        json_t *j = object_of(&why_fields, &t->whys[i]);

        json_must_set(j, "outcome",
                      json_string(outcome_names[t->whys[i].outcome]));
        append(array, j);
    }
    return array;
}

static json_t *batches_of(const struct tally *t)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < t->n_batches; i++) {
        json_t *j = json_object();

        json_must_set(j, "n", json_integer((json_int_t)t->batches[i].n));
        for (int m = 0; m < METRICS; m++) {
            json_must_set(j, metric_table[m].key,
                          histogram_of(&t->batches[i].metrics[m]));
        }
        append(array, j);
    }
    return array;
}

static json_t *tally_of(const struct tally *t)
{
    json_t *j = object_of(&tally_fields, t), *metrics = json_object();

    for (int m = 0; m < METRICS; m++) {
        json_must_set(metrics, metric_table[m].key,
                      metric_of(t, (enum metric)m));
    }
    json_must_set(j, "outcomes", outcomes_of(t->counts.n_outcomes));
    json_must_set(j, "metrics", metrics);
    json_must_set(j, "rows", rows_of(t));
    json_must_set(
        j, "levels",
        array_of(&level_fields, t->levels, t->n_levels, sizeof *t->levels));
    json_must_set(j, "whys", whys_of(t));
    json_must_set(j, "batches", batches_of(t));
    return j;
}

static json_t *run_of(const struct run *r)
{
    json_t *j = object_of(&run_fields, r);

    if (r->tally != NULL) {
        json_must_set(j, "rates", rates_of(r));
        json_must_set(j, "tally", tally_of(r->tally));
    }
    json_must_set(
        j, "points",
        array_of(&point_fields, r->points, r->n_points, sizeof *r->points));
    json_must_set(
        j, "events",
        array_of(&event_fields, r->events, r->n_events, sizeof *r->events));
    return j;
}

static json_t *search_of(const struct search *s)
{
    json_t *j = object_of(&search_fields, s);

    json_must_set(j, "options", object_of(&search_options_fields, &s->options));
    json_must_set(
        j, "trials",
        array_of(&trial_fields, s->trials, s->n_trials, sizeof *s->trials));
    return j;
}

static json_t *result_of(const struct result *r)
{
    json_t *j = json_object(), *runs = json_array();

    json_must_set(j, "format", json_string(JSON_FORMAT));
    put_fields(j, &result_fields, r);
    json_must_set(j, "objectives",
                  object_of(&objectives_fields, &r->objectives));
    for (uint32_t i = 0; i < r->n_runs; i++) {
        append(runs, run_of(&r->runs[i]));
    }
    json_must_set(j, "runs", runs);
    if (r->searched) {
        json_must_set(j, "search", search_of(&r->search));
    }
    return j;
}

enum status report_json(FILE *to, const struct result *r, struct error *e)
{
    json_t *j = result_of(r);
    /* 15 digits: 0.99 is then 0.99.  Histograms have their own text. */
    int rc = json_dumpf(j, to, JSON_INDENT(1) | JSON_REAL_PRECISION(15));

    json_decref(j);
    if (rc != 0 || fputc('\n', to) == EOF || fflush(to) != 0) {
        return report_fault(e);
    }
    return ST_OK;
}
