/* SubmitPart: the next ids of a Submit that is still open.  Ordered, so the
 * offset can only be what is missing next. */
#include "worker/stages/leader.h"
#include "worker/worker_state.h"

static enum status check_part(const struct worker_core *w,
                              const struct sequence *s,
                              const Sluice__V1__SubmitPartMessage *m,
                              struct error *e)
{
    if (m->offset != s->n_received) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a part starts at %u, the next one starts at %u",
                         m->offset, s->n_received);
    }
    if (m->n_tokens == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a part has no ids, it must have at least 1");
    }
    if (m->n_tokens > s->n_announced - s->n_received) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a part has %zu ids, %u are missing", m->n_tokens,
                         s->n_announced - s->n_received);
    }
    return submit_check_ids(w, m->tokens, m->n_tokens, m->offset, e);
}

void worker_recv_submit_part(struct worker_core *w, struct peer *p,
                             const Sluice__V1__SubmitPartMessage *m)
{
    struct sequence *s =
        m->grant == 0 ? NULL : sequence_by_grant(&w->table, m->grant);
    struct error e;

    if (m->grant == 0 || m->grant > w->ledger.grant) {
        worker_break(w, "a part came before its Submit");
        return;
    }
    /* Of a Submit that was refused, cancelled or adopted: its parts were on
     * their way. */
    if (s == NULL || s->call == 0) {
        return;
    }
    if (check_part(w, s, m, &e) != ST_OK) {
        peer_fail(p, s->call, &e, 0);
        s->call = 0;
        s->forgotten = true;
        worker_end(w, s, FINISH_CANCELLED);
        return;
    }
    paged_write(&w->table.slab, &s->tokens, s->n_received, m->tokens,
                (uint32_t)m->n_tokens);
    s->n_received += (uint32_t)m->n_tokens;
    leader_ids(w, s, m->offset, m->tokens, m->n_tokens);
    if (s->n_received == s->n_announced) {
        submit_complete(w, p, s);
    }
}
