#include "router/calls/dispatch.h"

#include <inttypes.h>

#include "common/base/log.h"
#include "common/wire/hello.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/fleet/liveness.h"
#include "router/fleet/places.h"
#include "router/replicas/offers.h"
#include "router/replicas/replica.h"
#include "router/requests/ranges.h"
#include "router/requests/receipt_check.h"
#include "router/requests/removal.h"
#include "router/requests/submit.h"

static void on_call(void *node, struct peer *peer, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct router_core *r = node;
    struct incoming in = {peer_data(peer), call, deadline_us, NULL};

    if (in.peer->ended || (offer_of(in.peer)->offer != NULL && in.call == 0)) {
        return; /* a worker without layers has nothing to report */
    }
    if (m->number != METHOD_HEALTH_CHECK) { /* pings are no activity */
        places_idle(&r->fleet, in.peer);
    }
    switch (m->number) {
#define X(method, handler)                            \
    case METHOD_##method:                             \
        handler(r, &in, AS_REQUEST(method, request)); \
        break;
        ROUTER_HANDLERS(X)
#undef X
    default:
        refuse(&in, ST_UNIMPLEMENTED, "%s is not implemented by this router",
               m->name);
    }
}

static void on_cancel(void *node, struct peer *peer, uint64_t call)
{
    struct router_core *r = node;

    pending_dropped(&r->fleet, peer_data(peer), call);
}

static void on_reply(void *node, struct peer *peer, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    /* The router calls no method that streams. */
    (void)node, (void)peer, (void)tag, (void)m, (void)reply;
}

static void handle_receipt(struct router_core *r, struct worker *w,
                           uint64_t grant, enum status status,
                           const reply_of_WORKER_CANCEL *reply,
                           const struct error *e)
{
    struct choice *choice = choice_of_grant(w, grant);
    struct error violation;

    if (choice == NULL) {
        return;
    }
    if (status == ST_OK &&
        receipt_check(choice, reply, r->base.now_us, &violation) != ST_OK) {
        worker_expel(&r->fleet, w, &violation);
    } else if (status == ST_OK) {
        removal_answered(&r->requests, choice, reply);
    } else {
        /* The callers that wait get an answer all the same: a receipt of
         * zeros. */
        log_gate_write(&r->base.log.no_receipt, r->base.now_us,
                       "worker=%s grant=%" PRIu64 " why=\"%s\"", w->peer->name,
                       grant, e->text);
        removal_answer_self(&r->requests, choice);
    }
}

static void handle_range(struct router_core *r, struct worker *w,
                         uint64_t grant, enum status status,
                         const reply_of_WORKER_REMOVE *reply,
                         const struct error *e)
{
    struct choice *choice = choice_of_grant(w, grant);
    struct error violation;

    if (choice == NULL || choice->kept.range == NULL) {
        return; /* it is kept no more */
    }
    if (status != ST_OK) {
        range_answered(&r->requests, choice, NULL, e);
    } else if (range_check(choice, reply, r->base.now_us, &violation) !=
               ST_OK) {
        worker_expel(&r->fleet, w, &violation);
    } else {
        range_answered(&r->requests, choice, reply, NULL);
    }
}

static void on_end(void *node, struct peer *peer, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct router_core *r = node;
    struct router_peer *p = peer_data(peer);

    (void)retry_after_ms;
    if (p->ended) {
        return;
    }
    switch (m->number) {
    case METHOD_WORKER_SUBMIT:
        submit_answered(&r->requests, p->worker, tag, status, e);
        break;
    case METHOD_WORKER_CANCEL:
    case METHOD_WORKER_REMOVE:
        if ((tag & RANGE_TAG) != 0) {
            handle_range(r, p->worker, tag & ~RANGE_TAG, status,
                         AS_REPLY(WORKER_REMOVE, reply), e);
            break;
        }
        handle_receipt(r, p->worker, tag, status,
                       AS_REPLY(WORKER_CANCEL, reply), e);
        break;
    case METHOD_WORKER_ASSEMBLE:
        replica_answered(&r->replicas, p->worker, status, e);
        break;
    case METHOD_WORKER_ASSIGN:
        offer_answered(&r->replicas, offer_of(p)->offer, status, e);
        break;
    case METHOD_WORKER_AUDIT:
        audit_answered(r, p->worker, tag, AS_REPLY(WORKER_AUDIT, reply), e);
        break;
    default:
        break;
    }
}

static void on_dirty(void *node, struct peer *peer)
{
    struct router_peer *p = peer_data(peer);

    if (p != NULL) {
        struct router_core *r = node;

        peers_touch(&r->fleet, p);
    }
}

const struct peer_ops router_peer_ops = {on_call, on_cancel, on_reply, on_end,
                                         on_dirty};

/* ---- frames ---- */

static void expel_peer(struct router_core *r, struct router_peer *p)
{
    log_gate_write(&r->base.log.expelled, r->base.now_us, "peer=%s strikes=%d",
                   p->name, PEER_STRIKES);
    peers_end(&r->fleet, p, "%d frames violated the protocol", PEER_STRIKES);
}

static void recv_in_session(struct router_core *r, struct router_peer *p,
                            const struct frame *f, const struct frame_header *h)
{
    p->heard_us = r->base.now_us;
    /* Any frame is a sign of life, even one that breaks a rule. */
    if (p->worker != NULL) {
        liveness_heard(&r->fleet, p->worker);
    }
    switch (peer_recv(p->peer, f, h, r->base.now_us)) {
    case PEER_FINE:
        break;
    case PEER_STRIKE:
        r->base.metrics.strikes++;
        break;
    case PEER_GOODBYE:
        if (offer_of(p)->offer != NULL) {
            offer_leaves(offer_of(p)->offer);
        }
        peers_lose(&r->fleet, p, "the peer sent Goodbye");
        break;
    case PEER_OUT:
        r->base.metrics.strikes++;
        expel_peer(r, p);
        break;
    }
    peers_touch(&r->fleet, p);
}

void dispatch_frame(struct router_core *r, struct peer_id from,
                    const struct frame *f)
{
    struct router_peer *p = peers_find(&r->fleet, from);
    struct frame_header h;
    struct error e;

    if (frame_check(f->data, f->bytes, &h, &e) != ST_OK) {
        r->base.metrics.strikes++;
        log_debug("bad-frame", "peer=%" PRIu32 " why=\"%s\"", from.v, e.text);
    } else if (h.session == 0) {
        recv_hello(r, from, f, &h);
    } else if (p != NULL && p->session == h.session) {
        recv_in_session(r, p, f, &h);
    } else {
        r->base.metrics.foreign++;
        /* The peer missed the end of its session, for example of a router
         * before this one. */
        hello_foreign(r->base.io, from, f, &h);
    }
}
