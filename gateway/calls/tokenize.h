/* tokenize.h - Requests that only encode a text or a conversation.
 *
 * Threading: one thread.  Memory: none. */
#ifndef GATEWAY_CALLS_TOKENIZE_H
#define GATEWAY_CALLS_TOKENIZE_H

#include "gateway/calls/service.h"
#include "gateway/openai/request.h"

/* Begins the request r, which it takes, for the exchange x: /tokenize,
 * /detokenize, or a dialect's route that counts.  It answers x in any case, now
 * or later. */
void tokenize_begin(struct service *c, struct http_exchange *x,
                    struct tenant *tenant, struct openai_request **r);

#endif
