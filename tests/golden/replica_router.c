/* The router's end of a replica. */
#include <string.h>

#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/golden/replica_state.h"

/* ---- received messages ---- */

static struct replica_ask *ask_of(struct replica *r, uint64_t grant)
{
    for (uint32_t i = 0; i < r->n_sent; i++) {
        if (r->asks[i].grant == grant) {
            return &r->asks[i];
        }
    }
    replica_die("an output of grant %llu", (unsigned long long)grant);
}

static void send_cancel(struct replica *r, struct replica_ask *a);

/* Where a row's values start. */
struct places {
    size_t token, logprob, top;
};

static void take_values(struct replica_ask *a,
                        const Sluice__V1__StepOutputMessage *m, uint32_t n,
                        uint32_t width, const struct places *at)
{
    if (a->n + n > REPLICA_TOKENS) {
        replica_die("more tokens than were asked for");
    }
    for (uint32_t i = 0; i < n; i++) {
        a->tokens[a->n++] = m->tokens[at->token + i];
    }
    for (uint32_t i = 0; i < n * width; i++) {
        a->logprobs[a->n_logprobs++] = m->logprobs[at->logprob + i];
    }
    for (uint32_t i = 0; width > 0 && i < n * (width - 1); i++) {
        a->top_tokens[a->n_top_tokens++] = m->top_tokens[at->top + i];
    }
}

/* Takes the new tokens of a row.  If an acknowledgement was late, a row repeats
 * tokens, all of them or only its first ones; a row past the next token comes
 * again after the acknowledgement. */
static void hear_row(struct replica *r, const Sluice__V1__StepOutputMessage *m,
                     size_t i, struct places *at)
{
    struct replica_ask *a = ask_of(r, m->grant[i]);
    uint32_t width = m->n_width > 0 ? m->width[i] : 0, n = m->count[i];
    uint32_t first = m->first_index[i], skip = a->n - first;

    if (first <= a->n && first + n > a->n) {
        struct places new = {
            at->token + skip, at->logprob + (size_t)skip * width,
            at->top + (width > 0 ? (size_t)skip * (width - 1) : 0)};

        take_values(a, m, n - skip, width, &new);
    }
    at->token += n;
    at->logprob += (size_t)n * width;
    at->top += width > 0 ? (size_t)n * (width - 1) : 0;
    if (a->finish == 0 && m->finish[i] != 0 && a->n >= first + n) {
        a->finish = m->finish[i];
        a->kept = a->keep_ms > 0;
        r->n_kept += a->kept;
        r->n_over += a->cancel_at == 0;
    }
    if (a->cancel_at > 0 && a->n >= a->cancel_at && !a->cancelled) {
        send_cancel(r, a);
    }
}

static void acknowledge(struct replica *r, struct peer *p,
                        const Sluice__V1__StepOutputMessage *m)
{
    Sluice__V1__AcknowledgeMessage ack = SLUICE__V1__ACKNOWLEDGE_MESSAGE__INIT;
    uint32_t index[STEP_ROWS_MAX];

    for (size_t i = 0; i < m->n_grant; i++) {
        const struct replica_ask *a = ask_of(r, m->grant[i]);

        index[i] = a->finish != 0 ? UINT32_MAX : a->n;
    }
    ack.n_grant = ack.n_index = m->n_grant;
    ack.grant = m->grant;
    ack.index = index;
    if (peer_oneway(p, METHOD_WORKER_ACKNOWLEDGE, &ack.base) != ST_OK) {
        replica_die("no room for Acknowledge");
    }
}

static void hear_output(struct replica *r, struct peer *p,
                        const Sluice__V1__StepOutputMessage *m)
{
    struct places at = {0, 0, 0};

    if (m->has_failure) {
        replica_die("a step failed: %.*s", (int)m->failure.len,
                    (const char *)m->failure.data);
    }
    r->news_us = replica_clock_us();
    for (size_t i = 0; i < m->n_grant; i++) {
        hear_row(r, m, i, &at);
    }
    acknowledge(r, p, m);
}

static void on_call(void *arg, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *message)
{
    struct replica *r = arg;
    Sluice__V1__HealthReply health = SLUICE__V1__HEALTH_REPLY__INIT;

    (void)deadline_us;
    if (m->number == METHOD_HEALTH_CHECK) {
        health.serving = true;
        peer_end(p, call, &health.base);
    } else if (m->number == METHOD_REGISTRY_STEP_OUTPUT) {
        hear_output(r, p, (const Sluice__V1__StepOutputMessage *)message);
    } else if (m->number == METHOD_REGISTRY_BROKEN) {
        const Sluice__V1__BrokenMessage *b =
            (const Sluice__V1__BrokenMessage *)message;

        replica_die("the assembly is over: %.*s", (int)b->why.len,
                    (const char *)b->why.data);
    }
}

/* Checks what each stage freed: once, and as much as was granted there. */
static void hear_receipt(struct replica *r, uint64_t tag,
                         const Sluice__V1__Receipt *m)
{
    struct replica_ask *a = &r->asks[tag - TAG_CANCEL];

    if (a->receipt || m->n_stage_blocks != (r->n > 1 ? r->n : 0)) {
        replica_die("a receipt of %zu stages", m->n_stage_blocks);
    }
    if (m->blocks + m->slots == 0) {
        replica_die("a cancel that freed nothing");
    }
    a->receipt = true;
    r->n_over++;
}

static void hear_cut(struct replica *r, const Sluice__V1__Receipt *m)
{
    if (!m->has_position) {
        replica_die("a receipt of a range without a position");
    }
    r->position = m->position;
    r->n_cuts++;
}

static void on_end(void *arg, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct replica *r = arg;

    (void)p, (void)retry_after_ms;
    if (status != ST_OK && status != ST_UNAVAILABLE) {
        replica_die("%s: %s", m->method, e->text);
    }
    if (status == ST_OK && m->number == METHOD_WORKER_CANCEL) {
        hear_receipt(r, tag, (const Sluice__V1__Receipt *)reply);
    }
    if (status == ST_OK && m->number == METHOD_WORKER_REMOVE) {
        hear_cut(r, (const Sluice__V1__Receipt *)reply);
    }
    r->n_accepted += m->number == METHOD_WORKER_SUBMIT;
    r->n_assembled += m->number == METHOD_WORKER_ASSEMBLE;
}

static const struct peer_ops router_ops = {.on_call = on_call,
                                           .on_end = on_end};

static void hear_hello(struct replica *r, struct peer_id at)
{
    Sluice__V1__HelloReply reply = SLUICE__V1__HELLO_REPLY__INIT;
    struct node *n = &r->nodes[r->connections[(at.v - 1) / 2].node[0]];
    struct peer_config c = {.io = &r->nodes[r->n].io,
                            .id = at,
                            .session = 1000 + n->index,
                            .self = BY_ROUTER,
                            .other = BY_WORKER,
                            .ops = &router_ops,
                            .node = r,
                            .arena = &r->arena};

    if (n->peer != NULL) {
        return; /* a repetition */
    }
    reply.version_major = WIRE_VERSION_MAJOR;
    reply.version_minor = WIRE_VERSION_MINOR;
    reply.name = wire_text("test");
    n->peer = peer_new(&c);
    replica_put(r, n->index, at.v - 1,
                hello_answer(c.session, &reply.base, NULL, 0));
}

void replica_router_recv(struct replica *r, struct peer_id at, struct frame *f)
{
    struct node *n = &r->nodes[r->connections[(at.v - 1) / 2].node[0]];
    struct frame_header h;
    struct envelope e;

    if (frame_check(f->data, f->bytes, &h, NULL) != ST_OK) {
        replica_die("a frame that is none");
    }
    if (hello_is_call(f, &h, &e)) {
        hear_hello(r, at);
    } else if (n->peer != NULL &&
               peer_recv(n->peer, f, &h, replica_clock_us()) == PEER_STRIKE) {
        replica_die("a frame of stage %u breaks a rule", n->index);
    }
    frame_free(&f);
}

/* ---- sent messages ---- */

struct stages {
    Sluice__V1__StageGrants m;
    uint64_t grant[REPLICA_STAGES];
    uint32_t blocks[REPLICA_STAGES], slots[REPLICA_STAGES];
    uint32_t checkpoints[REPLICA_STAGES], windows[REPLICA_STAGES];
};

static void need_of(const struct node *n, const struct replica_ask *a,
                    uint32_t *blocks, uint32_t *slots, uint32_t *windows)
{
    uint32_t bt = n->replica->o.block_tokens;

    uint32_t n_ids = a->n_prompt + (n->replica->o.pages > 0 ? a->n_generated + 1
                                                            : a->max_tokens);

    *blocks = n->stage.has_blocks ? (n_ids + bt - 1) / bt : 0;
    *slots = n->stage.has_slots ? 1 : 0;
    *windows = replica_windows(&n->replica->o, &n->stage, n_ids);
}

static void fill_stages(struct replica *r, const struct replica_ask *a,
                        struct stages *out)
{
    sluice__v1__stage_grants__init(&out->m);
    for (uint32_t i = 0; i + 1 < r->n; i++) {
        struct node *n = &r->nodes[i + 1];

        out->grant[i] = ++n->grant;
        out->checkpoints[i] = 0;
        need_of(n, a, &out->blocks[i], &out->slots[i], &out->windows[i]);
    }
    out->m.n_grant = out->m.n_blocks = out->m.n_slots = r->n - 1;
    out->m.n_checkpoints = r->n - 1;
    out->m.grant = out->grant;
    out->m.blocks = out->blocks;
    out->m.slots = out->slots;
    out->m.checkpoints = out->checkpoints;
    out->m.n_windows = r->nodes[0].stage.window > 0 ? r->n - 1 : 0;
    out->m.windows = out->windows;
}

static void make_ref(const struct replica_ask *a, Sluice__V1__SequenceRef *out,
                     uint8_t id[16])
{
    sluice__v1__sequence_ref__init(out);
    memset(id, 0x5a, 16);
    memcpy(id, &a->id, sizeof a->id);
    out->request_id = (ProtobufCBinaryData){16, id};
    out->has_choice = true;
    out->choice = a->choice;
}

static void call(struct replica *r, uint32_t node, enum method m,
                 const ProtobufCMessage *message, uint64_t tag)
{
    if (peer_call(r->nodes[node].peer, m, message, 0, tag, NULL) != ST_OK) {
        replica_die("no room for %s", method_find((uint16_t)m)->method);
    }
}

void replica_send_submit(struct replica *r, uint32_t i)
{
    Sluice__V1__SubmitRequest m = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SequenceRef ref, from;
    Sluice__V1__Need need = SLUICE__V1__NEED__INIT;
    struct replica_ask *a = &r->asks[i];
    struct stages stages;
    uint8_t id[16], from_id[16];

    a->id = a->first != NULL ? a->first->id : ++r->n_ids;
    make_ref(a, &ref, id);
    if (a->from != NULL) {
        make_ref(a->from, &from, from_id);
        m.continue_from = &from;
        r->n_kept -= a->from->kept;
        a->from->kept = false;
    }
    need_of(&r->nodes[0], a, &need.blocks, &need.slots, &need.windows);
    need.has_windows = need.windows > 0;
    fill_stages(r, a, &stages);
    a->grant = ++r->nodes[0].grant;
    a->n = a->n_generated;
    memcpy(a->tokens, a->ids + a->n_prompt, a->n * sizeof *a->ids);
    m.sequence = &ref;
    m.grant = a->grant;
    m.need = &need;
    m.n_prompt = a->n_prompt;
    m.n_generated = a->n_generated;
    m.max_tokens = a->max_tokens;
    m.n_tokens = a->n_prompt + a->n_generated;
    m.tokens = (uint32_t *)(uintptr_t)a->ids;
    m.sampling = &a->sampling;
    m.has_cache = true;
    m.cache = !a->cold;
    m.n_spans = a->n_spans;
    m.spans = a->spans;
    m.has_keep_ms = a->keep_ms > 0;
    m.keep_ms = a->keep_ms;
    m.has_grows = m.grows = r->o.pages > 0;
    m.stages = r->n > 1 ? &stages.m : NULL;
    call(r, 0, METHOD_WORKER_SUBMIT, &m.base, TAG_SUBMIT + i);
}

static void send_cancel(struct replica *r, struct replica_ask *a)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref;
    uint32_t i = (uint32_t)(a - r->asks);
    uint8_t id[16];

    make_ref(a, &ref, id);
    m.sequence = &ref;
    a->cancelled = true;
    call(r, 0, METHOD_WORKER_CANCEL, &m.base, TAG_CANCEL + i);
}

void replica_send_cut(struct replica *r, const struct replica_ask *a,
                      uint32_t begin)
{
    Sluice__V1__RemoveRequest m = SLUICE__V1__REMOVE_REQUEST__INIT;
    Sluice__V1__SequenceRef ref;
    uint8_t id[16];

    make_ref(a, &ref, id);
    m.sequence = &ref;
    m.has_begin = true;
    m.begin = begin;
    call(r, 0, METHOD_WORKER_REMOVE, &m.base, TAG_CUT);
}

void replica_send_assemble(struct replica *r, uint32_t i)
{
    Sluice__V1__AssembleRequest m = SLUICE__V1__ASSEMBLE_REQUEST__INIT;

    m.assembly = 77;
    m.stage = i;
    m.n_stages = r->n;
    m.next = wire_text(r->nodes[(i + 1) % r->n].endpoint);
    call(r, i, METHOD_WORKER_ASSEMBLE, &m.base, TAG_ASSEMBLE + i);
}
