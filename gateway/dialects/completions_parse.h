/* completions_parse.h - Bodies of /v1/completions.
 *
 * Threading, memory: as gateway/openai/parse.h. */
#ifndef GATEWAY_DIALECTS_COMPLETIONS_PARSE_H
#define GATEWAY_DIALECTS_COMPLETIONS_PARSE_H

#include "gateway/openai/request_parse.h"

openai_parse_fn completions_parse;

#endif
