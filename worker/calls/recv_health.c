#include "worker/calls/calls.h"

void worker_recv_health(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_HEALTH_CHECK *m)
{
    (void)c, (void)m;
    base_health(p, call);
}
