#include "client/load/plan/dataset.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/plan/dataset_row.h"
#include "common/base/memory.h"

/* A place in a file, for messages. */
struct reader {
    const char *at, *end;
    size_t line;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && is_space(*r->at)) {
        r->line += *r->at == '\n' ? 1 : 0;
        r->at++;
    }
}

static enum status add(struct dataset *d, const char *text, size_t n,
                       size_t rows_max, struct error *e)
{
    if (d->n_rows == rows_max) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "more than %zu rows; cut the dataset", rows_max);
    }
    return dataset_row_add(d, text, n, e);
}

static enum status read_lines(struct dataset *d, struct reader *r,
                              size_t rows_max, struct error *e)
{
    enum status st = ST_OK;

    for (skip_space(r); r->at < r->end && st == ST_OK; skip_space(r)) {
        const char *stop = memchr(r->at, '\n', (size_t)(r->end - r->at));

        if (stop == NULL) {
            stop = r->end;
        }
        st = add(d, r->at, (size_t)(stop - r->at), rows_max, e);
        if (st != ST_OK) {
            error_wrap(e, "line %zu", r->line);
        }
        r->at = stop;
    }
    return st;
}

/* ---- one array ---- */

/* Moves behind the object or array that begins here.  Returns false if it has
 * no end.  Text between quotes has no brackets. */
static bool skip_value(struct reader *r)
{
    size_t depth = 0;
    bool quoted = false;

    for (; r->at < r->end; r->at++) {
        char c = *r->at;

        r->line += c == '\n' ? 1 : 0;
        if (quoted) {
            if (c == '\\' && r->end - r->at > 1) {
                r->at++;
            }
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            r->at++;
            return true;
        }
    }
    return false;
}

static enum status fault(const struct reader *r, const char *what,
                         struct error *e)
{
    return error_set(e, ST_INVALID_ARGUMENT, "line %zu: %s", r->line, what);
}

static enum status read_element(struct dataset *d, struct reader *r,
                                size_t rows_max, struct error *e)
{
    const char *from = r->at;
    size_t line = r->line;
    enum status st;

    if (r->at == r->end || *r->at != '{') {
        return fault(r, "no JSON object", e);
    }
    if (!skip_value(r)) {
        r->line = line;
        return fault(r, "the object has no end", e);
    }
    st = add(d, from, (size_t)(r->at - from), rows_max, e);
    if (st != ST_OK) {
        error_wrap(e, "line %zu", line);
    }
    return st;
}

static enum status read_array(struct dataset *d, struct reader *r,
                              size_t rows_max, struct error *e)
{
    enum status st;
    char c;

    r->at++;
    do {
        skip_space(r);
        st = read_element(d, r, rows_max, e);
        if (st != ST_OK) {
            return st;
        }
        skip_space(r);
        c = r->at < r->end ? *r->at++ : '\0';
    } while (c == ',');
    if (c != ']') {
        return fault(r, "the array has no end", e);
    }
    skip_space(r);
    return r->at == r->end ? ST_OK : fault(r, "text after the array", e);
}

enum status dataset_parse(struct dataset **out, const char *text, size_t n,
                          size_t rows_max, struct error *e)
{
    struct dataset *d = memory_must(calloc(1, sizeof *d));
    struct reader r = {text, text + n, 1};
    enum status st;

    if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        r.at += 3;
    }
    skip_space(&r);
    st = r.at < r.end && *r.at == '[' ? read_array(d, &r, rows_max, e)
                                      : read_lines(d, &r, rows_max, e);
    if (st == ST_OK && d->n_rows == 0) {
        st = error_set(e, ST_INVALID_ARGUMENT, "line 1: there are no rows");
    }
    if (st != ST_OK) {
        dataset_free(&d);
    }
    *out = d;
    return st;
}

void dataset_free(struct dataset **d)
{
    if (*d == NULL) {
        return;
    }
    for (size_t i = 0; i < (*d)->n_entries; i++) {
        free((void *)(uintptr_t)(*d)->entries[i].text);
        free((void *)(uintptr_t)(*d)->entries[i].messages);
        free((void *)(uintptr_t)(*d)->entries[i].ids);
    }
    free((*d)->entries);
    free((*d)->rows);
    free(*d);
    *d = NULL;
}
