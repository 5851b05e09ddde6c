/* schedule.h - the state of the scheduler, and an entry of its queues.
 *
 * An entry is the part of a choice (router/requests/choice.h) that the
 * scheduler sees.
 *
 * Threading: the core's.  Memory: entries are inside choices. */
#ifndef ROUTER_SCHEDULE_SCHEDULE_H
#define ROUTER_SCHEDULE_SCHEDULE_H

#include "router/fleet/fleet.h"
#include "router/fleet/workers.h"
#include "router/schedule/trial.h"

struct queue_entry {
    struct list queue; /* in model->waiting */
    struct model *model;
    uint64_t number;   /* the order of arrival, over all models */
    uint64_t n_tokens; /* of its whole length; set before it is added */
    bool ran;          /* it was granted before, or its client resumes it */
    struct trial trial;
    struct worker *charged; /* of headroom.h: where it counts, NULL: nowhere */
    struct need charge;     /* what it counts there */
};

struct policy_ops;
struct schedule;

struct schedule_events {
    /* Grants e its need at w.  Not OK: the link is full, nothing was done. */
    enum status (*grant)(void *above, struct queue_entry *e, struct worker *w);
};

struct schedule {
    struct router_base *base;
    struct fleet *fleet;
    const struct policy_ops *policy;
    uint32_t n_waiting; /* entries in all queues */
    const struct schedule_events *events;
    void *above; /* of events */
};

#endif
