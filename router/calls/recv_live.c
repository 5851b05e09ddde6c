#include "router/calls/recv.h"
#include "router/requests/adoption.h"
#include "router/router_state.h"

void recv_live(struct router_core *r, const struct incoming *in)
{
    struct worker *w = in->peer->worker;
    struct error e;

    if (adoptions_told(r, w, (const void *)in->message, &e) != ST_OK) {
        worker_lied(r, w, &e);
    }
}
