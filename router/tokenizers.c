#include "router/tokenizers.h"

#include <string.h>

#include "common/model/directory.h"
#include "text/model_tokenizer.h"
#include "text/tokenizer.h"

/* Sets the next name, of bytes[0..n). */
static enum status name_set(struct tokenizers *t, const char *spec, size_t n,
                            struct error *e)
{
    /* n = 0 also if there is no '='.  Byte n + 1 is the first one of DIR. */
    if (n == 0 || n > MODEL_NAME_MAX || spec[n + 1] == '\0') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model %s: must be NAME=DIR, NAME of 1 to %d bytes",
                         spec, MODEL_NAME_MAX);
    }
    memcpy(t->names[t->n], spec, n);
    for (uint32_t i = 0; i < t->n; i++) {
        if (strcmp(t->names[i], t->names[t->n]) == 0) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "--model %s: the name is given twice; use another",
                             spec);
        }
    }
    return ST_OK;
}

/* Parses spec, "NAME=DIR", and loads the tokenizer of DIR under NAME. */
static enum status add(struct tokenizers *t, const char *spec, struct error *e)
{
    const char *equals = strchr(spec, '=');
    enum status st =
        name_set(t, spec, equals != NULL ? (size_t)(equals - spec) : 0, e);

    if (st != ST_OK) {
        return st;
    }
    st = directory_check(equals + 1, DIRECTORY_TOKENIZER, e);
    st = st == ST_OK ? model_tokenizer_load(&t->loaded[t->n], equals + 1, e)
                     : st;
    if (st != ST_OK) {
        return error_wrap(e, "--model %s", spec);
    }
    t->models[t->n] = (struct text_model){t->names[t->n], t->loaded[t->n]};
    t->n++;
    return ST_OK;
}

enum status tokenizers_load(struct tokenizers *t,
                            const struct option_list *specs, struct error *e)
{
    enum status st = ST_OK;

    if (specs->n > ROUTER_MODELS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model: %u models, at most %d are possible",
                         specs->n, ROUTER_MODELS_MAX);
    }
    for (unsigned i = 0; st == ST_OK && i < specs->n; i++) {
        st = add(t, specs->item[i], e);
    }
    return st;
}

void tokenizers_fini(struct tokenizers *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        tokenizer_free(&t->loaded[i]);
    }
    t->n = 0;
}
