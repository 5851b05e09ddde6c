#include "router/requests.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/failpoint.h"
#include "common/plant.h"
#include "common/request_id.h"
#include "common/state_machine.h"
#include "router/admission.h"
#include "router/adoption.h"
#include "router/generation.h"
#include "router/headroom.h"
#include "router/logprob_columns.h"
#include "router/place.h"
#include "router/resume.h"
#include "router/router.h"
#include "router/stops.h"
#include "router/stream.h"

#define TOKENS_AT_GRANT 4096 /* room for so many of max_tokens */
#define TOKENS_START    64

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

    request_id_format(q->generation->id, id);
    sm_check(request_rows, q->state, to, "request", id);
    q->state = to;
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

void request_init(struct router_core *r, struct request *q,
                  struct generation *g, uint32_t c)
{
    q->generation = g;
    q->choice = c;
    q->number = ++r->last_number;
    q->lease.fire = lease_fire;
    list_init(&q->queue);
    list_init(&q->ready);
    list_init(&q->running);
    list_init(&q->parts);
    list_init(&q->removals);
    list_append(&r->all_requests, &q->all);
}

/* What only a request that owes something needs. */
static void release(struct request *q)
{
    free(q->detok);
    free(q->tokens);
    stops_free(&q->stops);
    logprob_columns_free(&q->logprobs);
    q->detok = NULL;
    q->tokens = NULL;
    q->tokens_size = 0;
}

void request_fini(struct router_core *r, struct request *q)
{
    assert(q->worker == NULL);
    event_clear(r, &q->lease);
    list_remove(&q->ready);
    list_remove(&q->all);
    release(q);
}

void request_settle(struct router_core *r, struct request *q)
{
    struct generation *g = q->generation;

    if (q->state == REQUEST_ENDED && !q->kept &&
        (q->last_sent || !pending_is_open(&g->call))) {
        release(q);
        generation_settle(r, g);
    }
}

void request_reserve(struct request *q, uint32_t n)
{
    uint32_t size = q->tokens_size == 0 ? TOKENS_START : q->tokens_size;
    uint32_t *tokens;

    if (n <= q->tokens_size) {
        return;
    }
    while (size < n) {
        size *= 2;
    }
    tokens = realloc(q->tokens, size * sizeof *tokens);
    assert(tokens != NULL);
    q->tokens = tokens;
    q->tokens_size = size;
}

/* A place in its model's queue is counted. */
static void waits(struct router_core *r, struct request *q)
{
    struct model *m = q->generation->model;

    request_move(q, REQUEST_WAITING);
    m->n_waiting++;
    r->n_waiting++;
    adoption_wanted(r, q);
    model_touch(r, m);
}

static void unqueue(struct router_core *r, struct request *q)
{
    struct model *m = q->generation->model;

    if (list_linked(&q->queue)) {
        list_remove(&q->queue);
        m->n_waiting--;
        r->n_waiting--;
        model_touch(r, m);
    }
}

void request_enqueue(struct router_core *r, struct request *q)
{
    stream_begin(r, q);
    if (stops_found(q->stops)) { /* in what its client came with */
        request_finish(r, q, SLUICE__V1__FINISH__FINISH_STOP);
        return;
    }
    list_append(&q->generation->model->waiting, &q->queue);
    waits(r, q);
}

void request_requeue(struct router_core *r, struct request *q)
{
    struct list *waiting = &q->generation->model->waiting;
    struct list *at = waiting->next;

    FP(ROUTER_REQUEUE);
    request_ungrant(r, q);
    while (at != waiting &&
           LIST_OF(at, struct request, queue)->number < q->number) {
        at = at->next;
    }
    if (!PLANT(REQUEUE_LOST)) {
        list_insert(at, &q->queue);
    }
    waits(r, q);
}

void request_granted(struct router_core *r, struct request *q, struct worker *w,
                     const struct need *need)
{
    unqueue(r, q);
    adoption_decided(r, q);
    q->adopting = false;
    request_move(q, REQUEST_SUBMITTED);
    q->worker = w;
    q->grant = place_grant(w, need);
    trial_granted(w, q);
    q->need = *need;
    q->held = place_sum(w, need);
    q->n_gaps = 0;
    q->removal = REMOVAL_NONE;
    if (q->granted_us == 0) {
        q->granted_us = r->now_us;
    }
    memcpy(q->worker_name, w->peer->name, sizeof q->worker_name);
    /* Now rather than by doubling while it streams. */
    request_reserve(q, q->generation->max_tokens < TOKENS_AT_GRANT
                           ? q->generation->max_tokens
                           : TOKENS_AT_GRANT);
    table_add(&w->grants, &q->by_grant, q->grant);
    list_append(&w->running, &q->running);
    place_more(w);
    r->metrics.grants++;
}

void request_ungrant(struct router_core *r, struct request *q)
{
    if (q->worker != NULL) {
        trial_left(r, q);
        table_remove(&q->worker->grants, &q->by_grant);
        list_remove(&q->running);
        list_remove(&q->parts);
        list_remove(&q->removals);
        q->moving = false;
        headroom_release(q);
        place_less(r, q->worker);
        q->worker = NULL;
        event_clear(r, &q->lease);
    }
}

/* With the last choice that could want it the prompt's text job is unwanted. */
static void end(struct router_core *r, struct request *q)
{
    struct generation *g = q->generation;

    unqueue(r, q);
    adoption_decided(r, q);
    headroom_release(q); /* what is kept would not move */
    request_move(q, REQUEST_ENDED);
    q->ended_us = r->now_us;
    trial_ended(r, q);
    g->n_open--;
    if (g->n_open == 0) {
        table_remove(&r->jobs, &g->by_tag);
    }
}

void request_finish(struct router_core *r, struct request *q,
                    Sluice__V1__Finish finish)
{
    if (q->stops != NULL && stops_end(q->stops, r->text)) {
        finish = SLUICE__V1__FINISH__FINISH_STOP;
        r->metrics.stop_strings++;
    }
    end(r, q);
    q->finish = finish;
    if (finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        r->metrics.cancelled++;
    } else {
        r->metrics.finished++;
    }
    if (q->granted_us != 0) {
        model_ended(r, q->generation->model);
    }
    stream_ready(r, q);
    request_settle(r, q);
}

void request_had(struct router_core *r, struct request *q)
{
    end(r, q);
    q->last_sent = true;
    q->generation->n_unsent--;
}

void request_fail(struct router_core *r, struct request *q,
                  const struct error *e, uint32_t retry_after_ms)
{
    struct generation *g = q->generation;

    stream_rest(r, g);
    end(r, q);
    q->finish = SLUICE__V1__FINISH__FINISH_FAILED;
    r->metrics.failed++;
    pending_fail(r, &g->call, e, retry_after_ms);
    generation_cancel(r, g, SLUICE__V1__CANCEL_REASON__CANCEL_CHOICE_FAILED);
}

void request_refuse(struct router_core *r, struct request *q)
{
    list_remove(&q->ready);
    if (q->state != REQUEST_ENDED) {
        end(r, q);
    }
}

void request_abandon(struct router_core *r, struct request *q)
{
    request_ungrant(r, q);
    q->kept = false;
    if (q->state != REQUEST_ENDED) {
        r->metrics.failed++;
        end(r, q);
    }
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
                  why, q->generation->model->name);
    }
    request_fail(r, q, &e, RETRY_MS_MIN);
}

static void moves(struct router_core *r, struct request *q)
{
    q->n_moves++;
    place_moved(q->worker);
    r->metrics.moved++;
    request_requeue(r, q);
}

void request_displaced(struct router_core *r, struct request *q,
                       const char *why)
{
    const struct generation *g = q->generation;

    if (q->state == REQUEST_ENDED || q->state == REQUEST_ENDING) {
        removal_answer_self(r, q); /* what its worker held is gone */
    } else if (q->n_generated == g->max_tokens && q->n_generated > q->n_had) {
        request_ungrant(r, q);
        request_finish(r, q, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (trial_indicted(q)) {
        trial_indict(r, q, why);
    } else if (!model_waits(g->model) || ++q->n_idle_moves > IDLE_MOVES_MAX) {
        request_ungrant(r, q);
        fail_lost(r, q, q->worker_name, why);
    } else {
        moves(r, q);
    }
}

void request_moved(struct router_core *r, struct request *q)
{
    const struct generation *g = q->generation;
    struct error e;

    if (q->n_generated == g->max_tokens && q->n_generated > q->n_had) {
        request_ungrant(r, q);
        request_finish(r, q, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (admission_possible(r, g, &e) != ST_OK) {
        request_ungrant(r, q);
        error_wrap(&e, "worker %s let go of it", q->worker_name);
        request_fail(r, q, &e, admission_retry_ms(&e));
    } else {
        moves(r, q);
    }
}

/* In two walks: one that fails takes its other choices out of the queue. */
static void fail_waiting(struct router_core *r, struct list *doomed,
                         enum status (*why)(struct router_core *r,
                                            const struct generation *g,
                                            struct error *e))
{
    struct error e;

    while (!list_empty(doomed)) {
        struct request *q = LIST_OF(doomed->next, struct request, queue);

        (void)!why(r, q->generation, &e);
        request_fail(r, q, &e, resume_retry_ms(q->generation, &e));
    }
}

static void doom(struct request *q, struct list *doomed)
{
    list_remove(&q->queue);
    list_append(doomed, &q->queue);
}

void requests_recheck(struct router_core *r, struct model *m)
{
    struct list *at = m->waiting.next;
    struct list doomed;
    struct error e;

    list_init(&doomed);
    while (at != &m->waiting) {
        struct request *q = LIST_OF(at, struct request, queue);

        at = at->next;
        if (admission_possible(r, q->generation, &e) != ST_OK) {
            doom(q, &doomed);
        }
    }
    fail_waiting(r, &doomed, admission_possible);
}

static enum status estranged(struct router_core *r, const struct generation *g,
                             struct error *e)
{
    (void)r;
    return error_set(e, ST_ABORTED, "model %s came back with other weights",
                     g->model->name);
}

void requests_estranged(struct router_core *r, struct model *m, bool all)
{
    struct list *at = m->waiting.next;
    struct list doomed;

    list_init(&doomed);
    while (at != &m->waiting) {
        struct request *q = LIST_OF(at, struct request, queue);

        at = at->next;
        if (all || q->n_generated > 0) {
            doom(q, &doomed);
        }
    }
    fail_waiting(r, &doomed, estranged);
}
