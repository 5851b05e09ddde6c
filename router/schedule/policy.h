/* policy.h - the rules of scheduling, as a table.
 *
 * Fair queueing, prefix routing and head-room are entries of such a table, so
 * a new rule is a new function here and no change in queue.c.  What no policy
 * may change: room moves by ledgers alone, a grant is all or nothing, and what
 * was granted is never taken back for another.
 *
 * Threading: the core's; no entry keeps state outside schedule, fleet and
 * queue entries. */
#ifndef ROUTER_SCHEDULE_POLICY_H
#define ROUTER_SCHEDULE_POLICY_H

#include "router/schedule/schedule.h"

struct schedule;
struct policy_ops {
    /* The node of e's model's queue in front of which e goes.  again: e was
     * in the queue before. */
    struct list *(*order)(struct schedule *s, const struct queue_entry *e,
                          bool again);

    /* The place that e is granted at now, NULL: none. */
    struct worker *(*place)(struct schedule *s, const struct queue_entry *e);

    /* May e, which has room for its need at w, be granted it there? */
    bool (*admit)(struct schedule *s, const struct queue_entry *e,
                  const struct worker *w, const struct need *need);

    /* e has no place: may what is behind it in the queue go first? */
    bool (*yields)(const struct schedule *s, const struct queue_entry *e);

    /* e was granted need at w; and: it counts there no longer. */
    void (*charge)(struct schedule *s, struct queue_entry *e, struct worker *w,
                   const struct need *need);
    void (*release)(struct queue_entry *e);
};

/* First come first served, by number; the place with the most free pages
 * (routing.h); head-room where it is asked for (headroom.h); what waits for a
 * trial is overtaken (trial.h). */
extern const struct policy_ops policy_fifo;

#endif
