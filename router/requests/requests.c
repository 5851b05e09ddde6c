#include "router/requests/requests.h"

#include <stdlib.h>

void requests_init(struct requests *r, struct router_base *b, struct fleet *f,
                   struct replicas *p, struct schedule *s)
{
    r->base = b;
    r->fleet = f;
    r->replicas = p;
    r->schedule = s;
    table_init(&r->by_id, b->options.max_requests);
    table_init(&r->jobs, b->options.max_waiting);
    list_init(&r->all_choices);
}

void requests_fini(struct requests *r)
{
    table_fini(&r->by_id);
    table_fini(&r->jobs);
    free(r->text);
}
