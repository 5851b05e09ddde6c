/* json_out.h - A growing buffer of JSON text.
 *
 * Answers are written, not built as trees: a stream costs one pass over its
 * text and no allocation per chunk.
 *
 * Threading: none.  Memory: one allocation, which doubles.  Without memory the
 * buffer is broken: it takes nothing more, and its text must not be used.
 * Limits: those of its account. */
#ifndef GATEWAY_OPENAI_JSON_OUT_H
#define GATEWAY_OPENAI_JSON_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "common/base/memory.h"

/* State that several buffers share. */
struct json_account {
    struct memory_budget *budget; /* in which they count; NULL: none */
    bool broken;                  /* one of them is */
};

struct json_out {
    char *data; /* [n], not terminated */
    size_t n, capacity;
    bool broken;
    struct json_account *account; /* NULL: none */
};

/* Frees the text.  The buffer is empty and whole then, with its account. */
void json_out_fini(struct json_out *o);

/* Makes room for n more bytes, and returns where they begin; NULL if the buffer
 * is broken. */
char *json_out_reserve(struct json_out *o, size_t n);

/* Appends bytes as they are. */
void json_out_raw(struct json_out *o, const char *bytes, size_t n);

/* Appends a C string as it is. */
static inline void json_out_put(struct json_out *o, const char *text)
{
    json_out_raw(o, text, strlen(text));
}

/* Appends text, which is UTF-8, with JSON's escapes and without quotes. */
void json_out_escaped(struct json_out *o, const char *text, size_t n);

/* Appends a JSON string of any bytes.  Each wrong sequence becomes U+FFFD. */
void json_out_string(struct json_out *o, const char *bytes, size_t n);

/* Appends a JSON string, or null if text is NULL. */
void json_out_text(struct json_out *o, const char *text);

/* Appends an integer. */
void json_out_u64(struct json_out *o, uint64_t value);
void json_out_i64(struct json_out *o, int64_t value);

/* Appends a number in the fewest digits that give the same float.  Infinity
 * and NaN, which JSON lacks, become -9999 as in other servers. */
void json_out_float(struct json_out *o, float value);

/* Appends a value of jansson as JSON text; NULL becomes null. */
void json_out_value(struct json_out *o, const json_t *value);

#endif
