#include "router/calls/worker_session.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "router/calls/router_state.h"
#include "router/placement/adoption.h"
#include "router/placement/drain.h"
#include "router/replicas/offers.h"
#include "router/replicas/place.h"
#include "router/requests/choice_moves.h"
#include "router/requests/trial_deaths.h"
#include "router/schedule/claims.h"

struct worker *worker_session_open(struct router_core *r, struct router_peer *p,
                                   struct model *m,
                                   const Sluice__V1__WorkerShard *s)
{
    struct worker *w = workers_add(&r->fleet, p, m, s);

    if (w == NULL) {
        return NULL;
    }
    claims_open(w);
    worker_choices_init(w);
    placement_open(&r->placement, w, s->n_live);
    offers_arrived(&r->replicas, w);
    if (worker_is_staged(w)) {
        place_await(&r->replicas, w);
    } else {
        place_begin(&r->replicas, w);
    }
    return w;
}

void worker_session_blame(struct router_core *r, struct worker *w)
{
    /* When a name is taken over, the blame is decided before the new session
     * opens; closing the old one must not count the death twice. */
    if (!w->blamed) {
        w->blamed = true;
        lineage_end(&r->fleet, w,
                    w->death != DEATH_NONE && trial_death(&r->requests, w));
    }
}

/* Displaces the sequences of the place of w, from the newest to the oldest.
 * Each goes before all that arrived after it, so its position at the head of
 * the queue is found at once. */
static void displace(struct router_core *r, struct worker *w, const char *why)
{
    struct worker *place = worker_place(w);
    uint64_t moved = r->base.metrics.moved, failed = r->base.metrics.failed;

    if (member_of(w)->replica != NULL) {
        why = member_of(w)->replica->why;
    }
    while (place != NULL && !list_empty(&choices_of(place)->running)) {
        struct list *last = choices_of(place)->running.prev;
        choice_displaced(&r->requests,
                         LIST_OF(last, struct choice, grant.running), why);
    }
    moved = r->base.metrics.moved - moved;
    failed = r->base.metrics.failed - failed;
    if (moved + failed > 0) {
        log_info("sequences-moved",
                 "worker=%s moved=%" PRIu64 " failed=%" PRIu64, w->peer->name,
                 moved, failed);
    }
}

static void log_end(struct router_core *r, const struct worker *w,
                    const char *why)
{
    if (r->base.stopping) {
        return;
    }
    /* A worker that drained before it stopped is no loss. */
    if (w->drain == DRAIN_LEAVES && w->n_running == 0) {
        log_info("worker-left", "worker=%s", w->peer->name);
        return;
    }
    log_gate_write(&r->base.log.worker_lost, r->base.now_us,
                   "worker=%s sequences=%" PRIu32 " silent_ms=%" PRId64
                   " why=\"%s\"",
                   w->peer->name, w->n_running,
                   (r->base.now_us - w->peer->heard_us) / 1000, why);
}

/* The order matters: the replica moves its sequences before any of its stages
 * is freed, so that the death can be charged and drains count what moved. */
void worker_session_close(struct router_core *r, struct worker **pw,
                          const char *why)
{
    struct worker *w = *pw;

    *pw = NULL;
    if (w == NULL) {
        return;
    }
    worker_move(w, WORKER_LOST);
    log_end(r, w, why);
    r->base.metrics.workers_lost++;
    workers_unlist(&r->fleet, w);
    replica_end(&r->replicas, w, why);
    place_end(&r->replicas, w);
    place_update_presence(&r->replicas, w->model);
    worker_session_blame(r, w);
    displace(r, w, why);
    replica_leave(w);
    if (worker_is_staged(w)) {
        offers_departed(&r->replicas, w);
    }
    prefix_feed_close(&r->placement, w);
    choices_recheck(&r->requests, w->model);
    drain_close(&r->placement, w);
    audit_worker_lost(r, w);
    adoptions_close(&r->placement, w);
    worker_choices_fini(w);
    workers_free(&r->fleet, &w);
}
