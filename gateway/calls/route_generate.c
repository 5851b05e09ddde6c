/* route_generate.c - The three routes that generate text. */
#include "gateway/calls/generation.h"
#include "gateway/calls/parse_body.h"
#include "gateway/calls/route_handlers.h"

void route_chat(struct service *c, struct http_exchange *x,
                struct tenant *tenant)
{
    parse_body(c, x, tenant, OPENAI_CHAT, generation_begin);
}

void route_completion(struct service *c, struct http_exchange *x,
                      struct tenant *tenant)
{
    parse_body(c, x, tenant, OPENAI_COMPLETION, generation_begin);
}

void route_responses(struct service *c, struct http_exchange *x,
                     struct tenant *tenant)
{
    parse_body(c, x, tenant, OPENAI_RESPONSES, generation_begin);
}
