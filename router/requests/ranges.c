#include "router/requests/ranges.h"

#include <inttypes.h>
#include <stdlib.h>

#include "router/requests/receipt_check.h"

struct range {
    struct pending call;
    struct choice *choice;
    uint32_t begin;
};

static void range_free(struct requests *r, struct range *x)
{
    pending_close(r->fleet, &x->call);
    x->choice->kept.range = NULL;
    free(x);
}

/* The caller has gone; the worker still answers, and the ids are cut then. */
static void range_dropped(void *room, struct pending *c, bool gone)
{
    (void)room, (void)c, (void)gone;
}

/* ---- the call ---- */

static enum status check_named(const struct request *request,
                               const Sluice__V1__RemoveRequest *m,
                               struct error *e)
{
    const Sluice__V1__SequenceRef *ref = m->sequence;

    if (request == NULL || ref->choice >= request->n_choices) {
        return error_set(e, ST_NOT_FOUND, "there is no such sequence");
    }
    if (!ref->has_choice && request->n_choices > 1) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "the request has %" PRIu32
                         " choices: name the one that loses a range",
                         request->n_choices);
    }
    return ST_OK;
}

static enum status check_state(const struct choice *choice, struct error *e)
{
    if (choice->state != CHOICE_ENDED) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         "a range can only be removed of a kept sequence; the "
                         "state of this one is %s",
                         choice_state_name(choice->state));
    }
    if (!choice_is_kept(choice) || choice->removal.state != REMOVAL_NONE) {
        return error_set(e, ST_NOT_FOUND, "the sequence is not kept any more");
    }
    if (choice->kept.range != NULL || choice->kept.continued_by != NULL) {
        return error_set(e, ST_FAILED_PRECONDITION,
                         choice->kept.range != NULL
                             ? "another range of the sequence is being removed"
                             : "another request continues the sequence");
    }
    return ST_OK;
}

static enum status check_bounds(const struct choice *choice,
                                const Sluice__V1__RemoveRequest *m,
                                struct error *e)
{
    uint32_t n = choice_n_ids(choice);

    if (!m->has_begin || m->begin == 0 || m->begin > n) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "begin is %" PRIu32 ", must be 1..%" PRIu32
                         "; omit begin and end to remove the whole sequence",
                         m->begin, n);
    }
    if (m->has_end && m->end != n) {
        return error_set(e, ST_OUT_OF_RANGE,
                         "end is %" PRIu32 ", but the sequence has %" PRIu32
                         " tokens: a range must reach its end",
                         m->end, n);
    }
    return ST_OK;
}

static enum status send_range(struct requests *r, struct choice *choice,
                              uint32_t begin)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref;

    choice_ref(choice, &ref);
    m.sequence = &ref;
    m.has_grant = m.has_begin = true;
    m.grant = choice->grant.number;
    m.begin = begin;
    choice->removal.asked_us = r->base->now_us;
    return peer_call(choice->grant.worker->peer->peer, METHOD_WORKER_REMOVE,
                     &m.base, 0, choice->grant.number | RANGE_TAG, NULL);
}

static void range_new(struct requests *r, struct router_peer *p, uint64_t call,
                      struct choice *choice, struct range *x, uint32_t begin)
{
    x->choice = choice;
    x->begin = begin;
    choice->kept.range = x;
    pending_init(&x->call);
    pending_open(r->fleet, &x->call, p, call, range_dropped, r);
}

void range_called(struct requests *r, struct router_peer *p, uint64_t call,
                  const Sluice__V1__RemoveRequest *m)
{
    struct request *request = request_find(r, m->sequence->request_id.data, 16);
    struct choice *choice = NULL;
    struct range *x = NULL;
    struct error e;
    enum status st = check_named(request, m, &e);

    if (st == ST_OK) {
        choice = &request->choices[m->sequence->choice];
        st = check_state(choice, &e);
    }
    if (st == ST_OK) {
        st = check_bounds(choice, m, &e);
    }
    if (st == ST_OK && (x = calloc(1, sizeof *x)) == NULL) {
        st = error_set(&e, ST_RESOURCE_EXHAUSTED,
                       MEMORY_SENTENCE "the router has none left");
    }
    if (st == ST_OK && send_range(r, choice, m->begin) != ST_OK) {
        st = error_set(&e, ST_RESOURCE_EXHAUSTED,
                       "the link to the worker is full");
    }
    if (st == ST_OK) {
        range_new(r, p, call, choice, x, m->begin);
    } else {
        free(x);
        peer_fail(p->peer, call, &e,
                  st == ST_RESOURCE_EXHAUSTED ? RETRY_MS_MIN : 0);
    }
}

/* ---- the answer ---- */

enum status range_check(const struct choice *choice,
                        const Sluice__V1__Receipt *m, int64_t now_us,
                        struct error *e)
{
    const struct range *x = choice->kept.range;
    enum status st = receipt_check(choice, m, now_us, e);

    if (st != ST_OK) {
        return st;
    }
    if (m->state != SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT ||
        !m->has_position || m->position > x->begin) {
        return error_set(e, ST_DATA_LOSS,
                         "the receipt of grant %" PRIu64
                         " for a range has state %d and position %" PRIu32
                         ", must be %d and at most %" PRIu32,
                         choice->grant.number, (int)m->state, m->position,
                         (int)SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT,
                         x->begin);
    }
    return ST_OK;
}

/* Takes off what the leader has freed; receipt_check() has compared it with
 * what is held.  The later stages free their part unseen, so that with stages
 * the rest is an upper bound. */
static void release(struct choice *choice, const Sluice__V1__Receipt *receipt)
{
    choice->grant.held.of[BLOCKS] -= receipt->blocks;
    choice->grant.held.of[SLOTS] -= receipt->slots;
    choice->grant.held.of[WINDOWS] -= receipt->windows;
}

void range_answered(struct requests *r, struct choice *choice,
                    const Sluice__V1__Receipt *receipt, const struct error *e)
{
    struct range *x = choice->kept.range;
    Sluice__V1__Receipt answer;

    if (receipt == NULL) {
        pending_fail(r->fleet, &x->call, e, 0);
        range_free(r, x);
        return;
    }
    choice->kept.n_ids = x->begin;
    choice->kept.n_state = receipt->position;
    release(choice, receipt);
    answer = *receipt;
    answer.has_worker = true;
    answer.worker = wire_text(choice->grant.worker_name);
    pending_end(r->fleet, &x->call, &answer.base);
    range_free(r, x);
}

void range_over(struct requests *r, struct choice *choice)
{
    struct error e;

    if (choice->kept.range != NULL) {
        error_set(&e, ST_UNAVAILABLE, "worker %s no longer keeps the sequence",
                  choice->grant.worker_name);
        pending_fail(r->fleet, &choice->kept.range->call, &e, 0);
        range_free(r, choice->kept.range);
    }
}
