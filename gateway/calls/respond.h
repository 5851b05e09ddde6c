/* respond.h - Answers with the headers that all routes share.
 *
 * Every answer has the headers of CORS, if an origin is allowed.  Answers of a
 * generation also have x-request-id and the use of the tenant's limits.
 *
 * Threading: none.  Memory: the caller's storage. */
#ifndef GATEWAY_CALLS_RESPOND_H
#define GATEWAY_CALLS_RESPOND_H

#include "gateway/calls/service.h"
#include "gateway/openai/error.h"
#include "gateway/openai/json_out.h"

#define RESPOND_HEADER_BYTES 2048

/* Whole header lines for struct http_answer, and the route of the request for
 * the metrics. */
struct respond_headers {
    enum gateway_route route;
    bool generation; /* which is logged when it is over */
    char lines[RESPOND_HEADER_BYTES];
    size_t n;
};

/* Begins with the headers of CORS.  Reads the request of x, which must not have
 * been freed yet. */
void respond_headers_init(struct respond_headers *h, const struct service *c,
                          const struct http_exchange *x);

/* Adds "name: value".  A line that does not fit is left out. */
void respond_header(struct respond_headers *h, const char *name,
                    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Adds x-ratelimit-* for the limits that the tenant has. */
void respond_limits(struct respond_headers *h, struct tenant *t,
                    int64_t now_us);

#define RESPOND_ID_TEXT 33

/* Writes id[16] in hex. */
void respond_id_text(char out[RESPOND_ID_TEXT], const uint8_t *id);

/* Adds x-request-id: id[16] in hex. */
void respond_request_id(struct respond_headers *h, const uint8_t *id);

/* Counts an answer and sends it with these headers. */
void respond(struct service *c, struct http_exchange *x,
             const struct respond_headers *h, struct http_answer *a);

/* Answers with a JSON body, which it takes. */
void respond_json(struct service *c, struct http_exchange *x, int status,
                  struct json_out *body);

/* Answers with an error.  h: NULL, or headers to which retry-after is added.
 * retry_after_ms: 0 for none. */
void respond_error(struct service *c, struct http_exchange *x,
                   const struct openai_error *e, struct respond_headers *h,
                   uint32_t retry_after_ms);

#endif
