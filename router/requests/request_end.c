#include "router/requests/request_end.h"

#include <assert.h>

#include "router/requests/choice_life.h"
#include "router/requests/leases.h"
#include "router/requests/removal.h"
#include "router/requests/request_log.h"
#include "router/requests/request_record.h"

void request_refuse(struct requests *r, struct request *request,
                    const struct error *e, uint32_t retry_after_ms)
{
    base_refused(r->base, request->model->slot, e->code);
    request_log_request_refused(request, e);
    record_refused(r->base->options.recorder, r->base->now_us,
                   request->prompt.recorded, status_name(e->code));
    request->prompt.recorded = 0;
    request->logged = true;
    pending_fail(r->fleet, &request->call, e, retry_after_ms);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_refuse(r, &request->choices[c]);
    }
    request_settle(r, request);
}

void request_cancel(struct requests *r, struct request *request,
                    Sluice__V1__CancelReason reason)
{
    /* held: the last choice that settles would free the request in mid-loop. */
    assert(!pending_is_open(&request->call) && !request->held);
    request->held = true;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        struct choice *choice = &request->choices[c];
        list_remove(&choice->out.ready);
        removal_wanted(r, choice, reason);
        choice_settle(r, choice);
    }
    request->held = false;
    request_settle(r, request);
}

void request_release(struct requests *r, struct request *request)
{
    assert(!request->held);
    request->held = true;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        lease_end(r, &request->choices[c]);
        removal_release(r, &request->choices[c]);
    }
    request->held = false;
    request_settle(r, request);
}

static void request_abandon(struct requests *r, struct request *request,
                            const struct error *e)
{
    waiters_fail(r, request, e);
    request->logged = true; /* its client may continue it elsewhere */
    /* Without a status: the end of the session ends the call. */
    pending_close(r->fleet, &request->call);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_abandon(r, &request->choices[c]);
    }
    request_free(r, request);
}

void requests_abandon(struct requests *r, const struct error *e)
{
    while (!list_empty(&r->all_choices)) {
        request_abandon(
            r, LIST_OF(r->all_choices.next, struct choice, all)->request, e);
    }
}
