/* leave.c - how a worker goes without costing anybody anything: the router is
 * told, gives it nothing more, and says when nothing is left here.
 *
 *     worker_leave() --Leave--> the router moves what outlives the grace
 *                    <--End---  nothing of it is here: worker_stop()
 *
 * Whatever goes wrong with that, the worker stops: no session (the router has
 * what ran here back in its queue), an end of the session, a refusal, no
 * answer in time, or somebody who asks a second time. */
#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/worker_state.h"

static bool is_over(const struct worker_core *w, int64_t now_us)
{
    const struct leave *l = &w->leave;

    return l->answered || w->session.state != SESSION_UP ||
           now_us >= l->end_us || (l->asked && PLANT(LEAVE_EARLY));
}

void worker_leave(struct worker_core *w, uint32_t grace_ms)
{
    struct leave *l = &w->leave;

    if (w->stopping) {
        return;
    }
    if (l->wanted) {
        log_warn("leaving-at-once", "sequences=%u", w->table.n_live);
        worker_stop(w);
        return;
    }
    log_info("leaving", "grace_ms=%u sequences=%u", grace_ms, w->table.n_live);
    l->wanted = true;
    l->grace_ms = grace_ms;
    l->end_us = w->io->now_us(w->io) + (int64_t)grace_ms * 1000 + LEAVE_US;
}

bool leave_tick(struct worker_core *w, int64_t now_us)
{
    struct leave *l = &w->leave;

    if (l->wanted && is_over(w, now_us)) {
        log_info("left", "answered=%d sequences=%u", l->answered,
                 w->table.n_live);
        worker_stop(w);
        return true;
    }
    return false;
}

void leave_ask(struct worker_core *w)
{
    Sluice__V1__LeaveRequest m = SLUICE__V1__LEAVE_REQUEST__INIT;
    struct peer *p = worker_peer(w);
    struct leave *l = &w->leave;

    m.grace_ms = l->grace_ms;
    if (l->wanted && !l->asked && p != NULL) { /* no room: the next turn */
        l->asked =
            peer_call(p, METHOD_REGISTRY_LEAVE, &m.base, 0, 0, NULL) == ST_OK;
    }
}

void leave_answered(struct worker_core *w, enum status status,
                    const Sluice__V1__DrainReply *reply, const struct error *e)
{
    w->leave.answered = true;
    if (reply != NULL) {
        log_info("drained", "ran=%u finished=%u moved=%u", reply->n_running,
                 reply->n_finished, reply->n_moved);
    } else if (w->session.state == SESSION_UP) { /* else it just ended */
        log_warn("leave-refused", "status=%s why=\"%s\"", status_name(status),
                 e != NULL ? e->text : "");
    }
}

int64_t leave_due(const struct worker_core *w)
{
    return w->leave.wanted ? w->leave.end_us : NODE_IDLE;
}
