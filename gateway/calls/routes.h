/* routes.h - From an HTTP request to its handler, and who may pass.
 *
 * The key is checked when the head of a request has arrived, before its body
 * is read, and again with the whole request.
 *
 * Threading: one thread.  Memory: none. */
#ifndef GATEWAY_CALLS_ROUTES_H
#define GATEWAY_CALLS_ROUTES_H

#include "gateway/http/http.h"

/* The handler of the HTTP server; its arg is the struct service. */
extern const struct http_handler routes_http_handler;

#endif
