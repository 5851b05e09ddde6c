/* length_groups.h - The learned lengths of a model by tenant and route.
 *
 *     prior <- model <- tenant <- route of the tenant
 *
 * Outputs of one tenant are like each other, and those of one route of it even
 * more: a chat and a batch job of summaries differ by their programs.  Each
 * sequence belongs to the group of its tenant and route, or to that of its
 * tenant if it names no route.  A group stands on the one before it
 * (lengths.h), so that a new one begins with what is known of its tenant, or of
 * its model.
 *
 *   - Tenants and routes are slots of base.tenant_names and base.route_names.
 *     All names past METRIC_NAMES_MAX share a slot, and thus a group.
 *   - A model has a group for each slot of a tenant, and LENGTH_ROUTES_MAX
 *     groups of routes.  A new one takes the place of the one whose newest
 *     sequence is oldest; what still runs of that one belongs to its tenant.
 *
 * Threading: none.  Memory: the caller's; zeroed: no group.  Limits:
 * LENGTH_ROUTES_MAX.  Cost: O(LENGTH_ROUTES_MAX) for an arrival, else O(1). */
#ifndef ROUTER_SCHEDULE_LENGTH_GROUPS_H
#define ROUTER_SCHEDULE_LENGTH_GROUPS_H

#include "common/base/metric_names.h"
#include "router/base/router_limits.h"
#include "router/schedule/lengths.h"

/* The group of a sequence. */
struct group_ref {
    uint32_t route;  /* slot of base.route_names; set before it arrives */
    uint32_t at;     /* in routes, and */
    uint64_t number; /* the number of the group there; 0: it has none */
};

/* A route of a tenant. */
struct route_lengths {
    uint32_t tenant, route;
    uint64_t number; /* this group's; 0: none */
    uint64_t newest; /* number of its newest arrival */
    struct lengths lengths;
};

struct length_groups {
    struct lengths model;
    struct lengths tenants[METRIC_SLOTS];
    struct route_lengths routes[LENGTH_ROUTES_MAX];
    uint64_t n_arrivals, n_groups; /* ever */
};

/* Initialises g: no sequence has come. */
void length_groups_init(struct length_groups *g);

/* Sets the group of a sequence that arrives, and makes it if it is new. */
void length_groups_arrived(struct length_groups *g, uint32_t tenant,
                           struct group_ref *x);

/* Sets the group of a sequence that may arrive: its route's if there is one. */
void length_groups_seek(const struct length_groups *g, uint32_t tenant,
                        struct group_ref *x);

/* Returns the lengths of the group of a sequence, borrowed. */
struct lengths *length_groups_lengths(struct length_groups *g, uint32_t tenant,
                                      const struct group_ref *x);

#endif
