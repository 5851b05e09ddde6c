/* gguf_tokens.h - A byte-level tokenizer.json as GGUF metadata, for tests.
 *
 * Threading: none. */
#ifndef TESTS_UNIT_TEXT_GGUF_TOKENS_H
#define TESTS_UNIT_TEXT_GGUF_TOKENS_H

#include <jansson.h>

#include "tests/unit/common/model/gguf_writer.h"

/* Puts the tokens and merges of a parsed tokenizer.json, as llama.cpp's
 * conversion does; pre names its split expression. */
void gguf_put_tokenizer(struct gguf_file *f, const json_t *file,
                        const char *pre);

#endif
