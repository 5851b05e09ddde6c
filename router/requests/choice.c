#include "router/requests/choice.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/plant.h"
#include "common/base/state_machine.h"
#include "common/wire/request_id.h"
#include "router/replicas/place.h"
#include "router/requests/adoption.h"
#include "router/requests/logprob_columns.h"
#include "router/requests/request.h"
#include "router/requests/resume.h"
#include "router/requests/stops.h"
#include "router/requests/stream.h"
#include "router/router_state.h"
#include "router/schedule/admission.h"
#include "router/schedule/headroom.h"

#define TOKENS_AT_GRANT 4096 /* room for so many of max_tokens */
#define TOKENS_START    64

/* A request as the router sees it: the picture is in core.h. */
static const struct sm_row request_rows[CHOICE_STATES] = {
    [CHOICE_ENCODING] = {"encoding",
                         SM_TO(CHOICE_WAITING) | SM_TO(CHOICE_ENDED)},
    [CHOICE_WAITING] = {"waiting",
                        SM_TO(CHOICE_SUBMITTED) | SM_TO(CHOICE_ENDED)},
    [CHOICE_SUBMITTED] = {"submitted",
                          SM_TO(CHOICE_PREFILL) | SM_TO(CHOICE_WAITING) |
                              SM_TO(CHOICE_ENDING) | SM_TO(CHOICE_ENDED)},
    [CHOICE_PREFILL] = {"prefill",
                        SM_TO(CHOICE_DECODE) | SM_TO(CHOICE_WAITING) |
                            SM_TO(CHOICE_ENDING) | SM_TO(CHOICE_ENDED)},
    [CHOICE_DECODE] = {"decode", SM_TO(CHOICE_WAITING) | SM_TO(CHOICE_ENDING) |
                                     SM_TO(CHOICE_ENDED)},
    [CHOICE_ENDING] = {"ending", SM_TO(CHOICE_ENDED)},
    [CHOICE_ENDED] = {"ended", 0},
};

const char *choice_state_name(enum choice_state s)
{
    return request_rows[s].name;
}

void choice_move(struct choice *choice, enum choice_state to)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    sm_check(request_rows, choice->state, to, "request", id);
    choice->state = to;
}

static void lease_fire(struct router_core *r, struct event *e)
{
    struct choice *choice = EVENT_OF(e, struct choice, lease);

    if (choice->removal == REMOVAL_NONE) { /* else a receipt is on its way */
        choice->kept = false;
        choice_ungrant(r, choice);
        choice_settle(r, choice);
    }
}

void choice_init(struct router_core *r, struct choice *choice,
                 struct request *request, uint32_t c)
{
    choice->request = request;
    choice->index = c;
    choice->number = ++r->last_number;
    choice->lease.fire = lease_fire;
    list_init(&choice->queue);
    list_init(&choice->ready);
    list_init(&choice->running);
    list_init(&choice->parts);
    list_init(&choice->removals);
    list_append(&r->all_choices, &choice->all);
}

/* What only a request that owes something needs. */
static void release(struct choice *choice)
{
    free(choice->detok);
    free(choice->tokens);
    stops_free(&choice->stops);
    logprob_columns_free(&choice->logprobs);
    choice->detok = NULL;
    choice->tokens = NULL;
    choice->tokens_size = 0;
}

void choice_fini(struct router_core *r, struct choice *choice)
{
    assert(choice->worker == NULL);
    event_clear(r, &choice->lease);
    list_remove(&choice->ready);
    list_remove(&choice->all);
    release(choice);
}

void choice_settle(struct router_core *r, struct choice *choice)
{
    struct request *request = choice->request;

    if (choice->state == CHOICE_ENDED && !choice->kept &&
        (choice->last_sent || !pending_is_open(&request->call))) {
        release(choice);
        request_settle(r, request);
    }
}

void choice_reserve(struct choice *choice, uint32_t n)
{
    uint32_t size =
        choice->tokens_size == 0 ? TOKENS_START : choice->tokens_size;
    uint32_t *tokens;

    if (n <= choice->tokens_size) {
        return;
    }
    while (size < n) {
        size *= 2;
    }
    tokens = realloc(choice->tokens, size * sizeof *tokens);
    assert(tokens != NULL);
    choice->tokens = tokens;
    choice->tokens_size = size;
}

/* A place in its model's queue is counted. */
static void waits(struct router_core *r, struct choice *choice)
{
    struct model *m = choice->request->model;

    choice_move(choice, CHOICE_WAITING);
    m->n_waiting++;
    r->n_waiting++;
    adoption_wanted(r, choice);
    model_touch(r, m);
}

static void unqueue(struct router_core *r, struct choice *choice)
{
    struct model *m = choice->request->model;

    if (list_linked(&choice->queue)) {
        list_remove(&choice->queue);
        m->n_waiting--;
        r->n_waiting--;
        model_touch(r, m);
    }
}

void choice_enqueue(struct router_core *r, struct choice *choice)
{
    stream_begin(r, choice);
    if (stops_found(choice->stops)) { /* in what its client came with */
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_STOP);
        return;
    }
    list_append(&choice->request->model->waiting, &choice->queue);
    waits(r, choice);
}

void choice_requeue(struct router_core *r, struct choice *choice)
{
    struct list *waiting = &choice->request->model->waiting;
    struct list *at = waiting->next;

    FP(ROUTER_REQUEUE);
    choice_ungrant(r, choice);
    while (at != waiting &&
           LIST_OF(at, struct choice, queue)->number < choice->number) {
        at = at->next;
    }
    if (!PLANT(REQUEUE_LOST)) {
        list_insert(at, &choice->queue);
    }
    waits(r, choice);
}

void choice_granted(struct router_core *r, struct choice *choice,
                    struct worker *w, const struct need *need)
{
    unqueue(r, choice);
    adoption_decided(r, choice);
    choice->adopting = false;
    choice_move(choice, CHOICE_SUBMITTED);
    choice->worker = w;
    choice->grant = place_grant(w, need);
    trial_granted(w, choice);
    choice->need = *need;
    choice->held = place_sum(w, need);
    choice->n_gaps = 0;
    choice->removal = REMOVAL_NONE;
    if (choice->granted_us == 0) {
        choice->granted_us = r->now_us;
    }
    memcpy(choice->worker_name, w->peer->name, sizeof choice->worker_name);
    /* Now rather than by doubling while it streams. */
    choice_reserve(choice, choice->request->max_tokens < TOKENS_AT_GRANT
                               ? choice->request->max_tokens
                               : TOKENS_AT_GRANT);
    table_add(&w->grants, &choice->by_grant, choice->grant);
    list_append(&w->running, &choice->running);
    place_more(w);
    r->metrics.grants++;
}

void choice_ungrant(struct router_core *r, struct choice *choice)
{
    if (choice->worker != NULL) {
        trial_left(r, choice);
        table_remove(&choice->worker->grants, &choice->by_grant);
        list_remove(&choice->running);
        list_remove(&choice->parts);
        list_remove(&choice->removals);
        choice->moving = false;
        headroom_release(choice);
        place_less(r, choice->worker);
        choice->worker = NULL;
        event_clear(r, &choice->lease);
    }
}

/* With the last choice that could want it the prompt's text job is unwanted. */
static void end(struct router_core *r, struct choice *choice)
{
    struct request *request = choice->request;

    unqueue(r, choice);
    adoption_decided(r, choice);
    headroom_release(choice); /* what is kept would not move */
    choice_move(choice, CHOICE_ENDED);
    choice->ended_us = r->now_us;
    trial_ended(r, choice);
    request->n_open--;
    if (request->n_open == 0) {
        table_remove(&r->jobs, &request->by_tag);
    }
}

void choice_finish(struct router_core *r, struct choice *choice,
                   Sluice__V1__Finish finish)
{
    if (choice->stops != NULL && stops_end(choice->stops, r->text)) {
        finish = SLUICE__V1__FINISH__FINISH_STOP;
        r->metrics.stop_strings++;
    }
    end(r, choice);
    choice->finish = finish;
    if (finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        r->metrics.cancelled++;
    } else {
        r->metrics.finished++;
    }
    if (choice->granted_us != 0) {
        model_ended(r, choice->request->model);
    }
    stream_ready(r, choice);
    choice_settle(r, choice);
}

void choice_had(struct router_core *r, struct choice *choice)
{
    end(r, choice);
    choice->last_sent = true;
    choice->request->n_unsent--;
}

void choice_fail(struct router_core *r, struct choice *choice,
                 const struct error *e, uint32_t retry_after_ms)
{
    struct request *request = choice->request;

    stream_rest(r, request);
    end(r, choice);
    choice->finish = SLUICE__V1__FINISH__FINISH_FAILED;
    r->metrics.failed++;
    pending_fail(r, &request->call, e, retry_after_ms);
    request_cancel(r, request, SLUICE__V1__CANCEL_REASON__CANCEL_CHOICE_FAILED);
}

void choice_refuse(struct router_core *r, struct choice *choice)
{
    list_remove(&choice->ready);
    if (choice->state != CHOICE_ENDED) {
        end(r, choice);
    }
}

void choice_abandon(struct router_core *r, struct choice *choice)
{
    choice_ungrant(r, choice);
    choice->kept = false;
    if (choice->state != CHOICE_ENDED) {
        r->metrics.failed++;
        end(r, choice);
    }
}

static void fail_lost(struct router_core *r, struct choice *choice,
                      const char *worker, const char *why)
{
    struct error e;

    if (choice->n_idle_moves > IDLE_MOVES_MAX) {
        error_set(&e, ST_ABORTED,
                  "%u workers in a row were lost with it, the last was %s: %s",
                  choice->n_idle_moves, worker, why);
    } else {
        error_set(&e, ST_UNAVAILABLE,
                  "worker %s was lost (%s) and no other has model %s", worker,
                  why, choice->request->model->name);
    }
    choice_fail(r, choice, &e, RETRY_MS_MIN);
}

static void moves(struct router_core *r, struct choice *choice)
{
    choice->n_moves++;
    place_moved(choice->worker);
    r->metrics.moved++;
    choice_requeue(r, choice);
}

void choice_displaced(struct router_core *r, struct choice *choice,
                      const char *why)
{
    const struct request *request = choice->request;

    if (choice->state == CHOICE_ENDED || choice->state == CHOICE_ENDING) {
        removal_answer_self(r, choice); /* what its worker held is gone */
    } else if (choice->n_generated == request->max_tokens &&
               choice->n_generated > choice->n_had) {
        choice_ungrant(r, choice);
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (trial_indicted(choice)) {
        trial_indict(r, choice, why);
    } else if (!model_waits(request->model) ||
               ++choice->n_idle_moves > IDLE_MOVES_MAX) {
        choice_ungrant(r, choice);
        fail_lost(r, choice, choice->worker_name, why);
    } else {
        moves(r, choice);
    }
}

void choice_moved(struct router_core *r, struct choice *choice)
{
    const struct request *request = choice->request;
    struct error e;

    if (choice->n_generated == request->max_tokens &&
        choice->n_generated > choice->n_had) {
        choice_ungrant(r, choice);
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_LENGTH);
    } else if (admission_possible(r, request, &e) != ST_OK) {
        choice_ungrant(r, choice);
        error_wrap(&e, "worker %s let go of it", choice->worker_name);
        choice_fail(r, choice, &e, admission_retry_ms(&e));
    } else {
        moves(r, choice);
    }
}

/* In two walks: one that fails takes its other choices out of the queue. */
static void fail_waiting(struct router_core *r, struct list *doomed,
                         enum status (*why)(struct router_core *r,
                                            const struct request *request,
                                            struct error *e))
{
    struct error e;

    while (!list_empty(doomed)) {
        struct choice *choice = LIST_OF(doomed->next, struct choice, queue);

        (void)!why(r, choice->request, &e);
        choice_fail(r, choice, &e, resume_retry_ms(choice->request, &e));
    }
}

static void doom(struct choice *choice, struct list *doomed)
{
    list_remove(&choice->queue);
    list_append(doomed, &choice->queue);
}

void choices_recheck(struct router_core *r, struct model *m)
{
    struct list *at = m->waiting.next;
    struct list doomed;
    struct error e;

    list_init(&doomed);
    while (at != &m->waiting) {
        struct choice *choice = LIST_OF(at, struct choice, queue);

        at = at->next;
        if (admission_possible(r, choice->request, &e) != ST_OK) {
            doom(choice, &doomed);
        }
    }
    fail_waiting(r, &doomed, admission_possible);
}

static enum status estranged(struct router_core *r,
                             const struct request *request, struct error *e)
{
    (void)r;
    return error_set(e, ST_ABORTED, "model %s came back with other weights",
                     request->model->name);
}

void choices_estranged(struct router_core *r, struct model *m, bool all)
{
    struct list *at = m->waiting.next;
    struct list doomed;

    list_init(&doomed);
    while (at != &m->waiting) {
        struct choice *choice = LIST_OF(at, struct choice, queue);

        at = at->next;
        if (all || choice->n_generated > 0) {
            doom(choice, &doomed);
        }
    }
    fail_waiting(r, &doomed, estranged);
}
