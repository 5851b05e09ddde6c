#include <string.h>

#include "worker/worker_state.h"

void worker_recv_audit(struct worker_core *w, struct peer *p, uint64_t call)
{
    char text[AUDIT_TEXT];
    struct ledger_message ledger;
    Sluice__V1__AuditReply m = SLUICE__V1__AUDIT_REPLY__INIT;

    ledger_fill(&w->ledger, &w->pool, &w->table, &ledger);
    m.ledger = &ledger.ledger;
    m.n_differences = worker_audit(w, text, sizeof text);
    m.has_text = m.n_differences > 0;
    m.text = wire_text(text);
    peer_end(p, call, &m.base);
}
