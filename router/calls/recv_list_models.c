#include "router/calls/recv.h"
#include "router/calls/router_state.h"

void recv_list_models(struct router_core *r, const struct incoming *in,
                      const request_of_INFERENCE_LIST_MODELS *none)
{
    Sluice__V1__ListModelsReply reply = SLUICE__V1__LIST_MODELS_REPLY__INIT;
    Sluice__V1__ModelInfo rows[ROUTER_MODELS_MAX];
    Sluice__V1__ModelInfo *models[ROUTER_MODELS_MAX];

    (void)none;
    for (uint32_t i = 0; i < r->fleet.n_models; i++) {
        const struct model *m = r->fleet.models[i];
        Sluice__V1__ModelInfo *row = &rows[reply.n_models];

        if (m->n_places == 0) {
            continue;
        }
        sluice__v1__model_info__init(row);
        row->name = wire_text(m->name);
        row->n_workers = m->n_places;
        row->context = m->context;
        row->vocab = m->vocab;
        row->has_text = m->has_text;
        models[reply.n_models++] = row;
    }
    reply.models = models;
    peer_end(in->peer->peer, in->call, &reply.base);
}
