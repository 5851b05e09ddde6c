#include "router/calls/counts.h"

#include "router/calls/router_state.h"

void counts_take(const struct router_core *r, struct router_metrics *out)
{
    *out = r->base.metrics;
    out->choices_open = r->requests.n_choices;
    out->choices_waiting = r->schedule.n_waiting;
    out->choices_early = r->early.n_choices;
    out->early_bytes = r->early.bytes;
}
