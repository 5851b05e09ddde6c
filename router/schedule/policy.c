#include "router/schedule/policy.h"

#include "router/schedule/bypass.h"
#include "router/schedule/claims.h"
#include "router/schedule/fair.h"
#include "router/schedule/headroom.h"
#include "router/schedule/routing.h"

/* An entry that returns keeps its place among the tenants: a move must not cost
 * a sequence its turn. */
static struct list *order_fair(struct schedule *s, struct queue_entry *e,
                               bool again)
{
    if (!again) {
        fair_arrived(s, e);
    }
    return fair_position(e, again || fair_is_early(e));
}

static bool yields(struct schedule *s, struct queue_entry *e)
{
    if (e->keeper == NULL) {
        return trial_waits(s->placement, &e->trial, e->n_tokens) ||
               bypass_waits(s, e);
    }
    charges_of(e->keeper)->reserved = s->n_runs;
    return true;
}

static void charge(struct schedule *s, struct queue_entry *e, struct worker *w)
{
    headroom_charge(s, e, w, &e->claim.expected);
    claim_charge(e, w);
    routing_charge(s, e, w);
    fair_granted(e);
}

static void release(struct queue_entry *e)
{
    headroom_release(e);
    claim_release(e);
    routing_release(e);
}

const struct policy_ops policy_fair = {.order = order_fair,
                                       .place = routing_pick,
                                       .admit = headroom_allows,
                                       .yields = yields,
                                       .charge = charge,
                                       .started = routing_release,
                                       .release = release};
