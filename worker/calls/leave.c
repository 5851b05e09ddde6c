#include "worker/calls/leave.h"

#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"

void leave_init(struct leave *l, struct worker_base *b,
                const struct sequence_table *table)
{
    memset(l, 0, sizeof *l);
    l->base = b;
    l->table = table;
}

/* Without a session there is no one to wait for: the router has queued the
 * sequences again when the session ended. */
static bool is_over(const struct leave *l, int64_t now_us)
{
    return l->answered || l->base->session.state != SESSION_UP ||
           now_us >= l->end_us || (l->asked && PLANT(LEAVE_EARLY));
}

void leave_begin(struct leave *l, uint32_t grace_ms)
{
    if (l->base->stopping) {
        return;
    }
    if (l->wanted) {
        log_warn("leaving-at-once", "sequences=%u", l->table->n_live);
        base_stop(l->base);
        return;
    }
    log_info("leaving", "grace_ms=%u sequences=%u", grace_ms, l->table->n_live);
    l->wanted = true;
    l->grace_ms = grace_ms;
    /* The router enforces the grace; the rest is for its answer. */
    l->end_us = base_now_us(l->base) + (int64_t)grace_ms * 1000 + LEAVE_US;
}

bool leave_tick(struct leave *l, int64_t now_us)
{
    if (l->wanted && is_over(l, now_us)) {
        log_info("left", "answered=%d sequences=%u", l->answered,
                 l->table->n_live);
        base_stop(l->base);
        return true;
    }
    return false;
}

void leave_send(struct leave *l)
{
    Sluice__V1__LeaveRequest m = SLUICE__V1__LEAVE_REQUEST__INIT;
    struct peer *p = base_peer(l->base);

    m.grace_ms = l->grace_ms;
    /* If the link has no room, the next turn tries again. */
    if (l->wanted && !l->asked && p != NULL) {
        l->asked =
            peer_call(p, METHOD_REGISTRY_LEAVE, &m.base, 0, 0, NULL) == ST_OK;
    }
}

void leave_answered(struct leave *l, enum status status,
                    const Sluice__V1__DrainReply *reply, const struct error *e)
{
    l->answered = true;
    if (reply != NULL) {
        log_info("drained", "ran=%u finished=%u moved=%u", reply->n_running,
                 reply->n_finished, reply->n_moved);
    } else if (l->base->session.state == SESSION_UP) { /* else it just ended */
        log_warn("leave-refused", "status=%s why=\"%s\"", status_name(status),
                 e != NULL ? e->text : "");
    }
}

int64_t leave_due(const struct leave *l)
{
    return l->wanted ? l->end_us : NODE_IDLE;
}
