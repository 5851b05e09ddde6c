#include "router/requests/requests.h"

#include <stdlib.h>

#include "router/requests/stream.h"
#include "router/requests/worker_choices.h"

void requests_init(struct requests *r, struct router_base *b, struct fleet *f,
                   struct replicas *p, struct schedule *s)
{
    r->base = b;
    r->fleet = f;
    r->replicas = p;
    r->placement = s->placement;
    r->schedule = s;
    f->peer_parts.of[PART_REQUESTS] = sizeof(struct session_output);
    f->worker_parts.of[PART_REQUESTS] = sizeof(struct worker_choices);
    table_init(&r->by_id, b->options.max_requests);
    table_init(&r->jobs, b->options.max_waiting);
    list_init(&r->all_choices);
    list_init(&r->leases);
}

void requests_fini(struct requests *r)
{
    event_clear(r->base, &r->overdue);
    table_fini(&r->by_id);
    table_fini(&r->jobs);
    free(r->text);
}
