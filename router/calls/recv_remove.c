#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/requests/ranges.h"
#include "router/requests/removal.h"
#include "router/requests/request.h"

/* Also handles Admin/RemoveSequence. */
void recv_remove(struct router_core *r, const struct incoming *in,
                 const request_of_INFERENCE_REMOVE *m)
{
    if (!check_request_id(in, m->sequence->request_id)) {
        return;
    }
    if (m->has_begin || m->has_end) {
        range_called(&r->requests, in->peer, in->call, m);
        return;
    }
    if (early_removed(r, in->peer, in->call, m->sequence)) {
        return;
    }
    removal_called(&r->requests, in->peer, in->call, m->sequence, true,
                   in->peer->role == BY_ADMIN
                       ? SLUICE__V1__CANCEL_REASON__CANCEL_BY_ADMIN
                       : SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
}
