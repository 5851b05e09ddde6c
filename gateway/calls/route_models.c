/* route_models.c - /v1/models, /v1/models/NAME, /props, and the same for
 * Ollama's clients. */
#include <stdio.h>
#include <string.h>

#include "gateway/calls/parse_body.h"
#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/openai/ollama_models.h"
#include "gateway/openai/request_parse.h"

static struct openai_model model_of(const struct service *c,
                                    const struct model_row *row)
{
    struct model_format f =
        service_format(c, served_model_find(c->options.models, row->name));

    return (struct openai_model){.id = row->name,
                                 .created_unix = row->since_unix,
                                 .context = row->context,
                                 .chat = f.has_chat,
                                 .reasoning = f.has_reasoning,
                                 .tools = f.shows_tools && f.reads_calls
                                              ? output_format_name(f.format)
                                              : NULL};
}

/* Answers if no router has named its models yet.  Later the last list stays,
 * as a router may be restarting. */
static bool known(struct service *c, struct http_exchange *x)
{
    struct openai_error e;

    if (!c->list.known) {
        openai_error_no_router(&e);
        respond_error(c, x, &e, NULL, RESPOND_ROUTER_MS);
    }
    return c->list.known;
}

static void list(struct service *c, struct http_exchange *x,
                 void (*put)(struct json_out *out,
                             const struct openai_model *models, size_t n))
{
    struct openai_model models[MODEL_LIST_MAX];
    struct json_out body = {0};

    if (!known(c, x)) {
        return;
    }
    for (uint32_t i = 0; i < c->list.n; i++) {
        models[i] = model_of(c, &c->list.rows[i]);
    }
    put(&body, models, c->list.n);
    respond_json(c, x, 200, &body);
}

void route_models(struct service *c, struct http_exchange *x,
                  struct tenant *tenant)
{
    (void)tenant;
    list(c, x, openai_models_body);
}

void route_ollama_tags(struct service *c, struct http_exchange *x,
                       struct tenant *tenant)
{
    (void)tenant;
    list(c, x, ollama_tags_body);
}

void route_ollama_version(struct service *c, struct http_exchange *x,
                          struct tenant *tenant)
{
    struct json_out body = {0};

    (void)tenant;
    ollama_version_body(&body);
    respond_json(c, x, 200, &body);
}

/* Ends a request that names a model. */
static void show(struct service *c, struct http_exchange *x,
                 struct tenant *tenant, struct openai_request **r)
{
    const struct served_model *m =
        served_model_find(c->options.models, (*r)->model);
    const struct model_row *row = model_list_find(&c->list, (*r)->model);
    bool has_source = m != NULL && m->source != NULL;
    struct json_out body = {0};
    struct openai_model model;
    struct openai_error e;

    (void)tenant;
    if (row == NULL) {
        openai_error_no_model(&e, (*r)->model);
        respond_error(c, x, &e, NULL, 0);
    } else {
        model = model_of(c, row);
        ollama_show_body(&body, &model, has_source ? m->source : "",
                         has_source ? m->n_source : 0);
        respond_json(c, x, 200, &body);
    }
    openai_request_free(r);
}

void route_ollama_show(struct service *c, struct http_exchange *x,
                       struct tenant *tenant)
{
    if (known(c, x)) {
        parse_body(c, x, tenant, openai_parse_show, show);
    }
}

/* Writes the name behind "models/", cut if no model can have it. */
static void name_of(const struct http_exchange *x, char name[ROUTE_PATH_BYTES])
{
    const char *at = strstr(http_path(x), "/models/") + strlen("/models/");
    size_t n = strlen(at);

    n = n < ROUTE_PATH_BYTES ? n : ROUTE_PATH_BYTES - 1;
    n -= n > 0 && at[n - 1] == '/';
    memcpy(name, at, n);
    name[n] = '\0';
}

void route_model(struct service *c, struct http_exchange *x,
                 struct tenant *tenant)
{
    char name[ROUTE_PATH_BYTES];
    const struct model_row *row;
    struct json_out body = {0};
    struct openai_model model;
    struct openai_error e;

    (void)tenant;
    if (!known(c, x)) {
        return;
    }
    name_of(x, name);
    row = model_list_find(&c->list, name);
    if (row == NULL) {
        openai_error_no_model(&e, name);
        respond_error(c, x, &e, NULL, 0);
        return;
    }
    model = model_of(c, row);
    openai_model_body(&body, &model);
    respond_json(c, x, 200, &body);
}

/* Returns the model of /props?model=NAME, or the only one.  NULL: there is none
 * of that name, or several. */
static const struct served_model *props_model(const struct service *c,
                                              const struct http_exchange *x)
{
    static const char key[] = "model=";
    const struct served_models *models = c->options.models;
    const char *query = http_query(x);
    char name[MODEL_NAME_MAX + 1];

    if (strncmp(query, key, sizeof key - 1) == 0) {
        query += sizeof key - 1;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(query, "&"), query);
        return served_model_find(models, name);
    }
    return models->n == 1 ? &models->models[0] : NULL;
}

void route_props(struct service *c, struct http_exchange *x,
                 struct tenant *tenant)
{
    const struct served_model *m = props_model(c, x);
    const struct model_row *row;
    struct json_out body = {0};
    struct openai_error e;

    (void)tenant;
    if (m == NULL) {
        openai_error_set(&e, 404, "model", "model_not_found",
                         "no such model has a tokenizer at the gateway; send "
                         "/props?model=NAME with one of GET /v1/models");
        respond_error(c, x, &e, NULL, 0);
        return;
    }
    row = model_list_find(&c->list, m->name);
    openai_props_body(&body,
                      &(struct openai_props){
                          .model = m->name,
                          .context = row != NULL ? row->context : 0,
                          .template = m->source != NULL ? m->source : "",
                          .n_template = m->source != NULL ? m->n_source : 0,
                          .bos = text_assets_bos_token(m->assets),
                          .eos = text_assets_eos_token(m->assets)});
    respond_json(c, x, 200, &body);
}
