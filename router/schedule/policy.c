#include "router/schedule/policy.h"

#include "router/schedule/headroom.h"
#include "router/schedule/overcommit.h"
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

static bool yields_fifo(struct schedule *s, const struct queue_entry *e)
{
    if (e->keeper == NULL) {
        return trial_waits(s, e);
    }
    e->keeper->reserved = s->n_runs;
    return true;
}

static void charge_fifo(struct schedule *s, struct queue_entry *e,
                        struct worker *w)
{
    headroom_charge(s, e, w, &e->claim.need);
    overcommit_charge(e, w);
    routing_charge(s, e, w);
}

static void release_fifo(struct queue_entry *e)
{
    headroom_release(e);
    overcommit_release(e);
    routing_release(e);
}

const struct policy_ops policy_fifo = {.order = order_fifo,
                                       .place = routing_pick,
                                       .admit = headroom_allows,
                                       .yields = yields_fifo,
                                       .charge = charge_fifo,
                                       .started = routing_release,
                                       .release = release_fifo};
