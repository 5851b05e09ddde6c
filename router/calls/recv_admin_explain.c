/* recv_admin_explain.c - Explain: why a sequence waits, or went where it went,
 * and what was reused for it.
 *
 * For a sequence that waits, the places are judged now.  For one that was
 * granted, the reply has the places as they were at its newest grant
 * (router/schedule/routing.h). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/request_id.h"
#include "proto/admin.pb-c.h"
#include "router/calls/explain_blockers.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/replicas/place.h"
#include "router/requests/request.h"
#include "router/schedule/routing.h"

#define TEXT_MAX  2048
#define US_PER_MS 1000

struct answer {
    Sluice__V1__ExplainReply reply;
    Sluice__V1__ExplainPlace rows[LIST_WORKERS_MAX], *list[LIST_WORKERS_MAX];
    struct routing_place places[LIST_WORKERS_MAX];
    Sluice__V1__SequenceRef ref;
    char text[TEXT_MAX];
};

/* Adds a sentence, on a line of its own.  Text past the end is cut. */
__attribute__((format(printf, 2, 3))) static void add_line(struct answer *a,
                                                           const char *fmt, ...)
{
    size_t n = strlen(a->text);
    va_list ap;

    if (n > 0 && n + 1 < sizeof a->text) {
        a->text[n++] = '\n';
    }
    va_start(ap, fmt);
    vsnprintf(a->text + n, sizeof a->text - n, fmt, ap);
    va_end(ap);
}

/* The score falls with the expected time of the end. */
static void fill_place(const struct routing_place *p,
                       Sluice__V1__ExplainPlace *row)
{
    sluice__v1__explain_place__init(row);
    row->worker = wire_text(p->name);
    row->restorable = p->restorable;
    row->room_pages = p->room_pages;
    row->need_pages = p->need_pages;
    row->n_running = p->n_running;
    row->has_most_pages = p->most_pages > 0;
    row->most_pages = p->most_pages;
    row->has_reason = p->why_not != NULL;
    if (row->has_reason) {
        row->reason = wire_text(p->why_not);
    } else {
        row->score = 1 / (1 + (float)(p->expected.end_us / US_PER_MS));
    }
}

static void add_place(struct answer *a, const struct routing_place *p)
{
    size_t i = a->reply.n_places++;

    fill_place(p, &a->rows[i]);
    a->list[i] = &a->rows[i];
}

/* ---- a sequence that waits ---- */

static uint32_t position_of(const struct queue_entry *e)
{
    const struct list *waiting = &e->model->waiting;
    uint32_t n = 0;

    for (const struct list *at = waiting->next;
         at != waiting && at != &e->queue; at = at->next) {
        n++;
    }
    return n;
}

static void judge_places(struct router_core *r, const struct choice *choice,
                         struct answer *a)
{
    for (uint32_t i = 0;
         i < r->fleet.n_workers && a->reply.n_places < LIST_WORKERS_MAX; i++) {
        const struct worker *w = r->fleet.workers[i];
        struct routing_place *p = &a->places[a->reply.n_places];

        if (w->model == choice->entry.model && worker_can_serve(w)) {
            routing_describe(&r->schedule, &choice->entry, w, p);
            add_place(a, p);
        }
    }
}

static void explain_times(struct router_core *r, const struct queue_entry *e,
                          struct answer *a)
{
    struct prediction p = predict_waiting(&r->schedule, e);

    if (p.wait_us != PREDICT_NEVER) {
        add_line(a,
                 "It is expected to start in %.2f s, and to have its first "
                 "token in %.2f s.",
                 (double)p.wait_us / 1e6, (double)p.first_us / 1e6);
    }
}

/* Names the largest sequences at the place that e waits for. */
static void explain_what_blocks(const struct router_core *r,
                                const struct queue_entry *e, struct answer *a)
{
    struct explain_blocker x[EXPLAIN_BLOCKERS];
    uint32_t n = explain_blockers(r, e, x);

    for (uint32_t i = 0; i < n; i++) {
        const struct request *request = x[i].choice->request;
        char id[REQUEST_ID_TEXT];

        request_id_format(request->id, id);
        add_line(a,
                 "At worker %s, %s of tenant %s has %" PRIu64
                 " pages and is expected to end in %.2f s.",
                 x[i].place->peer->name, id, request_tenant_name(request),
                 x[i].pages, (double)x[i].end_us / 1e6);
    }
}

static void explain_what_helps(struct router_core *r,
                               const struct queue_entry *e, struct answer *a)
{
    uint32_t max_tokens;
    const struct worker *w = explain_room(r, e, &max_tokens);

    if (w != NULL && max_tokens < entry_max_tokens(e)) {
        add_line(a,
                 "With max_tokens of %" PRIu32
                 " or less, worker %s would have room for it now.",
                 max_tokens, w->peer->name);
    } else if (w == NULL && a->reply.n_places > 0) {
        add_line(a, "One more worker of the model would help.");
    }
}

static void explain_waiting(struct router_core *r, const struct choice *choice,
                            struct answer *a)
{
    const struct queue_entry *e = &choice->entry;
    uint32_t position = position_of(e);

    a->reply.has_position = true;
    a->reply.position = position;
    judge_places(r, choice, a);
    if (position > 0) {
        add_line(a,
                 "It waits behind %" PRIu32
                 " sequences in the queue of model %s, which is served in "
                 "order.",
                 position, e->model->name);
    } else {
        add_line(a, "It is the first in the queue of model %s.",
                 e->model->name);
    }
    if (a->reply.n_places == 0) {
        add_line(a, "No worker of the model is up.");
    }
    explain_times(r, e, a);
    explain_what_blocks(r, e, a);
    explain_what_helps(r, e, a);
    if (e->keeper != NULL) {
        add_line(a, "It continues a sequence that worker %s keeps.",
                 e->keeper->peer->name);
    }
    if (trial_suspected(&e->trial)) {
        add_line(a,
                 "It is suspected of the death of a worker, and runs on trial "
                 "only.");
    }
    if (e->ran) {
        add_line(a, "It ran before and has %" PRIu32 " tokens.",
                 choice->out.n_generated);
    }
}

/* ---- a sequence that was granted ---- */

/* Adds what is expected of a sequence that may grow past its grant. */
static void explain_claim(const struct choice *choice, struct answer *a)
{
    const struct claim *c = &choice->entry.claim;
    uint32_t n_suspended = choice->grant.worker != NULL
                               ? choice->grant.worker->ledger.n_suspended
                               : 0;

    if (!c->grows) {
        return;
    }
    a->reply.has_n_expected = true;
    a->reply.n_expected = c->n_expected;
    add_line(a,
             "It was granted %" PRIu64 " pages and may grow to %" PRIu64
             "; at most %" PRIu32 " of %" PRIu32 " tokens are expected of it.",
             c->need.of[PAGES], c->most.of[PAGES], c->n_expected,
             choice->request->max_tokens);
    if (choice->grant.state == GRANT_SUSPENDED) {
        add_line(a, "It is suspended until pages are free again.");
    } else if (n_suspended > 0) {
        add_line(a, "Its worker has %" PRIu32 " suspended sequences.",
                 n_suspended);
    }
}

static void explain_granted(const struct choice *choice, struct answer *a)
{
    const struct routing_record *x = choice->entry.record;

    a->reply.has_worker = true;
    a->reply.worker = wire_text(choice->grant.worker_name);
    a->reply.has_n_cached =
        choice->out.n_generated > 0 || choice->grant.n_reused > 0;
    a->reply.n_cached = choice_n_cached(choice);
    for (uint32_t i = 0; x != NULL && i < x->n; i++) {
        add_place(a, &x->places[i]);
    }
    if (x == NULL) {
        add_line(a,
                 "Worker %s had it already when the router or the connection "
                 "came back.",
                 choice->grant.worker_name);
        explain_claim(choice, a);
        return;
    }
    add_line(a,
             "It was granted at worker %s: %" PRIu64
             " tokens were to compute there before its first one, and it was "
             "expected to end after %.2f s.",
             choice->grant.worker_name, x->places[0].n_wait,
             (double)x->places[0].expected.end_us / 1e6);
    add_line(a,
             "The router expected %" PRIu32
             " tokens of its prompt to be restored.",
             x->places[0].restorable);
    if (a->reply.has_n_cached) {
        add_line(a, "The worker restored %" PRIu32 " of %" PRIu32 " tokens.",
                 a->reply.n_cached, choice->request->prompt.n);
    }
    explain_claim(choice, a);
    if (choice->figures.n_moves > 0) {
        add_line(a, "It moved %" PRIu32 " times; this is the newest place.",
                 choice->figures.n_moves);
    }
}

static void explain(struct router_core *r, struct choice *choice,
                    struct answer *a)
{
    const struct request *request = choice->request;
    Sluice__V1__ExplainReply *m = &a->reply;
    int64_t until_us =
        choice->figures.granted_us != 0 ? choice->figures.granted_us
        : choice->figures.ended_us != 0 ? choice->figures.ended_us
                                        : r->base.now_us;

    sluice__v1__explain_reply__init(m);
    choice_ref(choice, &a->ref);
    m->sequence = &a->ref;
    m->state = wire_text(choice_state_word(choice));
    m->has_max_tokens = true;
    m->max_tokens = request->max_tokens;
    m->n_prompt = request->prompt.n;
    m->queued_us = (uint64_t)(until_us - request->arrived_us);
    m->places = a->list;
    if (choice->state == CHOICE_ENCODING) {
        add_line(a, "Its prompt is being converted to tokens.");
    } else if (choice->state == CHOICE_WAITING) {
        explain_waiting(r, choice, a);
    } else if (choice->figures.granted_us != 0) {
        explain_granted(choice, a);
    } else {
        add_line(a, "It ended before any worker had it.");
    }
    m->text = wire_text(a->text);
}

void recv_admin_explain(struct router_core *r, const struct incoming *in,
                        const request_of_ADMIN_EXPLAIN *m)
{
    struct request *request;
    struct answer a;

    if (!check_request_id(in, m->sequence->request_id)) {
        return;
    }
    request = request_find(&r->requests, m->sequence->request_id.data,
                           m->sequence->request_id.len);
    if (request == NULL || m->sequence->choice >= request->n_choices) {
        refuse(in, ST_NOT_FOUND,
               "there is no such sequence: it never came, or its request is "
               "over");
        return;
    }
    a.text[0] = '\0';
    explain(r, &request->choices[m->sequence->choice], &a);
    peer_end(in->peer->peer, in->call, &a.reply.base);
}
