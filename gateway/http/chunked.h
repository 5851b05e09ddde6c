/* chunked.h - Incremental parser of the chunked transfer coding.
 *
 *     5;name=value CRLF hello CRLF   0 CRLF   trailers CRLF
 *     ----- line -----  data         ---- end ----
 *
 * The trailers are not parsed here.
 *
 * Threading, memory: none.  Limits: HTTP_CHUNK_DIGITS_MAX,
 * HTTP_EXTENSIONS_BYTES_MAX. */
#ifndef GATEWAY_HTTP_CHUNKED_H
#define GATEWAY_HTTP_CHUNKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/http/refusal.h"

enum http_chunk_state {
    HTTP_CHUNK_SIZE,
    HTTP_CHUNK_EXTENSION,
    HTTP_CHUNK_SIZE_LF,
    HTTP_CHUNK_DATA,
    HTTP_CHUNK_DATA_CR,
    HTTP_CHUNK_DATA_LF,
    HTTP_CHUNK_END
};

/* All zeros is the start of a body. */
struct http_chunked {
    uint64_t left; /* bytes of this chunk's data */
    uint32_t extensions;
    uint8_t state, digits;
};

/* Parses bytes up to the next data or the end, and sets *used.  Not to be
 * called in these two states.  Returns false and *r if a line is wrong. */
bool http_chunked_push(struct http_chunked *c, const char *data, size_t n,
                       size_t *used, struct http_refusal *r);

/* Records that n <= left bytes of data were taken. */
void http_chunked_took(struct http_chunked *c, size_t n);

#endif
