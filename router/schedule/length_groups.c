#include "router/schedule/length_groups.h"

#include <string.h>

void length_groups_init(struct length_groups *g)
{
    memset(g, 0, sizeof *g);
    lengths_init(&g->model, NULL);
}

/* Groups of tenants begin with their first question: a model that a few tenants
 * use touches the memory of a few. */
static struct lengths *of_tenant(struct length_groups *g, uint32_t tenant)
{
    struct lengths *l = &g->tenants[tenant];

    if (l->version == 0) {
        lengths_init(l, &g->model);
    }
    return l;
}

void length_groups_seek(const struct length_groups *g, uint32_t tenant,
                        struct group_ref *x)
{
    x->number = 0;
    for (uint32_t i = 0;
         x->route != METRIC_DEFAULT && x->number == 0 && i < LENGTH_ROUTES_MAX;
         i++) {
        const struct route_lengths *r = &g->routes[i];

        if (r->number != 0 && r->tenant == tenant && r->route == x->route) {
            x->at = i;
            x->number = r->number;
        }
    }
}

/* A place that is free is older than all others. */
static uint32_t oldest(const struct length_groups *g)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < LENGTH_ROUTES_MAX; i++) {
        best = g->routes[i].newest < g->routes[best].newest ? i : best;
    }
    return best;
}

static void make(struct length_groups *g, uint32_t tenant, struct group_ref *x)
{
    struct route_lengths *r;

    x->at = oldest(g);
    x->number = ++g->n_groups;
    r = &g->routes[x->at];
    r->tenant = tenant;
    r->route = x->route;
    r->number = x->number;
    lengths_init(&r->lengths, of_tenant(g, tenant));
}

void length_groups_arrived(struct length_groups *g, uint32_t tenant,
                           struct group_ref *x)
{
    length_groups_seek(g, tenant, x);
    if (x->route == METRIC_DEFAULT) {
        return;
    }
    if (x->number == 0) {
        make(g, tenant, x);
    }
    g->routes[x->at].newest = ++g->n_arrivals;
}

struct lengths *length_groups_lengths(struct length_groups *g, uint32_t tenant,
                                      const struct group_ref *x)
{
    return x->number != 0 && g->routes[x->at].number == x->number
               ? &g->routes[x->at].lengths
               : of_tenant(g, tenant);
}
