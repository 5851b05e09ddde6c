/* SubmitPart: further ids of a Submit that is still open.  Parts come in order,
 * so the offset can only be the first id that is missing. */
#include "worker/calls/calls.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/submit.h"

static enum status check_part(const struct sequences *q,
                              const struct sequence *s,
                              const Sluice__V1__SubmitPartMessage *m,
                              struct error *e)
{
    if (m->offset != s->arrival.n_received) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a part starts at %u, the next one starts at %u",
                         m->offset, s->arrival.n_received);
    }
    if (m->n_tokens == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a part has no ids, it must have at least 1");
    }
    if (m->n_tokens > s->arrival.n_announced - s->arrival.n_received) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a part has %zu ids, %u are missing", m->n_tokens,
                         s->arrival.n_announced - s->arrival.n_received);
    }
    return submit_check_ids(q, m->tokens, m->n_tokens, m->offset, e);
}

void worker_recv_submit_part(const struct worker_calls *c, struct peer *p,
                             uint64_t call,
                             const request_of_WORKER_SUBMIT_PART *m)
{
    struct sequences *q = c->sequences;
    struct sequence *s =
        m->grant == 0 ? NULL : sequence_by_grant(&q->table, m->grant);
    struct error e;

    (void)call;
    if (m->grant == 0 || m->grant > q->ledger.grant) {
        base_break(c->base, "a part came before its Submit");
        return;
    }
    /* The Submit was refused, cancelled or adopted while its parts were on
     * their way. */
    if (s == NULL || s->arrival.call == 0) {
        return;
    }
    if (check_part(q, s, m, &e) != ST_OK) {
        peer_fail(p, s->arrival.call, &e, 0);
        s->arrival.call = 0;
        ending_cancel(q, s);
        return;
    }
    paged_write(&q->table.slab, &s->portable.tokens, s->arrival.n_received,
                m->tokens, (uint32_t)m->n_tokens);
    s->arrival.n_received += (uint32_t)m->n_tokens;
    q->role.ops->add_ids(q->role.self, s, m->offset, m->tokens, m->n_tokens);
    if (s->arrival.n_received == s->arrival.n_announced) {
        submit_complete(q, p, s);
    }
}
