/* responses_parse.h - Bodies of /v1/responses.
 *
 * Threading, memory: as gateway/openai/parse.h. */
#ifndef GATEWAY_DIALECTS_RESPONSES_PARSE_H
#define GATEWAY_DIALECTS_RESPONSES_PARSE_H

#include "gateway/openai/request_parse.h"

openai_parse_fn responses_parse;

#endif
