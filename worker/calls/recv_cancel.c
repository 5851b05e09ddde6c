#include "worker/worker_state.h"

void worker_recv_cancel(struct worker_core *w, struct peer *p, uint64_t call,
                        const Sluice__V1__CancelRequest *m)
{
    struct sequence_key key;
    struct error e;

    if (!worker_key(m->sequence, &key, &e)) {
        peer_fail(p, call, &e, 0);
        return;
    }
    worker_remove(w, p, call, &key, m->has_grant ? m->grant : GRANT_ANY);
}
