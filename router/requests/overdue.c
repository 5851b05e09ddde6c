#include "router/requests/overdue.h"

#include <inttypes.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "router/requests/request_end.h"
#include "router/schedule/claims.h"
#include "router/schedule/retries.h"

static bool has_place(const struct model *m)
{
    return m->presence == MODEL_PRESENT && m->n_places > 0;
}

/* Sets the error of a request whose time is over. */
static void set_error(const struct requests *r, const struct request *request,
                      uint32_t retry_ms, struct error *e)
{
    const struct model *m = request->model;
    double s = (double)r->base->options.queue_timeout_us / 1e6;

    error_set(
        e, ST_RESOURCE_EXHAUSTED,
        "no worker of %s had room within %.1f s (--queue-timeout); %" PRIu32
        " sequences wait; retry in %" PRIu32 " ms, or lower max_tokens",
        m->name, s, m->n_waiting, retry_ms);
}

/* It was never granted, so nothing of it is at a worker. */
static void refuse(struct requests *r, struct request *request)
{
    struct arrival a = request_arrival(request);
    uint32_t retry_ms = overload_retry_ms(r->schedule, &a);
    struct error e;

    set_error(r, request, retry_ms, &e);
    for (uint32_t c = 0; c < request->n_choices; c++) {
        if (request->choices[c].state == CHOICE_WAITING) {
            claim_dropped(&request->choices[c].entry);
        }
    }
    r->base->metrics.overdue++;
    retries_refused(r->schedule, &a, retry_ms);
    request_refuse(r, request, &e, retry_ms);
}

static struct request *first(const struct requests *r)
{
    return list_empty(&r->waits)
               ? NULL
               : LIST_OF(r->waits.next, struct request, wait.node);
}

static void start(struct requests *r, struct request *request)
{
    request->wait.until_us =
        r->base->now_us + r->base->options.queue_timeout_us;
    if (!PLANT(QUEUE_FOREVER)) {
        list_append(&r->waits, &request->wait.node);
    }
}

static void fire(void *room, struct event *e)
{
    struct requests *r = room;
    struct request *request;

    while ((request = first(r)) != NULL &&
           request->wait.until_us <= r->base->now_us) {
        list_remove(&request->wait.node);
        if (model_waits(request->model) && !has_place(request->model)) {
            start(r, request); /* --worker-wait counts */
        } else {
            refuse(r, request);
        }
    }
    event_set(r->base, e, request != NULL ? request->wait.until_us : NODE_IDLE);
}

void overdue_init(struct requests *r)
{
    list_init(&r->waits);
    event_init(&r->overdue, fire, r);
}

void overdue_enqueued(struct requests *r, struct request *request)
{
    int64_t limit_us = r->base->options.queue_timeout_us;

    if (limit_us == 0 || request->deadline_us != NODE_IDLE ||
        request->resumed || request->n_open == 0) {
        return;
    }
    start(r, request);
    if (first(r) != NULL) {
        event_set(r->base, &r->overdue, first(r)->wait.until_us);
    }
}

static bool waits(const struct choice *choice)
{
    return choice->state == CHOICE_WAITING && choice->figures.granted_us == 0 &&
           choice->request->wait.until_us != 0 &&
           has_place(choice->request->model);
}

int64_t overdue_late_us(const struct requests *r)
{
    int64_t late_us = 0;

    for (struct list *at = r->all_choices.next; at != &r->all_choices;
         at = at->next) {
        const struct choice *choice = LIST_OF(at, struct choice, all);

        if (waits(choice)) {
            late_us = max_i64(late_us,
                              r->base->now_us - choice->request->wait.until_us);
        }
    }
    return late_us;
}
