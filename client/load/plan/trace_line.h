/* trace_line.h - One line of a trace, as CSV or JSON.
 *
 * Threading: none.  Memory: blocks belong to the reader until its next line. */
#ifndef CLIENT_LOAD_PLAN_TRACE_LINE_H
#define CLIENT_LOAD_PLAN_TRACE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/load/plan/trace.h"

#define TRACE_COLUMNS_MAX 64

struct trace_line {
    int64_t at_us; /* since any fixed moment */
    uint32_t n_prompt, n_output;
    const uint64_t *blocks; /* [n_blocks] */
    size_t n_blocks;
};

struct trace_reader {
    bool json;
    bool begun;                    /* a line was read */
    unsigned time, prompt, output; /* columns of CSV */
    uint64_t *blocks;              /* [TRACE_TOKENS_MAX / TRACE_BLOCK] */
};

/* Chooses the form by the first byte of a file. */
void trace_reader_init(struct trace_reader *r, const char *text, size_t n);
void trace_reader_fini(struct trace_reader *r);

/* Reads a line without its newline.  *row: the line is a row, not a header and
 * not blank. */
MUST_CHECK enum status trace_read_line(struct trace_reader *r, const char *line,
                                       size_t n, struct trace_line *out,
                                       bool *row, struct error *e);

#endif
