#include "router/calls/recv.h"
#include "router/router_state.h"

/* Also Admin/RemoveSequence. */
void recv_remove(struct router_core *r, const struct incoming *in)
{
    const Sluice__V1__RemoveRequest *m = (const void *)in->message;

    if (!check_request_id(in, m->sequence->request_id)) {
        return;
    }
    if (m->has_begin || m->has_end) {
        refuse(in, ST_UNIMPLEMENTED,
               "removing a range of a sequence is not built; without begin "
               "and end the whole sequence is removed");
        return;
    }
    removal_called(r, in->peer, in->call, m->sequence, true,
                   in->peer->role == BY_ADMIN
                       ? SLUICE__V1__CANCEL_REASON__CANCEL_BY_ADMIN
                       : SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
}
