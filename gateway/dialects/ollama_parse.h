/* ollama_parse.h - Bodies of Ollama's /api/chat and /api/generate.
 *
 * Threading: none.  Memory: as gateway/openai/request_parse.h. */
#ifndef GATEWAY_DIALECTS_OLLAMA_PARSE_H
#define GATEWAY_DIALECTS_OLLAMA_PARSE_H

#include "gateway/openai/request_parse.h"

openai_parse_fn ollama_parse_chat, ollama_parse_generate;

#endif
