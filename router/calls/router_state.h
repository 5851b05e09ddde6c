/* router_state.h - The state of the router: the structs of all its rooms.
 *
 *     calls --> requests --> schedule --> placement --> replicas --> fleet
 *     --> base
 *
 * Only router_core.c and router/calls include this header.  Every other room
 * has its own struct and reaches the rooms below through its pointers.
 *
 * Threading: the core's thread only.  Memory: owned by router_new(), freed by
 * router_free(). */
#ifndef ROUTER_CALLS_ROUTER_STATE_H
#define ROUTER_CALLS_ROUTER_STATE_H

#include "router/base/base.h"
#include "router/calls/counts.h"
#include "router/calls/early.h"
#include "router/calls/hello_throttle.h"
#include "router/fleet/fleet.h"
#include "router/placement/placement.h"
#include "router/replicas/replicas.h"
#include "router/requests/requests.h"
#include "router/schedule/queue.h"

struct router_core {
    struct router_base base;
    struct fleet fleet;
    struct replicas replicas;
    struct placement placement;
    struct schedule schedule;
    struct requests requests;
    struct early early;

    /* The newest walk of record_places(): sum of the places' sessions. */
    struct {
        uint64_t sessions;
        int64_t at_us;
    } recorded;
    struct counts counts;
    struct hello_throttle *throttle;

    struct list audits; /* struct audit of recv_admin_audit.c */
    uint32_t n_audits;

    /* Scratch for one StepOutput, so that handling a step allocates nothing. */
    uint64_t ack_grant[STEP_ROWS_MAX];
    uint32_t ack_index[STEP_ROWS_MAX];
};

#endif
