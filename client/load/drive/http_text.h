/* http_text.h - Bytes that grow, and JSON written into them.
 *
 * Threading: none.  Memory: one buffer, doubled; aborts without memory. */
#ifndef CLIENT_LOAD_DRIVE_HTTP_TEXT_H
#define CLIENT_LOAD_DRIVE_HTTP_TEXT_H

#include <stddef.h>
#include <stdint.h>

struct http_text {
    char *bytes; /* [n] */
    size_t n, size;
};

/* Makes room for n more bytes. */
void http_text_reserve(struct http_text *t, size_t n);

void http_text_put(struct http_text *t, const void *bytes, size_t n);
void http_text_puts(struct http_text *t, const char *text);
void http_text_number(struct http_text *t, uint64_t v);

/* Appends text as a JSON string.  Bytes that are no UTF-8 become U+FFFD. */
void http_text_string(struct http_text *t, const char *text, size_t n);

void http_text_fini(struct http_text *t);

#endif
