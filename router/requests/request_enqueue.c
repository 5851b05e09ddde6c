#include "router/requests/request_enqueue.h"

#include <inttypes.h>

#include "common/wire/hello.h"
#include "router/placement/placement.h"
#include "router/replicas/place.h"
#include "router/requests/choice_life.h"
#include "router/requests/continuation.h"
#include "router/requests/leases.h"
#include "router/requests/overdue.h"
#include "router/requests/request_end.h"
#include "router/requests/request_record.h"
#include "router/requests/resume.h"
#include "router/requests/stops.h"
#include "router/requests/stream.h"
#include "router/schedule/quota.h"
#include "router/schedule/retries.h"

static enum status check_ids(const struct request *request, struct error *e)
{
    for (uint32_t i = 0; i < request->prompt.n; i++) {
        if (request->prompt.ids[i] >= request->model->vocab) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "prompt: token %" PRIu32 " is %" PRIu32
                             ", but the vocabulary of %s has %" PRIu32
                             " tokens",
                             i, request->prompt.ids[i], request->model->name,
                             request->model->vocab);
        }
    }
    return ST_OK;
}

/* Checks prompt and max_tokens against the context. max_tokens is 0 if the
 * client sent none; it gets its default here because the default depends on the
 * prompt. */
static enum status check_length(struct request *request, struct error *e)
{
    uint32_t context = request->model->context;

    if (request->prompt.n == 0) {
        return error_set(e, ST_INVALID_ARGUMENT, "the prompt is empty");
    }
    if (request->prompt.n >= context) {
        return error_set(
            e, ST_INVALID_ARGUMENT,
            "the prompt has %" PRIu32 " tokens, but the context of "
            "%s is %" PRIu32 " and must also hold one new token; shorten the "
            "prompt",
            request->prompt.n, request->model->name, context);
    }
    if (request->max_tokens == 0) {
        uint32_t left = context - request->prompt.n;
        request->max_tokens =
            left < GENERATE_MAX_TOKENS ? left : GENERATE_MAX_TOKENS;
    }
    if (request_tokens(request) > context) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "prompt (%" PRIu32 ") and max_tokens (%" PRIu32
                         ") exceed the context of %s, %" PRIu32
                         " tokens; lower max_tokens or the prompt",
                         request->prompt.n, request->max_tokens,
                         request->model->name, context);
    }
    return ST_OK;
}

/* Refuses draws that no worker of the model can go on with.  Those of a kept
 * sequence begin at 0 there instead. */
static enum status check_draws(const struct fleet *f,
                               const struct request *request, struct error *e)
{
    bool old = false;

    if (!sampling_goes_on(&request->sampling) || request->prompt.draws_open) {
        return ST_OK;
    }
    for (uint32_t i = 0; i < f->n_workers; i++) {
        const struct worker *w = f->workers[i];

        if (w->model != request->model || !worker_can_serve(w)) {
            continue;
        }
        if (place_speaks(w, WIRE_DRAWS_MINOR)) {
            return ST_OK;
        }
        old = true;
    }
    if (!old) {
        return ST_OK; /* it waits for a worker */
    }
    return error_set(e, ST_FAILED_PRECONDITION,
                     "draw_index and draw_choice need workers of wire version "
                     "%d.%d, which %s has none of now; upgrade the workers, or "
                     "leave the fields out",
                     WIRE_VERSION_MAJOR, WIRE_DRAWS_MINOR,
                     request->model->name);
}

static enum status check(struct requests *r, struct request *request,
                         uint32_t *retry_after_ms, struct error *e)
{
    enum status st = ST_OK;

    if (!model_waits(request->model)) {
        *retry_after_ms = RETRY_MS_ABSENT;
        return admission_absent(request->model, e);
    }
    st = check_length(request, e);
    if (st == ST_OK) {
        st = check_ids(request, e);
    }
    if (st == ST_OK) {
        struct demand d = request_demand(request);

        st = admission_possible(r->fleet, &d, e);
        *retry_after_ms = st == ST_OK ? 0 : admission_retry_ms(e);
    }
    if (st == ST_OK) {
        st = check_draws(r->fleet, request, e);
    }
    if (st == ST_OK) {
        st = admission_queue(r->schedule, request->model, request->scope.tenant,
                             request->n_open, retry_after_ms, e);
    }
    if (st == ST_OK && !request->resumed && request->prompt.continues == NULL) {
        struct arrival a = request_arrival(request);

        st = overload_check(r->schedule, &a, retry_after_ms, e);
    }
    if (st == ST_OK && !request->resumed) {
        struct arrival a = request_arrival(request);

        st = leases_check_quota(r, &a, request->n_open, retry_after_ms, e);
    }
    return st;
}

/* n_tokens: what it occupies, by the lengths with which it was checked. */
static void enqueue_choice(struct requests *r, struct choice *choice,
                           uint64_t n_tokens)
{
    if (stops_found(choice->text.stops)) { /* in the tokens resumed with */
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_STOP);
        return;
    }
    choice->entry.n_tokens = request_tokens(choice->request);
    choice->entry.n_prompt = choice->request->prompt.n;
    choice->entry.n_generated = choice->out.n_generated;
    choice->entry.tenant = choice->request->scope.tenant;
    choice->entry.group.route = choice->request->scope.route;
    choice->entry.turn.tier = choice->request->scope.tier;
    choice->entry.guaranteed = choice->request->scope.guaranteed;
    choice->entry.uncached = choice->request->scope.uncached;
    quota_charge(r->schedule, &choice->entry, n_tokens);
    continuation_enqueue(choice);
    choice->entry.ran = choice->out.n_generated > 0;
    queue_add(r->schedule, &choice->entry);
    choice_wait(r, choice);
}

/* Hashes the prompt, once. */
static void hash_prompt(struct requests *r, struct request *request)
{
    uint8_t scope[PREFIX_SCOPE_MAX];
    size_t n =
        prefix_scope(scope, request->scope.tenant_name, request->scope.n_tenant,
                     request->scope.salt, request->scope.n_salt);

    if (request->scope.uncached || request->prompt.prefix.units != NULL) {
        return;
    }
    prefix_prompt_init(&request->prompt.prefix, &r->placement->feeds.key,
                       (ProtobufCBinaryData){n, scope}, request->prompt.ids,
                       request->prompt.n);
}

/* All choices, before one is queued: without memory the whole request is
 * refused. */
static enum status begin_streams(struct requests *r, struct request *request,
                                 struct error *e)
{
    for (uint32_t c = 0; c < request->n_choices; c++) {
        struct choice *choice = &request->choices[c];

        if (choice->state == CHOICE_ENCODING && !stream_begin(r, choice)) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             MEMORY_SENTENCE "the router has none left");
        }
    }
    return ST_OK;
}

static void refuse(struct requests *r, struct request *request,
                   uint32_t retry_ms, const struct error *e)
{
    struct arrival a = request_arrival(request);

    if (e->code == ST_RESOURCE_EXHAUSTED && retry_ms > 0) {
        retries_refused(r->schedule, &a, retry_ms);
    }
    request_refuse(r, request, e,
                   retry_ms != 0 ? retry_ms : request_retry_ms(request, e));
}

void request_enqueue(struct requests *r, struct request *request)
{
    struct error e;
    struct arrival a;
    uint64_t n_tokens;
    uint32_t retry_ms = 0;
    bool joined = continuation_join(request, &e) == ST_OK;

    if (r->base->options.recorder != NULL && joined && request->prompt.n > 0) {
        hash_prompt(r, request);
        request_record_arrival(r, request);
    }
    if (!joined || check(r, request, &retry_ms, &e) != ST_OK ||
        resume_check_length(request, &e) != ST_OK ||
        begin_streams(r, request, &e) != ST_OK) {
        refuse(r, request, retry_ms, &e);
        return;
    }
    a = request_arrival(request);
    retries_joined(r->schedule, &a);
    n_tokens = quota_tokens(r->schedule, &a);
    hash_prompt(r, request);
    resume_count(r, request);
    r->base->metrics.prompt_tokens += request->prompt.n;
    model_figures(r->base, request->model)->model_prompt_tokens +=
        request->prompt.n;
    r->base->tenants[request->scope.tenant].tenant_prompt_tokens +=
        request->prompt.n;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        /* The others were cancelled while the prompt was encoded, or had ended
         * when the request was resumed. */
        if (request->choices[c].state == CHOICE_ENCODING) {
            enqueue_choice(r, &request->choices[c], n_tokens);
        }
    }
    overdue_enqueued(r, request);
}
