#include "router/calls/recv.h"
#include "router/router_state.h"

void recv_report(struct router_core *r, const struct incoming *in)
{
    const Sluice__V1__ReportMessage *m = (const void *)in->message;
    struct worker *w = in->peer->worker;
    struct error e;

    switch (worker_report_check(w, m->ledger, m->engine, &e)) {
    case LEDGER_NEW:
        worker_ledger_take(r, w, m->ledger);
        liveness_take(r, w, m->engine);
        break;
    case LEDGER_OLD:
        r->metrics.ledgers_dropped++;
        break;
    case LEDGER_LIE:
        worker_lied(r, w, &e);
        break;
    }
}
