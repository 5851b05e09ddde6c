/* text_limits.h - Limits of text/.
 *
 * Programs print the rows with --limits.  Each row has a test at the limit
 * and one past it (tests/unit/text/limits_test.c, assets_test.c).  A file or
 * text that exceeds a limit is refused with ST_OUT_OF_RANGE and the place.
 *
 * Threading: no state. */
#ifndef TEXT_TEXT_LIMITS_H
#define TEXT_TEXT_LIMITS_H

#include <stddef.h>

#include "common/base/limit.h"
#include "proto/limits.h"

/* X(name, value, unit, what it bounds) */
#define TEXT_LIMIT_MAP(X)                                                      \
    X(TEXT_FILE_BYTES, 64 << 20, "bytes", "a tokenizer or configuration file") \
    X(TEXT_JSON_DEPTH, 64, "levels", "such a file's JSON")                     \
    X(TEXT_JSON_VALUES, 5 << 20, "values", "such a file's JSON")               \
    X(TEXT_JSON_LISTS, 5 << 18, "arrays and objects", "such a file's JSON")    \
    X(TEXT_TOKEN_BYTES, 4096, "bytes", "a token's spelling")                   \
    X(TEXT_MERGES, 1 << 20, "merges", "a tokenizer")                           \
    X(TEXT_ADDED_TOKENS, 1 << 16, "tokens", "added tokens of a tokenizer")     \
    X(TEXT_ADDED_BYTES, 256, "bytes", "an added token's spelling")             \
    X(TEXT_STAGES, 16, "steps", "a normalizer or pre-tokenizer")               \
    X(TEXT_NESTING, 8, "", "sequences inside sequences")                       \
    X(TEXT_PATTERN_BYTES, 8192, "bytes", "a split expression")                 \
    X(TEXT_TEMPLATE_IDS, 64, "ids", "what a post-processor adds on one side")  \
    X(TEXT_ENCODE_BYTES, 16 << 20, "bytes", "one text, also normalised")       \
    X(TEXT_WHOLE_BYTES, 1 << 18, "bytes", "a word that has no windows")        \
    X(TEXT_SLICE_BYTES, 1 << 15, "bytes", "of a text, encoded at a time")      \
    X(TEXT_SPLIT_STEPS, 64, "steps", "one regex match, per byte of text")      \
    X(TEXT_SPLIT_FLOOR, 100000, "steps", "one regex match, in any case")       \
    X(TEXT_CHAT_BYTES, 1 << 20, "bytes", "a chat template")

enum text_limit {
#define X(name, value, unit, what) name = (value),
    TEXT_LIMIT_MAP(X)
#undef X
};

/* Rows of the table, for limits_print(). */
extern const struct limit_row text_limits[];
extern const size_t text_limits_n;

#endif
