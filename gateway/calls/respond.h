/* respond.h - Answers with the headers that all routes share.
 *
 * Every answer has x-request-id, and the headers of CORS, if an origin is
 * allowed.  Answers of a generation also have the use of the tenant's limits.
 *
 * Threading: none.  Memory: the caller's storage. */
#ifndef GATEWAY_CALLS_RESPOND_H
#define GATEWAY_CALLS_RESPOND_H

#include "gateway/calls/service.h"
#include "gateway/openai/error.h"
#include "gateway/openai/json_out.h"
#include "gateway/openai/request.h"

#define RESPOND_HEADER_BYTES 2048
#define RESPOND_MEMORY_MS    1000 /* retry-after where memory is short */
#define RESPOND_ROUTER_MS    1000 /* ... where no router has answered */

/* Whole header lines for struct http_answer, the route of the request for the
 * metrics, and its dialect, which has a form of errors. */
struct respond_headers {
    enum gateway_route route;
    const struct dialect *dialect; /* NULL: errors as OpenAI's */
    bool generation;   /* which has its id, and is logged when it is over */
    const char *model; /* for the log, borrowed; NULL: none */
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

/* Adds x-sluice-ignored: the fields that the server ignored, if there are any.
 */
void respond_ignored(struct respond_headers *h, const struct openai_ignored *i);

#define RESPOND_ID_TEXT 33

/* Writes id[16] in hex. */
void respond_id_text(char out[RESPOND_ID_TEXT], const uint8_t *id);

/* Draws an id for an answer that has no request of the router. */
void respond_draw_id(const struct service *c, char out[RESPOND_ID_TEXT]);

/* Returns the status of HTTP for an error. */
int respond_status(const struct respond_headers *h,
                   const struct openai_error *e);

/* Adds x-request-id: id[16] in hex. */
void respond_request_id(struct respond_headers *h, const uint8_t *id);

/* Counts and logs an answer, and sends it with these headers. */
void respond(struct service *c, struct http_exchange *x,
             struct respond_headers *h, struct http_answer *a);

/* Answers with a JSON body, which it takes. */
void respond_json(struct service *c, struct http_exchange *x, int status,
                  struct json_out *body);

/* Does so, with these headers. */
void respond_body(struct service *c, struct http_exchange *x, int status,
                  struct respond_headers *h, struct json_out *body);

/* Answers with 503 and retry-after: memory is short. */
void respond_memory(struct service *c, struct http_exchange *x);

/* Answers with an error.  h: NULL, or headers to which retry-after is added.
 * retry_after_ms: 0 for none. */
void respond_error(struct service *c, struct http_exchange *x,
                   const struct openai_error *e, struct respond_headers *h,
                   uint32_t retry_after_ms);

#endif
