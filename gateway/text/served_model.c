#include "gateway/text/served_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/file.h"
#include "text/text_limits.h"

/* Checks "NAME=DIR" and copies NAME.  Returns DIR in *dir. */
static enum status take_name(struct served_models *m, const char *spec,
                             const char **dir, struct error *e)
{
    struct served_model *s = &m->models[m->n];
    const char *equals = strchr(spec, '=');
    size_t n = equals != NULL ? (size_t)(equals - spec) : 0;

    if (n == 0 || n > MODEL_NAME_MAX || equals[1] == '\0') {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "must be NAME=DIR, NAME of 1 to %d bytes",
                         MODEL_NAME_MAX);
    }
    memset(s, 0, sizeof *s);
    memcpy(s->name, spec, n);
    if (served_model_find(m, s->name) != NULL) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the name is given twice; use another");
    }
    *dir = equals + 1;
    return ST_OK;
}

/* Reads --chat-template. */
static enum status read_given(struct served_model *s, const char *path,
                              struct error *e)
{
    enum status st =
        file_read(path, TEXT_CHAT_BYTES, &s->given, &s->n_source, e);

    s->source = s->given;
    return st == ST_OK ? ST_OK : error_wrap(e, "--chat-template %s", path);
}

/* Compiles the template for requests with tools, if the directory names one. */
static enum status compile_tools(struct served_model *s, struct error *e)
{
    size_t n = 0;
    const char *source =
        s->given == NULL ? text_assets_named_template(s->assets, "tool_use", &n)
                         : NULL;

    if (source == NULL) {
        return ST_OK;
    }
    text_assets_protect(s->assets, source, n);
    return chat_template_compile(&s->tools, source, n, e);
}

static enum status compile(struct served_model *s, struct error *e)
{
    enum status st = ST_OK;

    if (s->given == NULL) {
        s->source = text_assets_chat_template(s->assets, &s->n_source);
    }
    if (s->source != NULL) {
        text_assets_protect(s->assets, s->source, s->n_source);
        st = chat_template_compile(&s->chat, s->source, s->n_source, e);
        st = st == ST_OK ? compile_tools(s, e) : st;
        if (st != ST_OK) {
            (void)error_wrap(e, "chat template");
        }
    }
    return st;
}

static void model_fini(struct served_model *s)
{
    chat_template_free(&s->chat);
    chat_template_free(&s->tools);
    text_assets_free(&s->assets);
    free(s->given);
    s->given = NULL;
}

enum status served_models_add(struct served_models *m, const char *spec,
                              const char *template_file, struct error *e)
{
    struct served_model *s = &m->models[m->n];
    const char *dir = NULL;
    enum status st;

    if (m->n == SERVED_MODELS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "--model %s: at most %d models are possible", spec,
                         SERVED_MODELS_MAX);
    }
    st = take_name(m, spec, &dir, e);
    if (st == ST_OK) {
        st = text_assets_load(&s->assets, dir, e);
    }
    if (st == ST_OK && template_file != NULL) {
        st = read_given(s, template_file, e);
    }
    st = st == ST_OK ? compile(s, e) : st;
    if (st != ST_OK) {
        model_fini(s);
        return error_wrap(e, "--model %s", spec);
    }
    m->n++;
    return ST_OK;
}

void served_models_fini(struct served_models *m)
{
    while (m->n > 0) {
        model_fini(&m->models[--m->n]);
    }
}

const struct served_model *served_model_find(const struct served_models *m,
                                             const char *name)
{
    for (uint32_t i = 0; i < m->n; i++) {
        if (strcmp(m->models[i].name, name) == 0) {
            return &m->models[i];
        }
    }
    return NULL;
}

bool served_model_shows_tools(const struct served_model *m)
{
    const struct chat_template *t = m->tools != NULL ? m->tools : m->chat;

    return t != NULL && chat_template_has_tools(t);
}

const struct tokenizer *served_tokenizer(const struct served_model *m)
{
    return m != NULL ? text_assets_tokenizer(m->assets) : NULL;
}
