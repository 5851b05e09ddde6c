#include "router/requests/worker_choices.h"

#define GRANTS_BUCKETS 256

void worker_choices_init(struct worker *w)
{
    struct worker_choices *c = choices_of(w);

    table_init(&c->by_grant, GRANTS_BUCKETS);
    list_init(&c->running);
    list_init(&c->unsent);
    list_init(&c->removals);
}

void worker_choices_fini(struct worker *w)
{
    table_fini(&choices_of(w)->by_grant);
}
