/* RemoveSequence: like Cancel, for the owner of a kept sequence. */
#include "worker/calls/calls.h"
#include "worker/sequences/ending.h"

void worker_recv_remove(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_WORKER_REMOVE *m)
{
    struct sequence_key key;
    struct error e;

    if (!sequence_key_read(&key, m->sequence, &e)) {
        peer_fail(p, call, &e, 0);
        return;
    }
    /* Refused rather than ignored: removing all of it would lose data. */
    if (m->has_begin || m->has_end) {
        error_set(&e, ST_UNIMPLEMENTED,
                  "a range of a kept sequence cannot be removed yet: leave "
                  "begin and end out to remove all of it");
        peer_fail(p, call, &e, 0);
        return;
    }
    ending_remove(c->sequences, p, call, &key,
                  m->has_grant ? m->grant : GRANT_ANY);
}
