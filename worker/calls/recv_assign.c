/* Assign: for a worker without layers (worker/stages/offer.h).  This one has
 * some, and cannot change them. */
#include "worker/calls/calls.h"

void worker_recv_assign(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_WORKER_ASSIGN *m)
{
    struct error e;

    (void)m;
    error_set(&e, ST_FAILED_PRECONDITION,
              "this worker has layers %u-%u already", c->base->o.layer_begin,
              c->base->o.layer_end);
    peer_fail(p, call, &e, 0);
}
