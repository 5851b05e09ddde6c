/* dataset.h - Prompts of a file: JSON Lines, or one JSON array of rows.
 *
 *     {"prompt": "..."}             a text; also an array of ids
 *     {"messages": [...]}           a conversation, sent as it is
 *     {"token_ids": [...]}          ids
 *     {"conversations": [{"from": "human", "value": "..."}, ...]}
 *                                   ShareGPT's: each human text is a turn; the
 *                                   server writes the answers.  A row without
 *                                   such a text is left out
 *
 * "max_tokens" or "output_tokens" of a row replaces the output length of the
 * options.  Other members are ignored.
 *
 * Threading: none.  Memory: entries belong to the dataset.  Limits: below. */
#ifndef CLIENT_LOAD_PLAN_DATASET_H
#define CLIENT_LOAD_PLAN_DATASET_H

#include <stddef.h>
#include <stdint.h>

#include "client/load/plan/plan_types.h"
#include "common/base/status.h"

#define DATASET_BYTES_MAX     ((size_t)1 << 30)
#define DATASET_ROWS_MAX      ((size_t)1 << 20)
#define DATASET_ROW_BYTES_MAX ((size_t)16 << 20)
#define DATASET_TOKENS_MAX    (1 << 24) /* output of a row */

struct dataset_row {
    size_t first;        /* in entries */
    uint32_t n;          /* turns, 1..PLAN_TURNS_MAX */
    uint32_t max_tokens; /* 0: absent */
};

struct dataset {
    struct dataset_row *rows;   /* [n_rows >= 1] */
    struct plan_entry *entries; /* [n_entries] */
    size_t n_rows, n_entries;
    size_t rows_size, entries_size;
};

/* Parses text[0..n), with at most rows_max rows.  *out is the caller's, to
 * dataset_free(); NULL on failure.  Returns ST_INVALID_ARGUMENT or
 * ST_OUT_OF_RANGE and a sentence that begins with the line. */
MUST_CHECK enum status dataset_parse(struct dataset **out, const char *text,
                                     size_t n, size_t rows_max,
                                     struct error *e);

void dataset_free(struct dataset **d);

#endif
