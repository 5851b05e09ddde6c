/* limits.h - every limit of text/, in one table.
 *
 * A program prints the rows with --limits; each row has a test at the limit
 * and one past it (tests/unit/text/limits_test.c).  A file past a limit is
 * refused with ST_OUT_OF_RANGE and the place; a text past one likewise.
 *
 * Threading: no state. */
#ifndef TEXT_LIMITS_H
#define TEXT_LIMITS_H

/* X(name, value, what it bounds) */
#define TEXT_LIMIT_MAP(X)                                                      \
    X(TEXT_FILE_BYTES, 64 << 20, "bytes of a tokenizer or configuration file") \
    X(TEXT_TOKEN_IDS, 1 << 20, "token ids lie below")                          \
    X(TEXT_TOKEN_BYTES, 4096, "bytes of a token's spelling")                   \
    X(TEXT_MERGES, 1 << 20, "merges of a tokenizer")                           \
    X(TEXT_ADDED_TOKENS, 1 << 16, "added tokens of a tokenizer")               \
    X(TEXT_ADDED_BYTES, 256, "bytes of an added token's spelling")             \
    X(TEXT_STAGES, 16, "steps of a normalizer or pre-tokenizer")               \
    X(TEXT_NESTING, 8, "sequences inside sequences")                           \
    X(TEXT_PATTERN_BYTES, 8192, "bytes of a split expression")                 \
    X(TEXT_TEMPLATE_IDS, 64, "tokens a post-processor adds on one side")       \
    X(TEXT_ENCODE_BYTES, 16 << 20, "bytes of one text, also normalised")       \
    X(TEXT_SPLIT_STEPS, 64, "regex steps of one match per byte of text")       \
    X(TEXT_SPLIT_FLOOR, 100000, "regex steps of one match in any case")        \
    X(TEXT_EOS_IDS, 32, "end-of-sequence ids of a model")                      \
    X(TEXT_CHAT_BYTES, 1 << 20, "bytes of a chat template")

enum text_limit {
#define X(name, value, text) name = (value),
    TEXT_LIMIT_MAP(X)
#undef X
};

#endif
