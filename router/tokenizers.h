/* tokenizers.h - The tokenizers that --model NAME=DIR names.
 *
 * Threading: loaded and freed by the main thread; constant between.  Memory:
 * owns names and tokenizers.  Limits: ROUTER_MODELS_MAX. */
#ifndef ROUTER_TOKENIZERS_H
#define ROUTER_TOKENIZERS_H

#include "common/base/option.h"
#include "router/base/router_options.h"
#include "router/text/text_threads.h"

struct tokenizers {
    char names[ROUTER_MODELS_MAX][MODEL_NAME_MAX + 1];
    struct tokenizer *loaded[ROUTER_MODELS_MAX]; /* [n], owned */
    struct text_model models[ROUTER_MODELS_MAX]; /* [n], of those */
    uint32_t n;
};

/* Loads the tokenizer of each "NAME=DIR".  *t is empty.  Returns
 * ST_INVALID_ARGUMENT if an item is malformed, a name is given twice or there
 * are too many, and errors of the directory and its files.  *t holds what was
 * loaded, in any case. */
MUST_CHECK enum status tokenizers_load(struct tokenizers *t,
                                       const struct option_list *specs,
                                       struct error *e);

void tokenizers_fini(struct tokenizers *t);

#endif
