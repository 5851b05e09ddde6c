#include "client/load/plan/trace.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/plan/trace_line.h"
#include "common/base/memory.h"

const struct trace_limits trace_limits = {.rows = TRACE_ROWS_MAX,
                                          .blocks = TRACE_BLOCKS_MAX};

/* Makes room for one more item. */
static void *grown(void *items, size_t n, size_t *size, size_t item)
{
    if (n < *size) {
        return items;
    }
    *size = *size == 0 ? 1024 : 2 * *size;
    items = memory_must(realloc(items, *size * item));
    return items;
}

static enum status add_blocks(struct trace *t, const struct trace_line *l,
                              size_t blocks_max, struct error *e)
{
    if (l->n_blocks > blocks_max - t->n_blocks) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "more than %zu hash_ids; cut the trace", blocks_max);
    }
    for (size_t i = 0; i < l->n_blocks; i++) {
        t->blocks =
            grown(t->blocks, t->n_blocks, &t->blocks_size, sizeof *t->blocks);
        t->blocks[t->n_blocks++] = l->blocks[i];
    }
    return ST_OK;
}

static enum status add_row(struct trace *t, const struct trace_line *l,
                           const struct trace_limits *most, struct error *e)
{
    struct trace_row *row;

    if (t->n_rows == most->rows) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "more than %zu rows; cut the trace", most->rows);
    }
    t->rows = grown(t->rows, t->n_rows, &t->rows_size, sizeof *t->rows);
    row = &t->rows[t->n_rows++];
    *row = (struct trace_row){
        .at_us = l->at_us,
        .n_prompt = l->n_prompt > 0 ? l->n_prompt : 1,
        .n_output = l->n_output > 0 ? l->n_output : 1,
        .n_blocks = (uint32_t)l->n_blocks,
        .first_block = t->n_blocks,
    };
    if (row->n_prompt + row->n_output > t->total_max) {
        t->total_max = row->n_prompt + row->n_output;
    }
    return add_blocks(t, l, most->blocks, e);
}

/* ---- order ---- */

/* Rows of equal times keep their order: first_block ascends with the line, but
 * only if rows have blocks, so the sort itself must be stable. */
static void merge(struct trace_row *to, const struct trace_row *from,
                  size_t middle, size_t n)
{
    size_t a = 0, b = middle;

    for (size_t i = 0; i < n; i++) {
        bool take_a = a < middle && (b == n || from[a].at_us <= from[b].at_us);

        to[i] = from[take_a ? a++ : b++];
    }
}

static void sort_rows(struct trace *t)
{
    struct trace_row *spare = memory_must(malloc(t->n_rows * sizeof *spare));

    for (size_t width = 1; width < t->n_rows; width *= 2) {
        struct trace_row *full = t->rows;

        for (size_t i = 0; i < t->n_rows; i += 2 * width) {
            size_t left = t->n_rows - i;
            size_t n = left < 2 * width ? left : 2 * width;

            merge(spare + i, full + i, n < width ? n : width, n);
        }
        t->rows = spare;
        spare = full;
    }
    free(spare);
}

static bool is_sorted(const struct trace *t)
{
    for (size_t i = 1; i < t->n_rows; i++) {
        if (t->rows[i].at_us < t->rows[i - 1].at_us) {
            return false;
        }
    }
    return true;
}

static void begin_at_zero(struct trace *t)
{
    int64_t first;

    if (!is_sorted(t)) {
        sort_rows(t);
    }
    first = t->rows[0].at_us;
    for (size_t i = 0; i < t->n_rows; i++) {
        t->rows[i].at_us -= first;
    }
}

/* ---- lines ---- */

static enum status read_lines(struct trace *t, struct trace_reader *r,
                              const char *text, const char *end,
                              const struct trace_limits *most, struct error *e)
{
    enum status st = ST_OK;

    for (size_t line = 1; text < end && st == ST_OK; line++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        struct trace_line l;
        bool row;

        if (stop == NULL) {
            stop = end;
        }
        st = trace_read_line(r, text, (size_t)(stop - text), &l, &row, e);
        if (st == ST_OK && row) {
            st = add_row(t, &l, most, e);
        }
        if (st != ST_OK) {
            error_wrap(e, "line %zu", line);
        }
        text = stop < end ? stop + 1 : end;
    }
    return st;
}

enum status trace_parse(struct trace **out, const char *text, size_t n,
                        const struct trace_limits *most, struct error *e)
{
    struct trace *t = memory_must(calloc(1, sizeof *t));
    struct trace_reader r;
    size_t bom = n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    enum status st;

    trace_reader_init(&r, text + bom, n - bom);
    st = read_lines(t, &r, text + bom, text + n, most, e);
    trace_reader_fini(&r);
    if (st == ST_OK && t->n_rows == 0) {
        st = error_set(e, ST_INVALID_ARGUMENT, "line 1: there are no rows");
    }
    if (st != ST_OK) {
        trace_free(&t);
    } else {
        begin_at_zero(t);
    }
    *out = t;
    return st;
}

void trace_free(struct trace **t)
{
    if (*t != NULL) {
        free((*t)->rows);
        free((*t)->blocks);
        free(*t);
        *t = NULL;
    }
}
