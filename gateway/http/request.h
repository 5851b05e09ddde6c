/* request.h - Incremental parser of one request: head, body, trailers.
 *
 *     HEAD --> BODY --> DONE       a body of a known length, or none
 *     HEAD --> BODY --> TRAILERS --> DONE       a chunked body
 *
 * Threading: none.  Memory: head and body, which count in a budget; the body
 * grows with the bytes that have arrived, never with those announced.
 * Limits: those of its parts, and the caller's body_max. */
#ifndef GATEWAY_HTTP_REQUEST_H
#define GATEWAY_HTTP_REQUEST_H

#include "gateway/http/chunked.h"
#include "gateway/http/framing.h"
#include "gateway/http/head.h"

enum http_phase {
    HTTP_PHASE_HEAD,
    HTTP_PHASE_BODY,
    HTTP_PHASE_TRAILERS,
    HTTP_PHASE_DONE
};

struct http_request {
    struct http_head head, trailers;
    struct http_framing framing; /* valid after HTTP_PHASE_HEAD */
    struct http_chunked chunked;
    struct http_buffer body; /* if not empty, with a NUL when DONE */
    size_t body_max;
    const char *const *names_under; /* http_options has it; may be NULL */
    enum http_phase phase;
};

void http_request_init(struct http_request *q, struct memory_budget *budget,
                       size_t body_max);
void http_request_fini(struct http_request *q);

/* Parses data[n] up to the end of the head or of the request, and sets *used.
 * Returns false and *r if the request is refused; it must not be called again
 * then. */
bool http_request_push(struct http_request *q, const char *data, size_t n,
                       size_t *used, struct http_refusal *r);

#endif
