#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/requests/removal.h"
#include "router/requests/request.h"

/* Also handles Admin/CancelSequence.  The reason follows from the role of the
 * caller; a client cannot choose it. */
void recv_cancel(struct router_core *r, const struct incoming *in,
                 const request_of_INFERENCE_CANCEL *m)
{

    if (check_request_id(in, m->sequence->request_id) &&
        !early_removed(r, in->peer, in->call, m->sequence)) {
        removal_called(&r->requests, in->peer, in->call, m->sequence, false,
                       in->peer->role == BY_ADMIN
                           ? SLUICE__V1__CANCEL_REASON__CANCEL_BY_ADMIN
                           : SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
    }
}
