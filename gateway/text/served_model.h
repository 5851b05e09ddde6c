/* served_model.h - The text side of the models that a gateway serves.
 *
 * A model directory gives the tokenizer, the chat template and the default
 * sampling (text/assets.h).  The router has the same name for the model.  A
 * model without an entry here can be used too, with prompts that are text or
 * ids: such requests need no template.
 *
 * Threading: read-only once loaded; the job threads read it too.  Memory:
 * owned by the table.  Limits: SERVED_MODELS_MAX models. */
#ifndef GATEWAY_TEXT_SERVED_MODEL_H
#define GATEWAY_TEXT_SERVED_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/limits.h"
#include "text/assets.h"
#include "text/template/chat_template.h"

#define SERVED_MODELS_MAX 32

struct served_model {
    char name[MODEL_NAME_MAX + 1];
    struct text_assets *assets;
    struct chat_template *chat;  /* NULL: the model has no template */
    struct chat_template *tools; /* for requests with tools; NULL: `chat` */
    /* Source of `chat`, borrowed from the assets or from `given`. */
    const char *source;
    size_t n_source;
    char *given; /* bytes of --chat-template, owned */
};

struct served_models {
    struct served_model models[SERVED_MODELS_MAX]; /* [n] */
    uint32_t n;
};

/* Loads the model of spec, "NAME=DIR", and compiles its templates, whose
 * structure its tokenizer finds in trusted text alone.  With
 * template_file not NULL, that file replaces the directory's template.  Returns
 * an error of text_assets_load() or chat_template_compile() with the spec in
 * front, and INVALID_ARGUMENT for a bad spec or a name given twice. */
MUST_CHECK enum status served_models_add(struct served_models *m,
                                         const char *spec,
                                         const char *template_file,
                                         struct error *e);

/* Frees what the table holds. */
void served_models_fini(struct served_models *m);

/* Returns the model of this name, NULL if there is none. */
const struct served_model *served_model_find(const struct served_models *m,
                                             const char *name);

/* Returns whether the template for requests with tools puts them into the
 * prompt; false without a template. */
bool served_model_shows_tools(const struct served_model *m);

/* Returns the tokenizer of the model, NULL if it has none. */
const struct tokenizer *served_tokenizer(const struct served_model *m);

#endif
