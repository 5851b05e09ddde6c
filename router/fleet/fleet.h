/* fleet.h - the state of the fleet: peers and their calls, workers, models,
 * and what is remembered of workers that died.
 *
 * The fleet knows no request.  What its rooms above must do about an event it
 * reports through one table of callbacks, struct fleet_events, which
 * router/router_core.c fills.
 *
 * Threading: the core's.  Memory: tables sized from the options. */
#ifndef ROUTER_FLEET_FLEET_H
#define ROUTER_FLEET_FLEET_H

#include "common/wire/peer.h"
#include "router/base/base.h"

struct model;
struct router_peer;
struct worker;

/* What happens below and concerns the rooms above.  above: of struct fleet. */
struct fleet_events {
    /* The session of p is over: its worker and its offer are to be closed. */
    void (*peer_over)(void *above, struct router_peer *p);
    /* What is ready for p has waited for SLOW_READER_MS. */
    void (*slow_reader)(void *above, struct router_peer *p);
    /* m was absent for too long: nothing may wait for it any more. */
    void (*model_gone)(void *above, struct model *m);
    /* m has a place more: what waited for one may go on. */
    void (*place_opened)(void *above, struct model *m);
    /* A replica is up. */
    void (*replica_up)(void *above);
    /* A worker kept out by its lineage may be used again. */
    void (*readmitted)(void *above);
    /* The worker of this life did not die after all. */
    void (*life_went_on)(void *above, uint64_t life);
};

/* A name that is kept out; quarantine.h has the rules. */
struct quarantine {
    char name[PEER_NAME_MAX + 1];
    int64_t until_us;
};

/* A lineage that died lately; lineage.h has the rules. */
struct lineage {
    char name[PEER_NAME_MAX + 1];
    uint32_t n_barren; /* lives in a row */
    uint64_t life;     /* the newest that died; 0: it did not say */
    uint32_t n_before; /* n_barren before that death */
    bool sure;         /* it died, whatever comes back */
    int64_t died_us;
};

struct lineages {
    struct lineage of[LINEAGES_MAX];
    uint32_t n;
};

struct fleet {
    struct router_base *base;
    const struct fleet_events *events;
    const struct peer_ops *peer_ops; /* of every peer; their node is `above` */
    void *above;

    struct table peers; /* struct router_peer by peer_id */
    struct list all_peers, dirty_peers, gone_peers;
    uint32_t n_peers;
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

/* b outlives fleet.  fini: after the last peer is gone. */
void fleet_init(struct fleet *fleet, struct router_base *b,
                const struct fleet_events *events,
                const struct peer_ops *peer_ops, void *above);
void fleet_fini(struct fleet *fleet);

#endif
