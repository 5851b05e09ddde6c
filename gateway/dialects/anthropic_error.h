/* anthropic_error.h - Errors in the shape of Anthropic's API.
 *
 *     {"type":"error","error":{"type":"invalid_request_error","message":".."}}
 *
 * Threading: none.  Memory: none. */
#ifndef GATEWAY_DIALECTS_ANTHROPIC_ERROR_H
#define GATEWAY_DIALECTS_ANTHROPIC_ERROR_H

#include "gateway/openai/error.h"

/* Repeats x-request-id, as its SDKs read it. */
#define ANTHROPIC_ID_HEADER "request-id"

/* Appends the body of an error. */
void anthropic_error_body(struct json_out *out, const struct openai_error *e);

/* Returns the status of HTTP, which is 529 where the server has too much to
 * do. */
int anthropic_error_status(const struct openai_error *e);

#endif
