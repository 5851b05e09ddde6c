/* json_fields.h - The members of a result in JSON, as tables that both
 * report_json() and report_read() follow.
 *
 * docs/load-json.md describes every member.  Threading: constant data. */
#ifndef CLIENT_LOAD_REPORT_JSON_FIELDS_H
#define CLIENT_LOAD_REPORT_JSON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#define JSON_FORMAT "sluice-load 2"

enum field_type {
    FIELD_UINT,     /* 1, 2, 4 or 8 bytes */
    FIELD_INT,      /* 4 or 8 bytes */
    FIELD_REAL,     /* double */
    FIELD_BOOL,     /* bool */
    FIELD_TEXT,     /* char[size] */
    FIELD_STRING,   /* char *, may be NULL */
    FIELD_WORD,     /* an enum or a byte: one of words[0..n_words) */
    FIELD_HISTOGRAM /* struct histogram */
};

struct field {
    const char *name;
    enum field_type type;
    size_t offset, size;
    const char *const *words;
    size_t n_words;
    bool later; /* absent in files of earlier versions: 0 */
};

struct fields {
    const struct field *row; /* [n] */
    size_t n;
};

extern const struct fields result_fields, objectives_fields, run_fields,
    point_fields, event_fields, tally_fields, row_fields, level_fields,
    why_fields, search_fields, search_options_fields, trial_fields;

#endif
