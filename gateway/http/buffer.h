/* buffer.h - A growing run of bytes: a head, a body, or output.
 *
 *     data   | taken | n bytes |  free  |
 *            0       begin              capacity
 *
 * A budget bounds the memory of many buffers together.
 *
 * Threading: none.  Memory: one allocation, freed when the buffer is empty and
 * by http_buffer_fini().  All zeros is an empty buffer. */
#ifndef GATEWAY_HTTP_BUFFER_H
#define GATEWAY_HTTP_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/memory.h"

struct http_buffer {
    char *data;
    size_t begin, n, capacity;
    size_t expected; /* bytes that the whole content will have; 0: unknown */
    size_t exempt;   /* a capacity up to this does not count in the budget */
    struct memory_budget *budget; /* NULL: none */
};

/* Appends data[n].  Returns false, and appends nothing, if the budget or the
 * machine has no memory. */
bool http_buffer_append(struct http_buffer *b, const char *data, size_t n);

/* Appends a NUL-terminated text without its NUL. */
bool http_buffer_text(struct http_buffer *b, const char *text);

/* Takes n bytes from the front. */
void http_buffer_take(struct http_buffer *b, size_t n);

/* Frees the memory; the buffer is then empty. */
void http_buffer_fini(struct http_buffer *b);

/* Returns the first of the n bytes. */
const char *http_buffer_data(const struct http_buffer *b);

#endif
