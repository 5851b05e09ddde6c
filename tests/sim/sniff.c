/* sniff.c - Inspects frames when they are delivered. */
#include <stdio.h>
#include <string.h>

#include "proto/admin.pb-c.h"
#include "proto/inference.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/sim/sim.h"
#include "worker/cache/logprobs.h"

#define NO_REQUEST UINT32_MAX

static const char *kind_name(uint8_t kind)
{
    static const char *const names[] = {"?",   "Call",   "Reply",
                                        "End", "Cancel", "OneWay"};

    return names[kind < 6 ? kind : 0];
}

void sniff_log(const struct sim *s, uint32_t conn, enum conn_end to,
               const struct frame *f, const struct frame_header *h)
{
    const struct conn *c = &s->network.conns[conn - 1];
    const char *peer = s->nodes[c->node].name;
    struct envelope e;
    uint32_t at = 0;
    char line[600];
    int n = snprintf(line, sizeof(line), "%s%s %s/%u #%llu ack %llu%s",
                     c->listener ? s->nodes[c->listener].name : "",
                     to == END_ROUTER ? "<-" : "->", peer, conn,
                     (unsigned long long)h->number, (unsigned long long)h->ack,
                     h->flags & FRAME_GAP ? " gap" : "");

    while (n < (int)sizeof(line) - 80 && envelope_next(f, h, &at, &e)) {
        const struct method_row *m = method_find(e.method);

        n += snprintf(line + n, sizeof(line) - (size_t)n, "; %s %s %llu%s%s",
                      kind_name(e.kind), m ? m->method : "-",
                      (unsigned long long)e.call, e.status ? " " : "",
                      e.status ? status_name((enum status)e.status) : "");
    }
    sim_log(s, "%s", line);
}

/* Finds the newest request with this id. */
static uint32_t find(const struct sim *s, ProtobufCBinaryData id)
{
    for (uint32_t i = s->n_requests; i; i--) {
        if (id.len == 16 &&
            memcmp(s->requests[i - 1].id, id.data, id.len) == 0) {
            return i - 1;
        }
    }
    return NO_REQUEST;
}

static const void *body(struct sim *s, const struct envelope *e,
                        const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m;

    return wire_unpack(&s->arena, type, e->body, e->body_bytes, &m, NULL) ==
                   ST_OK
               ? m
               : NULL;
}

/* Counts the tokens and text with which a client resumes. */
static void resumed(struct sim *s, struct sim_request *request,
                    const Sluice__V1__GenerateRequest *r)
{
    uint64_t *deeds = s->counts.cells.deeds;
    uint32_t n_ended = 0;

    if (r->n_have_count != request->n_choices) {
        return;
    }
    for (uint32_t i = 0; i < request->n_choices; i++) {
        struct sim_choice *c = &request->choices[i];

        c->n_had = r->have_count[i];
        n_ended += r->have_ended[i] != 0;
        deeds[DEED_RESUMED_STOP] += request->n_stops && request->want_text &&
                                    c->n_got == r->have_count[i] &&
                                    r->have_text[i] < c->n_text;
        deeds[DEED_RESUMED_LOGPROBS] +=
            request->sampling.logprobs && r->have_count[i] > 0;
    }
    deeds[DEED_RESUMED_PREFILL] += request->lost_prefill;
    deeds[DEED_RESUMED_DECODE] += request->lost_decode && r->n_have_tokens > 0;
    deeds[DEED_RESUMED_ENDED] += n_ended > 0 && n_ended < request->n_choices;
    deeds[DEED_RESUMED_TWICE] += request->stream.n_resumes > 0;
    request->lost_prefill = request->lost_decode = false;
}

/* Returns the request that a Generate begins with, without the prompt. */
static uint32_t find_head(const struct sim *s, const struct envelope *e)
{
    const uint8_t tag = 1 << 3 | 2; /* field 1, with its length */

    if (e->body_bytes < 18 || e->body[0] != tag || e->body[1] != 16) {
        return NO_REQUEST;
    }
    return find(s, (ProtobufCBinaryData){16, (uint8_t *)e->body + 2});
}

static void generate(struct sim *s, uint32_t conn, const struct envelope *e)
{
    uint32_t i = find_head(s, e);
    const Sluice__V1__GenerateRequest *r =
        i == NO_REQUEST || s->requests[i].resumes
            ? body(s, e, &sluice__v1__generate_request__descriptor)
            : NULL;

    /* The call crossed the Goodbye: the router ignores it. */
    if (network_conn(&s->network, conn)->evicted) {
        return;
    }
    if (r && i == NO_REQUEST &&
        node_is_gateway(network_conn(&s->network, conn)->node)) {
        i = web_named(s, network_conn(&s->network, conn)->node, r);
    }
    if (i != NO_REQUEST) {
        struct sim_request *request = &s->requests[i];

        request->arrived = true;
        for (uint32_t k = 0; k < request->n_choices; k++) {
            request->choices[k].n_killed = 0; /* each call counts anew */
        }
        s->n_brought += request->n_choices;
        s->claims.n_brought[request->model][request->tenant] +=
            request->n_choices;
        request->arrived_us = sim_now(s);
        if (r) {
            resumed(s, request, r);
        }
        request->conn = conn;
        request->at_router = e->call;
        request->bereft = request->bereft || drains_bereft(s, request);
    }
}

/* Returns the target of a Cancel or RemoveSequence; NULL if it has none. */
static const Sluice__V1__SequenceRef *
target(struct sim *s, const struct envelope *e, bool remove)
{
    const Sluice__V1__CancelRequest *c =
        remove ? NULL : body(s, e, &sluice__v1__cancel_request__descriptor);
    const Sluice__V1__RemoveRequest *r =
        remove ? body(s, e, &sluice__v1__remove_request__descriptor) : NULL;

    return c ? c->sequence : r ? r->sequence : NULL;
}

static void named(struct sim *s, const struct envelope *e, bool remove)
{
    const Sluice__V1__SequenceRef *ref = target(s, e, remove);
    uint32_t i = ref ? find(s, ref->request_id) : NO_REQUEST;

    if (i != NO_REQUEST) {
        cells_hit(s, i, ref->has_choice ? ref->choice : CHOICE_ALL,
                  remove ? CELL_REMOVE : CELL_CANCEL);
    }
}

static void call_cancelled(struct sim *s, uint32_t conn, uint64_t call)
{
    for (uint32_t i = s->n_requests; i; i--) {
        const struct sim_request *request = &s->requests[i - 1];

        if (request->arrived && request->conn == conn &&
            request->at_router == call) {
            cells_hit(s, i - 1, CHOICE_ALL, CELL_CANCEL);
            return;
        }
    }
}

static void drain(struct sim *s, const struct envelope *e)
{
    const Sluice__V1__DrainRequest *r =
        body(s, e, &sluice__v1__drain_request__descriptor);

    if (r) {
        drains_asked(s, r->worker.data, r->worker.len);
    }
}

static void from_client(struct sim *s, uint32_t conn, const struct envelope *e)
{
    if (e->kind == ENVELOPE_CANCEL) {
        call_cancelled(s, conn, e->call);
    } else if (e->kind == ENVELOPE_CALL) {
        switch (e->method) {
        case METHOD_INFERENCE_GENERATE:
            generate(s, conn, e);
            break;
        case METHOD_ADMIN_DRAIN:
            drain(s, e);
            break;
        case METHOD_INFERENCE_CANCEL:
        case METHOD_ADMIN_CANCEL:
            named(s, e, false);
            break;
        case METHOD_INFERENCE_REMOVE:
        case METHOD_ADMIN_REMOVE:
            named(s, e, true);
            break;
        default:
            break;
        }
    } else if (e->method == METHOD_REGISTRY_GOODBYE) {
        cells_disconnect(s, network_conn(&s->network, conn)->node);
    }
}

static uint64_t pages_of(const Sluice__V1__ClassLedger *c, uint64_t per)
{
    return (c->held + c->cached + c->granted) * per;
}

/* Returns whether the connection is from before the worker got its layers. */
static bool has_other_layers(const struct sim *s, const struct conn *c)
{
    struct fake_shard shard =
        options_shard(&s->options, c->node - SIM_FIRST_WORKER);

    return c->begin != shard.begin || c->end != shard.end;
}

/* Checks the identity in pages, and that the classes account for all pages that
 * are not free. */
static void check_ledger(struct sim *s, uint32_t conn,
                         const Sluice__V1__Ledger *l)
{
    uint32_t w = network_conn(&s->network, conn)->node - SIM_FIRST_WORKER;
    uint64_t per = s->options.pools.workers[w].pages_per_slot;
    const Sluice__V1__ClassLedger *p = l->pages;
    uint64_t used = pages_of(l->blocks, 1) + pages_of(l->slots, per) +
                    pages_of(l->checkpoints, per) +
                    (l->windows != NULL ? pages_of(l->windows, 1) : 0);

    if (p->total != p->free + p->held + p->cached + p->granted) {
        sim_fail(s, -1, "pages of a ledger do not add up to the total");
    }
    if (used != p->total - p->free &&
        !has_other_layers(s, network_conn(&s->network, conn))) {
        sim_fail(s, -1, "classes of a ledger do not add up to its pages");
    }
    if (l->violations) {
        sim_fail(s, -1, "ledger counts protocol violations");
    }
}

/* Checks a worker's error.  Room is granted before it is used.  No network
 * fault and no death explains that a worker lacks room, or rejects a Submit as
 * invalid. */
static void check_refusal(struct sim *s, uint32_t conn,
                          const struct envelope *e)
{
    if (e->method == METHOD_WORKER_ASSIGN ||
        (e->status == ST_RESOURCE_EXHAUSTED && sim_short)) {
        return;
    }
    if (e->status == ST_RESOURCE_EXHAUSTED ||
        e->status == ST_INVALID_ARGUMENT || e->status == ST_OUT_OF_RANGE ||
        e->status == ST_ALREADY_EXISTS || e->status == ST_INTERNAL) {
        const Sluice__V1__Failure *f =
            body(s, e, &sluice__v1__failure__descriptor);

        sim_fail(s, -1, "%s rejected a call: %s: %.*s",
                 s->nodes[network_conn(&s->network, conn)->node].name,
                 status_name((enum status)e->status),
                 f ? (int)f->message.len : 0, f ? f->message.data : NULL);
    }
}

static void receipt(struct sim *s, uint32_t conn, const struct envelope *e)
{
    const Sluice__V1__Receipt *r = body(s, e, &sluice__v1__receipt__descriptor);
    uint32_t i = r ? find(s, r->sequence->request_id) : NO_REQUEST;

    if (r) {
        replicas_receipt(s, network_conn(&s->network, conn)->node,
                         i == NO_REQUEST ? NULL : &s->requests[i], r);
    }

    /* Not of a range, and not of a kept sequence that gives way. */
    if (i != NO_REQUEST && r->sequence->choice < s->requests[i].n_choices &&
        !r->has_position &&
        !router_lapses(s->nodes[SIM_ROUTER].core, s->requests[i].id,
                       r->sequence->choice)) {
        struct sim_choice *c = &s->requests[i].choices[r->sequence->choice];

        c->freed_blocks += r->blocks;
        c->freed_slots += r->slots;
        c->freed_windows += r->windows;
    }
}

/* Counts sequences that wait for acknowledgement of their logprobs. */
static void look_windows(struct sim *s, const Sluice__V1__StepOutputMessage *r)
{
    for (size_t i = 0; i < r->n_width; i++) {
        s->counts.cells.deeds[DEED_WINDOW_FULL] +=
            r->width[i] && r->count[i] == LOGPROB_WINDOW && !r->finish[i];
    }
}

/* Counts a snapshot that the router has requested after a gap. */
static void look_snapshot(struct sim *s, uint32_t conn, bool snapshot)
{
    struct conn *c = network_conn(&s->network, conn);

    s->counts.cells.deeds[DEED_INDEX_SNAPSHOT] += snapshot && c->index_gap;
    c->index_gap = c->index_gap && !snapshot;
}

static void from_worker(struct sim *s, uint32_t conn, const struct envelope *e)
{
    if (e->method == METHOD_REGISTRY_GOODBYE) {
        drains_goodbye(s, network_conn(&s->network, conn)->node, conn);
        auditor_goodbye(s, conn);
    }
    if (e->method == METHOD_REGISTRY_REPORT) {
        const Sluice__V1__ReportMessage *r =
            body(s, e, &sluice__v1__report_message__descriptor);

        if (r) {
            check_ledger(s, conn, r->ledger);
            liveness_report(s, conn, r->ledger, r->engine);
        }
    } else if (e->method == METHOD_REGISTRY_STEP_OUTPUT) {
        const Sluice__V1__StepOutputMessage *r =
            body(s, e, &sluice__v1__step_output_message__descriptor);

        if (r) {
            check_ledger(s, conn, r->ledger);
            liveness_report(s, conn, r->ledger, r->engine);
            look_windows(s, r);
        }
    } else if (e->method == METHOD_REGISTRY_BROKEN) {
        const Sluice__V1__BrokenMessage *r =
            body(s, e, &sluice__v1__broken_message__descriptor);

        if (r) {
            replicas_broken(s, network_conn(&s->network, conn)->node,
                            (const char *)r->why.data, r->why.len);
        }
    } else if (e->method == METHOD_REGISTRY_INDEX) {
        const Sluice__V1__IndexMessage *r =
            body(s, e, &sluice__v1__index_message__descriptor);

        if (r) {
            look_snapshot(s, conn, r->snapshot);
        }
    } else if (e->method == METHOD_REGISTRY_LIVE) {
        const Sluice__V1__LiveMessage *r =
            body(s, e, &sluice__v1__live_message__descriptor);

        if (r) {
            adoptions_live(s, conn, r);
        }
    } else if (e->kind == ENVELOPE_END) {
        check_refusal(s, conn, e);
        if (e->method == METHOD_WORKER_SUBMIT) {
            grants_answer(s, conn, e->call, (enum status)e->status);
            adoptions_answer(s, conn, e->call, (enum status)e->status);
        } else if (e->status != ST_OK && e->method == METHOD_WORKER_ASSIGN) {
            offers_refused(s, conn, e->call);
        } else if (e->status == ST_OK && (e->method == METHOD_WORKER_CANCEL ||
                                          e->method == METHOD_WORKER_REMOVE)) {
            receipt(s, conn, e);
        }
    }
}

/* Returns whether the router has a worker on this connection, with this session
 * unless it is 0. */
static bool is_worker_of_router(const struct sim *s, uint32_t conn,
                                uint64_t session)
{
    const void *router = s->nodes[SIM_ROUTER].core;
    struct router_worker_view v;

    for (uint32_t i = 0; router && router_worker_view(router, i, &v); i++) {
        if (v.id.v == conn) {
            return session == 0 || v.session == session;
        }
    }
    return false;
}

/* Checks that the previous worker has released a choice that goes to another
 * one.  Exceptions: the router has lost one of them, or the Submit adopts a
 * sequence that was not there.  A late Hello reopens a connection with another
 * session. */
static void check_alone(const struct sim_choice *c, uint32_t conn)
{
    struct sim *s = c->request->sim;
    uint32_t old = c->submitted_conn;
    const struct sim_node *n;
    int state;

    if (!old || old == conn || c->adopting ||
        !is_worker_of_router(s, old, c->submitted_session) ||
        !is_worker_of_router(s, conn, 0)) {
        return;
    }
    n = &s->nodes[network_conn(&s->network, old)->node];
    state = node_worker(s, n->number)
                ? worker_sequence_state(n->core, c->request->id, c->number)
                : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    if (state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL ||
        state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE) {
        sim_fail(s, (int32_t)c->request->number, "choice %u: still runs on %s",
                 c->number, n->name);
    }
}

static void submitted(struct sim *s, uint32_t conn, struct sim_choice *c,
                      const Sluice__V1__SubmitRequest *r)
{
    struct cells *cells = &s->counts.cells;
    const struct sim_request *request = c->request;
    bool moved = c->submitted_conn && c->submitted_conn != conn;

    check_alone(c, conn);
    if (c->killed_conn && is_worker_of_router(s, c->killed_conn, 0)) {
        auditor_forgiven(c); /* released before the death was detected */
    }
    spare_submitted(c, r->n_generated);
    claims_submitted(c, conn, r);
    cells->deeds[DEED_ABSENT_SERVED] += request->bereft;
    cells->deeds[DEED_CONTINUED_MOVED] += moved && request->continues;
    s->counts.moved += moved;
    s->counts.moved_tokens += r->n_generated != 0;
    c->submitted_conn = conn;
    c->submitted_session = network_conn(&s->network, conn)->session;
    c->n_given = r->n_generated;
    c->adopting = r->adopt;
    if (r->n_generated) {
        c->n_moves++;
        cells->deeds[DEED_MOVED_PENALTIES] +=
            sampling_penalises(&request->sampling);
        cells->deeds[DEED_MOVED_LOGPROBS] += request->sampling.logprobs;
        cells->deeds[DEED_MOVED_TEXT] += c->text != NULL;
    }
    for (uint32_t i = 0; i < request->n_choices; i++) {
        const struct sim_choice *o = &request->choices[i];

        if (o->submitted_conn && o->submitted_conn != conn && !o->finish) {
            cells->deeds[DEED_CHOICES_APART]++;
        }
    }
    if (request->sampling.logprobs &&
        network_conn(&s->network, conn)->open[END_PEER] &&
        worker_sequence_state(
            s->nodes[network_conn(&s->network, conn)->node].core, request->id,
            c->number) != SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN) {
        cells->deeds[DEED_FOUND_LOGPROBS]++;
    }
}

static void submit(struct sim *s, uint32_t conn, const struct envelope *e)
{
    const Sluice__V1__SubmitRequest *r =
        body(s, e, &sluice__v1__submit_request__descriptor);
    uint32_t i = r ? find(s, r->sequence->request_id) : NO_REQUEST;
    struct sim_request *request;
    bool wanted = false;

    if (r) {
        wanted = grants_submit(s, conn, r->grant, e->call);
        adoptions_submit(s, conn, e->call, r);
    }
    if (i == NO_REQUEST || !wanted) {
        return;
    }
    request = &s->requests[i];
    if (r->n_prompt != request->n_prompt) {
        sim_fail(s, (int32_t)i, "Submit has another prompt than the request");
    } else if (r->sequence->choice >= request->n_choices) {
        sim_fail(s, (int32_t)i, "Submit names no choice of the request");
    } else {
        submitted(s, conn, &request->choices[r->sequence->choice], r);
        sim_request_seed(request, r->sampling->seed);
        if (r->sampling->draw_index != request->sampling.draw_index ||
            r->sampling->draw_choice != request->sampling.draw_choice) {
            sim_fail(s, (int32_t)i, "Submit draws from another index");
        }
        if ((r->has_drafts != request->has_drafts ||
             r->drafts != request->drafts) &&
            !request->again && !request->shared) {
            sim_fail(s, (int32_t)i, "Submit has another number of drafts");
        }
    }
}

static void assemble(struct sim *s, uint32_t conn, const struct envelope *e)
{
    const Sluice__V1__AssembleRequest *r =
        body(s, e, &sluice__v1__assemble_request__descriptor);

    if (r) {
        replicas_ordered(s, network_conn(&s->network, conn)->node, r->assembly);
    }
}

static void assign(struct sim *s, uint32_t conn, const struct envelope *e)
{
    const Sluice__V1__AssignRequest *r =
        body(s, e, &sluice__v1__assign_request__descriptor);

    if (r) {
        offers_assigned(s, conn, e->call, r);
    }
}

static void to_worker(struct sim *s, uint32_t conn, const struct envelope *e)
{
    const Sluice__V1__CancelRequest *c;
    const Sluice__V1__RemoveRequest *r;

    if (e->method == METHOD_WORKER_DISOWN) {
        const Sluice__V1__DisownMessage *d =
            body(s, e, &sluice__v1__disown_message__descriptor);

        if (d) {
            adoptions_disown(s, conn, d);
        }
    }
    if (e->method == METHOD_WORKER_INDEX_SNAPSHOT) {
        network_conn(&s->network, conn)->index_gap = true;
        s->counts.cells.deeds[DEED_INDEX_GAP]++;
    }
    if (e->kind != ENVELOPE_CALL) {
        return;
    }
    if (e->method == METHOD_WORKER_SUBMIT) {
        submit(s, conn, e);
    } else if (e->method == METHOD_WORKER_CANCEL) {
        c = body(s, e, &sluice__v1__cancel_request__descriptor);
        grants_cancel(s, conn, c ? c->grant : 0);
    } else if (e->method == METHOD_WORKER_REMOVE) {
        r = body(s, e, &sluice__v1__remove_request__descriptor);
        grants_cancel(s, conn, r ? r->grant : 0);
    } else if (e->method == METHOD_WORKER_ASSEMBLE) {
        assemble(s, conn, e);
    } else if (e->method == METHOD_WORKER_ASSIGN) {
        assign(s, conn, e);
    }
}

bool sniff_fresh(struct conn *c, enum conn_end to, const struct frame_header *h)
{
    if (h->session == 0) {
        return false; /* such as a late or repeated Hello */
    }
    if (h->session != c->session) {
        c->session = h->session;
        c->number[END_PEER] = c->number[END_ROUTER] = 0;
    }
    if (h->number == 0 || h->number != c->number[to] + 1) {
        return false;
    }
    c->number[to]++;
    return true;
}

void sniff(struct sim *s, uint32_t conn, enum conn_end to,
           const struct frame *f)
{
    struct conn *c = network_conn(&s->network, conn);
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;
    bool ordered;

    if (frame_check(f->data, f->bytes, &h, NULL) != ST_OK) {
        return;
    }
    if (s->verbose) {
        sniff_log(s, conn, to, f, &h);
    }
    if (to == END_PEER && c->listener == SIM_ROUTER) {
        crowd_look(s, conn, f, &h);
    }
    ordered = sniff_fresh(c, to, &h);
    if (to == END_PEER && h.session != 0) {
        liveness_received(s, c->node);
    }
    for (uint32_t i = 0; envelope_next(f, &h, &at, &e) && !s->failed; i++) {
        if (i < h.n_ordered && !ordered) {
            continue;
        }
        if (to == END_ROUTER && node_is_client(c->node)) {
            from_client(s, conn, &e);
        } else if (to == END_ROUTER) {
            from_worker(s, conn, &e);
        } else if (node_is_worker(c->node)) {
            to_worker(s, conn, &e);
        }
    }
}
