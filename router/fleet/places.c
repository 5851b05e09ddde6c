#include "router/fleet/places.h"

#include <assert.h>
#include <inttypes.h>

#include "common/base/plant.h"
#include "router/fleet/fleet.h"
#include "router/fleet/peers.h"

static const struct {
    const char *many, *option;
} names[PLACE_ROLES] = {
    [PLACE_WORKERS] = {"workers", NULL},
    [PLACE_CLIENTS] = {"clients", "--max-peers"},
    [PLACE_ADMINS] = {"administrators", "--max-admins"},
};

static enum place_role role_index(uint8_t role)
{
    return role == BY_WORKER   ? PLACE_WORKERS
           : role == BY_CLIENT ? PLACE_CLIENTS
                               : PLACE_ADMINS;
}

static struct places *places_of(struct fleet *fleet, uint8_t role)
{
    return &fleet->places[PLANT(ONE_HOUSE) ? PLACE_CLIENTS : role_index(role)];
}

static bool is_full(const struct fleet *fleet, uint8_t role)
{
    const struct places *x =
        &fleet->places[PLANT(ONE_HOUSE) ? PLACE_CLIENTS : role_index(role)];

    return x->n >= x->max;
}

void places_init(struct fleet *fleet)
{
    const struct router_options *o = &fleet->base->options;

    for (int i = 0; i < PLACE_ROLES; i++) {
        fleet->places[i] = (struct places){.n = 0};
        list_init(&fleet->places[i].idle);
    }
    /* recv_hello.c checks the limits of workers: a session whose name is taken
     * over ends only after the new one has begun. */
    fleet->places[PLACE_WORKERS].max = UINT32_MAX;
    fleet->places[PLACE_CLIENTS].max = o->max_peers;
    fleet->places[PLACE_ADMINS].max = o->max_admins;
}

/* The end of a call waits in the link for a moment.  A peer that never
 * acknowledges must not keep its place by that. */
static bool can_evict(const struct fleet *fleet, const struct router_peer *p)
{
    return peer_queued(p->peer, LANE_CONTROL) ==
               peer_taken(p->peer, LANE_CONTROL) ||
           fleet->base->now_us - p->idle_us >= PLACE_SETTLE_US;
}

/* Returns the session that has been idle longest; NULL if none is idle.  Those
 * at the head of the list have been idle longest and are settled first, so a
 * few looks suffice. */
static struct router_peer *longest_idle(const struct fleet *fleet, uint8_t role)
{
    const struct list *idle = &fleet->places[role_index(role)].idle;
    struct list *at = idle->next;

    for (int i = 0; at != idle && i < PLACE_LOOK_MAX; i++, at = at->next) {
        struct router_peer *p = LIST_OF(at, struct router_peer, idle);

        if (can_evict(fleet, p)) {
            return p;
        }
    }
    return NULL;
}

enum status places_check(const struct fleet *fleet, uint8_t role,
                         struct error *e)
{
    enum place_role i = role_index(role);
    const struct places *x = &fleet->places[i];

    if (!is_full(fleet, role) || longest_idle(fleet, role) != NULL) {
        return ST_OK;
    }
    return error_set(e, ST_RESOURCE_EXHAUSTED,
                     "%" PRIu32 " %s are connected and all have open calls, "
                     "at most %" PRIu32 " may be; retry, or raise the router's "
                     "%s",
                     x->n, names[i].many, x->max, names[i].option);
}

void places_make(struct fleet *fleet, uint8_t role)
{
    const struct places *x = &fleet->places[role_index(role)];
    struct router_peer *p;

    if (!is_full(fleet, role)) {
        return;
    }
    p = longest_idle(fleet, role);
    assert(p != NULL);
    fleet->base->metrics.evicted++;
    log_gate_write(&fleet->base->log.evicted, fleet->base->now_us,
                   "peer=%s idle_ms=%" PRId64 " places=%" PRIu32, p->name,
                   (fleet->base->now_us - p->idle_us) / 1000, x->max);
    peers_end(fleet, p,
              "all %" PRIu32 " places for %s are taken, and this session had "
              "no open call; connect again when you need one",
              x->max, names[role_index(role)].many);
}

/* ---- sessions ---- */

void places_enter(struct fleet *fleet, struct router_peer *p)
{
    places_of(fleet, p->role)->n++;
    list_init(&p->idle);
    places_idle(fleet, p);
}

void places_leave(struct fleet *fleet, struct router_peer *p)
{
    places_of(fleet, p->role)->n--;
    list_remove(&p->idle);
}

void places_busy(struct router_peer *p)
{
    if (!PLANT(BUSY_EVICTED)) {
        list_remove(&p->idle);
    }
}

/* A worker reports all the time: its session is never idle. */
void places_idle(struct fleet *fleet, struct router_peer *p)
{
    if (p->ended || p->role == BY_WORKER || !list_empty(&p->calls)) {
        return;
    }
    p->idle_us = fleet->base->now_us;
    list_remove(&p->idle);
    list_append(&fleet->places[role_index(p->role)].idle, &p->idle);
}

uint32_t places_count(const struct fleet *fleet, uint8_t role)
{
    return fleet->places[role_index(role)].n;
}
