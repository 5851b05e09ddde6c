/* base.h - Services that every room of the router's core uses: options,
 * input and output, the clock, timers and metrics.
 *
 * struct router_core owns one struct router_base; each room holds a pointer
 * to it.  The core sets now_us once per incoming event, so everything that
 * the event causes happens at the same time.
 *
 * Threading: the core's.  Memory: inside struct router_core; io and the
 * options' text seam are borrowed.  Limits: router_limits.h. */
#ifndef ROUTER_BASE_BASE_H
#define ROUTER_BASE_BASE_H

#include "common/base/list.h"
#include "common/base/memory.h"
#include "common/base/metric_names.h"
#include "common/base/status.h"
#include "common/base/table.h"
#include "common/base/timer.h"
#include "common/wire/node_io.h"
#include "common/wire/wire.h"
#include "router/base/delay.h"
#include "router/base/metrics.h"
#include "router/base/router_limits.h"
#include "router/base/router_log.h"
#include "router/base/router_options.h"

struct router_base {
    struct router_options options;
    char name[PEER_NAME_MAX + 1];
    struct node_io *io;
    struct arena arena;          /* memory of the message being handled */
    struct memory_budget memory; /* request_memory.h */
    uint64_t seed;               /* seed of the hash of request ids */
    int64_t now_us, start_us;    /* now; when the core started */
    struct timers timers;
    struct delay late;             /* how late timers fire on this machine */
    bool stopping;                 /* the core is shutting down */
    struct router_log log;         /* gates of lines that peers cause */
    struct router_metrics metrics; /* counts_take() adds some gauges */
    struct router_times times;
    struct metric_names model_names; /* those that had a worker */
    struct router_models models[METRIC_SLOTS];
    struct router_refusals refusals[METRIC_SLOTS][ST_NR];
    struct metric_names tenant_names, route_names;
    struct router_tenants tenants[METRIC_SLOTS];
};

/* Counts a refused Generate call by the slot of its model and its status. */
static inline void base_refused(struct router_base *b, size_t slot,
                                enum status why)
{
    b->metrics.refused++;
    b->refusals[slot][why < ST_NR ? why : ST_UNKNOWN].refusals++;
}

/* A callback at a time.  room: the state of the room that set the event;
 * borrowed. */
struct event {
    struct timer timer;
    void (*fire)(void *room, struct event *e);
    void *room;
};

#define EVENT_OF(e, type, member) LIST_OF(e, type, member)

/* Sets the callback of e and its argument.  Does not touch the timer of e,
 * which is zeroed or armed. */
static inline void event_init(struct event *e,
                              void (*fire)(void *room, struct event *e),
                              void *room)
{
    e->fire = fire;
    e->room = room;
}

/* Arms e for due_us, replacing an earlier time.  NODE_IDLE disarms it. */
static inline void event_set(struct router_base *b, struct event *e,
                             int64_t due_us)
{
    timer_set(&b->timers, &e->timer, due_us);
}

/* Clears the time of e.  A no-op if e is not armed. */
static inline void event_clear(struct router_base *b, struct event *e)
{
    timer_clear(&b->timers, &e->timer);
}

#endif
