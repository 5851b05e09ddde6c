/* head.h - Incremental parser of a request's line and headers.
 *
 *     GET /v1/models?x HTTP/1.1 CRLF     method, target, version
 *     Host: example.com CRLF             fields
 *     CRLF                               end
 *
 * The grammar is RFC 9112 without its tolerance: lines end in CRLF, a field
 * is one line, a name ends directly before its colon, and one space separates
 * the parts of the first line.  One empty line before a request is skipped.
 *
 * The same parser reads and drops the trailers of a chunked body.
 *
 * Threading: none.  Memory: names and values, with NULs, in one buffer, and
 * 6 bytes a field.  Limits: HTTP_LINE_BYTES_MAX, HTTP_METHOD_BYTES_MAX,
 * HTTP_HEADERS_BYTES_MAX and _MAX, HTTP_TRAILERS_BYTES_MAX. */
#ifndef GATEWAY_HTTP_HEAD_H
#define GATEWAY_HTTP_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/http/buffer.h"
#include "gateway/http/http.h"
#include "gateway/http/refusal.h"

/* Offsets into the buffer. */
struct http_field {
    uint16_t name, value, value_n;
};

struct http_head {
    struct http_buffer bytes;  /* target NUL, then name NUL value NUL ... */
    struct http_buffer fields; /* array of struct http_field */
    uint32_t line_n, headers_n;
    uint16_t n_fields, query; /* query: its offset, 0: none */
    uint8_t state, version_n, minor;
    uint8_t method; /* enum http_method */
    bool trailers, skipped_line;
};

/* Prepares to parse a head, or the trailers of a body. */
void http_head_init(struct http_head *h, struct memory_budget *budget,
                    bool trailers);
void http_head_fini(struct http_head *h);

/* Parses data[n] up to the head's end and sets *used.  Returns false and *r if
 * the head is refused; it must not be called again then. */
bool http_head_push(struct http_head *h, const char *data, size_t n,
                    size_t *used, struct http_refusal *r);

/* Returns whether the head is complete. */
bool http_head_done(const struct http_head *h);

/* Returns the field with this name after the first `skip` with that name.
 * Returns NULL if there is none. */
const struct http_field *http_head_find(const struct http_head *h,
                                        const char *name, unsigned skip);

/* Returns the text at an offset. */
const char *http_head_text(const struct http_head *h, uint16_t at);

#endif
