/* placement.h - Drains, adoptions, trials and prefixes: they decide, besides
 * room, whether a place gets a sequence.
 *
 *     drain         no new sequences; those that run finish or move
 *     adoption      sequences that still live at a worker
 *     trial         which sequence makes workers die
 *     prefix_feed   what a worker can restore of a prompt
 *
 * The room has no access to requests.  It asks the rooms above through one
 * table of callbacks, struct placement_events.
 *
 * Threading: the core's thread only.  Memory: a part of each worker
 * (router/base/parts.h), trees of prefixes; scratch for one message. */
#ifndef ROUTER_PLACEMENT_PLACEMENT_H
#define ROUTER_PLACEMENT_PLACEMENT_H

#include "common/wire/request_id.h"
#include "router/fleet/fleet.h"
#include "router/placement/adoption.h"
#include "router/placement/drain.h"
#include "router/placement/prefix_feed.h"
#include "router/placement/trial.h"
#include "router/replicas/replicas.h"

/* Questions and orders to the rooms above.  above is struct placement's. */
struct placement_events {
    /* w has begun to drain: what waits for w alone goes elsewhere. */
    void (*draining)(void *above, struct worker *w);
    /* Moves the sequences of place.  Returns how many have to stay. */
    uint32_t (*move_all)(void *above, struct worker *place);
    /* The drains of m have changed: what waits for a place may fit none. */
    void (*drains_changed)(void *above, struct model *m);
    /* Returns what to do with a sequence of model m that lives at a worker. */
    enum orphan_fate (*fate)(void *above, const uint8_t id[REQUEST_ID_BYTES],
                             uint32_t choice, const struct model *m);
};

struct placement {
    struct router_base *base;
    struct fleet *fleet;
    struct replicas *replicas;
    const struct placement_events *events;
    void *above; /* first argument of the events */
    struct prefix_feeds feeds;
    /* Scratch of one message, so that none is on the heap. */
    uint8_t disown_ids[LIVE_ROWS_MAX * REQUEST_ID_BYTES];
    uint32_t disown_choice[LIVE_ROWS_MAX];
};

/* The room's part of a worker. */
struct worker_placement {
    struct worker *worker;
    struct drain drain;
    struct adoptions adoptions;
    struct prefix_feed feed;
    struct trial *on_trial; /* the suspect on trial here; NULL: none */
};

static inline struct worker_placement *placement_of(const struct worker *w)
{
    return w->parts[PART_PLACEMENT];
}

/* Initialises a zeroed room on the lower rooms, which must outlive x; and frees
 * what it holds. */
void placement_init(struct placement *x, struct fleet *fleet,
                    struct replicas *replicas,
                    const struct placement_events *events, void *above);
void placement_fini(struct placement *x);

/* Initialises the part of a new worker, which announced n_orphans sequences in
 * its Hello. */
void placement_open(struct placement *x, struct worker *w, uint32_t n_orphans);

#endif
