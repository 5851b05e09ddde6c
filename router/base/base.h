/* base.h - what every room of the router's core stands on: options, the ways
 * out, the clock, timers and metrics.
 *
 * One struct router_base belongs to struct router_core; each room holds a
 * pointer to it.  now_us is set once for each event that comes in, so that all
 * that follows from the event happens at one time.
 *
 * Threading: the core's. */
#ifndef ROUTER_BASE_BASE_H
#define ROUTER_BASE_BASE_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/timer.h"
#include "common/wire/node_io.h"
#include "common/wire/wire.h"
#include "router/base/metrics.h"
#include "router/base/router_limits.h"
#include "router/base/router_options.h"

struct router_base {
    struct router_options options;
    char name[PEER_NAME_MAX + 1];
    struct node_io *io;
    struct arena arena; /* of the message that is being handled */
    uint64_t seed;      /* of the hash of request ids */
    int64_t now_us, start_us;
    struct timers timers;
    bool stopping;
    struct router_metrics metrics; /* router_counts() adds some gauges */
};

/* Something that happens at a time.  room: the struct of the room that set
 * it. */
struct event {
    struct timer timer;
    void (*fire)(void *room, struct event *e);
    void *room;
};

#define EVENT_OF(e, type, member) LIST_OF(e, type, member)

/* Sets what e does.  Leaves its timer as it is: zeroed, or armed. */
static inline void event_init(struct event *e,
                              void (*fire)(void *room, struct event *e),
                              void *room)
{
    e->fire = fire;
    e->room = room;
}

/* Arms e for due_us, instead of an earlier time; NODE_IDLE: never. */
static inline void event_set(struct router_base *b, struct event *e,
                             int64_t due_us)
{
    timer_set(&b->timers, &e->timer, due_us);
}

/* Disarms e.  Idempotent. */
static inline void event_clear(struct router_base *b, struct event *e)
{
    timer_clear(&b->timers, &e->timer);
}

#endif
