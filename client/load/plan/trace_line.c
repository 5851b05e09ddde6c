#include "client/load/plan/trace_line.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "client/load/plan/trace_time.h"
#include "common/base/json_bound.h"
#include "common/base/memory.h"
#include "common/base/quote.h"

#define BLOCKS_MAX (TRACE_TOKENS_MAX / TRACE_BLOCK)

struct cell {
    const char *text;
    size_t n;
};

static bool is_blank(const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strchr(" \t\r", line[i]) == NULL || line[i] == '\0') {
            return false;
        }
    }
    return true;
}

void trace_reader_init(struct trace_reader *r, const char *text, size_t n)
{
    size_t i = 0;

    while (i < n && isspace((unsigned char)text[i])) {
        i++;
    }
    *r = (struct trace_reader){
        .json = i < n && text[i] == '{', .time = 0, .prompt = 1, .output = 2};
    r->blocks = memory_must(calloc(BLOCKS_MAX, sizeof *r->blocks));
}

void trace_reader_fini(struct trace_reader *r)
{
    free(r->blocks);
    r->blocks = NULL;
}

static enum status check_tokens(double value, const char *what, uint32_t *out,
                                struct error *e)
{
    if (!(value >= 0) || value != floor(value) || value > TRACE_TOKENS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s %g is no number of tokens in 0..%d", what, value,
                         TRACE_TOKENS_MAX);
    }
    *out = (uint32_t)value;
    return ST_OK;
}

/* ---- CSV ---- */

static struct cell trimmed(const char *text, size_t n)
{
    while (n > 0 && strchr(" \t\r\"", text[n - 1]) != NULL &&
           text[n - 1] != '\0') {
        n--;
    }
    while (n > 0 && strchr(" \t\"", *text) != NULL && *text != '\0') {
        text++;
        n--;
    }
    return (struct cell){text, n};
}

/* Cuts a line at its commas.  A number of cells past the limit is dropped. */
static unsigned cut(const char *line, size_t n, struct cell *cells)
{
    unsigned k = 0;
    const char *end = line + n;

    while (k < TRACE_COLUMNS_MAX) {
        const char *stop = memchr(line, ',', (size_t)(end - line));

        cells[k++] =
            trimmed(line, (size_t)((stop != NULL ? stop : end) - line));
        if (stop == NULL) {
            break;
        }
        line = stop + 1;
    }
    return k;
}

static bool find_column(const struct cell *cells, unsigned n,
                        const char *const *names, unsigned *at)
{
    for (; *names != NULL; names++) {
        for (unsigned i = 0; i < n; i++) {
            if (cells[i].n == strlen(*names) &&
                strncasecmp(cells[i].text, *names, cells[i].n) == 0) {
                *at = i;
                return true;
            }
        }
    }
    return false;
}

static enum status read_header(struct trace_reader *r, const struct cell *cells,
                               unsigned n, struct error *e)
{
    static const char *const times[] = {"TIMESTAMP", "time", "arrived_at",
                                        NULL};
    static const char *const prompts[] = {"ContextTokens", "Request tokens",
                                          "input_length",  "num_prefill_tokens",
                                          "prompt_tokens", NULL};
    static const char *const outputs[] = {
        "GeneratedTokens",   "Response tokens", "output_length",
        "num_decode_tokens", "output_tokens",   NULL};

    if (find_column(cells, n, times, &r->time) &&
        find_column(cells, n, prompts, &r->prompt) &&
        find_column(cells, n, outputs, &r->output)) {
        return ST_OK;
    }
    return error_set(e, ST_INVALID_ARGUMENT,
                     "%s is neither a time nor in a header with the columns "
                     "TIMESTAMP,ContextTokens,GeneratedTokens",
                     quote_bytes(cells[0].text, cells[0].n).text);
}

static enum status read_tokens(const struct cell *c, const char *what,
                               uint32_t *out, struct error *e)
{
    double value = 0;

    for (size_t i = 0; i < c->n; i++) {
        if (!isdigit((unsigned char)c->text[i])) {
            value = -1;
            break;
        }
        value = value * 10 + (c->text[i] - '0');
    }
    if (c->n == 0 || value < 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "%s %s is no number of tokens",
                         what, quote_bytes(c->text, c->n).text);
    }
    return check_tokens(value, what, out, e);
}

static enum status read_csv(struct trace_reader *r, const char *line, size_t n,
                            struct trace_line *out, bool *row, struct error *e)
{
    struct cell cells[TRACE_COLUMNS_MAX];
    unsigned k = cut(line, n, cells);
    bool first = !r->begun;
    const struct cell *time;
    enum status st;

    r->begun = true;
    *row = true;
    if (first &&
        (cells[0].n == 0 || !isdigit((unsigned char)cells[0].text[0]))) {
        *row = false;
        return read_header(r, cells, k, e);
    }
    if (k <= r->time || k <= r->prompt || k <= r->output) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%u columns; a time, prompt tokens and output tokens "
                         "are needed",
                         k);
    }
    time = &cells[r->time];
    if (!trace_time(time->text, time->n, &out->at_us)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "%s is no time; \"2023-11-16 18:17:03.97\" or "
                         "\"12.5\" seconds are",
                         quote_bytes(time->text, time->n).text);
    }
    st = read_tokens(&cells[r->prompt], "prompt", &out->n_prompt, e);
    return st == ST_OK
               ? read_tokens(&cells[r->output], "output", &out->n_output, e)
               : st;
}

/* ---- JSON ---- */

static enum status get_tokens(const json_t *row, const char *key, uint32_t *out,
                              struct error *e)
{
    const json_t *value = json_object_get(row, key);

    if (!json_is_number(value)) {
        return error_set(e, ST_INVALID_ARGUMENT, "\"%s\" is no number", key);
    }
    return check_tokens(json_number_value(value), key, out, e);
}

static enum status get_time(const json_t *row, int64_t *us, struct error *e)
{
    const json_t *value = json_object_get(row, "timestamp");
    double ms = json_is_number(value) ? json_number_value(value) : -1;

    if (!(ms >= 0 && ms <= TRACE_MS_MAX)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "\"timestamp\" is no number of milliseconds in "
                         "0..%g",
                         TRACE_MS_MAX);
    }
    *us = llround(ms * 1000);
    return ST_OK;
}

/* Ids past the end of the prompt mean nothing and are dropped. */
static enum status get_blocks(const struct trace_reader *r, const json_t *row,
                              struct trace_line *out, struct error *e)
{
    const json_t *list = json_object_get(row, "hash_ids");
    size_t n = json_array_size(list);
    size_t most = (out->n_prompt + TRACE_BLOCK - 1) / TRACE_BLOCK;

    if (list != NULL && !json_is_array(list)) {
        return error_set(e, ST_INVALID_ARGUMENT, "\"hash_ids\" is no array");
    }
    out->blocks = r->blocks;
    out->n_blocks = n < most ? n : most;
    for (size_t i = 0; i < out->n_blocks; i++) {
        const json_t *id = json_array_get(list, i);

        if (!json_is_integer(id)) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "\"hash_ids\"[%zu] is no integer", i);
        }
        r->blocks[i] = (uint64_t)json_integer_value(id);
    }
    return ST_OK;
}

static enum status read_object(const struct trace_reader *r, const json_t *row,
                               struct trace_line *out, struct error *e)
{
    enum status st = get_time(row, &out->at_us, e);

    if (st == ST_OK) {
        st = get_tokens(row, "input_length", &out->n_prompt, e);
    }
    if (st == ST_OK) {
        st = get_tokens(row, "output_length", &out->n_output, e);
    }
    return st == ST_OK ? get_blocks(r, row, out, e) : st;
}

static enum status read_json(const struct trace_reader *r, const char *line,
                             size_t n, struct trace_line *out, struct error *e)
{
    static const struct json_bounds most = {
        .depth = 16, .values = 1 << 18, .lists = 1 << 12};
    json_error_t fault;
    json_t *row;
    enum status st = json_bound(line, n, &most, ST_OUT_OF_RANGE, e);

    if (st != ST_OK) {
        return st;
    }
    row = json_loadb(line, n, 0, &fault);
    if (!json_is_object(row)) {
        json_decref(row);
        return error_set(e, ST_INVALID_ARGUMENT, "no JSON object: %s",
                         row == NULL ? quote(fault.text).text
                                     : "another value");
    }
    st = read_object(r, row, out, e);
    json_decref(row);
    return st;
}

enum status trace_read_line(struct trace_reader *r, const char *line, size_t n,
                            struct trace_line *out, bool *row, struct error *e)
{
    *out = (struct trace_line){0};
    *row = false;
    if (is_blank(line, n)) {
        return ST_OK;
    }
    if (n > TRACE_LINE_MAX) {
        return error_set(e, ST_OUT_OF_RANGE, "%zu bytes, at most %zu", n,
                         TRACE_LINE_MAX);
    }
    if (!r->json) {
        return read_csv(r, line, n, out, row, e);
    }
    *row = true;
    return read_json(r, line, n, out, e);
}
