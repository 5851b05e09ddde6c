/* route_models.c - /v1/models and /v1/models/NAME. */
#include <string.h>

#include "gateway/calls/respond.h"
#include "gateway/calls/route_handlers.h"
#include "gateway/openai/models.h"

static struct openai_model model_of(const struct model_row *row)
{
    return (struct openai_model){.id = row->name,
                                 .created_unix = row->since_unix,
                                 .context = row->context};
}

void route_models(struct service *c, struct http_exchange *x,
                  struct tenant *tenant)
{
    struct openai_model models[MODEL_LIST_MAX];
    struct json_out body = {0};

    (void)tenant;
    for (uint32_t i = 0; i < c->list.n; i++) {
        models[i] = model_of(&c->list.rows[i]);
    }
    openai_models_body(&body, models, c->list.n);
    respond_json(c, x, 200, &body);
}

void route_model(struct service *c, struct http_exchange *x,
                 struct tenant *tenant)
{
    const char *name = http_path(x) + strlen("/v1/models/");
    const struct model_row *row = model_list_find(&c->list, name);
    struct json_out body = {0};
    struct openai_model model;
    struct openai_error e;

    (void)tenant;
    if (row == NULL) {
        openai_error_no_model(&e, name);
        respond_error(c, x, &e, NULL, 0);
        return;
    }
    model = model_of(row);
    openai_model_body(&body, &model);
    respond_json(c, x, 200, &body);
}
