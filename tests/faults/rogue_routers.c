/* A router that breaks the rules, against a real worker.  The worker must
 * report the violation or ignore it, and afterwards serve a valid Submit to the
 * end and release all its memory. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/health.pb-c.h"
#include "tests/faults/rogue.h"
#include "tests/faults/rogue_node.h"

#define PROMPT 3
#define TOKENS 4

struct fake {
    struct transport *transport;
    struct loop loop;
    struct arena arena;
    struct peer *peer; /* the worker's session, or NULL */
    uint64_t session, grant;
    unsigned n_calls; /* calls of the attack; each must end */
    uint32_t block_tokens, vocab, context, blocks, slots, pages;
    bool has_slots;

    unsigned n_hellos, n_overs, n_ends, n_reports, n_rows, n_finished;
    enum status status;
    char text[ERROR_TEXT];
    Sluice__V1__SequenceState receipt;
    uint32_t n_differences, left; /* pages free or cached, newest ledger */
    uint64_t last_row_grant;
    uint32_t n_tokens;
    bool audited;
};

/* ---- messages of the worker ---- */

static void take_ledger(struct fake *f, const Sluice__V1__Ledger *l)
{
    f->n_reports++;
    f->left = l->pages->free + l->pages->cached;
}

/* Acknowledges like a correct router. */
static void take_rows(struct fake *f, struct peer *p,
                      const Sluice__V1__StepOutputMessage *m)
{
    Sluice__V1__AcknowledgeMessage ack = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;
    uint64_t grant[64];
    uint32_t index[64];

    take_ledger(f, m->ledger);
    for (size_t i = 0; i < m->n_grant && i < 64; i++) {
        grant[i] = m->grant[i];
        index[i] = m->first_index[i] + m->count[i];
        f->n_rows++;
        f->last_row_grant = grant[i];
        f->n_tokens = index[i];
        f->n_finished += m->finish[i] != 0;
    }
    ack.n_grant = ack.n_index = m->n_grant < 64 ? m->n_grant : 64;
    ack.grant = grant;
    ack.index = index;
    if (ack.n_grant > 0) {
        (void)!peer_oneway(p, METHOD_WORKER_ACKNOWLEDGE, &ack.base);
    }
}

static void on_call(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request)
{
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;
    const Sluice__V1__ReportMessage *report = (const void *)request;
    struct error e;

    (void)deadline_us;
    if (m->number == METHOD_REGISTRY_REPORT) {
        take_ledger(node, report->ledger);
    } else if (m->number == METHOD_REGISTRY_STEP_OUTPUT) {
        take_rows(node, p, (const void *)request);
    } else if (m->number == METHOD_HEALTH_CHECK) {
        health.serving = true;
        peer_end(p, call, &health.base);
    } else if (call != 0) {
        error_set(&e, ST_UNIMPLEMENTED, "not by this router");
        peer_fail(p, call, &e, 0);
    }
}

static void on_end(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct fake *f = node;

    (void)p;
    (void)tag;
    (void)retry_after_ms;
    f->n_ends++;
    f->status = status;
    snprintf(f->text, sizeof f->text, "%s", e != NULL ? e->text : "");
    if (reply != NULL && m->reply == &sluice__v1__receipt__descriptor) {
        f->receipt = ((const Sluice__V1__Receipt *)(const void *)reply)->state;
    } else if (reply != NULL && m->number == METHOD_WORKER_AUDIT) {
        const Sluice__V1__AuditReply *a = (const void *)reply;

        f->audited = true;
        f->n_differences = a->n_differences;
        take_ledger(f, a->ledger);
    }
}

static const struct peer_ops peer_table = {.on_call = on_call,
                                           .on_end = on_end};

/* ---- sessions ---- */

static void take_shard(struct fake *f, const Sluice__V1__WorkerShard *s)
{
    f->block_tokens = s->block_tokens;
    f->vocab = s->vocab;
    f->context = s->context;
    f->has_slots = s->slot_bytes > 0;
    f->blocks = s->ledger->blocks->total;
    f->slots = s->ledger->slots->total;
    f->pages = s->ledger->pages->total;
}

static void welcome(struct fake *f, struct peer_id from,
                    const struct envelope *e)
{
    struct node_io *io = transport_io(f->transport);
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct peer_config c = {.io = io,
                            .id = from,
                            .self = BY_ROUTER,
                            .other = BY_WORKER,
                            .ops = &peer_table,
                            .node = f,
                            .arena = &f->arena};
    ProtobufCMessage *m;
    struct frame *answer;

    if (wire_unpack(&f->arena, &sluice__v1__hello_request__descriptor, e->body,
                    e->body_bytes, &m, NULL) != ST_OK) {
        return;
    }
    take_shard(f, ((const Sluice__V1__HelloRequest *)(const void *)m)->worker);
    peer_free(&f->peer);
    f->n_hellos++;
    f->grant = 0;
    c.session = f->session = io->random(io) | 1;
    reply.session = f->session;
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = wire_text("rogue");
    answer = hello_answer(f->session, &reply.base, NULL, 0);
    (void)io->send(io, from, &answer);
    f->peer = peer_new(&c);
}

/* Notes why the session ended; its calls have ended before. */
static void end_session(struct fake *f)
{
    char why[ERROR_TEXT];

    snprintf(why, sizeof why, "%s", peer_goodbye(f->peer));
    peer_free(&f->peer);
    snprintf(f->text, sizeof f->text, "%s", why);
}

static void node_recv(void *node, struct peer_id from, struct frame **fp)
{
    struct fake *f = node;
    struct frame *frame = *fp;
    struct frame_header h;
    struct envelope e;

    *fp = NULL;
    if (frame_check(frame->data, frame->bytes, &h, NULL) != ST_OK) {
        frame_free(&frame);
        return;
    }
    if (hello_is_call(frame, &h, &e)) {
        welcome(f, from, &e);
    } else if (f->peer != NULL && h.session == f->session &&
               peer_recv(f->peer, frame, &h, loop_now_us()) >= PEER_GOODBYE) {
        f->n_overs++;
        end_session(f);
    }
    frame_free(&frame);
}

static void node_opened(void *node, struct peer_id who)
{
    (void)node;
    (void)who;
}

static void node_lost(void *node, struct peer_id who)
{
    struct fake *f = node;

    /* The broken connection may be reported before the Goodbye sent ahead of
     * it. */
    if (f->peer != NULL && peer_id(f->peer).v == who.v) {
        f->n_overs++;
        peer_free(&f->peer);
    }
}

static int64_t node_tick(void *node, int64_t now_us)
{
    struct fake *f = node;

    if (f->peer != NULL) {
        peer_flush(f->peer, now_us);
    }
    return now_us + 5000;
}

static const struct node_ops node_table = {node_opened, node_recv, node_lost,
                                           node_tick};

/* Turns until *count is n or more.  Returns false if that takes too long. */
static bool until(struct fake *f, const unsigned *count, unsigned n)
{
    int64_t end_us = loop_now_us() + patience_us();

    while (*count < n && loop_now_us() < end_us) {
        (void)loop_turn(&f->loop, 5000);
    }
    return *count >= n;
}

static struct fake *fake_new(const char *endpoint)
{
    struct transport_port port = {endpoint, BY_WORKER, false};
    struct fake *f = calloc(1, sizeof *f);
    struct error e;

    assert(f != NULL);
    if (transport_listen(&f->transport, &port, 1, NULL, &e) != ST_OK) {
        fprintf(stderr, "rogue: %s\n", e.text);
        exit(2);
    }
    arena_init(&f->arena);
    loop_init(&f->loop, f->transport, &node_table, f);
    return f;
}

static void fake_free(struct fake **self)
{
    struct fake *f = *self;

    *self = NULL;
    peer_free(&f->peer);
    transport_free(&f->transport);
    arena_fini(&f->arena);
    free(f);
}

/* ---- messages of the router ---- */

struct submit {
    Sluice__V1__SubmitRequest m;
    Sluice__V1__SequenceRef ref;
    Sluice__V1__Sampling sampling;
    Sluice__V1__Need need;
    uint8_t id[16];
    uint32_t ids[PROMPT];
};

/* Makes a valid Submit of the next grant. */
static void submit_init(struct fake *f, struct submit *s)
{
    sluice__v1__submit_request__init(&s->m);
    sluice__v1__sequence_ref__init(&s->ref);
    sluice__v1__sampling__init(&s->sampling);
    sluice__v1__need__init(&s->need);
    rogue_id(s->id);
    s->ref.request_id = (ProtobufCBinaryData){16, s->id};
    s->ref.has_choice = true;
    s->need.blocks = (PROMPT + TOKENS + f->block_tokens - 1) / f->block_tokens;
    s->need.slots = f->has_slots;
    s->sampling.has_seed = s->sampling.has_ignore_eos = true;
    s->sampling.ignore_eos = true;
    for (uint32_t i = 0; i < PROMPT; i++) {
        s->ids[i] = i + 1;
    }
    s->m.sequence = &s->ref;
    s->m.need = &s->need;
    s->m.sampling = &s->sampling;
    s->m.grant = f->grant + 1;
    s->m.n_prompt = PROMPT;
    s->m.tokens = s->ids;
    s->m.n_tokens = PROMPT;
    s->m.max_tokens = TOKENS;
}

static void submit(struct fake *f, struct submit *s)
{
    f->grant = s->m.grant;
    f->n_calls++;
    (void)!peer_call(f->peer, METHOD_WORKER_SUBMIT, &s->m.base, 0, 0, NULL);
}

/* Waits until the worker reports that all memory is free or cached. */
static bool until_idle(struct fake *f)
{
    int64_t end_us = loop_now_us() + patience_us();
    unsigned reports = f->n_reports;

    while ((f->n_reports == reports || f->left != f->pages) &&
           loop_now_us() < end_us) {
        (void)loop_turn(&f->loop, 5000);
    }
    return f->left == f->pages;
}

/* Runs a valid request, then audits the empty pool. */
static bool serves(struct fake *f)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    unsigned ends, finished;
    struct submit s;

    if ((f->peer == NULL && !until(f, &f->n_hellos, f->n_hellos + 1)) ||
        !until_idle(f)) {
        return false;
    }
    ends = f->n_ends;
    finished = f->n_finished;
    submit_init(f, &s);
    submit(f, &s);
    if (!until(f, &f->n_ends, ends + 1) || f->status != ST_OK ||
        !until(f, &f->n_finished, finished + 1) || f->n_tokens != TOKENS ||
        f->last_row_grant != s.m.grant || !until_idle(f) || f->peer == NULL ||
        peer_call(f->peer, METHOD_WORKER_AUDIT, &none.base, 0, 0, NULL) !=
            ST_OK ||
        !until(f, &f->n_ends, ends + 2)) {
        return false;
    }
    return f->audited && f->n_differences == 0 && f->left == f->pages;
}

/* ---- the cases ---- */

enum outcome {
    BREAKS, /* ends the session, then reconnects */
    FAILS,  /* fails the call with this status */
    IGNORED
};

struct attack {
    void (*act)(struct fake *f, struct submit *s);
    enum outcome outcome;
    enum status status;
};

static bool came(struct fake *f, const struct attack *a)
{
    switch (a->outcome) {
    case BREAKS:
        return until(f, &f->n_overs, 1) && until(f, &f->n_hellos, 2);
    case FAILS:
        return until(f, &f->n_ends, f->n_calls) && f->status == a->status &&
               f->n_overs == 0;
    default:
        return until(f, &f->n_reports, f->n_reports + 3) && f->n_hellos == 1;
    }
}

static bool run_attack(struct rogue_at *at, const struct rogue_case *c)
{
    const struct attack *a = c->arg;
    struct fake *f = fake_new(at->listen);
    bool well = until(f, &f->n_hellos, 1), served = false;
    char saw[ERROR_TEXT];
    enum status status;
    struct submit s;

    if (well) {
        submit_init(f, &s);
        a->act(f, &s);
        well = came(f, a);
    }
    snprintf(saw, sizeof saw, "%s", f->text);
    status = f->status;
    served = well && serves(f);
    rogue_saw(at, served, "%u sessions over, %s \"%s\", then honest work: %s",
              f->n_overs, status_name(status), saw,
              served ? "served, nothing held" : "not served");
    fake_free(&f);
    return served;
}

#define ATTACK(name, outcome, code)                                     \
    static void act_##name(struct fake *f, struct submit *s);           \
    static const struct attack name = {act_##name, outcome, ST_##code}; \
    static void act_##name(struct fake *f, struct submit *s)

ATTACK(grant_gap, BREAKS, OK)
{
    s->m.grant += 1;
    submit(f, s);
}
ATTACK(grant_twice, BREAKS, OK)
{
    submit(f, s);
    rogue_id(s->id);
    submit(f, s);
}
ATTACK(grant_zero, BREAKS, OK)
{
    s->m.grant = 0;
    submit(f, s);
}
ATTACK(grant_max, BREAKS, OK)
{
    s->m.grant = UINT64_MAX;
    submit(f, s);
}
/* Submits of the largest size until one does not fit, in one frame, so that
 * none has ended before. */
ATTACK(beyond_pool, FAILS, RESOURCE_EXHAUSTED)
{
    s->need.blocks = f->context / f->block_tokens + 1;
    for (uint32_t n = 0; n <= f->blocks; n += s->need.blocks) {
        rogue_id(s->id);
        submit(f, s);
        s->m.grant++;
    }
}
ATTACK(slots_beyond, FAILS, INVALID_ARGUMENT)
{
    s->need.slots = f->slots + 1;
    submit(f, s);
}
ATTACK(need_max, FAILS, INVALID_ARGUMENT)
{
    s->need.blocks = s->need.slots = s->need.checkpoints = UINT32_MAX;
    submit(f, s);
}
ATTACK(need_nothing, FAILS, INVALID_ARGUMENT)
{
    s->need.blocks = s->need.slots = 0;
    submit(f, s);
}
ATTACK(id_past_vocab, FAILS, INVALID_ARGUMENT)
{
    s->ids[1] = f->vocab;
    submit(f, s);
}
ATTACK(past_context, FAILS, INVALID_ARGUMENT)
{
    s->m.max_tokens = UINT32_MAX;
    s->need.blocks = f->blocks;
    submit(f, s);
}
ATTACK(no_prompt, FAILS, INVALID_ARGUMENT)
{
    s->m.n_prompt = 0;
    s->m.n_tokens = 0;
    submit(f, s);
}
ATTACK(more_ids_than_said, FAILS, INVALID_ARGUMENT)
{
    s->m.n_prompt = 1;
    submit(f, s);
}
ATTACK(no_id, FAILS, INVALID_ARGUMENT)
{
    memset(s->id, 0, sizeof s->id);
    submit(f, s);
}
ATTACK(cancel_nothing, FAILS, OK)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;

    m.sequence = &s->ref;
    f->n_calls++;
    (void)!peer_call(f->peer, METHOD_WORKER_CANCEL, &m.base, 0, 0, NULL);
}
ATTACK(remove_short_id, FAILS, INVALID_ARGUMENT)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;

    s->ref.request_id.len = 3;
    m.sequence = &s->ref;
    f->n_calls++;
    (void)!peer_call(f->peer, METHOD_WORKER_REMOVE, &m.base, 0, 0, NULL);
}

/* Cancels of more unknown grants than the worker keeps tombstones. */
ATTACK(tombstones, IGNORED, OK)
{
    for (uint64_t i = 0; i < 500; i++) {
        Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;

        rogue_id(s->id);
        m.sequence = &s->ref;
        m.has_grant = true;
        m.grant = 1000 + i;
        (void)!peer_call(f->peer, METHOD_WORKER_CANCEL, &m.base, 0, 0, NULL);
        (void)loop_turn(&f->loop, 0);
    }
}

ATTACK(ack_of_nothing, IGNORED, OK)
{
    Sluice__V1__AcknowledgeMessage m = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;
    uint64_t grant[3] = {0, 77, UINT64_MAX};
    uint32_t index[3] = {1, UINT32_MAX, 5};

    (void)s;
    m.n_grant = m.n_index = 3;
    m.grant = grant;
    m.index = index;
    (void)!peer_oneway(f->peer, METHOD_WORKER_ACKNOWLEDGE, &m.base);
}
ATTACK(ack_columns, BREAKS, OK)
{
    Sluice__V1__AcknowledgeMessage m = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;
    uint64_t grant[1] = {1};

    (void)s;
    m.n_grant = 1;
    m.grant = grant;
    (void)!peer_oneway(f->peer, METHOD_WORKER_ACKNOWLEDGE, &m.base);
}

/* Sends frames of another session, which the worker must drop. */
ATTACK(other_session, IGNORED, OK)
{
    struct node_io *io = transport_io(f->transport);

    (void)s;
    for (uint64_t i = 1; i <= 20; i++) {
        struct frame *bye = goodbye_make(f->session ^ i, "not yours");

        (void)io->send(io, peer_id(f->peer), &bye);
    }
}

/* Sends a second reply to the Hello, with another session. */
ATTACK(answered_twice, IGNORED, OK)
{
    struct node_io *io = transport_io(f->transport);
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct frame *answer;

    (void)s;
    reply.session = f->session ^ 5;
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.name = wire_text("another");
    answer = hello_answer(reply.session, &reply.base, NULL, 0);
    (void)io->send(io, peer_id(f->peer), &answer);
}
ATTACK(goodbye, BREAKS, OK)
{
    struct node_io *io = transport_io(f->transport);
    struct frame *bye = goodbye_make(f->session, "for no reason");

    submit(f, s); /* while a sequence runs */
    (void)loop_turn(&f->loop, 0);
    (void)io->send(io, peer_id(f->peer), &bye);
    f->n_overs++; /* this side ended the session */
}

#define CASE(attack, text, rule)                                \
    {                                                           \
        "router-" text, ROGUE_WORKER, rule, run_attack, &attack \
    }
#define LEAVES "Goodbye, and Hello again"

static const struct rogue_case cases[] = {
    CASE(grant_gap, "grant-gap", LEAVES),
    CASE(grant_twice, "grant-twice", LEAVES),
    CASE(grant_zero, "grant-zero", LEAVES),
    CASE(grant_max, "grant-max", LEAVES),
    CASE(beyond_pool, "beyond-pool", "RESOURCE_EXHAUSTED"),
    CASE(slots_beyond, "beyond-slots", "INVALID_ARGUMENT"),
    CASE(need_max, "need-max", "INVALID_ARGUMENT"),
    CASE(need_nothing, "need-nothing", "INVALID_ARGUMENT"),
    CASE(id_past_vocab, "id-past-vocab", "INVALID_ARGUMENT"),
    CASE(past_context, "past-context", "INVALID_ARGUMENT"),
    CASE(no_prompt, "no-prompt", "INVALID_ARGUMENT"),
    CASE(more_ids_than_said, "more-ids", "INVALID_ARGUMENT"),
    CASE(no_id, "no-id", "INVALID_ARGUMENT"),
    CASE(cancel_nothing, "cancel-nothing", "a receipt: unknown"),
    CASE(remove_short_id, "remove-short-id", "INVALID_ARGUMENT"),
    CASE(tombstones, "tombstones", "bounded: the oldest are dropped"),
    CASE(ack_of_nothing, "ack-of-nothing", "ignored"),
    CASE(ack_columns, "ack-columns", LEAVES),
    CASE(other_session, "other-session", "ignored"),
    CASE(answered_twice, "answered-twice", "ignored"),
    CASE(goodbye, "goodbye-at-work",
         "all memory is released, then a new Hello"),
};

const struct rogue_table rogue_routers = {cases,
                                          sizeof cases / sizeof cases[0]};
