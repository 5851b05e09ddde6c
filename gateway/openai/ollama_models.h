/* ollama_models.h - Bodies of Ollama's /api/tags, /api/show and /api/version.
 *
 * Threading: none.  Memory: bodies are appended to the caller's buffer. */
#ifndef GATEWAY_OPENAI_OLLAMA_MODELS_H
#define GATEWAY_OPENAI_OLLAMA_MODELS_H

#include "gateway/openai/models.h"

/* Appends a time in the form of RFC 3339, in quotes. */
void ollama_put_time(struct json_out *out, int64_t unix_s);

/* Appends the list of models. */
void ollama_tags_body(struct json_out *out, const struct openai_model *models,
                      size_t n);

/* Appends what a model can do; template[n] is its chat template. */
void ollama_show_body(struct json_out *out, const struct openai_model *model,
                      const char *template, size_t n);

/* Appends the version of sluice. */
void ollama_version_body(struct json_out *out);

#endif
