#include "router/requests/request_end.h"

#include <assert.h>

#include "router/requests/choice_life.h"
#include "router/requests/removal.h"

void request_refuse(struct requests *r, struct request *request,
                    const struct error *e, uint32_t retry_after_ms)
{
    r->base->metrics.refused++;
    pending_fail(r->fleet, &request->call, e, retry_after_ms);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_refuse(r, &request->choices[c]);
    }
    request_settle(r, request);
}

void request_cancel(struct requests *r, struct request *request,
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

void request_release(struct requests *r, struct request *request)
{
    assert(!request->held);
    request->held = true;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        removal_release(r, &request->choices[c]);
    }
    request->held = false;
    request_settle(r, request);
}

static void abandon(struct requests *r, struct request *request,
                    const struct error *e)
{
    waiters_fail(r, request, e);
    pending_close(r->fleet,
                  &request->call); /* the end of the session ends it */
    for (uint32_t c = 0; c < request->n_choices; c++) {
        choice_abandon(r, &request->choices[c]);
    }
    request_free(r, request);
}

void requests_abandon(struct requests *r, const struct error *e)
{
    while (!list_empty(&r->all_choices)) {
        abandon(r, LIST_OF(r->all_choices.next, struct choice, all)->request,
                e);
    }
}
