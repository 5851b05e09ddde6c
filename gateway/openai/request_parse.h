/* request_parse.h - From the body of a request to struct openai_request.
 *
 * A parse takes time linear in the body, and at most OPENAI_VALUES_MAX values
 * of memory.
 *
 * Threading: none; it may run on any thread.  Memory: the request is the
 * caller's.  Limits: those of request.h. */
#ifndef GATEWAY_OPENAI_REQUEST_PARSE_H
#define GATEWAY_OPENAI_REQUEST_PARSE_H

#include "gateway/openai/request.h"

/* Parses and checks the body of a request.  limits may be NULL.  Returns false
 * and *e, which is 400, 413 past a bound on the body's shape; *out is NULL
 * then.  The caller frees *out. */
MUST_CHECK bool openai_request_parse(enum openai_kind kind, const char *body,
                                     size_t n,
                                     const struct openai_limits *limits,
                                     struct openai_request **out,
                                     struct openai_error *e);

#endif
