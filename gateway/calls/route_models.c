/* route_models.c - /v1/models and /v1/models/NAME. */
#include <string.h>

#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/openai/models.h"

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

void route_models(struct service *c, struct http_exchange *x,
                  struct tenant *tenant)
{
    struct openai_model models[MODEL_LIST_MAX];
    struct json_out body = {0};

    (void)tenant;
    if (!known(c, x)) {
        return;
    }
    for (uint32_t i = 0; i < c->list.n; i++) {
        models[i] = model_of(c, &c->list.rows[i]);
    }
    openai_models_body(&body, models, c->list.n);
    respond_json(c, x, 200, &body);
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
