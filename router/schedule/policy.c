#include "router/schedule/policy.h"

#include "router/schedule/headroom.h"
#include "router/schedule/routing.h"

/* A new entry goes to the end.  An entry that returns is old, so its position
 * is searched from the head: before all that arrived after it, even if some of
 * those have been granted meanwhile.  A move must not cost a sequence its
 * turn. */
static struct list *order_fifo(struct schedule *s, const struct queue_entry *e,
                               bool again)
{
    struct list *waiting = &e->model->waiting;
    struct list *at = again ? waiting->next : waiting;

    (void)s;
    while (at != waiting &&
           LIST_OF(at, struct queue_entry, queue)->number < e->number) {
        at = at->next;
    }
    return at;
}

const struct policy_ops policy_fifo = {.order = order_fifo,
                                       .place = routing_pick,
                                       .admit = headroom_allows,
                                       .yields = trial_waits,
                                       .charge = headroom_charge,
                                       .release = headroom_release};
