#include <stdio.h>
#include <string.h>

#include "client/lib/client.h"
#include "client/load/drive/ask.h"
#include "common/base/quote.h"
#include "proto/inference.pb-c.h"

struct asked {
    const char *model; /* wanted; NULL: the first */
    struct target_facts *out;
    bool found;
    char names[256]; /* of all models */
};

static void add_name(struct asked *a, const char *name)
{
    size_t n = strlen(a->names);

    snprintf(a->names + n, sizeof a->names - n, "%s%s", n > 0 ? ", " : "",
             quote(name).text);
}

static void take_model(struct asked *a, const Sluice__V1__ModelInfo *m)
{
    struct target_facts facts = {.context = m->context,
                                 .vocab = m->vocab,
                                 .is_sluice = true,
                                 .has_text = m->has_text};

    snprintf(facts.model, sizeof facts.model, "%.*s", (int)m->name.len,
             (const char *)m->name.data);
    add_name(a, facts.model);
    if (!a->found && (a->model == NULL || !strcmp(a->model, facts.model))) {
        a->found = true;
        *a->out = facts;
    }
}

static void take_models(void *arg, const ProtobufCMessage *reply)
{
    const Sluice__V1__ListModelsReply *m =
        (const Sluice__V1__ListModelsReply *)reply;

    for (size_t i = 0; i < m->n_models; i++) {
        take_model(arg, m->models[i]);
    }
}

static enum status check_found(const struct asked *a, const char *endpoint,
                               struct error *e)
{
    if (a->found) {
        return ST_OK;
    }
    if (a->names[0] == '\0') {
        return error_set(e, ST_UNAVAILABLE,
                         "the router at %s serves no model; start "
                         "sluice-worker",
                         endpoint);
    }
    return error_set(e, ST_NOT_FOUND,
                     "the router at %s does not serve %s; its models are: %s",
                     endpoint, quote(a->model).text, a->names);
}

enum status native_ask(const struct target_options *o, struct target_facts *out,
                       struct error *e)
{
    struct client_config config = {.endpoint = o->endpoint,
                                   .timeout_ms = o->connect_ms,
                                   .key = o->curve_key,
                                   .trust = o->trust};
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    struct asked a = {.model = o->model, .out = out};
    struct client *c;
    enum status st = client_open(&c, &config, e);

    if (st != ST_OK) {
        return st;
    }
    st = client_call(c, METHOD_INFERENCE_LIST_MODELS, &m.base, 0, take_models,
                     &a, e);
    client_close(&c);
    return st == ST_OK ? check_found(&a, o->endpoint, e) : st;
}
