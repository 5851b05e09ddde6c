#include "router/requests/choice_life.h"

#include <string.h>

#include "common/base/failpoint.h"
#include "router/replicas/place.h"
#include "router/requests/adoption.h"
#include "router/requests/continuation.h"
#include "router/requests/ranges.h"
#include "router/requests/request_end.h"
#include "router/requests/request_log.h"
#include "router/requests/stops.h"
#include "router/requests/stream.h"
#include "router/schedule/overcommit.h"
#include "router/schedule/policy.h"

#define TOKENS_AT_GRANT 4096 /* most tokens reserved at the grant */

static void lease_fire(void *room, struct event *e)
{
    struct requests *r = room;
    struct choice *choice = EVENT_OF(e, struct choice, lease);

    if (choice->removal == REMOVAL_NONE) { /* else a receipt will follow */
        choice->kept = false;
        choice_ungrant(r, choice);
        choice_settle(r, choice);
    }
}

void choice_wait(struct requests *r, struct choice *choice)
{
    choice_move(choice, CHOICE_WAITING);
    choice->entry.n_generated = choice->n_generated;
    adoption_wanted(r, choice);
    model_touch(r->fleet, choice->request->model);
}

void choice_requeue(struct requests *r, struct choice *choice)
{
    FP(ROUTER_REQUEUE);
    choice_ungrant(r, choice);
    queue_return(r->schedule, &choice->entry);
    choice_wait(r, choice);
}

void choice_granted(struct requests *r, struct choice *choice, struct worker *w,
                    const struct need *need)
{
    queue_remove(r->schedule, &choice->entry);
    adoption_decided(r, choice);
    choice->adopting = choice->continuing = false;
    choice_move(choice, CHOICE_SUBMITTED);
    choice->worker = w;
    choice->grant = place_grant(w, need);
    trial_granted(w, &choice->entry, choice->n_generated);
    choice->entry.ran = true;
    choice->need = choice->entry.claim.most;
    choice->held = place_sum(w, &choice->need);
    choice->suspended = choice->released = false;
    choice->n_gaps = 0;
    choice->n_reused = 0;
    choice->row_at = 0;
    choice->removal = REMOVAL_NONE;
    /* The client measures queueing until the first grant, not until a move. */
    if (choice->granted_us == 0) {
        choice->granted_us = r->base->now_us;
        metric_time(&r->base->times.queue,
                    choice->granted_us - choice->request->arrived_us);
    }
    memcpy(choice->worker_name, w->peer->name, sizeof choice->worker_name);
    /* Reserve now, so that streaming rarely reallocates. */
    choice_reserve(choice, choice->request->max_tokens < TOKENS_AT_GRANT
                               ? choice->request->max_tokens
                               : TOKENS_AT_GRANT);
    table_add(&w->grants, &choice->by_grant, choice->grant);
    list_append(&w->running, &choice->running);
    place_more(w);
    r->base->metrics.grants++;
}

void choice_ungrant(struct requests *r, struct choice *choice)
{
    if (choice->worker != NULL) {
        trial_left(r->schedule, &choice->entry);
        table_remove(&choice->worker->grants, &choice->by_grant);
        list_remove(&choice->running);
        list_remove(&choice->parts);
        list_remove(&choice->removals);
        choice->moving = false;
        range_over(r, choice);
        continuation_lost(r, choice);
        r->schedule->policy->release(&choice->entry);
        place_less(r->replicas, choice->worker);
        choice->worker = NULL;
        event_clear(r->base, &choice->lease);
    }
}

/* Adds the length of a choice that ends to what is learned of its model.  One
 * that had tokens when its client resumed it counts with all of them. */
static void learn(struct requests *r, const struct choice *choice,
                  bool by_itself)
{
    if (choice->granted_us != 0) {
        overcommit_learn(r->schedule, &choice->entry, choice->n_generated,
                         by_itself);
    }
}

/* Moves choice to ENDED.  With the last open choice of the request, the text
 * job of its prompt is no longer needed. */
static void end_choice(struct requests *r, struct choice *choice)
{
    struct request *request = choice->request;

    queue_remove(r->schedule, &choice->entry);
    adoption_decided(r, choice);
    r->schedule->policy->release(&choice->entry);
    choice_move(choice, CHOICE_ENDED);
    choice->ended_us = r->base->now_us;
    trial_ended(r->schedule, &choice->entry);
    request->n_open--;
    if (request->n_open == 0) {
        continuation_drop(request);
        table_remove(&r->jobs, &request->by_tag);
    }
}

/* Counts a choice that ended by a stop or its length.  Tokens that its client
 * resumed with were made before first_us. */
static void count_finished(struct router_base *b, const struct choice *choice)
{
    const struct request *request = choice->request;
    uint32_t n = choice->n_generated - choice->n_client_has;

    b->metrics.finished++;
    if (choice->first_us != 0 && n > 1) {
        metric_time(&b->times.token,
                    (choice->ended_us - choice->first_us) / (n - 1));
    }
    metric_time(&b->times.choice, choice->ended_us - request->arrived_us);
    metric_size(&b->times.choice_prompt_tokens, request->n_prompt);
    metric_size(&b->times.choice_tokens, choice->n_generated);
}

void choice_finish(struct requests *r, struct choice *choice,
                   Sluice__V1__Finish finish)
{
    /* Bytes held back of an incomplete character may complete a stop string. */
    if (choice->stops != NULL && stops_end(choice->stops, r->text)) {
        finish = SLUICE__V1__FINISH__FINISH_STOP;
        r->base->metrics.stop_strings++;
    }
    learn(r, choice, finish != SLUICE__V1__FINISH__FINISH_CANCELLED);
    end_choice(r, choice);
    choice->finish = finish;
    if (finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        r->base->metrics.cancelled++;
    } else {
        count_finished(r->base, choice);
    }
    /* Only choices that ran show how fast the model's queue moves. */
    if (choice->granted_us != 0) {
        model_ended(r->fleet, choice->request->model);
    }
    stream_ready(r, choice);
    choice_settle(r, choice);
}

void choice_end_silent(struct requests *r, struct choice *choice)
{
    end_choice(r, choice);
    choice->last_sent = true;
    choice->request->n_unsent--;
}

void choice_fail(struct requests *r, struct choice *choice,
                 const struct error *e, uint32_t retry_after_ms)
{
    struct request *request = choice->request;

    /* The error ends the call, so tokens not sent by now are lost. */
    stream_rest(r, request);
    learn(r, choice, false);
    end_choice(r, choice);
    choice->finish = SLUICE__V1__FINISH__FINISH_FAILED;
    r->base->metrics.failed++;
    request_log_end(r, request, e);
    pending_fail(r->fleet, &request->call, e, retry_after_ms);
    request_cancel(r, request, SLUICE__V1__CANCEL_REASON__CANCEL_CHOICE_FAILED);
}

void choice_refuse(struct requests *r, struct choice *choice)
{
    list_remove(&choice->ready);
    if (choice->state != CHOICE_ENDED) {
        end_choice(r, choice);
    }
}

void choice_abandon(struct requests *r, struct choice *choice)
{
    choice_ungrant(r, choice);
    choice->kept = false;
    if (choice->state != CHOICE_ENDED) {
        r->base->metrics.failed++;
        end_choice(r, choice);
    }
}

void choice_keep(struct requests *r, struct choice *choice)
{
    /* The worker's lease began earlier; one second more makes sure that it ends
     * before ours. */
    choice->kept = true;
    event_init(&choice->lease, lease_fire, r);
    event_set(r->base, &choice->lease,
              r->base->now_us +
                  ((int64_t)choice->request->keep_ms + 1000) * 1000);
}
