/* Cancel: ends a sequence whatever its state, or leaves a tombstone for one
 * that has not come yet.  The receipt follows when its memory is free. */
#include "worker/calls/calls.h"
#include "worker/sequences/ending.h"

void worker_recv_cancel(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_WORKER_CANCEL *m)
{
    struct sequence_key key;
    struct error e;

    if (!sequence_key_read(&key, m->sequence, &e)) {
        peer_fail(p, call, &e, 0);
        return;
    }
    ending_remove(c->sequences, p, call, &key,
                  m->has_grant ? m->grant : GRANT_ANY);
}
