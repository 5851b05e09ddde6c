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

struct parse;

/* Reads the fields of a body, by the tables of an endpoint (parse.h).  Returns
 * false and the error. */
typedef bool openai_parse_fn(struct parse *p);

/* The endpoints that are of no dialect.  Their model may be NULL. */
openai_parse_fn openai_parse_tokenize, openai_parse_detokenize,
    openai_parse_apply, openai_parse_show;

/* Parses and checks the body of a request.  limits may be NULL.  Returns false
 * and *e, which is 400, 413 past a bound on the body's shape, or 503 if its
 * memory is not free; *out is NULL then.  The caller frees *out. */
MUST_CHECK bool openai_request_parse(openai_parse_fn *parse, const char *body,
                                     size_t n,
                                     const struct openai_limits *limits,
                                     struct openai_request **out,
                                     struct openai_error *e);

#endif
