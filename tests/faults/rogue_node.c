#include "tests/faults/rogue_node.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_EVERY_US 200000
#define TURN_US         2000

/* ---- messages sent ---- */

/* Fills a ledger in which all memory is free. */
static void classes_init(struct rogue_shard *s)
{
    const uint32_t totals[4] = {ROGUE_PAGES, ROGUE_SLOTS, 0, ROGUE_PAGES};

    for (int i = 0; i < 4; i++) {
        sluice__v1__class_ledger__init(&s->classes[i]);
        s->classes[i].total = s->classes[i].free = totals[i];
    }
}

static void shard_init(struct rogue_shard *s, const char *model)
{
    sluice__v1__worker_shard__init(&s->m);
    sluice__v1__ledger__init(&s->ledger);
    classes_init(s);
    s->ledger.blocks = &s->classes[0];
    s->ledger.slots = &s->classes[1];
    s->ledger.checkpoints = &s->classes[2];
    s->ledger.pages = &s->classes[3];
    snprintf(s->model, sizeof s->model, "%s", model);
    memset(s->fingerprint, 7, sizeof s->fingerprint);
    s->m.model = wire_text(s->model);
    s->m.device = wire_text("none");
    s->m.fingerprint = (ProtobufCBinaryData){16, s->fingerprint};
    s->m.tokenizer = (ProtobufCBinaryData){0, s->fingerprint};
    s->m.layer_end = s->m.n_layers = 4;
    s->m.block_tokens = 16;
    s->m.block_bytes = 4096;
    s->m.slot_bytes = 8192;
    s->m.pages_per_block = s->m.pages_per_slot = 1;
    s->m.context = ROGUE_CONTEXT;
    s->m.vocab = ROGUE_VOCAB;
    s->m.max_rows = 64;
    s->m.ledger = &s->ledger;
}

static void on_hello(void *node, ProtobufCMessage *message)
{
    struct rogue_node *n = node;
    Sluice__V1__HelloRequest *m = (Sluice__V1__HelloRequest *)message;

    m->name = wire_text(n->name);
    if (n->role == BY_WORKER) {
        n->shard.ledger.session = 0;
        n->shard.ledger.snapshot = n->shard.ledger.grant = 0;
        if (n->n_up > 0) { /* forget the last session's ledger */
            classes_init(&n->shard);
        }
        m->worker = &n->shard.m;
    }
}

static void on_up(void *node, struct peer *p)
{
    struct rogue_node *n = node;

    n->peer = p;
    n->n_up++;
    n->refused = ST_OK;
    n->shard.ledger.session = peer_session(p);
}

static void on_down(void *node, struct peer *p, enum status refused,
                    const char *why)
{
    struct rogue_node *n = node;

    n->peer = NULL;
    n->n_down += p != NULL;
    n->n_refused += refused != ST_OK;
    n->refused = refused != ST_OK ? refused : n->refused;
    if (p != NULL || refused != ST_OK) {
        snprintf(n->why, sizeof n->why, "%s", why);
    }
}

static const struct session_ops session_table = {
    .hello = on_hello, .up = on_up, .down = on_down};

/* ---- calls received, as a worker with room ---- */

/* Sets which blocks and slots are granted; all other pages are free. */
static void account(struct rogue_shard *s, const uint32_t granted[2])
{
    Sluice__V1__ClassLedger *pages = &s->classes[3];

    pages->granted = granted[0] + granted[1];
    pages->free = pages->total - pages->granted;
    for (int i = 0; i < 2; i++) {
        Sluice__V1__ClassLedger *c = &s->classes[i];
        uint32_t left = c->total - granted[i];

        c->granted = granted[i];
        c->free = left < pages->free ? left : pages->free;
    }
}

void rogue_release(struct rogue_node *n)
{
    n->need[0] = n->need[1] = 0;
    account(&n->shard, n->need);
}

static void on_submit(struct rogue_node *n, struct peer *p, uint64_t call,
                      const Sluice__V1__SubmitRequest *m)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;

    n->n_submits++;
    n->n_made = 0;
    n->grant = n->shard.ledger.grant = m->grant;
    n->need[0] = m->need->blocks;
    n->need[1] = m->need->slots;
    account(&n->shard, n->need);
    peer_end(p, call, &none.base);
}

static void on_removal(struct rogue_node *n, struct peer *p, uint64_t call,
                       const Sluice__V1__SequenceRef *ref)
{
    Sluice__V1__Receipt r = SLUICE__V1__RECEIPT__INIT;
    Sluice__V1__SequenceRef copy = *ref;

    n->n_removals++;
    r.sequence = &copy;
    r.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
    r.n_generated = n->n_made;
    r.blocks = n->need[0];
    r.slots = n->need[1];
    r.snapshot = n->shard.ledger.snapshot + 1;
    rogue_release(n);
    if (n->spoil != NULL) {
        n->spoil(&r);
    }
    peer_end(p, call, &r.base);
}

static void on_audit(struct rogue_node *n, struct peer *p, uint64_t call)
{
    Sluice__V1__AuditReply m = SLUICE__V1__AUDIT_REPLY__INIT;

    n->shard.ledger.snapshot++;
    m.ledger = &n->shard.ledger;
    peer_end(p, call, &m.base);
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    struct rogue_node *n = node;
    const Sluice__V1__AcknowledgeMessage *ack = (const void *)request;
    const Sluice__V1__CancelRequest *cancel = (const void *)request;
    const Sluice__V1__RemoveRequest *remove = (const void *)request;
    struct error e;

    (void)deadline_us;
    if (m->number == METHOD_WORKER_SUBMIT) {
        on_submit(n, p, call, (const void *)request);
    } else if (m->number == METHOD_WORKER_ACKNOWLEDGE) {
        n->n_acks++;
        n->ack_index = ack->n_index > 0 ? ack->index[ack->n_index - 1] : 0;
    } else if (m->number == METHOD_WORKER_CANCEL) {
        on_removal(n, p, call, cancel->sequence);
    } else if (m->number == METHOD_WORKER_REMOVE) {
        on_removal(n, p, call, remove->sequence);
    } else if (m->number == METHOD_WORKER_AUDIT) {
        on_audit(n, p, call);
    } else if (m->number == METHOD_WORKER_INDEX_SNAPSHOT) {
        n->n_snapshots++;
    } else if (call != 0) {
        error_set(&e, ST_UNIMPLEMENTED, "not by this peer");
        peer_fail(p, call, &e, 0);
    }
}

/* ---- replies received, as a client ---- */

static void on_reply(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply)
{
    struct rogue_node *n = node;
    const Sluice__V1__GenerateChunk *c = (const void *)reply;

    (void)p;
    (void)tag;
    if (m->number != METHOD_INFERENCE_GENERATE) {
        return;
    }
    n->n_chunks++;
    for (size_t i = 0; i < c->n_tokens; i++) {
        n->tokens[n->n_tokens++ % ROGUE_TOKENS] = c->tokens[i];
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct rogue_node *n = node;

    (void)p;
    (void)tag;
    (void)retry_after_ms;
    n->n_ends++;
    n->status = status;
    snprintf(n->text, sizeof n->text, "%s", e != NULL ? e->text : "");
    if (reply != NULL && m->reply == &sluice__v1__receipt__descriptor) {
        const Sluice__V1__Receipt *r = (const void *)reply;

        n->receipt = *r;
        n->n_unknown +=
            r->state == SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    }
}

static const struct peer_ops peer_table = {
    .on_call = on_call, .on_reply = on_reply, .on_end = on_end};

/* ---- the node ---- */

static void node_opened(void *node, struct peer_id who)
{
    session_opened(&((struct rogue_node *)node)->session, who);
}

/* Receives frames without the link; over TCP they arrive in order. */
static void recv_raw(struct rogue_node *n, struct frame **fp)
{
    struct frame *f = *fp;
    struct frame_header h;
    struct envelope e;
    uint32_t at = 0;

    *fp = NULL;
    if (frame_check(f->data, f->bytes, &h, NULL) == ST_OK) {
        keepalive_heard(&n->session.keepalive, loop_now_us());
        n->got = h.number > n->got ? h.number : n->got;
        if (hello_is_goodbye(f, &h, &e)) {
            n->n_down++;
            snprintf(n->why, sizeof n->why, "Goodbye");
        }
        while (envelope_next(f, &h, &at, &e)) {
            n->n_ends += e.kind == ENVELOPE_END;
            n->status = e.kind == ENVELOPE_END ? e.status : n->status;
        }
    }
    frame_free(&f);
}

static void node_recv(void *node, struct peer_id from, struct frame **f)
{
    if (((struct rogue_node *)node)->raw) {
        recv_raw(node, f);
        return;
    }
    session_recv(&((struct rogue_node *)node)->session, from, f);
}

static void node_lost(void *node, struct peer_id who)
{
    session_lost(&((struct rogue_node *)node)->session, who);
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct rogue_node *n = node;
    int64_t due_us;

    if (n->role == BY_WORKER && n->peer != NULL && !n->mute &&
        now_us - n->reported_us > REPORT_EVERY_US) {
        rogue_report(n);
    }
    due_us = session_tick(&n->session, now_us);
    return due_us < now_us + REPORT_EVERY_US ? due_us
                                             : now_us + REPORT_EVERY_US;
}

static const struct node_ops node_table = {node_opened, node_recv, node_lost,
                                           node_tick};

struct rogue_node *rogue_node_new(const char *endpoint, uint8_t role,
                                  const char *name)
{
    struct rogue_node *n = calloc(1, sizeof *n);
    struct error e;

    assert(n != NULL);
    n->role = role;
    snprintf(n->name, sizeof n->name, "%s", name);
    shard_init(&n->shard, name);
    if (transport_connect(&n->transport, endpoint, NULL, &e) != ST_OK) {
        fprintf(stderr, "rogue: %s\n", e.text);
        exit(2);
    }
    arena_init(&n->arena);
    session_init(&n->session, transport_io(n->transport), &session_table,
                 &peer_table, n, &n->arena, role);
    loop_init(&n->loop, n->transport, &node_table, n);
    return n;
}

void rogue_node_free(struct rogue_node **self)
{
    struct rogue_node *n = *self;

    *self = NULL;
    if (n != NULL) {
        session_fini(&n->session, "the rogue has gone");
        transport_free(&n->transport);
        arena_fini(&n->arena);
        free(n);
    }
}

static void turn(struct rogue_node *const *nodes, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        (void)loop_turn(&nodes[i]->loop, TURN_US);
    }
}

bool rogue_run(struct rogue_node *const *nodes, unsigned n,
               rogue_until_fn *done, const void *arg)
{
    int64_t until_us = loop_now_us() + patience_us();

    while (!done(arg)) {
        if (loop_now_us() > until_us) {
            return false;
        }
        turn(nodes, n);
    }
    return true;
}

static bool is_up(const void *arg)
{
    return ((const struct rogue_node *)arg)->peer != NULL;
}

bool rogue_run_up(struct rogue_node *n)
{
    return rogue_run(&n, 1, is_up, n);
}

void rogue_run_for(struct rogue_node *const *nodes, unsigned n, int64_t for_us)
{
    int64_t until_us = loop_now_us() + for_us;

    while (loop_now_us() < until_us) {
        turn(nodes, n);
    }
}

/* ---- messages ---- */

void rogue_report(struct rogue_node *n)
{
    Sluice__V1__ReportMessage m = SLUICE__V1__REPORT_MESSAGE__INIT;

    n->shard.ledger.snapshot++;
    m.ledger = &n->shard.ledger;
    n->reported_us = loop_now_us();
    if (n->peer != NULL) {
        (void)!peer_oneway(n->peer, METHOD_REGISTRY_REPORT, &m.base);
    }
}

void rogue_step(struct rogue_node *n, Sluice__V1__StepOutputMessage *m)
{
    if (m->ledger == NULL) {
        n->shard.ledger.snapshot++;
        m->ledger = &n->shard.ledger;
    }
    m->step = ++n->step;
    if (m->n_grant > 0 && m->n_count > 0 && m->n_first_index > 0) {
        n->n_made = m->first_index[0] + m->count[0];
    }
    n->reported_us = loop_now_us();
    if (n->peer != NULL) {
        (void)!peer_oneway(n->peer, METHOD_REGISTRY_STEP_OUTPUT, &m->base);
    }
}

enum status rogue_generate(struct rogue_node *n, const char *model,
                           const uint8_t id[16], uint32_t max_tokens)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;
    uint32_t ids[3] = {1, 2, 3};
    uint8_t copy[16];

    sampling.has_ignore_eos = sampling.ignore_eos = true;
    m.sampling = &sampling;
    memcpy(copy, id, sizeof copy);
    m.request_id = (ProtobufCBinaryData){sizeof copy, copy};
    m.model = wire_text(model);
    m.tokens = ids;
    m.n_tokens = 3;
    m.has_max_tokens = m.has_want_text = true;
    m.max_tokens = max_tokens;
    m.want_text = false;
    return peer_call(n->peer, METHOD_INFERENCE_GENERATE, &m.base, 0, 0, NULL);
}

enum status rogue_cancel(struct rogue_node *n, const uint8_t id[16])
{
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    uint8_t copy[16];

    memcpy(copy, id, sizeof copy);
    ref.request_id = (ProtobufCBinaryData){sizeof copy, copy};
    m.sequence = &ref;
    return peer_call(n->peer, METHOD_INFERENCE_CANCEL, &m.base, 0, 0, NULL);
}

static void send_one(struct rogue_node *n, struct frame_header *h,
                     const struct envelope *e)
{
    struct node_io *io = transport_io(n->transport);
    uint8_t *bytes = malloc(ENVELOPE_HEADER + e->body_bytes);
    struct frame *f;

    assert(bytes != NULL);
    h->session = peer_session(n->peer);
    h->ack = n->got;
    h->envelopes_bytes = (uint32_t)envelope_write(bytes, e);
    f = frame_make(h, bytes, NULL);
    free(bytes);
    (void)io->send(io, peer_id(n->peer), &f);
}

void rogue_raw_state(struct rogue_node *n, const struct envelope *e)
{
    struct frame_header h = {.n_state = 1};

    send_one(n, &h, e);
}

void rogue_go_raw(struct rogue_node *n)
{
    n->raw = true;
}

void rogue_raw(struct rogue_node *n, const struct envelope *e)
{
    struct frame_header h = {.n_ordered = 1, .number = ++n->sent};

    send_one(n, &h, e);
}
