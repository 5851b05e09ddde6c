/* schedule.h - The state of the scheduler, and one entry of its queues.
 *
 * An entry is the part of a choice (router/requests/choice.h) that the
 * scheduler works with.
 *
 * Threading: the core's thread only.  Memory: entries are part of choices; the
 * scheduler owns none. */
#ifndef ROUTER_SCHEDULE_SCHEDULE_H
#define ROUTER_SCHEDULE_SCHEDULE_H

#include "router/fleet/fleet.h"
#include "router/fleet/workers.h"
#include "router/schedule/trial.h"

struct queue_entry {
    struct list queue; /* in model->waiting */
    struct model *model;
    uint64_t number;   /* order of arrival, over all models */
    uint64_t n_tokens; /* prompt + max_tokens; set before it is added */
    bool ran;          /* granted before, or resumed by its client */
    struct trial trial;
    struct worker *charged; /* place charged by headroom.h; NULL: none */
    struct need charge;     /* the charge at that place */
};

struct policy_ops;
struct schedule;

struct schedule_events {
    /* Grants e its need at w.  Any status but ST_OK: the link is full and
     * nothing was done. */
    enum status (*grant)(void *above, struct queue_entry *e, struct worker *w);
};

struct schedule {
    struct router_base *base;
    struct fleet *fleet;
    const struct policy_ops *policy;
    uint32_t n_waiting; /* entries in all queues */
    const struct schedule_events *events;
    void *above; /* first argument of the events */
};

#endif
