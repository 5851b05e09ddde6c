/* Acknowledge: the next index that the router wants of each grant.
 *
 * It travels as state, so it may come late or twice.  An index that had to
 * be acknowledged already before the sequence ended (no token came with the
 * ending: it was cancelled, or failed) therefore proves nothing about the
 * ending; the row is repeated until the router, which has forgotten the
 * grant, answers INDEX_FORGET. */
#include "common/base/failpoint.h"
#include "worker/worker_state.h"

static bool end_is_known(const struct sequence *s, uint32_t index)
{
    bool could_be_old = s->row_sent && s->sent_running >= s->n_generated;

    return s->told && index >= s->n_generated && !could_be_old;
}

static void forget(struct worker_core *w, struct sequence *s)
{
    if (s->finish != FINISH_NONE) {
        worker_forget(w, s);
        return;
    }
    /* It runs for nobody. */
    s->forgotten = true;
    worker_end(w, s, FINISH_CANCELLED);
}

static void acknowledge(struct worker_core *w, uint64_t grant, uint32_t index)
{
    struct sequence *s =
        grant == 0 ? NULL : sequence_by_grant(&w->table, grant);

    if (s == NULL || s->call != 0) {
        return;
    }
    if (index == INDEX_FORGET) {
        forget(w, s);
        return;
    }
    if (index > s->n_generated) {
        return;
    }
    /* There may be more than one output could hold: soon, then. */
    w->changed = w->changed || index > s->acked;
    s->acked = index > s->acked ? index : s->acked;
    if (s->finish == FINISH_NONE) {
        if (s->acked == s->n_generated) {
            list_remove(s, LIST_OUT);
        }
    } else if (end_is_known(s, index)) {
        worker_forget(w, s);
    }
}

void worker_recv_acknowledge(struct worker_core *w,
                             const Sluice__V1__AcknowledgeMessage *m)
{
    if (FP_FAILS(WORKER_ACKNOWLEDGE)) {
        return;
    }
    if (m->n_grant != m->n_index) {
        worker_break(w, "Acknowledge has columns of different length");
        return;
    }
    for (size_t i = 0; i < m->n_grant; i++) {
        acknowledge(w, m->grant[i], m->index[i]);
    }
}
