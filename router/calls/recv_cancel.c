#include "router/calls/recv.h"
#include "router/router_state.h"

/* Also Admin/CancelSequence: the reason is ours to say, by who calls. */
void recv_cancel(struct router_core *r, const struct incoming *in)
{
    const Sluice__V1__CancelRequest *m = (const void *)in->message;

    if (check_request_id(in, m->sequence->request_id)) {
        removal_called(r, in->peer, in->call, m->sequence, false,
                       in->peer->role == BY_ADMIN
                           ? SLUICE__V1__CANCEL_REASON__CANCEL_BY_ADMIN
                           : SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
    }
}
