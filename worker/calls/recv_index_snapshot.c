/* IndexSnapshot: the router's copy of the index has a gap. */
#include "worker/calls/calls.h"

void worker_recv_index_snapshot(const struct worker_calls *c, struct peer *p,
                                uint64_t call,
                                const request_of_WORKER_INDEX_SNAPSHOT *m)
{
    (void)p, (void)call, (void)m;
    publish_restart(c->sequences);
}
