/* report_read(): a result from its JSON. */
#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/figures/tally_parts.h"
#include "client/load/report/json_fields.h"
#include "client/load/report/report.h"
#include "common/base/json_bound.h"
#include "common/base/memory.h"
#include "common/base/quote.h"

#define COUNT_MAX ((int64_t)1 << 53) /* of a number in JSON */

/* ---- members ---- */

static enum status wrong(struct error *e, const char *name, const char *what)
{
    return error_set(e, ST_INVALID_ARGUMENT, "%s %s", name, what);
}

/* Sets *out to a member of one type; json_is_...() of its macro. */
static enum status member(const json_t *from, const char *name, json_type type,
                          json_t **out, struct error *e)
{
    static const char *const types[] = {
        [JSON_OBJECT] = "is no object", [JSON_ARRAY] = "is no array",
        [JSON_STRING] = "is no string", [JSON_INTEGER] = "is no whole number",
        [JSON_REAL] = "is no number",   [JSON_TRUE] = "is not true or false",
    };
    json_t *j = json_object_get(from, name);

    *out = j;
    if (j == NULL) {
        return wrong(e, name, "is missing");
    }
    if (json_typeof(j) != type && !(type == JSON_REAL && json_is_integer(j)) &&
        !(type == JSON_TRUE && json_is_false(j))) {
        return wrong(e, name, types[type]);
    }
    return ST_OK;
}

/* Sets *out to an array of at most `most` objects. */
static enum status list(const json_t *from, const char *name, size_t most,
                        json_t **out, struct error *e)
{
    enum status st = member(from, name, JSON_ARRAY, out, e);

    if (st == ST_OK && json_array_size(*out) > most) {
        st = error_set(e, ST_INVALID_ARGUMENT, "%s has %zu items, at most %zu",
                       name, json_array_size(*out), most);
    }
    return st;
}

/* Integers above 2^53 are refused: other readers of JSON would round them. */
static enum status read_integer(const json_t *from, const struct field *f,
                                char *to, struct error *e)
{
    int64_t most = f->size == 1           ? UINT8_MAX
                   : f->size == 2         ? UINT16_MAX
                   : f->size == 8         ? COUNT_MAX
                   : f->type == FIELD_INT ? INT32_MAX
                                          : UINT32_MAX;
    int64_t least = f->type == FIELD_UINT ? 0 : -most, v;
    uint32_t v4;
    uint16_t v2;
    json_t *j;
    enum status st = member(from, f->name, JSON_INTEGER, &j, e);

    if (st != ST_OK) {
        return st;
    }
    v = json_integer_value(j);
    if (v < least || v > most) {
        return wrong(e, f->name, "is out of range");
    }
    v4 = (uint32_t)v;
    v2 = (uint16_t)v;
    memcpy(to,
           f->size == 2   ? (void *)&v2
           : f->size == 4 ? (void *)&v4
                          : (void *)&v,
           f->size);
    return ST_OK;
}

static enum status read_word(const json_t *from, const struct field *f,
                             char *to, struct error *e)
{
    json_t *j;
    enum status st = member(from, f->name, JSON_STRING, &j, e);

    if (st != ST_OK) {
        return st;
    }
    for (uint32_t i = 0; i < f->n_words; i++) {
        if (strcmp(f->words[i], json_string_value(j)) == 0) {
            assert(f->size == sizeof i);
            memcpy(to, &i, sizeof i);
            return ST_OK;
        }
    }
    return error_set(e, ST_INVALID_ARGUMENT, "%s is unknown: %s", f->name,
                     quote(json_string_value(j)).text);
}

static enum status read_text(const json_t *from, const struct field *f,
                             char *to, struct error *e)
{
    json_t *j = json_object_get(from, f->name);
    char *copy;
    enum status st;

    if (f->type == FIELD_STRING && json_is_null(j)) {
        return ST_OK;
    }
    st = member(from, f->name, JSON_STRING, &j, e);
    if (st != ST_OK) {
        return st;
    }
    if (f->type == FIELD_STRING) {
        copy = memory_must(strdup(json_string_value(j)));
        memcpy(to, &copy, sizeof copy);
    } else if (json_string_length(j) >= f->size) {
        return wrong(e, f->name, "is too long");
    } else {
        memcpy(to, json_string_value(j), json_string_length(j) + 1);
    }
    return ST_OK;
}

static enum status read_histogram(const json_t *from, const char *name,
                                  struct histogram *to, struct error *e)
{
    json_t *j;
    enum status st = member(from, name, JSON_STRING, &j, e);

    if (st == ST_OK && !histogram_read(to, json_string_value(j))) {
        st = wrong(e, name, "is no histogram");
    }
    return st;
}

static enum status read_field(const json_t *from, const struct field *f,
                              char *to, struct error *e)
{
    json_t *j;
    double real;
    bool is;
    enum status st;

    if (f->later && json_object_get(from, f->name) == NULL) {
        memset(to, 0, f->size);
        return ST_OK;
    }
    switch (f->type) {
    case FIELD_UINT:
    case FIELD_INT:
        return read_integer(from, f, to, e);
    case FIELD_WORD:
        return read_word(from, f, to, e);
    case FIELD_TEXT:
    case FIELD_STRING:
        return read_text(from, f, to, e);
    case FIELD_HISTOGRAM:
        return read_histogram(from, f->name, (struct histogram *)(void *)to, e);
    case FIELD_BOOL:
        st = member(from, f->name, JSON_TRUE, &j, e);
        is = json_is_true(j);
        memcpy(to, &is, sizeof is);
        return st;
    default:
        st = member(from, f->name, JSON_REAL, &j, e);
        real = st == ST_OK ? json_number_value(j) : 0;
        memcpy(to, &real, sizeof real);
        return st;
    }
}

static enum status read_fields(const json_t *from, const struct fields *fields,
                               void *to, struct error *e)
{
    enum status st = ST_OK;

    for (size_t i = 0; st == ST_OK && i < fields->n; i++) {
        const struct field *f = &fields->row[i];

        st = read_field(from, f, (char *)to + f->offset, e);
    }
    return st;
}

/* Reads an array of objects of one table into to[most] of `size` bytes each.
 * Counts items before they are read: what is in them is freed with them. */
static enum status read_array(const json_t *from, const char *name,
                              const struct fields *fields, void *to,
                              size_t size, uint32_t most, uint32_t *n,
                              struct error *e)
{
    json_t *array;
    enum status st = list(from, name, most, &array, e);

    for (size_t i = 0; st == ST_OK && i < json_array_size(array); i++) {
        *n = (uint32_t)i + 1;
        st = read_fields(json_array_get(array, i), fields,
                         (char *)to + i * size, e);
        if (st != ST_OK) {
            return error_wrap(e, "%s[%zu]", name, i);
        }
    }
    return st;
}

static enum status read_outcomes(const json_t *from, uint64_t to[OUTCOMES],
                                 struct error *e)
{
    json_t *j;
    enum status st = member(from, "outcomes", JSON_OBJECT, &j, e);

    for (int i = 0; st == ST_OK && i < OUTCOMES; i++) {
        const struct field f = {
            .name = outcome_names[i], .type = FIELD_UINT, .size = sizeof to[i]};

        st = read_integer(j, &f, (char *)&to[i], e);
    }
    return st;
}

/* ---- tallies ---- */

/* Widths of rows and batches meet by doubling when tallies merge; others would
 * never meet. */
static bool power_of_two(uint64_t v)
{
    return v > 0 && (v & (v - 1)) == 0;
}

/* Checks what merging and figures rely on. */
static enum status check_tally(const struct tally *t, struct error *e)
{
    if (t->row_us < TALLY_ROW_US || t->row_us > HISTOGRAM_MAX ||
        t->row_us % TALLY_ROW_US != 0 ||
        !power_of_two((uint64_t)(t->row_us / TALLY_ROW_US))) {
        return wrong(e, "row_us", "is not 1000000 times a power of two");
    }
    if (!power_of_two(t->batch_size)) {
        return wrong(e, "batch_size", "is no power of two");
    }
    if (t->from_us > t->to_us) {
        return wrong(e, "to_us", "is before from_us");
    }
    if (t->counts.n_good > t->counts.n_outcomes[OUTCOME_OK]) {
        return wrong(e, "n_good", "is more than the requests that ended OK");
    }
    return ST_OK;
}

static enum status read_metrics(const json_t *from, struct tally *t,
                                struct error *e)
{
    json_t *metrics, *j;
    enum status st = member(from, "metrics", JSON_OBJECT, &metrics, e);

    for (int m = 0; st == ST_OK && m < METRICS; m++) {
        st = member(metrics, metric_table[m].key, JSON_OBJECT, &j, e);
        if (st == ST_OK) {
            st = read_histogram(j, "histogram", &t->metrics[m], e);
            st = st == ST_OK ? st : error_wrap(e, "%s", metric_table[m].key);
        }
    }
    return st == ST_OK ? st : error_wrap(e, "metrics");
}

/* The times of a row follow from its index, which merging relies on. */
static enum status read_rows(const json_t *from, struct tally *t,
                             struct error *e)
{
    enum status st = read_array(from, "rows", &row_fields, t->rows,
                                sizeof *t->rows, TALLY_ROWS, &t->n_rows, e);
    const json_t *array = json_object_get(from, "rows");

    for (uint32_t i = 0; st == ST_OK && i < t->n_rows; i++) {
        struct tally_row *r = &t->rows[i];

        st = read_outcomes(json_array_get(array, i), r->n_ended, e);
        if (st == ST_OK && (r->from_us != (int64_t)i * t->row_us ||
                            r->to_us != r->from_us + t->row_us)) {
            st = wrong(e, "from_us", "and to_us do not follow from row_us");
        }
        if (st != ST_OK) {
            return error_wrap(e, "rows[%u]", i);
        }
    }
    return st;
}

static enum status read_levels(const json_t *from, struct tally *t,
                               struct error *e)
{
    enum status st =
        read_array(from, "levels", &level_fields, t->levels, sizeof *t->levels,
                   TALLY_LEVELS, &t->n_levels, e);

    for (uint32_t i = 0; st == ST_OK && i < t->n_levels; i++) {
        if (t->levels[i].in_flight != 1u << i) {
            st = error_set(e, ST_INVALID_ARGUMENT,
                           "levels[%u]: in_flight is not %u", i, 1u << i);
        }
    }
    return st;
}

static enum status read_whys(const json_t *from, struct tally *t,
                             struct error *e)
{
    enum status st = read_array(from, "whys", &why_fields, t->whys,
                                sizeof *t->whys, TALLY_WHYS, &t->n_whys, e);
    const json_t *array = json_object_get(from, "whys");

    for (uint32_t i = 0; st == ST_OK && i < t->n_whys; i++) {
        const struct field f = {.name = "outcome",
                                .size = sizeof(uint32_t),
                                .words = outcome_names,
                                .n_words = OUTCOMES};
        uint32_t outcome = 0;

        st = read_word(json_array_get(array, i), &f, (char *)&outcome, e);
        if (st != ST_OK) {
            return error_wrap(e, "whys[%u]", i);
        }
        t->whys[i].outcome = (uint8_t)outcome;
    }
    return st;
}

static enum status read_batch(const json_t *from, struct tally_batch *to,
                              struct error *e)
{
    const struct field f = {
        .name = "n", .type = FIELD_UINT, .size = sizeof to->n};
    enum status st = read_integer(from, &f, (char *)&to->n, e);

    for (int m = 0; st == ST_OK && m < METRICS; m++) {
        st = read_histogram(from, metric_table[m].key, &to->metrics[m], e);
    }
    return st;
}

static enum status read_batches(const json_t *from, struct tally *t,
                                struct error *e)
{
    json_t *array;
    enum status st = list(from, "batches", TALLY_BATCHES, &array, e);

    for (uint32_t i = 0; st == ST_OK && i < json_array_size(array); i++) {
        t->n_batches = i + 1;
        st = read_batch(json_array_get(array, i), &t->batches[i], e);
        if (st != ST_OK) {
            return error_wrap(e, "batches[%u]", i);
        }
    }
    return st;
}

static enum status read_tally(const json_t *from, struct tally *t,
                              struct error *e)
{
    enum status (*const parts[])(const json_t *, struct tally *,
                                 struct error *) = {
        read_metrics, read_rows, read_levels, read_whys, read_batches};
    enum status st = read_fields(from, &tally_fields, t, e);

    if (st == ST_OK) {
        st = read_outcomes(from, t->counts.n_outcomes, e);
    }
    if (st == ST_OK) {
        st = check_tally(t, e);
    }
    for (size_t i = 0; st == ST_OK && i < sizeof parts / sizeof *parts; i++) {
        st = parts[i](from, t, e);
    }
    return st == ST_OK ? st : error_wrap(e, "tally");
}

/* ---- runs and the search ---- */

/* A tally belongs to its run before it is read, so that a half-read one is
 * freed with the result. */
static enum status read_run(const json_t *from, const struct objectives *o,
                            struct run *r, struct error *e)
{
    enum status st = read_fields(from, &run_fields, r, e);
    json_t *j;

    if (st == ST_OK) {
        st = read_array(from, "points", &point_fields, r->points,
                        sizeof *r->points, RESULT_POINTS, &r->n_points, e);
    }
    if (st == ST_OK) {
        st = read_array(from, "events", &event_fields, r->events,
                        sizeof *r->events, RESULT_EVENTS, &r->n_events, e);
    }
    if (st == ST_OK) {
        st = member(from, "tally", JSON_OBJECT, &j, e);
    }
    if (st == ST_OK) {
        r->tally = tally_new(o);
        st = read_tally(j, r->tally, e);
    }
    return st;
}

static enum status read_runs(const json_t *from, struct result *out,
                             struct error *e)
{
    json_t *array;
    enum status st = list(from, "runs", REPORT_RUNS_MAX, &array, e);

    for (size_t i = 0; st == ST_OK && i < json_array_size(array); i++) {
        st = read_run(json_array_get(array, i), &out->objectives,
                      result_add(out), e);
        if (st != ST_OK) {
            return error_wrap(e, "runs[%zu]", i);
        }
    }
    return st;
}

static enum status read_search(const json_t *from, struct search *s,
                               struct error *e)
{
    json_t *options;
    enum status st = read_fields(from, &search_fields, s, e);

    if (st == ST_OK) {
        st = member(from, "options", JSON_OBJECT, &options, e);
    }
    if (st == ST_OK) {
        st = read_fields(options, &search_options_fields, &s->options, e);
    }
    if (st == ST_OK) {
        st = read_array(from, "trials", &trial_fields, s->trials,
                        sizeof *s->trials, SEARCH_TRIALS, &s->n_trials, e);
    }
    for (uint32_t i = 0; st == ST_OK && i < s->n_trials; i++) {
        if (s->trials[i].n_good > s->trials[i].n_wanted) {
            st = error_set(e, ST_INVALID_ARGUMENT,
                           "trials[%u]: n_good is more than n_wanted", i);
        }
    }
    return st == ST_OK ? st : error_wrap(e, "search");
}

static enum status read_result(const json_t *from, struct result *out,
                               struct error *e)
{
    json_t *j;
    enum status st = member(from, "format", JSON_STRING, &j, e);

    if (st == ST_OK && strcmp(json_string_value(j), JSON_FORMAT) != 0) {
        st = error_set(e, ST_INVALID_ARGUMENT, "format is %s, not \"%s\"",
                       quote(json_string_value(j)).text, JSON_FORMAT);
    }
    if (st == ST_OK) {
        st = read_fields(from, &result_fields, out, e);
    }
    if (st == ST_OK) {
        st = member(from, "objectives", JSON_OBJECT, &j, e);
    }
    if (st == ST_OK) {
        st = read_fields(j, &objectives_fields, &out->objectives, e);
    }
    if (st == ST_OK) {
        st = read_runs(from, out, e);
    }
    if (st == ST_OK && out->searched) {
        st = member(from, "search", JSON_OBJECT, &j, e);
        st = st == ST_OK ? read_search(j, &out->search, e) : st;
    }
    return st;
}

/* ---- files ---- */

enum status report_parse(struct result *out, const char *text, size_t n,
                         struct error *e)
{
    static const struct json_bounds most = {REPORT_DEPTH_MAX, REPORT_VALUES_MAX,
                                            REPORT_VALUES_MAX};
    enum status st = json_bound(text, n, &most, ST_INVALID_ARGUMENT, e);
    json_error_t fault;
    json_t *j;

    memset(out, 0, sizeof *out);
    if (st != ST_OK) {
        return st;
    }
    j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &fault);
    if (j == NULL) {
        return error_set(e, ST_INVALID_ARGUMENT, "no JSON, at byte %d: %s",
                         fault.position, quote(fault.text).text);
    }
    st = read_result(j, out, e);
    json_decref(j);
    if (st != ST_OK) {
        result_fini(out);
    }
    return st;
}

/* Reads all of a file.  *text is for free(). */
static enum status slurp(FILE *f, char **text, size_t *n, struct error *e)
{
    size_t room = 1 << 16, got;

    *text = NULL;
    *n = 0;
    do {
        room *= 2;
        *text = memory_must(realloc(*text, room));
        got = fread(*text + *n, 1, room - *n, f);
        *n += got;
    } while (*n == room && *n <= REPORT_BYTES_MAX);
    if (ferror(f)) {
        return error_set(e, ST_UNAVAILABLE, "%s", strerror(errno));
    }
    if (*n > REPORT_BYTES_MAX) {
        return error_set(e, ST_OUT_OF_RANGE, "longer than %u bytes",
                         REPORT_BYTES_MAX);
    }
    return ST_OK;
}

enum status report_read(struct result *out, const char *path, struct error *e)
{
    FILE *f = fopen(path, "re");
    char *text;
    size_t n;
    enum status st;

    memset(out, 0, sizeof *out);
    if (f == NULL) {
        return error_set(e, errno == ENOENT ? ST_NOT_FOUND : ST_UNAVAILABLE,
                         "%s: %s", quote(path).text, strerror(errno));
    }
    st = slurp(f, &text, &n, e);
    if (st == ST_OK) {
        st = report_parse(out, text, n, e);
    }
    fclose(f);
    free(text);
    return st == ST_OK ? st : error_wrap(e, "%s", quote(path).text);
}
