/* http_client.h - Requests to an OpenAI-compatible server, by libcurl.
 *
 * Only http and https, no redirects: a key goes to the given server alone.
 * Ctrl-C (interrupt.h) ends a request with ST_CANCELLED.
 *
 * Threading: one thread.  Memory: on the heap.
 * Limits: HTTP_CLIENT_BODY_MAX, HTTP_CLIENT_CONNECT_S. */
#ifndef CLIENT_FRONT_HTTP_CLIENT_H
#define CLIENT_FRONT_HTTP_CLIENT_H

#include <stddef.h>

#include "common/base/sse.h"
#include "common/base/status.h"

#define HTTP_CLIENT_BODY_MAX  (1u << 20) /* bytes kept of a body without SSE */
#define HTTP_CLIENT_CONNECT_S 10         /* time limit of a connection */

struct http_client;

/* Makes a client of the server at url, with or without "/v1".  key: NULL if
 * none.  Returns ST_INVALID_ARGUMENT if the url is neither http nor https. */
MUST_CHECK enum status http_client_new(struct http_client **out,
                                       const char *url, const char *key,
                                       struct error *e);

void http_client_free(struct http_client **h);

/* Gets a path such as "/v1/models".  *body is for free(), with a NUL.  Returns
 * ST_UNAVAILABLE if the server cannot be reached, ST_UNKNOWN and the server's
 * sentence if it refuses. */
MUST_CHECK enum status http_client_get(struct http_client *h, const char *path,
                                       char **body, size_t *n, struct error *e);

/* Posts JSON and passes the data of each event to fn.  Errors: as
 * http_client_get(); ST_DATA_LOSS if the stream breaks a limit or the answer
 * is no stream. */
MUST_CHECK enum status http_client_stream(struct http_client *h,
                                          const char *path, const char *json,
                                          sse_fn *fn, void *arg,
                                          struct error *e);

#endif
