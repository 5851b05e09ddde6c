#include "router/requests/removal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/wire/request_id.h"
#include "router/replicas/replica.h"
#include "router/requests/choice_life.h"
#include "router/requests/choice_moves.h"
#include "router/requests/leases.h"

typedef Sluice__V1__SequenceState sequence_state;

_Static_assert(CHOICES_MAX <= 64, "a waiter has a bit for each choice");

/* A caller, and the sum of the receipts of the choices released so far. */
struct waiter {
    struct pending call;
    struct list of_request;
    bool has_choice; /* it named one choice */
    uint32_t choice;
    uint64_t awaits; /* bit c: choice c is not released yet */
    Sluice__V1__Receipt sum;
    uint32_t n_stages; /* stages of the replica; 0: none reported */
    uint32_t stage_blocks[STAGES_MAX], stage_slots[STAGES_MAX];
    bool has_windows; /* a stage reports window pages */
    uint32_t stage_windows[STAGES_MAX];
    char worker_name[PEER_NAME_MAX + 1]; /* "": none yet */
    bool several;                        /* several workers held parts of it */
};

static void waiter_free(struct requests *r, struct waiter *x)
{
    pending_close(r->fleet, &x->call);
    list_remove(&x->of_request);
    free(x);
}

static void waiter_dropped(void *room, struct pending *c, bool gone)
{
    (void)gone;
    waiter_free(room, LIST_OF(c, struct waiter, call));
}

void waiters_fail(struct requests *r, struct request *request,
                  const struct error *e)
{
    while (!list_empty(&request->waiters)) {
        struct waiter *x =
            LIST_OF(request->waiters.next, struct waiter, of_request);
        pending_fail(r->fleet, &x->call, e, RETRY_MS_MIN);
        waiter_free(r, x);
    }
}

/* Orders states by what the sequence had: the answer for several choices
 * carries the highest. */
static int rank(sequence_state state)
{
    switch (state) {
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE:
        return 6;
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED:
        return 5;
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL:
        return 4;
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED:
        return 3;
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT:
        return 2;
    case SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED:
        return 1;
    default:
        return 0;
    }
}

/* Adds with saturation: 64 choices may have more tokens than a number holds. */
static void add(uint32_t *sum, uint32_t n)
{
    *sum = n < UINT32_MAX - *sum ? *sum + n : UINT32_MAX;
}

static void add_stages(struct waiter *x, const Sluice__V1__Receipt *part)
{
    uint32_t n = (uint32_t)part->n_stage_blocks;

    for (uint32_t i = 0; i < n; i++) {
        add(&x->stage_blocks[i], part->stage_blocks[i]);
        add(&x->stage_slots[i], part->stage_slots[i]);
    }
    for (uint32_t i = 0; i < part->n_stage_windows; i++) {
        add(&x->stage_windows[i], part->stage_windows[i]);
        x->has_windows = true;
    }
    x->n_stages = n > x->n_stages ? n : x->n_stages;
}

static void add_receipt(struct waiter *x, const Sluice__V1__Receipt *part,
                        const char *worker_name)
{
    Sluice__V1__Receipt *sum = &x->sum;

    if (rank(part->state) > rank(sum->state)) {
        sum->state = part->state;
    }
    add(&sum->n_generated, part->n_generated);
    add(&sum->blocks, part->blocks);
    add(&sum->slots, part->slots);
    add(&sum->checkpoints, part->checkpoints);
    add(&sum->windows, part->windows);
    sum->micros = part->micros > sum->micros ? part->micros : sum->micros;
    if (worker_name == NULL) {
        return;
    }
    /* Snapshots of different workers do not compare: then none is reported. */
    x->several = x->several || (x->worker_name[0] != '\0' &&
                                strcmp(x->worker_name, worker_name) != 0);
    snprintf(x->worker_name, sizeof x->worker_name, "%s", worker_name);
    if (part->snapshot > sum->snapshot) {
        sum->snapshot = part->snapshot;
    }
    add_stages(x, part);
}

/* Counts the receipt of choice for x, if x waits for that choice. */
static void take_receipt(struct waiter *x, const struct choice *choice,
                         const Sluice__V1__Receipt *part,
                         const char *worker_name)
{
    uint64_t bit = (uint64_t)1 << choice->index;

    if ((x->awaits & bit) != 0) {
        x->awaits &= ~bit;
        add_receipt(x, part, worker_name);
    }
}

/* Counts choice as released where no worker held anything. */
static void take_empty_receipt(struct waiter *x, const struct choice *choice,
                               sequence_state state)
{
    Sluice__V1__Receipt part = SLUICE__V1__RECEIPT__INIT;

    part.state = state;
    part.n_generated = choice->out.n_generated;
    take_receipt(x, choice, &part, NULL);
}

/* Answers x if all choices that it named are released. */
static void waiter_settle(struct requests *r, const struct request *request,
                          struct waiter *x)
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint8_t id[16];

    if (x->awaits != 0 && !(PLANT(RECEIPT_EARLY) && x->sum.n_generated)) {
        return;
    }
    memcpy(id, request->id, sizeof id);
    ref.request_id = (ProtobufCBinaryData){sizeof id, id};
    ref.has_choice = x->has_choice;
    ref.choice = x->choice;
    x->sum.sequence = &ref;
    x->sum.has_windows = x->sum.windows > 0;
    if (x->several) {
        x->sum.snapshot = 0; /* each worker has its own numbers */
    } else if (x->worker_name[0] != '\0') {
        x->sum.has_worker = true;
        x->sum.worker = wire_text(x->worker_name);
        x->sum.n_stage_blocks = x->sum.n_stage_slots = x->n_stages;
        x->sum.stage_blocks = x->stage_blocks;
        x->sum.stage_slots = x->stage_slots;
        x->sum.n_stage_windows = x->has_windows ? x->n_stages : 0;
        x->sum.stage_windows = x->stage_windows;
    }
    pending_end(r->fleet, &x->call, &x->sum.base);
    waiter_free(r, x);
}

/* Counts the receipt of choice for all its waiters, and answers those that
 * waited for nothing else. */
static void notify_waiters(struct requests *r, const struct choice *choice,
                           const Sluice__V1__Receipt *part,
                           const char *worker_name)
{
    struct request *request = choice->request;
    struct list *at = request->waiters.next;

    while (at != &request->waiters) {
        struct waiter *x = LIST_OF(at, struct waiter, of_request);
        at = at->next;
        take_receipt(x, choice, part, worker_name);
        waiter_settle(r, request, x);
    }
}

static bool send_removal(struct requests *r, struct choice *choice)
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest c = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    struct peer *p = choice->grant.worker->peer->peer;

    ref.request_id = (ProtobufCBinaryData){16, choice->request->id};
    ref.has_choice = true;
    ref.choice = choice->index;
    c.sequence = m.sequence = &ref;
    c.has_grant = m.has_grant = true;
    c.grant = m.grant = choice->grant.number;
    c.has_reason = true;
    c.reason = choice->removal.reason;
    choice->removal.asked_us = r->base->now_us;
    if (choice->removal.remove) {
        return peer_call(p, METHOD_WORKER_REMOVE, &m.base, 0,
                         choice->grant.number, NULL) == ST_OK;
    }
    return peer_call(p, METHOD_WORKER_CANCEL, &c.base, 0, choice->grant.number,
                     NULL) == ST_OK;
}

/* Asks the worker to release choice, by Cancel or Remove.  A choice that is
 * moving has been cancelled already, and that receipt serves. */
static void ask_worker(struct requests *r, struct choice *choice, bool remove,
                       bool moves)
{
    if (choice_is_moving(choice)) {
        return;
    }
    choice->removal.remove = remove;
    list_remove(&choice->submit.parts);
    /* A full link costs no state: removals_pump() sends it later. */
    if (send_removal(r, choice)) {
        FP(ROUTER_CANCEL);
        choice_removal_move(choice,
                            moves ? REMOVAL_MOVES_SENT : REMOVAL_ENDS_SENT);
    } else {
        choice_removal_move(choice,
                            moves ? REMOVAL_MOVES_UNSENT : REMOVAL_ENDS_UNSENT);
        list_append(&choices_of(choice->grant.worker)->removals,
                    &choice->removal.unsent);
    }
}

void removals_pump(struct requests *r, struct worker *w)
{
    while (!list_empty(&choices_of(w)->removals)) {
        struct choice *choice = LIST_OF(choices_of(w)->removals.next,
                                        struct choice, removal.unsent);

        if (!send_removal(r, choice)) {
            return;
        }
        list_remove(&choice->removal.unsent);
        choice_removal_move(choice, choice_is_moving(choice)
                                        ? REMOVAL_MOVES_SENT
                                        : REMOVAL_ENDS_SENT);
    }
}

/* Begins the end of choice, which is open and not yet ENDING. */
static void begin_removal(struct requests *r, struct choice *choice,
                          bool remove, Sluice__V1__CancelReason reason)
{
    char id[REQUEST_ID_TEXT];

    request_id_format(choice->request->id, id);
    log_debug("removal", "request=%s choice=%" PRIu32 " state=%s reason=%d", id,
              choice->index, choice_state_name(choice->state), (int)reason);
    choice->removal.reason = reason;
    if (choice->state == CHOICE_ENCODING || choice->state == CHOICE_WAITING) {
        choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_CANCELLED);
    } else {
        choice_move(choice, CHOICE_ENDING);
        ask_worker(r, choice, remove, false);
    }
}

void removal_wanted(struct requests *r, struct choice *choice,
                    Sluice__V1__CancelReason reason)
{
    if (choice->state < CHOICE_ENDING) {
        begin_removal(r, choice, false, reason);
    }
}

void removal_release(struct requests *r, struct choice *choice)
{
    if (choice_is_kept(choice) && choice->removal.state == REMOVAL_NONE) {
        ask_worker(r, choice, true, false);
    }
}

/* In ENDING the worker has its Cancel already. */
void removal_stopped(struct requests *r, struct choice *choice)
{
    if (choice->state != CHOICE_ENDING && !PLANT(STOP_LATE)) {
        choice->removal.reason = SLUICE__V1__CANCEL_REASON__CANCEL_STOP_STRING;
        ask_worker(r, choice, false, false);
    }
    choice_finish(r, choice, SLUICE__V1__FINISH__FINISH_STOP);
}

void removal_moving(struct requests *r, struct choice *choice)
{
    assert(choice->removal.state == REMOVAL_NONE &&
           choice->grant.worker != NULL);
    lease_loses(choice);
    choice->removal.reason = SLUICE__V1__CANCEL_REASON__CANCEL_MOVED;
    ask_worker(r, choice, choice->state == CHOICE_ENDED, true);
    if (PLANT(MOVED_TWICE) && choice->state < CHOICE_ENDING) {
        choice_moved(r, choice);
    }
}

/* Applies the call of x to one of the choices that it named. */
static void choice_called(struct requests *r, struct waiter *x,
                          struct choice *choice, bool remove,
                          Sluice__V1__CancelReason reason)
{
    switch (choice->state) {
    case CHOICE_ENCODING:
    case CHOICE_WAITING:
        take_empty_receipt(x, choice,
                           SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED);
        begin_removal(r, choice, remove, reason);
        break;
    case CHOICE_ENDING:
        break;
    case CHOICE_ENDED:
        if (remove && choice->kept.state != LEASE_HELD) {
            lease_end(r, choice);
        }
        if (choice->grant.worker == NULL ||
            (choice_is_kept(choice) && !remove)) {
            take_empty_receipt(x, choice,
                               SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED);
        } else if (choice->removal.state == REMOVAL_NONE) {
            ask_worker(r, choice, true, false);
        }
        break;
    default:
        begin_removal(r, choice, remove, reason);
        break;
    }
}

static void answer_unknown(struct router_peer *p, uint64_t call,
                           const Sluice__V1__SequenceRef *sequence)
{
    Sluice__V1__SequenceRef ref = *sequence;
    Sluice__V1__Receipt receipt = SLUICE__V1__RECEIPT__INIT;

    receipt.sequence = &ref;
    receipt.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    peer_end(p->peer, call, &receipt.base);
}

/* Refuses the call if RECEIPT_WAITERS_MAX callers already wait for the same
 * choice, or for the same whole.  Returns true if it did. */
static bool refuse_crowd(struct router_peer *p, uint64_t call,
                         const struct request *request,
                         const Sluice__V1__SequenceRef *sequence)
{
    const struct list *at = request->waiters.next;
    uint32_t n = 0;
    struct error e;

    for (; at != &request->waiters; at = at->next) {
        const struct waiter *x = LIST_OF(at, struct waiter, of_request);
        n += x->has_choice == sequence->has_choice &&
             x->choice == sequence->choice;
    }
    if (n < RECEIPT_WAITERS_MAX) {
        return false;
    }
    error_set(&e, ST_RESOURCE_EXHAUSTED,
              "%d callers, the limit, already wait for the receipt of this "
              "sequence",
              RECEIPT_WAITERS_MAX);
    peer_fail(p->peer, call, &e, RETRY_MS_MIN);
    return true;
}

static struct waiter *waiter_new(struct requests *r, struct request *request,
                                 struct router_peer *p, uint64_t call,
                                 const Sluice__V1__SequenceRef *sequence)
{
    struct waiter *x = calloc(1, sizeof *x);

    if (x == NULL) {
        return NULL;
    }
    sluice__v1__receipt__init(&x->sum);
    x->has_choice = sequence->has_choice;
    x->choice = sequence->choice;
    x->awaits = sequence->has_choice || PLANT(CANCEL_ALL_ONE)
                    ? (uint64_t)1 << sequence->choice
                    : UINT64_MAX >> (64 - request->n_choices);
    pending_init(&x->call);
    pending_open(r->fleet, &x->call, p, call, waiter_dropped, r);
    list_init(&x->of_request);
    list_append(&request->waiters, &x->of_request);
    return x;
}

void removal_called(struct requests *r, struct router_peer *p, uint64_t call,
                    const Sluice__V1__SequenceRef *sequence, bool remove,
                    Sluice__V1__CancelReason reason)
{
    struct request *request =
        request_find(r, sequence->request_id.data, sequence->request_id.len);
    struct waiter *x;
    struct error e;

    if (request == NULL ||
        (sequence->has_choice && sequence->choice >= request->n_choices)) {
        answer_unknown(p, call, sequence);
        return;
    }
    if (refuse_crowd(p, call, request, sequence)) {
        return;
    }
    /* While x exists, request is not freed. */
    x = waiter_new(r, request, p, call, sequence);
    if (x == NULL) {
        error_set(&e, ST_RESOURCE_EXHAUSTED,
                  MEMORY_SENTENCE "the router has none left");
        peer_fail(p->peer, call, &e, RETRY_MS_MIN);
        return;
    }
    for (uint32_t c = 0; c < request->n_choices; c++) {
        if ((x->awaits >> c & 1) != 0) {
            choice_called(r, x, &request->choices[c], remove, reason);
        }
    }
    waiter_settle(r, request, x);
    request_settle(r, request);
}

/* Ends choice, which its worker has released, or returns its memory if it had
 * ended before.  A finish that crossed the Cancel wins over CANCELLED: the
 * client gets the true end. */
static void conclude(struct requests *r, struct choice *choice)
{
    choice_ungrant(r, choice);
    if (choice->state == CHOICE_ENDED) { /* it was kept, or leaving */
        choice_settle(r, choice);
    } else {
        choice_finish(r, choice,
                      choice->finish == SLUICE__V1__FINISH__FINISH_RUNNING
                          ? SLUICE__V1__FINISH__FINISH_CANCELLED
                          : choice->finish);
    }
}

static bool continues_elsewhere(const struct choice *choice)
{
    return choice_is_moving(choice) && choice->state < CHOICE_ENDING;
}

/* The blocks of a growing sequence are its worker's to count: the router has
 * them at the end.  A receipt of one that has ended, or is suspended, has
 * none. */
static void take_released(struct choice *choice,
                          const Sluice__V1__Receipt *receipt)
{
    if (choice->entry.claim.grows && receipt->blocks > 0) {
        choice->grant.held.of[BLOCKS] = receipt->blocks;
        choice->grant.held.of[WINDOWS] = receipt->windows;
        choice_grant_move(choice, GRANT_RELEASED);
    }
}

void removal_answered(struct requests *r, struct choice *choice,
                      const Sluice__V1__Receipt *receipt)
{
    if (continues_elsewhere(choice)) {
        choice_moved(r, choice);
        return;
    }
    notify_waiters(r, choice, receipt, choice->grant.worker_name);
    lease_receipt(choice, receipt->snapshot);
    take_released(choice, receipt);
    conclude(r, choice);
}

void removal_answer_self(struct requests *r, struct choice *choice)
{
    Sluice__V1__Receipt part = SLUICE__V1__RECEIPT__INIT;

    if (continues_elsewhere(choice)) {
        choice_moved(r, choice);
        return;
    }
    part.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    part.n_generated = choice->out.n_generated;
    notify_waiters(r, choice, &part, NULL);
    conclude(r, choice);
}
