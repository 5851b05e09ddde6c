/* anthropic_parse.h - Bodies of /v1/messages and /v1/messages/count_tokens.
 *
 * Threading: none.  Memory: as gateway/openai/request_parse.h. */
#ifndef GATEWAY_DIALECTS_ANTHROPIC_PARSE_H
#define GATEWAY_DIALECTS_ANTHROPIC_PARSE_H

#include "gateway/openai/request_parse.h"

openai_parse_fn anthropic_parse;

#endif
