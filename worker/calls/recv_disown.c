/* Disown: orphans that run elsewhere, or are wanted no more.  One that is no
 * orphan (any more) is not meant: it has a grant of this session. */
#include <string.h>

#include "worker/sequences/orphans.h"

static void disown(struct worker_core *w, const struct sequence_key *key)
{
    struct sequence *s = sequence_by_key(&w->table, key);

    if (s != NULL && s->orphan) {
        w->metrics.orphans_disowned++;
        orphan_end(w, s);
    }
}

void worker_recv_disown(struct worker_core *w,
                        const Sluice__V1__DisownMessage *m)
{
    struct sequence_key key;

    if (m->n_choice > LIVE_ROWS_MAX) {
        worker_break(w, "Disown has too many rows");
        return;
    }
    if (m->request_ids.len != m->n_choice * REQUEST_ID_BYTES) {
        worker_break(w, "Disown has columns of different length");
        return;
    }
    for (size_t i = 0; i < m->n_choice; i++) {
        memcpy(key.request_id, m->request_ids.data + i * REQUEST_ID_BYTES,
               REQUEST_ID_BYTES);
        key.choice = m->choice[i];
        disown(w, &key);
    }
}
