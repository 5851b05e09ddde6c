#include "router/requests/choice_life.h"

#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/plant.h"
#include "router/placement/adoption.h"
#include "router/replicas/place.h"
#include "router/requests/continuation.h"
#include "router/requests/leases.h"
#include "router/requests/progress.h"
#include "router/requests/ranges.h"
#include "router/requests/request_end.h"
#include "router/requests/request_log.h"
#include "router/requests/request_record.h"
#include "router/requests/stops.h"
#include "router/requests/stream.h"
#include "router/schedule/claims.h"
#include "router/schedule/policy.h"
#include "router/schedule/quota.h"

#define TOKENS_AT_GRANT 4096 /* most tokens reserved at the grant */

void choice_wait(struct requests *r, struct choice *choice)
{
    choice_move(choice, CHOICE_WAITING);
    adoption_wanted(r->placement, choice->request->id, choice->index,
                    choice->request->model);
    model_touch(r->fleet, choice->request->model);
}

void choice_requeue(struct requests *r, struct choice *choice)
{
    FP(ROUTER_REQUEUE);
    choice_ungrant(r, choice);
    choice->entry.n_generated = choice->out.n_generated;
    queue_return(r->schedule, &choice->entry);
    choice_wait(r, choice);
}

static void count_queued(struct router_base *b, const struct choice *choice)
{
    int64_t us = choice->figures.granted_us - choice->request->arrived_us;

    metric_time(&b->times.queue, us);
    metric_time(&model_figures(b, choice->request->model)->model_queue, us);
}

void choice_granted(struct requests *r, struct choice *choice, struct worker *w,
                    const struct need *need)
{
    queue_remove(r->schedule, &choice->entry);
    adoption_decided(r->placement, choice->request->id, choice->index);
    choice_move(choice, CHOICE_SUBMITTED);
    choice->grant.worker = w;
    choice->grant.number = place_grant(w, need);
    trial_granted(w, &choice->entry.trial, choice->out.n_generated);
    choice->entry.ran = true;
    choice->grant.need = choice->entry.claim.most;
    choice->grant.held = place_sum(w, &choice->grant.need);
    choice_grant_move(choice, GRANT_RUNS);
    choice->grant.n_gaps = 0;
    choice->grant.n_reused = 0;
    choice->row.at = 0;
    /* The client measures queueing until the first grant, not until a move. */
    if (choice->figures.granted_us == 0) {
        request_granted(choice->request);
        choice->figures.granted_us = r->base->now_us;
        count_queued(r->base, choice);
    }
    memcpy(choice->grant.worker_name, w->peer->name,
           sizeof choice->grant.worker_name);
    /* Reserve now, so that streaming rarely reallocates. */
    (void)!choice_reserve(choice, choice->request->max_tokens < TOKENS_AT_GRANT
                                      ? choice->request->max_tokens
                                      : TOKENS_AT_GRANT);
    table_add(&choices_of(w)->by_grant, &choice->grant.by_number,
              choice->grant.number);
    list_append(&choices_of(w)->running, &choice->grant.running);
    progress_enter(r, choice);
    place_more(w);
    r->base->metrics.grants++;
    request_record_granted(r, choice);
}

/* Gives the quota of choice back, if it has ended and its memory is free. */
static void settle_quota(struct requests *r, struct choice *choice)
{
    if (choice->state == CHOICE_ENDED && choice->grant.worker == NULL &&
        !PLANT(TENANT_CHARGED)) {
        quota_charge(r->schedule, &choice->entry, 0);
    }
}

void choice_ungrant(struct requests *r, struct choice *choice)
{
    if (choice->grant.worker != NULL) {
        progress_leave(choice);
        trial_left(r->placement, &choice->entry.trial);
        table_remove(&choices_of(choice->grant.worker)->by_grant,
                     &choice->grant.by_number);
        list_remove(&choice->grant.running);
        list_remove(&choice->submit.parts);
        list_remove(&choice->removal.unsent);
        range_over(r, choice);
        continuation_lost(r, choice);
        r->schedule->policy->release(&choice->entry);
        place_less(r->replicas, choice->grant.worker);
        choice_parts_ungrant(choice);
        lease_ungranted(r, choice);
        settle_quota(r, choice);
    }
}

/* Adds the length of a choice that ends to what is learned of its model.  One
 * that had tokens when its client resumed it counts with all of them. */
static void learn(struct requests *r, struct choice *choice, bool by_itself)
{
    if (choice->figures.granted_us != 0) {
        claim_learn(r->schedule, &choice->entry, choice->out.n_generated,
                    by_itself);
    } else {
        claim_dropped(&choice->entry);
    }
}

/* Moves choice to ENDED.  With the last open choice of the request, the text
 * job of its prompt is no longer needed. */
static void end_choice(struct requests *r, struct choice *choice)
{
    struct request *request = choice->request;

    queue_remove(r->schedule, &choice->entry);
    adoption_decided(r->placement, choice->request->id, choice->index);
    r->schedule->policy->release(&choice->entry);
    choice_move(choice, CHOICE_ENDED);
    settle_quota(r, choice);
    choice->figures.ended_us = r->base->now_us;
    trial_ended(r->placement, &choice->entry.trial);
    request->n_open--;
    if (request->n_open == 0) {
        request_granted(request);
        continuation_drop(request);
        table_remove(&r->jobs, &request->by_tag);
    }
}

/* Counts a choice that ended by a stop or its length.  Tokens that its client
 * resumed with were made before first_us. */
static void count_finished(struct router_base *b, const struct choice *choice)
{
    const struct request *request = choice->request;
    struct router_models *f = model_figures(b, request->model);
    uint32_t n = choice->out.n_generated - choice->out.n_client_has;
    int64_t total_us = choice->figures.ended_us - request->arrived_us;

    b->metrics.finished++;
    f->model_finished++;
    if (choice->figures.first_us != 0 && n > 1) {
        int64_t us =
            (choice->figures.ended_us - choice->figures.first_us) / (n - 1);

        metric_time(&b->times.token, us);
        metric_time(&f->model_token, us);
    }
    metric_time(&b->times.choice, total_us);
    metric_time(&f->model_choice, total_us);
    metric_size(&b->times.choice_prompt_tokens, request->prompt.n);
    metric_size(&b->times.choice_tokens, choice->out.n_generated);
}

static void count_failed(struct router_base *b, const struct choice *choice)
{
    b->metrics.failed++;
    model_figures(b, choice->request->model)->model_failed++;
}

static enum record_end record_end_of(Sluice__V1__Finish finish)
{
    switch (finish) {
    case SLUICE__V1__FINISH__FINISH_STOP:
        return RECORD_STOP;
    case SLUICE__V1__FINISH__FINISH_LENGTH:
        return RECORD_LENGTH;
    default:
        return RECORD_CANCELLED;
    }
}

void choice_finish(struct requests *r, struct choice *choice,
                   Sluice__V1__Finish finish)
{
    /* Bytes held back of an incomplete character may complete a stop string. */
    if (choice->text.stops != NULL && stops_end(choice->text.stops, r->text)) {
        finish = SLUICE__V1__FINISH__FINISH_STOP;
        r->base->metrics.stop_strings++;
    }
    learn(r, choice, finish == SLUICE__V1__FINISH__FINISH_STOP);
    end_choice(r, choice);
    choice->finish = finish;
    if (finish == SLUICE__V1__FINISH__FINISH_CANCELLED) {
        r->base->metrics.cancelled++;
    } else {
        count_finished(r->base, choice);
    }
    /* Only choices that ran show how fast the model's queue moves. */
    if (choice->figures.granted_us != 0) {
        model_ended(r->fleet, choice->request->model);
    }
    request_record_end(r, choice, record_end_of(finish));
    stream_ready(r, choice);
    choice_settle(r, choice);
}

void choice_end_silent(struct requests *r, struct choice *choice)
{
    end_choice(r, choice);
    choice_output_move(choice, OUTPUT_CLOSED);
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
    request_record_end(r, choice, RECORD_FAILED);
    count_failed(r->base, choice);
    request_log_end(r, request, e);
    pending_fail(r->fleet, &request->call, e, retry_after_ms);
    request_cancel(r, request, SLUICE__V1__CANCEL_REASON__CANCEL_CHOICE_FAILED);
}

void choice_refuse(struct requests *r, struct choice *choice)
{
    list_remove(&choice->out.ready);
    if (choice->state != CHOICE_ENDED) {
        end_choice(r, choice);
    }
}

void choice_abandon(struct requests *r, struct choice *choice)
{
    choice_ungrant(r, choice);
    if (choice->state != CHOICE_ENDED) {
        count_failed(r->base, choice);
        end_choice(r, choice);
    }
}

void choice_keep(struct requests *r, struct choice *choice)
{
    choice_grant_move(choice, GRANT_KEPT);
    lease_begin(r, choice);
}
