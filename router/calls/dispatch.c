/* dispatch.c - from a peer's calls to their handlers. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/request_id.h"
#include "router/calls/recv.h"
#include "router/replicas/replica.h"
#include "router/requests/submit.h"
#include "router/router_state.h"

void refuse(const struct incoming *in, enum status code, const char *fmt, ...)
{
    struct error e = {.code = code};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    peer_fail(in->peer->peer, in->call, &e, 0);
}

bool check_request_id(const struct incoming *in, ProtobufCBinaryData id)
{
    if (id.len != REQUEST_ID_BYTES) {
        refuse(in, ST_INVALID_ARGUMENT, "request_id is %zu bytes long, not %d",
               id.len, REQUEST_ID_BYTES);
        return false;
    }
    if (request_id_is_zero(id.data)) {
        refuse(in, ST_INVALID_ARGUMENT, "request_id is all zeros");
        return false;
    }
    return true;
}

static void quarantine(struct router_core *r, const char *name)
{
    struct quarantine *k = &r->quarantine[0];

    for (uint32_t i = 0; i < r->n_quarantine; i++) {
        struct quarantine *at = &r->quarantine[i];
        if (strcmp(at->name, name) == 0) {
            k = at;
            break;
        }
        if (at->until_us < k->until_us) {
            k = at;
        }
    }
    if (strcmp(k->name, name) != 0 && r->n_quarantine < QUARANTINE_MAX) {
        k = &r->quarantine[r->n_quarantine++];
    }
    memcpy(k->name, name, strlen(name) + 1);
    k->until_us = r->now_us + WORKER_QUARANTINE_US;
}

void worker_lied(struct router_core *r, struct worker *w, const struct error *e)
{
    if (!w->peer->ended) {
        log_error("worker-lied", "worker=%s why=\"%s\"", w->peer->name,
                  e->text);
        r->metrics.protocol_violations++;
        quarantine(r, w->peer->name);
        peers_end(r, w->peer, "what you say cannot be: %s", e->text);
    }
}

static void on_call(void *node, struct peer *peer, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct router_core *r = node;
    struct incoming in = {peer_data(peer), call, deadline_us, request};

    if (in.peer->ended || (in.peer->offer != NULL && in.call == 0)) {
        return; /* who has no layers has nothing to tell */
    }
    switch (m->number) {
    case METHOD_REGISTRY_REPORT:
        recv_report(r, &in);
        break;
    case METHOD_REGISTRY_LEAVE:
        recv_leave(r, &in);
        break;
    case METHOD_REGISTRY_STEP_OUTPUT:
        recv_step_output(r, &in);
        break;
    case METHOD_REGISTRY_LIVE:
        recv_live(r, &in);
        break;
    case METHOD_REGISTRY_BROKEN:
        recv_broken(r, &in);
        break;
    case METHOD_INFERENCE_GENERATE:
        recv_generate(r, &in);
        break;
    case METHOD_INFERENCE_CANCEL:
    case METHOD_ADMIN_CANCEL:
        recv_cancel(r, &in);
        break;
    case METHOD_INFERENCE_REMOVE:
    case METHOD_ADMIN_REMOVE:
        recv_remove(r, &in);
        break;
    case METHOD_INFERENCE_TOKENIZE:
        recv_tokenize(r, &in);
        break;
    case METHOD_INFERENCE_DETOKENIZE:
        recv_detokenize(r, &in);
        break;
    case METHOD_INFERENCE_LIST_MODELS:
        recv_list_models(r, &in);
        break;
    case METHOD_HEALTH_CHECK:
        recv_health(r, &in);
        break;
    case METHOD_ADMIN_STATUS:
        recv_admin_status(r, &in);
        break;
    case METHOD_ADMIN_WATCH:
        recv_admin_watch(r, &in);
        break;
    case METHOD_ADMIN_LIST_WORKERS:
        recv_admin_list_workers(r, &in);
        break;
    case METHOD_ADMIN_LIST_SEQUENCES:
        recv_admin_list_sequences(r, &in);
        break;
    case METHOD_ADMIN_AUDIT:
        recv_admin_audit(r, &in);
        break;
    case METHOD_ADMIN_DRAIN:
        recv_admin_drain(r, &in);
        break;
    case METHOD_ADMIN_UNDRAIN:
        recv_admin_undrain(r, &in);
        break;
    default:
        refuse(&in, ST_UNIMPLEMENTED, "%s is not built here", m->name);
    }
}

static void on_cancel(void *node, struct peer *peer, uint64_t call)
{
    pending_dropped(node, peer_data(peer), call);
}

static void on_reply(void *node, struct peer *peer, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    /* The router calls no stream. */
    (void)node, (void)peer, (void)tag, (void)m, (void)reply;
}

static void receipt_ended(struct router_core *r, struct worker *w,
                          uint64_t grant, enum status status,
                          const ProtobufCMessage *reply, const struct error *e)
{
    struct choice *choice = worker_sequence(w, grant);
    struct error lie;

    if (choice == NULL) {
        return;
    }
    if (status == ST_OK &&
        removal_check(w, (const void *)reply, &lie) != ST_OK) {
        worker_lied(r, w, &lie);
    } else if (status == ST_OK) {
        removal_answered(r, choice, (const void *)reply);
    } else {
        log_warn("no-receipt", "worker=%s grant=%" PRIu64 " why=\"%s\"",
                 w->peer->name, grant, e->text);
        removal_answer_self(r, choice);
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
        submit_answered(r, p->worker, tag, status, e);
        break;
    case METHOD_WORKER_CANCEL:
    case METHOD_WORKER_REMOVE:
        receipt_ended(r, p->worker, tag, status, reply, e);
        break;
    case METHOD_WORKER_ASSEMBLE:
        replica_answered(r, p->worker, status, e);
        break;
    case METHOD_WORKER_ASSIGN:
        offer_answered(r, p->offer, status, e);
        break;
    case METHOD_WORKER_AUDIT:
        audit_answered(r, p->worker, tag, reply, e);
        break;
    default:
        break;
    }
}

static void on_dirty(void *node, struct peer *peer)
{
    struct router_peer *p = peer_data(peer);

    if (p != NULL) {
        peers_touch(node, p);
    }
}

const struct peer_ops router_peer_ops = {on_call, on_cancel, on_reply, on_end,
                                         on_dirty};
