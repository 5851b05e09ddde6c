/* fleet.h - State of the fleet: peers and their calls, workers, models, and
 * the records of workers that died.
 *
 * The fleet has no access to requests.  It reports events to the rooms above
 * through one table of callbacks, struct fleet_events, which
 * router/router_core.c fills in.
 *
 * Threading: the core's.  Memory: tables sized from the options; owned by the
 * core, with entries on the heap.  Limits: ROUTER_WORKERS_MAX,
 * ROUTER_MODELS_MAX, LINEAGES_MAX, QUARANTINE_MAX, options.max_peers,
 * options.max_admins. */
#ifndef ROUTER_FLEET_FLEET_H
#define ROUTER_FLEET_FLEET_H

#include "common/wire/peer.h"
#include "router/base/base.h"
#include "router/base/parts.h"

struct model;
struct router_peer;
struct worker;

/* Events that the fleet and the replicas report to the rooms above.  above is
 * struct fleet's. */
struct fleet_events {
    /* The session of p has begun. */
    void (*peer_begun)(void *above, struct router_peer *p);
    /* The session of p is over.  The callee closes its worker and offer. */
    void (*peer_over)(void *above, struct router_peer *p);
    /* m was absent for too long: no request may wait for m any more. */
    void (*model_gone)(void *above, struct model *m);
    /* m has one place more: requests that waited for a place may go on. */
    void (*place_opened)(void *above, struct model *m);
    /* w drains, and its last sequence has gone. */
    void (*drain_empty)(void *above, struct worker *w);
    /* A replica has come up. */
    void (*replica_up)(void *above);
    /* The readmission delay of a worker on probation has ended. */
    void (*readmitted)(void *above);
    /* The worker of this life has come back: it had not died. */
    void (*life_went_on)(void *above, uint64_t life);
};

/* A quarantined worker name; quarantine.h has the rules. */
struct quarantine {
    char name[PEER_NAME_MAX + 1];
    int64_t until_us;
};

/* A lineage with a recent death; lineage.h has the rules. */
struct lineage {
    char name[PEER_NAME_MAX + 1];
    uint32_t n_barren;  /* consecutive barren lives */
    uint64_t life;      /* newest life that died; 0: without a number */
    uint32_t n_before;  /* n_barren before that death */
    bool sure;          /* the death cannot be taken back */
    bool hung;          /* it was DEATH_HUNG, and the life has not come back */
    uint32_t n_returns; /* times that this life came back from such a death */
    int64_t died_us;    /* time of that death */
};

struct lineages {
    struct lineage of[LINEAGES_MAX];
    uint32_t n;
};

enum place_role { PLACE_WORKERS, PLACE_CLIENTS, PLACE_ADMINS, PLACE_ROLES };

/* The sessions of a role; places.h has the rules. */
struct places {
    uint32_t n, max;  /* sessions that have not ended, and their limit */
    struct list idle; /* struct router_peer without a call, longest first */
};

struct fleet {
    struct router_base *base;
    const struct fleet_events *events;
    const struct peer_ops *peer_ops; /* for all peers; `above` is their node */
    void *above;
    /* The parts of the rooms above, which set them before the first session. */
    struct part_sizes peer_parts, worker_parts, model_parts;

    struct table peers; /* struct router_peer by peer_id */
    struct list all_peers, dirty_peers, gone_peers;
    struct places places[PLACE_ROLES];
    struct table calls; /* struct pending by peer and id */

    struct quarantine quarantine[QUARANTINE_MAX];
    uint32_t n_quarantine;
    struct lineages lineages;

    struct model *models[ROUTER_MODELS_MAX];
    uint32_t n_models;
    struct list dirty_models;
    struct worker *workers[ROUTER_WORKERS_MAX]; /* in order of arrival */
    uint32_t n_workers;
};

/* Initialises a zeroed fleet.  All pointers are borrowed and must outlive the
 * fleet.  above is the callbacks' first argument. */
void fleet_init(struct fleet *fleet, struct router_base *b,
                const struct fleet_events *events,
                const struct peer_ops *peer_ops, void *above);

/* Frees the tables.  Call it after the last peer is freed. */
void fleet_fini(struct fleet *fleet);

#endif
