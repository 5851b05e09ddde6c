/* models.h - Bodies of /v1/models, /tokenize, /detokenize, /apply-template and
 * /props.
 *
 * Threading: none.  Memory: bodies are appended to the caller's buffer. */
#ifndef GATEWAY_OPENAI_MODELS_H
#define GATEWAY_OPENAI_MODELS_H

#include <stdint.h>

#include "gateway/openai/json_out.h"
#include "gateway/openai/vocab.h"

struct openai_model {
    const char *id;
    int64_t created_unix; /* s */
    uint32_t context;     /* tokens of a sequence; 0: not given */
    bool chat, reasoning; /* it has a template; it writes reasoning blocks */
    const char *tools;    /* the format of its calls; NULL: takes no tools */
};

/* A model, as llama.cpp's clients ask for it. */
struct openai_props {
    const char *model;
    uint32_t context;     /* as in struct openai_model */
    const char *template; /* [n_template] source; n_template = 0: none */
    size_t n_template;
    const char *bos, *eos; /* texts of tokens; NULL: none */
};

/* Appends the list of models. */
void openai_models_body(struct json_out *out, const struct openai_model *models,
                        size_t n);

/* Appends one model, of /v1/models/{id}. */
void openai_model_body(struct json_out *out, const struct openai_model *model);

/* Appends the answer of /tokenize: ids[n], and their texts if vocab is not
 * NULL.  context: as in struct openai_model. */
void openai_tokenize_body(struct json_out *out, const uint32_t *ids, size_t n,
                          uint32_t context, const struct openai_vocab *vocab);

/* Appends the answer of /tokenize with_pieces. */
void openai_pieces_body(struct json_out *out, const uint32_t *ids, size_t n,
                        const struct openai_vocab *vocab);

/* Appends the answer of /apply-template: text[n], UTF-8. */
void openai_prompt_body(struct json_out *out, const char *text, size_t n);

/* Appends the answer of /props. */
void openai_props_body(struct json_out *out, const struct openai_props *p);

/* Appends the answer of /detokenize: text[n], UTF-8. */
void openai_detokenize_body(struct json_out *out, const char *text, size_t n);

#endif
