#include "router/requests/request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/request_id.h"
#include "router/requests/resume.h"
#include "router/requests/stream.h"
#include "router/router_state.h"
#include "router/schedule/admission.h"
#include "text/stop_strings.h"

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
        struct request *request = LIST_OF(at, struct request, by_id);
        if (memcmp(request->id, id, 16) == 0) {
            return request;
        }
    }
    return NULL;
}

struct request *request_new(struct router_core *r, const uint8_t id[16],
                            struct model *m, uint32_t n)
{
    struct request *request =
        calloc(1, sizeof *request + n * sizeof request->choices[0]);

    assert(request != NULL && n >= 1 && n <= CHOICES_MAX);
    memcpy(request->id, id, 16);
    request->model = m;
    request->arrived_us = r->now_us;
    pending_init(&request->call);
    list_init(&request->waiters);
    request->n_choices = request->n_open = request->n_unsent = n;
    for (uint32_t c = 0; c < n; c++) {
        choice_init(r, &request->choices[c], request, c);
    }
    table_add(&r->requests, &request->by_id, id_key(r, id));
    r->n_choices += n;
    return request;
}

static void request_free(struct router_core *r, struct request *request)
{
    assert(request->n_open == 0 && list_empty(&request->waiters));
    pending_close(r, &request->call);
    table_remove(&r->requests, &request->by_id);
    table_remove(&r->jobs, &request->by_tag);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_fini(r, &request->choices[c]);
    }
    r->n_choices -= request->n_choices;
    model_release(r, &request->model);
    stop_strings_free(&request->stop_strings);
    free(request->sampling_lists);
    free(request->prompt);
    free(request);
}

static bool is_over(const struct request *request)
{
    bool over = request->n_open == 0 && !pending_is_open(&request->call) &&
                list_empty(&request->waiters) && !request->held;

    for (uint32_t c = 0; over && c < request->n_choices; c++) {
        over = request->choices[c].worker == NULL;
    }
    return over;
}

void request_settle(struct router_core *r, struct request *request)
{
    if (is_over(request)) {
        request_free(r, request);
    }
}

void request_enqueue(struct router_core *r, struct request *request)
{
    struct error e;
    uint32_t retry_ms = 0;

    if (admission_check(r, request, &retry_ms, &e) != ST_OK ||
        resume_check_length(request, &e) != ST_OK) {
        request_refuse(r, request, &e,
                       retry_ms != 0 ? retry_ms : resume_retry_ms(request, &e));
        return;
    }
    resume_taken(r, request);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        if (request->choices[c].state == CHOICE_ENCODING) {
            choice_enqueue(r, &request->choices[c]);
        }
    }
}

void request_refuse(struct router_core *r, struct request *request,
                    const struct error *e, uint32_t retry_after_ms)
{
    r->metrics.refused++;
    pending_fail(r, &request->call, e, retry_after_ms);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_refuse(r, &request->choices[c]);
    }
    request_settle(r, request);
}

void request_cancel(struct router_core *r, struct request *request,
                    Sluice__V1__CancelReason reason)
{
    assert(!pending_is_open(&request->call) && !request->held);
    request->held = true;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        struct choice *choice = &request->choices[c];
        list_remove(&choice->ready);
        removal_wanted(r, choice, reason);
        choice_settle(r, choice);
    }
    request->held = false;
    request_settle(r, request);
}

void request_release(struct router_core *r, struct request *request)
{
    assert(!request->held);
    request->held = true;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        removal_release(r, &request->choices[c]);
    }
    request->held = false;
    request_settle(r, request);
}

static void abandon(struct router_core *r, struct request *request,
                    const struct error *e)
{
    waiters_fail(r, request, e);
    pending_close(r, &request->call); /* the end of the session ends it */
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_abandon(r, &request->choices[c]);
    }
    request_free(r, request);
}

void requests_abandon(struct router_core *r, const struct error *e)
{
    while (!list_empty(&r->all_choices)) {
        abandon(r, LIST_OF(r->all_choices.next, struct choice, all)->request,
                e);
    }
}
