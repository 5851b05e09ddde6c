#include "router/removal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/log.h"
#include "common/request_id.h"
#include "router/router.h"

static void zeros(Sluice__V1__Receipt *out, Sluice__V1__SequenceRef *ref,
                  Sluice__V1__SequenceState state)
{
    sluice__v1__receipt__init(out);
    out->sequence = ref;
    out->state = state;
}

void waiter_free(struct router_core *r, struct waiter *x)
{
    pending_close(r, &x->call);
    list_remove(&x->of_request);
    free(x);
}

/* Everybody who waits gets the same receipt. */
static void answer_waiters(struct router_core *r, struct request *q,
                           const Sluice__V1__Receipt *receipt)
{
    struct list *node;

    while ((node = list_take(&q->waiters)) != NULL) {
        struct waiter *x = LIST_OF(node, struct waiter, of_request);
        pending_end(r, &x->call, &receipt->base);
        waiter_free(r, x);
    }
}

static bool send_removal(struct request *q)
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest c = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    struct peer *p = q->worker->peer->peer;

    ref.request_id = (ProtobufCBinaryData){16, q->id};
    c.sequence = m.sequence = &ref;
    c.has_grant = m.has_grant = true;
    c.grant = m.grant = q->grant;
    c.has_reason = true;
    c.reason = q->reason;
    if (q->remove) {
        return peer_call(p, METHOD_WORKER_REMOVE, &m.base, 0, q->grant, NULL) ==
               ST_OK;
    }
    return peer_call(p, METHOD_WORKER_CANCEL, &c.base, 0, q->grant, NULL) ==
           ST_OK;
}

/* The worker is to let go of it, by Cancel or Remove. */
static void tell_worker(struct request *q, bool remove)
{
    q->remove = remove;
    list_remove(&q->parts);
    if (send_removal(q)) {
        q->removal = REMOVAL_SENT;
    } else {
        q->removal = REMOVAL_UNSENT;
        list_append(&q->worker->removals, &q->removals);
    }
}

void removals_pump(struct router_core *r, struct worker *w)
{
    (void)r;
    while (!list_empty(&w->removals)) {
        struct request *q = LIST_OF(w->removals.next, struct request, removals);

        if (!send_removal(q)) {
            return;
        }
        list_remove(&q->removals);
        q->removal = REMOVAL_SENT;
    }
}

/* q is open and not yet ENDING.  True: a worker's receipt will come. */
static bool begin(struct router_core *r, struct request *q, bool remove,
                  Sluice__V1__CancelReason reason)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(q->id, id);
    log_debug("removal", "request=%s state=%s reason=%d", id,
              request_state_name(q->state), (int)reason);
    q->reason = reason;
    if (q->state == REQUEST_ENCODING || q->state == REQUEST_WAITING) {
        request_finish(r, q, SLUICE__V1__FINISH__FINISH_CANCELLED);
        return false;
    }
    request_move(q, REQUEST_ENDING);
    tell_worker(q, remove);
    return true;
}

void removal_wanted(struct router_core *r, struct request *q,
                    Sluice__V1__CancelReason reason)
{
    if (q->state < REQUEST_ENDING) {
        (void)begin(r, q, false, reason);
    }
}

static void wait_for_receipt(struct router_core *r, struct request *q,
                             struct router_peer *p, uint64_t call)
{
    struct waiter *x = calloc(1, sizeof *x);

    assert(x != NULL);
    pending_init(&x->call);
    pending_open(r, &x->call, PENDING_RECEIPT, p, call);
    list_init(&x->of_request);
    list_append(&q->waiters, &x->of_request);
}

static uint32_t n_waiters(const struct request *q)
{
    uint32_t n = 0;

    for (struct list *at = q->waiters.next; at != &q->waiters; at = at->next) {
        n++;
    }
    return n;
}

static void answer(struct router_peer *p, uint64_t call,
                   const Sluice__V1__SequenceRef *sequence,
                   Sluice__V1__SequenceState state, uint32_t n_generated)
{
    Sluice__V1__SequenceRef ref = *sequence;
    Sluice__V1__Receipt receipt;

    zeros(&receipt, &ref, state);
    receipt.n_generated = n_generated;
    peer_end(p->peer, call, &receipt.base);
}

/* It has ended; its memory may still be held at a worker. */
static void ended_called(struct router_core *r, struct router_peer *p,
                         uint64_t call, struct request *q, bool remove,
                         const Sluice__V1__SequenceRef *sequence)
{
    if (!q->kept || !remove) {
        answer(p, call, sequence, SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED,
               q->n_generated);
        return;
    }
    wait_for_receipt(r, q, p, call);
    if (q->removal == REMOVAL_NONE) {
        tell_worker(q, true);
    }
}

static bool crowded(struct router_peer *p, uint64_t call,
                    const struct request *q)
{
    struct error e;

    if (n_waiters(q) < RECEIPT_WAITERS_MAX) {
        return false;
    }
    error_set(&e, ST_RESOURCE_EXHAUSTED,
              "%d callers wait for the receipt of this sequence already",
              RECEIPT_WAITERS_MAX);
    peer_fail(p->peer, call, &e, RETRY_MS_MIN);
    return true;
}

void removal_called(struct router_core *r, struct router_peer *p, uint64_t call,
                    const Sluice__V1__SequenceRef *sequence, bool remove,
                    Sluice__V1__CancelReason reason)
{
    struct request *q = NULL;

    if (sequence->choice == 0) {
        q = request_find(r, sequence->request_id.data,
                         sequence->request_id.len);
    }
    if (q == NULL) {
        answer(p, call, sequence, SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN,
               0);
    } else if (crowded(p, call, q)) {
        return;
    } else if (q->state == REQUEST_ENDED) {
        ended_called(r, p, call, q, remove, sequence);
    } else if (q->state == REQUEST_ENDING) {
        wait_for_receipt(r, q, p, call);
    } else if (q->state == REQUEST_ENCODING || q->state == REQUEST_WAITING) {
        answer(p, call, sequence, SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED,
               q->n_generated);
        (void)begin(r, q, remove, reason);
    } else {
        wait_for_receipt(r, q, p, call);
        (void)begin(r, q, remove, reason);
    }
}

/* The sequence is gone at the worker: what the client's stream ends with. */
static void conclude(struct router_core *r, struct request *q)
{
    request_ungrant(r, q);
    if (q->state == REQUEST_ENDED) { /* it was kept */
        q->kept = false;
        request_settle(r, q);
    } else {
        request_finish(r, q,
                       q->finish == SLUICE__V1__FINISH__FINISH_RUNNING
                           ? SLUICE__V1__FINISH__FINISH_CANCELLED
                           : q->finish);
    }
}

void removal_answered(struct router_core *r, struct request *q,
                      const Sluice__V1__Receipt *receipt)
{
    Sluice__V1__Receipt own = *receipt;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;

    ref.request_id = (ProtobufCBinaryData){16, q->id};
    own.sequence = &ref;
    own.has_worker = true;
    own.worker = wire_text(q->worker_name);
    answer_waiters(r, q, &own);
    conclude(r, q);
}

void removal_answer_self(struct router_core *r, struct request *q)
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__Receipt receipt;

    ref.request_id = (ProtobufCBinaryData){16, q->id};
    zeros(&receipt, &ref, SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN);
    receipt.n_generated = q->n_generated;
    answer_waiters(r, q, &receipt);
    conclude(r, q);
}
