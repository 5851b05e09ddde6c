/* router_core.h - the router: peers, admission, requests.
 *
 * A pure state machine: told what came and what time it is (router_node_ops),
 * it speaks through node_io and hands text work to a text seam.
 *
 * Threading: one thread.  Memory: bounded by the options and by what clients
 * have admitted.  Limits: below. */
#ifndef ROUTER_ROUTER_CORE_H
#define ROUTER_ROUTER_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"
#include "router/base/metrics.h"
#include "router/base/router_options.h"
#include "router/requests/choice_state.h"

struct router_core;

struct router_core *router_new(const struct router_options *o,
                               struct node_io *io);
void router_free(struct router_core **r);

/* The node is the struct router_core. */
extern const struct node_ops router_node_ops;

/* Goodbye to everybody, clients' calls end UNAVAILABLE; then tick answers
 * NODE_STOP. */
void router_stop(struct router_core *r);

/* For auditors: the state of a choice, CHOICE_ENDED if it is not known. */
enum choice_state router_choice_state(const struct router_core *r,
                                      const uint8_t request_id[16],
                                      uint32_t choice);

/* What the router believes of the i-th worker session that is up; false past
 * the last.  granted: needs of grants above `grant`, not yet in a ledger. */
struct router_worker_view {
    struct peer_id id;
    uint64_t session, snapshot, grant, last_grant;
    uint32_t free_blocks, free_slots; /* of the newest ledger, with cached */
    uint32_t granted_blocks, granted_slots;
    uint32_t n_sequences; /* granted, not yet ended and acknowledged */
    bool slow;            /* its oldest plan is out for long */
    uint32_t n_suspects;  /* of them */
    uint32_t n_barren;    /* lives in a row of its lineage */
    uint32_t readmit_ms;  /* nothing is granted before then */
    bool probation;       /* one sequence at a time */
    bool draining;        /* nothing is granted to it */
    bool serves;          /* sequences run there: it has all layers, or leads */
    uint64_t assembly;    /* of the replica that it is a stage of; 0: of none */
    uint32_t stage, n_stages; /* its place there */
};

bool router_worker_view(const struct router_core *r, uint32_t i,
                        struct router_worker_view *out);

/* Copies the counters and gauges as they are now. */
void router_counts(const struct router_core *r, struct router_metrics *out);

#endif
