/* Audit: compares the accounts with what the pool, the sequences and the index
 * hold, and frees what none of them owns. */
#include "worker/calls/calls.h"
#include "worker/sequences/tier.h"

#define AUDIT_TEXT 4096

void worker_recv_audit(const struct worker_calls *c, struct peer *p,
                       uint64_t call, const request_of_WORKER_AUDIT *m)
{
    struct sequences *q = c->sequences;
    char text[AUDIT_TEXT];
    struct ledger_message ledger;
    Sluice__V1__HostTier tier;
    Sluice__V1__AuditReply reply = SLUICE__V1__AUDIT_REPLY__INIT;

    (void)m;
    /* The ledger and the audit are of the same moment, so a difference between
     * them is a real one. */
    ledger_fill(&q->ledger, &q->pool, &q->table, &ledger);
    ledger.ledger.host = tier_message(q, &tier) ? &tier : NULL;
    reply.ledger = &ledger.ledger;
    reply.n_differences =
        ledger_audit(&q->ledger, &q->pool, &q->table, text, sizeof text);
    if (reply.n_differences > 0) {
        ledger_reap(&q->ledger, &q->pool, &q->table);
        q->report.changed = true;
    }
    reply.has_text = reply.n_differences > 0;
    reply.text = wire_text(text);
    peer_end(p, call, &reply.base);
}
