/* Disown: orphans that run elsewhere, or that no client wants any more.  A
 * sequence that is not an orphan now is not meant: it has a grant of this
 * session. */
#include <string.h>

#include "worker/calls/calls.h"
#include "worker/sequences/orphans.h"

static void disown_sequence(struct sequences *q, const struct sequence_key *key)
{
    struct sequence *s = sequence_by_key(&q->table, key);

    if (s != NULL && orphan_is(s)) {
        q->base->metrics.orphans_disowned++;
        orphan_end(q, s);
    }
}

void worker_recv_disown(const struct worker_calls *c, struct peer *p,
                        uint64_t call, const request_of_WORKER_DISOWN *m)
{
    struct sequence_key key;

    (void)p, (void)call;
    if (m->n_choice > LIVE_ROWS_MAX) {
        base_break(c->base, "Disown has too many rows");
        return;
    }
    if (m->request_ids.len != m->n_choice * REQUEST_ID_BYTES) {
        base_break(c->base, "Disown has columns of different length");
        return;
    }
    for (size_t i = 0; i < m->n_choice; i++) {
        memcpy(key.request_id, m->request_ids.data + i * REQUEST_ID_BYTES,
               REQUEST_ID_BYTES);
        key.choice = m->choice[i];
        disown_sequence(c->sequences, &key);
    }
}
