#include "router/requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/plant.h"
#include "common/request_id.h"
#include "common/state_machine.h"
#include "router/admission.h"
#include "router/router.h"
#include "router/stream.h"

#define IDS_START 64

/* A request as the router sees it: the picture is in core.h. */
static const struct sm_row request_rows[REQUEST_STATES] = {
    [REQUEST_ENCODING] = {"encoding",
                          SM_TO(REQUEST_WAITING) | SM_TO(REQUEST_ENDED)},
    [REQUEST_WAITING] = {"waiting",
                         SM_TO(REQUEST_SUBMITTED) | SM_TO(REQUEST_ENDED)},
    [REQUEST_SUBMITTED] = {"submitted",
                           SM_TO(REQUEST_PREFILL) | SM_TO(REQUEST_WAITING) |
                               SM_TO(REQUEST_ENDING) | SM_TO(REQUEST_ENDED)},
    [REQUEST_PREFILL] = {"prefill",
                         SM_TO(REQUEST_DECODE) | SM_TO(REQUEST_WAITING) |
                             SM_TO(REQUEST_ENDING) | SM_TO(REQUEST_ENDED)},
    [REQUEST_DECODE] = {"decode", SM_TO(REQUEST_WAITING) |
                                      SM_TO(REQUEST_ENDING) |
                                      SM_TO(REQUEST_ENDED)},
    [REQUEST_ENDING] = {"ending", SM_TO(REQUEST_ENDED)},
    [REQUEST_ENDED] = {"ended", 0},
};

const char *request_state_name(enum request_state s)
{
    return request_rows[s].name;
}

void request_move(struct request *q, enum request_state to)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(q->id, id);
    sm_check(request_rows, q->state, to, "request", id);
    q->state = to;
}

static uint64_t id_key(const struct router_core *r, const uint8_t *id)
{
    return request_id_hash(id, r->seed);
}

struct request *request_find(const struct router_core *r, const uint8_t *id,
                             size_t n)
{
    struct table_node *at =
        n == 16 ? table_find(&r->requests, id_key(r, id)) : NULL;

    for (; at != NULL; at = table_next(at)) {
        struct request *q = LIST_OF(at, struct request, by_id);
        if (memcmp(q->id, id, 16) == 0) {
            return q;
        }
    }
    return NULL;
}

static void lease_fire(struct router_core *r, struct event *e)
{
    struct request *q = EVENT_OF(e, struct request, lease);

    if (q->removal == REMOVAL_NONE) { /* else a receipt is on its way */
        q->kept = false;
        request_ungrant(r, q);
        request_settle(r, q);
    }
}

struct request *request_new(struct router_core *r, const uint8_t id[16],
                            struct model *m)
{
    struct request *q = calloc(1, sizeof *q);

    assert(q != NULL);
    memcpy(q->id, id, 16);
    q->number = ++r->last_number;
    q->model = m;
    q->arrived_us = r->now_us;
    q->lease.fire = lease_fire;
    pending_init(&q->call);
    list_init(&q->queue);
    list_init(&q->ready);
    list_init(&q->waiters);
    list_init(&q->running);
    list_init(&q->parts);
    list_init(&q->removals);
    list_append(&r->all_requests, &q->all);
    table_add(&r->requests, &q->by_id, id_key(r, id));
    r->n_requests++;
    return q;
}

static void request_free(struct router_core *r, struct request *q)
{
    assert(q->worker == NULL && list_empty(&q->waiters));
    pending_close(r, &q->call);
    event_clear(r, &q->lease);
    list_remove(&q->ready);
    list_remove(&q->all);
    table_remove(&r->requests, &q->by_id);
    table_remove(&r->jobs, &q->by_tag);
    r->n_requests--;
    free(q->detok);
    free(q->sampling_lists);
    model_release(r, &q->model);
    free(q->ids);
    free(q);
}

void request_settle(struct router_core *r, struct request *q)
{
    if (q->state == REQUEST_ENDED && !q->kept && !pending_is_open(&q->call) &&
        list_empty(&q->waiters)) {
        request_free(r, q);
    }
}

void request_reserve(struct request *q, uint32_t n)
{
    uint32_t size = q->ids_size == 0 ? IDS_START : q->ids_size;
    uint32_t *ids;

    if (n <= q->ids_size) {
        return;
    }
    while (size < n) {
        size *= 2;
    }
    ids = realloc(q->ids, size * sizeof *ids);
    assert(ids != NULL);
    q->ids = ids;
    q->ids_size = size;
}

static void unqueue(struct router_core *r, struct request *q)
{
    if (list_linked(&q->queue)) {
        list_remove(&q->queue);
        q->model->n_waiting--;
        r->n_waiting--;
        model_touch(r, q->model);
    }
}

void request_refuse(struct router_core *r, struct request *q,
                    const struct error *e, uint32_t retry_after_ms)
{
    r->metrics.refused++;
    pending_fail(r, &q->call, e, retry_after_ms);
    request_move(q, REQUEST_ENDED);
    request_settle(r, q);
}

void request_enqueue(struct router_core *r, struct request *q)
{
    struct error e;
    uint32_t retry_ms = 0;

    if (admission_check(r, q, &retry_ms, &e) != ST_OK) {
        request_refuse(r, q, &e, retry_ms);
        return;
    }
    if (!q->has_seed) {
        q->has_seed = true;
        q->sampling.seed = r->io->random(r->io);
    }
    stream_text_begin(r, q);
    request_move(q, REQUEST_WAITING);
    list_append(&q->model->waiting, &q->queue);
    q->model->n_waiting++;
    r->n_waiting++;
    model_touch(r, q->model);
}

void request_requeue(struct router_core *r, struct request *q)
{
    struct list *at = q->model->waiting.next;

    request_ungrant(r, q);
    request_move(q, REQUEST_WAITING);
    while (at != &q->model->waiting &&
           LIST_OF(at, struct request, queue)->number < q->number) {
        at = at->next;
    }
    if (!PLANT(REQUEUE_LOST)) {
        list_insert(at, &q->queue);
    }
    q->model->n_waiting++;
    r->n_waiting++;
    model_touch(r, q->model);
}

void request_granted(struct router_core *r, struct request *q, struct worker *w,
                     const struct need *need)
{
    unqueue(r, q);
    request_move(q, REQUEST_SUBMITTED);
    q->worker = w;
    q->grant = worker_grant(w, need);
    q->need = *need;
    q->n_gaps = 0;
    q->removal = REMOVAL_NONE;
    if (q->granted_us == 0) {
        q->granted_us = r->now_us;
    }
    memcpy(q->worker_name, w->peer->name, sizeof q->worker_name);
    table_add(&w->grants, &q->by_grant, q->grant);
    list_append(&w->running, &q->running);
    w->n_running++;
    r->metrics.grants++;
}

void request_ungrant(struct router_core *r, struct request *q)
{
    if (q->worker != NULL) {
        table_remove(&q->worker->grants, &q->by_grant);
        list_remove(&q->running);
        list_remove(&q->parts);
        list_remove(&q->removals);
        q->worker->n_running--;
        q->worker = NULL;
        event_clear(r, &q->lease);
    }
}

void request_finish(struct router_core *r, struct request *q,
                    Sluice__V1__Finish finish)
{
    unqueue(r, q);
    table_remove(&r->jobs, &q->by_tag);
    q->finish = finish;
    q->ended_us = r->now_us;
    if (finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        r->metrics.cancelled++;
    } else {
        r->metrics.finished++;
    }
    if (q->granted_us != 0) {
        model_ended(r, q->model);
    }
    request_move(q, REQUEST_ENDED);
    stream_ready(r, q);
    request_settle(r, q);
}

void request_fail(struct router_core *r, struct request *q,
                  const struct error *e, uint32_t retry_after_ms)
{
    unqueue(r, q);
    q->finish = SLUICE__V1__FINISH__FINISH_FAILED;
    q->ended_us = r->now_us;
    r->metrics.failed++;
    list_remove(&q->ready);
    pending_fail(r, &q->call, e, retry_after_ms);
    request_move(q, REQUEST_ENDED);
    request_settle(r, q);
}

void request_abandon(struct router_core *r, struct request *q,
                     const struct error *e)
{
    struct list *node;

    while ((node = list_take(&q->waiters)) != NULL) {
        struct waiter *x = LIST_OF(node, struct waiter, of_request);
        pending_fail(r, &x->call, e, RETRY_MS_MIN);
        waiter_free(r, x);
    }
    unqueue(r, q);
    pending_fail(r, &q->call, e, RETRY_MS_MIN);
    request_ungrant(r, q);
    q->kept = false;
    if (q->state != REQUEST_ENDED) {
        r->metrics.failed++;
        request_move(q, REQUEST_ENDED);
    }
    request_free(r, q);
}

static void fail_lost(struct router_core *r, struct request *q,
                      const char *worker, const char *why)
{
    struct error e;

    if (q->n_idle_moves > IDLE_MOVES_MAX) {
        error_set(&e, ST_ABORTED,
                  "%u workers in a row were lost with it, the last was %s: %s",
                  q->n_idle_moves, worker, why);
    } else {
        error_set(&e, ST_UNAVAILABLE,
                  "worker %s was lost (%s) and no other has model %s", worker,
                  why, q->model->name);
    }
    request_fail(r, q, &e, RETRY_MS_MIN);
}

void request_displaced(struct router_core *r, struct request *q,
                       const char *why)
{
    if (q->state == REQUEST_ENDED || q->state == REQUEST_ENDING) {
        removal_answer_self(r, q); /* kept, or to be removed: it is gone */
    } else if (q->n_generated == q->max_tokens) {
        request_ungrant(r, q);
        request_finish(r, q, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (q->model->n_workers == 0 || ++q->n_idle_moves > IDLE_MOVES_MAX) {
        request_ungrant(r, q);
        fail_lost(r, q, q->worker_name, why);
    } else {
        q->n_moves++;
        r->metrics.moved++;
        request_requeue(r, q);
    }
}

void requests_recheck(struct router_core *r, struct model *m)
{
    struct list *at = m->waiting.next;

    while (at != &m->waiting) {
        struct request *q = LIST_OF(at, struct request, queue);
        struct error e;

        at = at->next;
        if (admission_possible(r, q, &e) != ST_OK) {
            request_fail(r, q, &e, 0);
        }
    }
}
