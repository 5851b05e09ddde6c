#include "gateway/calls/model_list.h"

#include <string.h>

#include "proto/inference.pb-c.h"

/* The next question follows soon, so a lost answer does no harm. */
#define ANSWER_MS 2000

void model_list_init(struct model_list *l, struct upstream *u)
{
    *l = (struct model_list){.upstream = u};
}

const struct model_row *model_list_find(const struct model_list *l,
                                        const char *name)
{
    for (uint32_t i = 0; i < l->n; i++) {
        if (strcmp(l->rows[i].name, name) == 0) {
            return &l->rows[i];
        }
    }
    return NULL;
}

/* Adds a model, or renews it: its first time stays. */
static void take_row(struct model_list *next, const struct model_list *last,
                     const Sluice__V1__ModelInfo *m)
{
    struct model_row *row = &next->rows[next->n];
    const struct model_row *old;

    if (next->n == MODEL_LIST_MAX || m->name.len > MODEL_NAME_MAX) {
        return;
    }
    *row = (struct model_row){.n_workers = m->n_workers,
                              .context = m->context,
                              .vocab = m->vocab,
                              .since_unix = last->now_unix};
    memcpy(row->name, m->name.data, m->name.len);
    old = model_list_find(last, row->name);
    if (old != NULL) {
        row->since_unix = old->since_unix;
    }
    next->n++;
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct model_list *l = arg, next = *l;
    const Sluice__V1__ListModelsReply *m =
        (const Sluice__V1__ListModelsReply *)reply;

    (void)e;
    (void)retry_after_ms;
    l->asking = false;
    if (status != ST_OK) {
        return; /* the last list stays: a router may be restarting */
    }
    next.n = 0;
    next.asking = false;
    next.known = true;
    for (size_t i = 0; i < m->n_models; i++) {
        take_row(&next, l, m->models[i]);
    }
    *l = next;
}

static void ask(struct model_list *l)
{
    static const struct client_call_ops ops = {.on_end = on_end};
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;

    l->asking = true;
    if (client_core_call(upstream_main(l->upstream),
                         METHOD_INFERENCE_LIST_MODELS, &m.base, ANSWER_MS, &ops,
                         l, NULL) != ST_OK) {
        l->asking = false; /* no place for a call now; asked again later */
    }
}

int64_t model_list_tick(struct model_list *l, int64_t now_us, int64_t now_unix)
{
    l->now_unix = now_unix;
    if (!upstream_up(l->upstream)) {
        l->due_us = now_us; /* ask as soon as a session is up */
        return NODE_IDLE;
    }
    if (now_us >= l->due_us && !l->asking) {
        l->due_us = now_us + (model_list_ready(l) ? MODEL_LIST_PERIOD_US
                                                  : MODEL_LIST_SOON_US);
        ask(l);
    }
    return l->asking ? NODE_IDLE : l->due_us;
}

bool model_list_ready(const struct model_list *l)
{
    bool found = false;

    for (uint32_t i = 0; i < l->n; i++) {
        found = found || l->rows[i].n_workers > 0;
    }
    return found && upstream_up(l->upstream);
}
