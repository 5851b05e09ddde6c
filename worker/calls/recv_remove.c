#include "worker/worker_state.h"

void worker_recv_remove(struct worker_core *w, struct peer *p, uint64_t call,
                        const Sluice__V1__RemoveRequest *m)
{
    struct sequence_key key;
    struct error e;

    if (!worker_key(m->sequence, &key, &e)) {
        peer_fail(p, call, &e, 0);
        return;
    }
    if (m->has_begin || m->has_end) {
        error_set(&e, ST_UNIMPLEMENTED,
                  "a range of a kept sequence cannot be removed yet: leave "
                  "begin and end out to remove all of it");
        peer_fail(p, call, &e, 0);
        return;
    }
    worker_remove(w, p, call, &key, m->has_grant ? m->grant : GRANT_ANY);
}
