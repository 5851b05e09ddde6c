/* policy.h - The rules of scheduling, as a table of functions.
 *
 * Fair queueing, prefix routing and headroom are entries of such a table.  A
 * new rule is a new function here and changes nothing in queue.c.  No policy
 * may change the following: only ledgers return room, a grant covers the whole
 * claim of an entry (claims.h) or nothing, and the router never revokes a
 * grant in favour of another sequence.
 *
 * Threading: the core's thread only.  Memory: a policy keeps no state outside
 * the schedule, the fleet and the queue entries. */
#ifndef ROUTER_SCHEDULE_POLICY_H
#define ROUTER_SCHEDULE_POLICY_H

#include "router/schedule/schedule.h"

struct policy_ops {
    /* Returns the node in front of which e is inserted into the queue of its
     * model. again: e was in the queue before. */
    struct list *(*order)(struct schedule *s, struct queue_entry *e,
                          bool again);

    /* Returns the place at which e is granted now; NULL: none. */
    struct worker *(*place)(struct schedule *s, struct queue_entry *e);

    /* Returns true if e may be granted need at w, where it has room. */
    bool (*admit)(struct schedule *s, const struct queue_entry *e,
                  const struct worker *w, const struct need *need);

    /* Returns true if entries behind e may go first although e has no place. */
    bool (*yields)(struct schedule *s, struct queue_entry *e);

    /* charge: accounts for e->claim at w, where e was granted. started: e has
     * its first token there. release: takes all charges back. */
    void (*charge)(struct schedule *s, struct queue_entry *e, struct worker *w);
    void (*started)(struct queue_entry *e);
    void (*release)(struct queue_entry *e);
};

/* The policy: fair among tenants (fair.h), with a bypass (bypass.h); the place
 * with the earliest first token (routing.h); headroom if the option is set
 * (headroom.h).  Three kinds of entry are overtaken: one that waits for room,
 * by entries that do not delay it; suspects that wait for a trial (trial.h);
 * and sequences that wait for the place that keeps what they continue.  The
 * room of that place is then reserved for them. */
extern const struct policy_ops policy_fair;

#endif
