/* cors.h - Cross-origin access by browsers.
 *
 * A browser lets pages of other origins read responses only if the response
 * names the origin.  Without --cors no origin is named.
 *
 * Threading, memory: no state; the caller's. */
#ifndef GATEWAY_HTTP_CORS_H
#define GATEWAY_HTTP_CORS_H

#include <stdbool.h>
#include <stddef.h>

#include "gateway/http/http.h"

#define HTTP_CORS_BYTES 768

/* Header lines for struct http_answer; "" if the origin is not allowed. */
struct http_cors {
    char lines[HTTP_CORS_BYTES];
};

/* Returns whether `allowed` can be an option's value: "*", or an origin such
 * as https://chat.example.com. */
bool http_cors_valid(const char *allowed);

/* Returns the lines for an answer to x; with preflight, those for the answer
 * to OPTIONS.  allowed: "*", an origin, or NULL for none. */
struct http_cors http_cors_headers(const struct http_exchange *x,
                                   const char *allowed, bool preflight);

#endif
