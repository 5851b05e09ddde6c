#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/fleet/ledgers.h"
#include "router/fleet/liveness.h"
#include "router/requests/held_check.h"
#include "router/requests/progress.h"

void recv_report(struct router_core *r, const struct incoming *in,
                 const request_of_REGISTRY_REPORT *m)
{
    struct worker *w = in->peer->worker;
    struct error e;

    enum ledger_verdict verdict =
        worker_report_check(w, m->ledger, m->engine, &e);

    if (verdict == LEDGER_NEW && held_check(w, m->ledger, NULL, &e) != ST_OK) {
        verdict = LEDGER_INVALID;
    }
    switch (verdict) {
    case LEDGER_NEW:
        worker_ledger_take(&r->fleet, w, m->ledger);
        liveness_take(&r->fleet, w, m->engine);
        progress_look(&r->requests, w);
        break;
    case LEDGER_OLD:
        /* An older ledger may arrive after a newer one that came with a
         * step. */
        r->base.metrics.ledgers_dropped++;
        break;
    case LEDGER_INVALID:
        worker_expel(&r->fleet, w, &e);
        break;
    }
}
