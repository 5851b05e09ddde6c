/* Acknowledge: for each grant, the next index that the router expects.
 *
 * The index is state, not an event, so it may come late or twice.  It proves
 * that the router has the ending only if it could not have been sent before:
 * a cancel or a failure adds no token, so the same index may be older than the
 * ending.  The row is then repeated until the router, which has forgotten the
 * grant, answers INDEX_FORGET. */
#include "common/base/failpoint.h"
#include "worker/calls/calls.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/report.h"

#define INDEX_FORGET UINT32_MAX

static void forget_sequence(struct sequences *q, struct sequence *s)
{
    if (s->finish != FINISH_NONE) {
        ending_forget(q, s);
        return;
    }
    ending_cancel(q, s); /* it runs, but no request needs it */
}

static void acknowledge_index(struct sequences *q, uint64_t grant,
                              uint32_t index)
{
    struct sequence *s =
        grant == 0 ? NULL : sequence_by_grant(&q->table, grant);

    if (s == NULL || s->arrival.call != 0) {
        return;
    }
    if (index == INDEX_FORGET) {
        forget_sequence(q, s);
        return;
    }
    if (index > s->portable.n_generated) {
        return;
    }
    /* One output may not hold all unacknowledged tokens: send the next ones
     * soon. */
    q->report.changed = q->report.changed || index > s->portable.acked;
    s->portable.acked = index > s->portable.acked ? index : s->portable.acked;
    if (s->finish == FINISH_NONE) {
        if (s->portable.acked == s->portable.n_generated) {
            sequence_unlink(s, LIST_OUT);
        }
    } else if (report_end_is_known(s, index)) {
        ending_forget(q, s);
    }
}

void worker_recv_acknowledge(const struct worker_calls *c, struct peer *p,
                             uint64_t call,
                             const request_of_WORKER_ACKNOWLEDGE *m)
{
    (void)p, (void)call;
    if (FP_FAILS(WORKER_ACKNOWLEDGE)) {
        return;
    }
    if (m->n_grant != m->n_index) {
        base_break(c->base, "Acknowledge has columns of different length");
        return;
    }
    for (size_t i = 0; i < m->n_grant; i++) {
        acknowledge_index(c->sequences, m->grant[i], m->index[i]);
    }
}
