#include "router/calls/early.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/sampling/sampling.h"
#include "common/wire/request_id.h"
#include "router/base/request_memory.h"
#include "router/calls/recv.h"
#include "router/calls/router_state.h"
#include "router/requests/removal.h"
#include "router/requests/request.h"
#include "router/requests/resume.h"

typedef Sluice__V1__GenerateRequest generate_message;

struct early_call {
    struct list all;
    struct table_node by_id;
    struct pending call;
    uint8_t id[REQUEST_ID_BYTES];
    uint8_t model[MODEL_NAME_MAX]; /* [n_model] */
    size_t n_model;
    uint32_t n_choices;
    uint64_t cancelled; /* bit c: choice c is cancelled */
    int64_t arrived_us, deadline_us;
    size_t bytes;
    uint8_t packed[]; /* [bytes] the packed request */
};

static void end_young(void *room, struct event *e)
{
    struct router_core *r = room;
    (void)e;
    early_run(r);
}

void early_init(struct router_core *r)
{
    list_init(&r->early.calls);
    table_init(&r->early.by_id, r->base.options.max_waiting);
    event_init(&r->early.end, end_young, r);
}

void early_fini(struct router_core *r)
{
    assert(list_empty(&r->early.calls));
    event_clear(&r->base, &r->early.end);
    table_fini(&r->early.by_id);
}

static int64_t young_until(const struct router_core *r)
{
    return r->base.start_us + r->base.options.worker_wait_us;
}

bool early_waits(struct router_core *r, ProtobufCBinaryData model)
{
    return r->base.now_us < young_until(r) && !r->base.stopping &&
           (model.len > 0 || r->fleet.n_workers == 0) &&
           model_find(&r->fleet, model.data, model.len) == NULL;
}

static struct early_call *find(struct router_core *r, const uint8_t *id)
{
    struct table_node *at =
        table_find(&r->early.by_id, request_id_hash(id, r->base.seed));

    for (; at != NULL; at = table_next(at)) {
        struct early_call *k = LIST_OF(at, struct early_call, by_id);
        if (memcmp(k->id, id, sizeof k->id) == 0) {
            return k;
        }
    }
    return NULL;
}

/* ---- in and out ---- */

static bool check_room(struct router_core *r, const struct incoming *in,
                       uint32_t n, size_t bytes)
{
    const struct early *l = &r->early;
    uint32_t max = r->base.options.max_waiting;
    struct error e;

    if (n <= max && l->n_choices <= max - n &&
        bytes <= EARLY_BYTES_MAX - l->bytes) {
        return true;
    }
    if (n > max) {
        refuse(in, ST_RESOURCE_EXHAUSTED,
               "the request has %" PRIu32 " choices, at most %" PRIu32
               " may wait; lower n",
               n, max);
        return false;
    }
    error_set(&e, ST_UNAVAILABLE,
              "no worker of the model is up yet, and %" PRIu32
              " choices of %zu bytes already wait for one",
              l->n_choices, l->bytes);
    refuse_with(in, &e, RETRY_MS_ABSENT);
    return false;
}

static void add(struct router_core *r, struct early_call *k)
{
    struct early *l = &r->early;

    list_init(&k->all);
    list_append(&l->calls, &k->all);
    table_add(&l->by_id, &k->by_id, request_id_hash(k->id, r->base.seed));
    l->n_choices += k->n_choices;
    l->bytes += k->bytes;
    event_set(&r->base, &l->end, young_until(r));
}

/* Removes k from every list and closes its call. */
static void unlink_call(struct router_core *r, struct early_call *k)
{
    pending_close(&r->fleet, &k->call);
    list_remove(&k->all);
    table_remove(&r->early.by_id, &k->by_id);
    r->early.n_choices -= k->n_choices;
    r->early.bytes -= k->bytes;
    request_memory_give(&r->base, k->bytes);
}

static void free_call(struct router_core *r, struct early_call *k)
{
    unlink_call(r, k);
    free(k);
}

static void drop(struct router_core *r, struct early_call *k)
{
    r->base.metrics.cancelled += k->n_choices;
    free_call(r, k);
}

static void early_dropped(void *room, struct pending *c, bool gone)
{
    (void)gone;
    drop(room, LIST_OF(c, struct early_call, call));
}

bool early_hold(struct router_core *r, const struct incoming *in,
                const generate_message *m)
{
    size_t bytes = wire_size(&m->base);
    char id[REQUEST_ID_TEXT];
    struct early_call *k;
    struct error e;

    if (!check_room(r, in, m->n, bytes)) {
        return false;
    }
    if (request_memory_take(&r->base, bytes, &e) != ST_OK) {
        refuse_with(in, &e, request_memory_retry_ms(&r->base, bytes));
        return false;
    }
    k = calloc(1, sizeof *k + bytes);
    assert(m->model.len <= sizeof k->model);
    if (k == NULL) {
        request_memory_give(&r->base, bytes);
        refuse(in, ST_RESOURCE_EXHAUSTED,
               MEMORY_SENTENCE "the router has none left");
        return false;
    }
    memcpy(k->id, m->request_id.data, sizeof k->id);
    k->n_model = m->model.len;
    if (k->n_model > 0) {
        memcpy(k->model, m->model.data, k->n_model);
    }
    k->n_choices = m->n;
    k->arrived_us = r->base.now_us;
    k->deadline_us = in->deadline_us;
    /* Packed, not unpacked: the arena of the message is reused, and the packed
     * form is bounded by the method's size cap. */
    k->bytes = wire_pack(&m->base, k->packed);
    pending_init(&k->call);
    pending_open(&r->fleet, &k->call, in->peer, in->call, early_dropped, r);
    add(r, k);
    r->base.metrics.held_early++;
    request_id_format(k->id, id);
    log_debug("held-early", "request=%s bytes=%zu", id, bytes);
    return true;
}

bool early_check_id(struct router_core *r, const struct incoming *in,
                    const generate_message *m)
{
    struct early_call *old = find(r, m->request_id.data);
    struct error e;

    if (old == NULL) {
        return true;
    }
    if (!resume_asked(m) || old->call.peer == in->peer) {
        refuse(in, ST_ALREADY_EXISTS,
               "a request with this id already waits for the first worker");
        return false;
    }
    resume_superseded(&e);
    pending_fail(&r->fleet, &old->call, &e, RESUME_RETRY_MS);
    drop(r, old);
    return true;
}

/* ---- judging again ---- */

static enum status unpack(struct early_call *k, struct arena *a,
                          const generate_message **m, struct error *e)
{
    ProtobufCMessage *out = NULL;
    enum status st = wire_unpack(a, &sluice__v1__generate_request__descriptor,
                                 k->packed, k->bytes, &out, e);

    *m = (const generate_message *)(const void *)out;
    return st;
}

/* Applies what happened while the call was held: its time of arrival, and
 * choices that were cancelled. */
static void apply_history(struct router_core *r, const struct early_call *k)
{
    struct request *request = request_find(&r->requests, k->id, sizeof k->id);

    if (request == NULL) {
        return;
    }
    request->arrived_us = k->arrived_us;
    for (uint32_t c = 0; c < request->n_choices; c++) {
        if ((k->cancelled >> c & 1) != 0) {
            removal_wanted(&r->requests, &request->choices[c],
                           SLUICE__V1__CANCEL_REASON__CANCEL_BY_CLIENT);
        }
    }
}

/* Judges the call of k, and frees k. */
static void judge(struct router_core *r, struct early_call *k, struct arena *a)
{
    struct incoming in = {k->call.peer, k->call.id, k->deadline_us, NULL};
    const generate_message *m;
    struct error e;

    unlink_call(r, k);
    if (unpack(k, a, &m, &e) == ST_OK) {
        generate_judge(r, &in, m);
        apply_history(r, k);
    } else { /* the budget follows the packed size */
        peer_fail(in.peer->peer, in.call, &e,
                  memory_is_short(&e) ? RETRY_MS_MIN : 0);
        base_refused(&r->base, model_slot(&r->fleet, k->model, k->n_model),
                     e.code);
    }
    free(k);
}

void early_run(struct router_core *r)
{
    struct list *at = r->early.calls.next;
    struct arena a; /* the core's arena holds the message being handled */

    arena_init(&a);
    while (at != &r->early.calls) {
        struct early_call *k = LIST_OF(at, struct early_call, all);
        ProtobufCBinaryData model = {k->n_model, k->model};

        at = at->next;
        /* A peer that has ended is about to be freed with its calls. */
        if (!k->call.peer->ended && !early_waits(r, model)) {
            judge(r, k, &a);
        }
    }
    arena_fini(&a);
}

/* ---- Cancel and RemoveSequence ---- */

static void show_figures(const struct router_core *r,
                         const struct early_call *k, const generate_message *m,
                         uint32_t n, Sluice__V1__GenerateFigures *f)
{
    sluice__v1__generate_figures__init(f);
    f->n_prompt = (uint32_t)m->n_tokens;
    f->n_generated = n;
    f->queued_us = f->total_us = (uint64_t)(r->base.now_us - k->arrived_us);
    f->seed = m->sampling != NULL && m->sampling->has_seed
                  ? m->sampling->seed
                  : sampling_seed(k->id);
}

static uint32_t n_client_has(const generate_message *m, uint32_t c)
{
    return c < m->n_have_count ? m->have_count[c] : 0;
}

/* Sends the last chunk of every choice whose end its client does not have.
 * Returns false if the link has no room for all. */
static bool send_ends(struct router_core *r, const struct early_call *k,
                      const generate_message *m)
{
    for (uint32_t c = 0; c < k->n_choices; c++) {
        Sluice__V1__GenerateChunk chunk = SLUICE__V1__GENERATE_CHUNK__INIT;
        Sluice__V1__GenerateFigures f;

        if (c < m->n_have_ended && m->have_ended[c]) {
            continue;
        }
        show_figures(r, k, m, n_client_has(m, c), &f);
        chunk.first_index = f.n_generated;
        chunk.has_choice = k->n_choices > 1;
        chunk.choice = c;
        chunk.has_finish = true;
        chunk.finish = SLUICE__V1__FINISH__FINISH_CANCELLED;
        chunk.figures = &f;
        if (peer_reply(k->call.peer->peer, k->call.id, &chunk.base) != ST_OK) {
            return false;
        }
    }
    return true;
}

/* Ends the call of k, whose choices are all cancelled. */
static void end_call(struct router_core *r, struct early_call *k,
                     const generate_message *m)
{
    struct error e;

    if (send_ends(r, k, m)) {
        pending_end(&r->fleet, &k->call, NULL);
    } else {
        error_set(&e, ST_CANCELLED, "cancelled before a worker was up");
        pending_fail(&r->fleet, &k->call, &e, 0);
    }
    drop(r, k);
}

/* Returns the tokens that the client resumed with, over the choices in the set,
 * at most UINT32_MAX. */
static uint32_t sum_client_has(const struct early_call *k,
                               const generate_message *m, uint64_t choices)
{
    uint64_t n = 0;

    for (uint32_t c = 0; c < k->n_choices; c++) {
        n += (choices >> c & 1) != 0 ? n_client_has(m, c) : 0;
    }
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

static void cancel(struct router_core *r, struct early_call *k,
                   const generate_message *m, uint64_t choices,
                   Sluice__V1__Receipt *receipt)
{
    uint64_t all = UINT64_MAX >> (64 - k->n_choices);

    receipt->state = (choices & ~k->cancelled) != 0
                         ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED
                         : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
    receipt->n_generated = sum_client_has(k, m, choices);
    k->cancelled |= choices;
    if (k->cancelled == all) {
        end_call(r, k, m);
    }
}

bool early_removed(struct router_core *r, struct router_peer *p, uint64_t call,
                   const Sluice__V1__SequenceRef *sequence)
{
    struct early_call *k = find(r, sequence->request_id.data);
    Sluice__V1__SequenceRef ref = *sequence;
    Sluice__V1__Receipt receipt = SLUICE__V1__RECEIPT__INIT;
    const generate_message *m;
    struct arena a;
    struct error e;

    if (k == NULL || request_find(&r->requests, k->id, sizeof k->id) != NULL ||
        (sequence->has_choice && sequence->choice >= k->n_choices)) {
        return false;
    }
    arena_init(&a);
    if (unpack(k, &a, &m, &e) == ST_OK) {
        cancel(r, k, m,
               sequence->has_choice ? (uint64_t)1 << sequence->choice
                                    : UINT64_MAX >> (64 - k->n_choices),
               &receipt);
        receipt.sequence = &ref;
        peer_end(p->peer, call, &receipt.base);
    } else {
        peer_fail(p->peer, call, &e, 0);
    }
    arena_fini(&a);
    return true;
}
