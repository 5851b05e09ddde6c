#include "tests/sim/control.h"

#include <string.h>

#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"
#include "tests/sim/sim.h"

/* Checks that the target has ended, as a receipt guarantees.  Skipped if the
 * target's client was away and resumed: it may not have received the end. */
static void check_over(struct control *c)
{
    const struct sim_request *request = &c->sim->requests[c->target];

    if (request->stream.n_resumes || request->stream.lost_us != NODE_IDLE) {
        return;
    }
    for (uint32_t i = 0;
         i < request->n_choices && !request->again && !request->shared; i++) {
        if ((c->choice == CHOICE_ALL || c->choice == i) &&
            cells_at_router(c->sim, request, i) != CHOICE_ENDED) {
            sim_fail(c->sim, (int32_t)c->target,
                     "receipt received, but choice %u has not ended", i);
        }
    }
}

/* Checks the receipt against the sum of the workers' receipts: equal if nothing
 * but this call ended the target, at most equal otherwise. */
static void check_sum(struct control *c, const Sluice__V1__Receipt *r)
{
    const struct sim *s = c->sim;
    const struct sim_request *request = &s->requests[c->target];
    uint32_t blocks = 0, slots = 0, windows = 0;
    bool all = !s->options.faulty && request->n_asked == 1 &&
               request->n_stops == 0 && request->deadline_ms == 0 &&
               !request->left && !drains_drawn(&s->options) &&
               !sim_request_hurt_of(c->sim, request->sampling.seed);

    for (uint32_t i = 0; i < request->n_choices; i++) {
        if (c->choice == CHOICE_ALL || c->choice == i) {
            blocks += request->choices[i].freed_blocks;
            slots += request->choices[i].freed_slots;
            windows += request->choices[i].freed_windows;
        }
    }
    if (r->blocks > blocks || r->slots > slots || r->windows > windows ||
        (all &&
         (r->blocks != blocks || r->slots != slots || r->windows != windows))) {
        sim_fail(c->sim, (int32_t)c->target,
                 "receipt of %u blocks, %u slots and %u window pages, but the "
                 "workers freed %u, %u and %u",
                 r->blocks, r->slots, r->windows, blocks, slots, windows);
    }
}

static void check_receipt(struct control *c, const Sluice__V1__Receipt *r)
{
    const struct sim_request *request = &c->sim->requests[c->target];
    uint32_t n = c->choice == CHOICE_ALL ? request->n_choices : 1;
    uint32_t stages = options_has_stages(&c->sim->options) ? SIM_WORKERS : 1;
    bool over = r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED ||
                r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;

    if (r->sequence->request_id.len != sizeof(request->id) ||
        memcmp(r->sequence->request_id.data, request->id,
               sizeof(request->id)) != 0) {
        sim_fail(c->sim, (int32_t)c->target, "receipt names another sequence");
    } else if (over &&
               (r->blocks || r->slots || r->windows || r->checkpoints)) {
        sim_fail(c->sim, (int32_t)c->target,
                 "repeated receipt frees memory again");
    } else if (r->n_generated > request->max_tokens * n ||
               r->blocks > sim_request_blocks(request, 1) * n * stages ||
               r->slots > n * stages) {
        sim_fail(c->sim, (int32_t)c->target,
                 "receipt exceeds what the request may use");
    } else if (r->state != SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN) {
        check_over(c);
    }
    if (!request->again && !request->shared && !request->cut) {
        check_sum(c, r);
    }
}

/* Checks the receipt of a range: the position reached is at most the one asked
 * for, and exactly that one without linear layers, window layers and faults. */
static void check_range(struct control *c, const Sluice__V1__Receipt *r)
{
    const struct sim_request *request = &c->sim->requests[c->target];
    const struct sim_options *o = &c->sim->options;
    bool exact = !o->models[request->model].linear &&
                 !o->models[request->model].window && !o->faulty;
    uint64_t *deeds = c->sim->counts.cells.deeds;

    if (r->state != SLUICE__V1__SEQUENCE_STATE__SEQUENCE_KEPT ||
        !r->has_position || r->position > c->begin ||
        (exact && r->position < c->begin)) {
        sim_fail(c->sim, (int32_t)c->target,
                 "range from %u removed, but the receipt has position %d",
                 c->begin, r->has_position ? (int)r->position : -1);
        return;
    }
    deeds[r->position == 0         ? DEED_RANGE_NOTHING
          : r->position < c->begin ? DEED_RANGE_BACK
                                   : DEED_RANGE]++;
    sessions_cut(c->sim, c->target, c->choice, c->begin);
}

/* Returns whether nothing was kept of which a range could be removed. */
static bool range_explained(const struct control *c, enum status status)
{
    return c->range &&
           (status == ST_NOT_FOUND || status == ST_FAILED_PRECONDITION);
}

static void check_audit(struct control *c, const Sluice__V1__AuditAllReply *r)
{
    for (size_t i = 0; i < r->n_workers; i++) {
        ProtobufCBinaryData text = r->workers[i]->text;
        bool broken = (c->sim->options.faulty || sim_short ||
                       drains_drawn(&c->sim->options)) &&
                      text.len > 10 && memcmp(text.data, "the worker", 10) == 0;

        if (r->workers[i]->n_differences && !broken) {
            sim_fail(c->sim, -1, "Audit reports %u differences: %.*s",
                     r->workers[i]->n_differences, (int)r->workers[i]->text.len,
                     r->workers[i]->text.data);
        }
    }
}

static bool same_sequence(const Sluice__V1__SequenceRef *a,
                          const Sluice__V1__SequenceRef *b)
{
    return a->choice == b->choice &&
           memcmp(a->request_id.data, b->request_id.data, 16) == 0;
}

/* Checks that a client requested this sequence, with the same limits. */
static void check_listed(struct sim *s, const Sluice__V1__SequenceRow *row)
{
    bool asked = false;

    for (uint32_t i = 0; i < s->n_requests && !asked; i++) {
        const struct sim_request *request = &s->requests[i];

        asked = row->sequence->request_id.len == 16 &&
                memcmp(request->id, row->sequence->request_id.data, 16) == 0 &&
                row->sequence->choice < request->n_choices &&
                row->max_tokens == request->max_tokens &&
                (row->n_prompt == request->n_prompt || row->n_prompt == 0);
    }
    if (!asked || row->n_generated > row->max_tokens) {
        sim_fail(s, -1, "listed sequence matches no request");
    }
}

static void check_listing(struct control *c,
                          const Sluice__V1__ListSequencesReply *r)
{
    for (size_t i = 0; i < r->n_sequences; i++) {
        check_listed(c->sim, r->sequences[i]);
        for (size_t k = 0; k < i; k++) {
            if (same_sequence(r->sequences[i]->sequence,
                              r->sequences[k]->sequence)) {
                sim_fail(c->sim, -1, "sequence is listed twice");
            }
        }
    }
}

static bool of_worker(const struct control *c)
{
    return c->method == METHOD_ADMIN_DRAIN || c->method == METHOD_ADMIN_UNDRAIN;
}

static void check_drained(struct control *c, const Sluice__V1__DrainReply *r)
{
    uint64_t *deeds = c->sim->counts.cells.deeds;

    if (r->n_running != r->n_finished + r->n_moved) {
        sim_fail(
            c->sim, -1,
            "drain counts differ: %u running, but %u finished and %u moved",
            r->n_running, r->n_finished, r->n_moved);
    }
    deeds[DEED_DRAIN_ENDED] += r->n_finished != 0;
    deeds[DEED_DRAIN_MOVED] += r->n_moved != 0;
}

/* Returns whether the status is legitimate: the worker may be absent, may leave
 * by itself, or may be undrained while it drains. */
static bool drain_explained(const struct control *c, enum status status)
{
    c->sim->counts.cells.deeds[DEED_UNDRAINED] +=
        c->method == METHOD_ADMIN_DRAIN && status == ST_ABORTED;
    return of_worker(c) && (status == ST_NOT_FOUND || status == ST_ABORTED ||
                            (status == ST_FAILED_PRECONDITION &&
                             c->method == METHOD_ADMIN_UNDRAIN));
}

static void check_answer(struct control *c, enum status status,
                         const ProtobufCMessage *reply)
{
    const struct sim *s = c->sim;

    if (status != ST_OK) {
        if (!s->options.faulty && s->nodes[c->client].life == c->client_life &&
            status != ST_UNAVAILABLE && status != ST_RESOURCE_EXHAUSTED &&
            !drain_explained(c, status) && !range_explained(c, status)) {
            sim_fail(c->sim, (int32_t)c->target, "%s fails: %s",
                     method_find((uint16_t)c->method)->name,
                     status_name(status));
        }
    } else if (c->range) {
        check_range(c, (const void *)reply);
    } else if (c->target != CONTROL_NO_TARGET) {
        check_receipt(c, (const void *)reply);
    } else if (c->method == METHOD_ADMIN_DRAIN) {
        check_drained(c, (const void *)reply);
    } else if (c->method == METHOD_ADMIN_AUDIT) {
        check_audit(c, (const void *)reply);
    } else if (c->method == METHOD_ADMIN_LIST_SEQUENCES) {
        check_listing(c, (const void *)reply);
    }
}

static void on_end(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms)
{
    struct control *c = arg;

    (void)retry_after_ms;
    sim_log(c->sim, "control %s of %d ends %s%s%s",
            method_find((uint16_t)c->method)->method, (int)c->target,
            status_name(status), e ? ": " : "", e ? e->text : "");
    c->sim->n_controls_open -= c->n_ends == 0;
    if (c->n_ends++) {
        sim_fail(c->sim, (int32_t)c->target, "control call ended twice");
    } else {
        check_answer(c, status, reply);
    }
}

static const struct client_call_ops ops = {NULL, on_end};

static enum status call(struct control *c, const ProtobufCMessage *request)
{
    return client_core_call(c->sim->nodes[c->client].core, c->method, request,
                            0, &ops, c, NULL);
}

static enum status call_target(struct control *c)
{
    struct sim_request *target = &c->sim->requests[c->target];
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest cancel = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__RemoveRequest remove = SLUICE__V1__REMOVE_REQUEST__INIT;

    ref.request_id = (ProtobufCBinaryData){sizeof(target->id), target->id};
    ref.has_choice = c->choice != CHOICE_ALL;
    ref.choice = ref.has_choice ? c->choice : 0;
    cancel.sequence = remove.sequence = &ref;
    remove.has_begin = c->range;
    remove.begin = c->begin;
    if (!c->range) {
        sim_request_end_asked(c->sim, target, c->choice);
    }
    return call(c, method_find((uint16_t)c->method)->request ==
                           &sluice__v1__cancel_request__descriptor
                       ? &cancel.base
                       : &remove.base);
}

static enum status call_plain(struct control *c)
{
    Sluice__V1__Nothing nothing = SLUICE__V1__NOTHING__INIT;
    Sluice__V1__ListRequest list = SLUICE__V1__LIST_REQUEST__INIT;
    Sluice__V1__ListModelsRequest models =
        SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    Sluice__V1__StatusRequest status = SLUICE__V1__STATUS_REQUEST__INIT;

    switch ((int)c->method) {
    case METHOD_ADMIN_LIST_WORKERS:
    case METHOD_ADMIN_LIST_SEQUENCES:
        return call(c, &list.base);
    case METHOD_INFERENCE_LIST_MODELS:
        return call(c, &models.base);
    case METHOD_ADMIN_STATUS:
        return call(c, &status.base);
    default:
        return call(c, &nothing.base);
    }
}

static enum status call_worker(struct control *c)
{
    char name[SIM_KNOWN_AS];
    Sluice__V1__DrainRequest drain = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__WorkerRequest undrain = SLUICE__V1__WORKER_REQUEST__INIT;

    keys_known_as(c->sim, SIM_FIRST_WORKER + c->worker, name);
    drain.worker = undrain.worker = wire_text(name);
    drain.has_grace_ms = true;
    drain.grace_ms = c->grace_ms;
    return call(c,
                c->method == METHOD_ADMIN_DRAIN ? &drain.base : &undrain.base);
}

static void ask(struct sim *s, const struct control *what)
{
    struct control *c = &s->controls[s->n_controls];
    enum status st;

    if (!s->nodes[what->client].core || s->n_controls == SIM_CONTROLS_MAX) {
        return;
    }
    *c = *what;
    c->sim = s;
    c->client_life = s->nodes[c->client].life;
    c->asked_us = sim_now(s);
    st = of_worker(c)                     ? call_worker(c)
         : c->target == CONTROL_NO_TARGET ? call_plain(c)
                                          : call_target(c);
    if (st == ST_OK) {
        s->n_controls++;
        s->n_controls_open++;
        sim_log(s, "%s sends %s for request %d", s->nodes[c->client].name,
                method_find((uint16_t)c->method)->method,
                of_worker(c) ? (int)c->worker : (int)c->target);
    }
    node_soon(s, c->client);
}

void control_ask_range(struct sim *s, uint32_t client, uint32_t target,
                       uint32_t choice, uint32_t begin)
{
    const struct control c = {.method = METHOD_INFERENCE_REMOVE,
                              .target = target,
                              .choice = choice,
                              .range = true,
                              .begin = begin,
                              .client = client};

    ask(s, &c);
}

void control_ask_worker(struct sim *s, uint32_t client, enum method m,
                        uint32_t worker, uint32_t grace_ms)
{
    const struct control c = {.method = m,
                              .target = CONTROL_NO_TARGET,
                              .choice = CHOICE_ALL,
                              .worker = worker,
                              .grace_ms = grace_ms,
                              .client = client};

    ask(s, &c);
}

void control_ask(struct sim *s, uint32_t client, enum method m, uint32_t target,
                 uint32_t choice)
{
    const struct control c = {
        .method = m, .target = target, .choice = choice, .client = client};

    ask(s, &c);
}
