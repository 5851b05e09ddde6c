/* trace.h - Recorded arrivals and lengths.
 *
 * Two forms, which differ in the first byte:
 *
 *     CSV     columns of time, prompt tokens and output tokens, with or without
 *             a header (Azure's traces, BurstGPT's).  A time is an ISO 8601
 *             date with fractions of a second, or a number of seconds.
 *     JSONL   "timestamp" in ms, "input_length", "output_length", and
 *             "hash_ids": one for each TRACE_BLOCK tokens of the prompt.  Equal
 *             ids are equal tokens (Mooncake's traces).
 *
 * Threading: none.  Memory: rows belong to the trace.  Limits: below. */
#ifndef CLIENT_LOAD_PLAN_TRACE_H
#define CLIENT_LOAD_PLAN_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"

#define TRACE_BLOCK      512
#define TRACE_BYTES_MAX  ((size_t)1 << 30)
#define TRACE_ROWS_MAX   ((size_t)4 << 20)
#define TRACE_LINE_MAX   ((size_t)1 << 20) /* bytes */
#define TRACE_BLOCKS_MAX ((size_t)64 << 20)
#define TRACE_TOKENS_MAX (4096 * TRACE_BLOCK) /* prompt or output */
#define TRACE_MS_MAX     1e14                 /* a timestamp of JSONL */

struct trace_row {
    int64_t at_us; /* since the first row */
    uint32_t n_prompt, n_output;
    uint32_t n_blocks;  /* 0: no block is shared */
    size_t first_block; /* in trace.blocks */
};

struct trace {
    struct trace_row *rows; /* [n_rows >= 1], sorted by time */
    uint64_t *blocks;       /* [n_blocks], hash ids */
    size_t n_rows, n_blocks;
    size_t rows_size, blocks_size;
    uint32_t total_max; /* most tokens of a prompt and its output */
};

/* TRACE_ROWS_MAX and TRACE_BLOCKS_MAX, but for tests. */
struct trace_limits {
    size_t rows, blocks;
};
extern const struct trace_limits trace_limits;

/* Parses text[0..n) within the limits.  Lengths of 0 become 1.
 * *out is the caller's, to trace_free(); NULL on failure.  Returns
 * ST_INVALID_ARGUMENT or ST_OUT_OF_RANGE and a sentence that begins with the
 * line. */
MUST_CHECK enum status trace_parse(struct trace **out, const char *text,
                                   size_t n, const struct trace_limits *most,
                                   struct error *e);

void trace_free(struct trace **t);

#endif
