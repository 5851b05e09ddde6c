#include "tests/golden/replica.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/wire/peer.h"
#include "proto/health.pb-c.h"
#include "proto/registry.pb-c.h"
#include "proto/worker.pb-c.h"
#include "tests/patience.h"
#include "worker/worker_core.h"

#define FRAMES_MAX      4096
#define CONNECTIONS_MAX 64
#define EVENTS_MAX      64
#define TAG_SUBMIT      0u
#define TAG_CANCEL      1000u
#define TAG_ASSEMBLE    2000u

/* A stage; the router's end is the node after the last stage. */
struct node {
    struct replica *replica;
    uint32_t index;
    struct node_io io;
    struct replica_stage stage;
    struct worker_core *core;
    char endpoint[32];
    int64_t due_us;

    /* The router's peer for this stage. */
    struct peer *peer;
    uint64_t grant;
};

struct parcel {
    uint32_t node;
    struct peer_id at;
    struct frame *frame; /* NULL: the connection is open */
};

/* Ends 2i + 1, of the node that opened the connection, and 2i + 2. */
struct connection {
    uint32_t node[2];
};

struct replica {
    uint32_t n;
    struct replica_options o;
    struct node nodes[REPLICA_STAGES + 1];
    struct connection connections[CONNECTIONS_MAX];
    uint32_t n_connections;
    struct parcel parcels[FRAMES_MAX];
    uint32_t n_parcels;
    struct arena arena;
    uint64_t random;
    uint32_t n_assembled;
    int64_t news_us; /* time of the newest output */

    struct replica_ask *asks;
    uint32_t n_asks, n_sent, n_over;
};

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *fmt,
                                                                ...)
{
    va_list ap;

    va_start(ap, fmt);
    fprintf(stderr, "replica: ");
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\n");
    va_end(ap);
    abort();
}

/* ---- io ---- */

static struct node *node_of(struct node_io *io)
{
    return io->impl;
}

static int64_t clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t io_now(struct node_io *io)
{
    (void)io;
    return clock_us();
}

static uint64_t io_random(struct node_io *io)
{
    return ++node_of(io)->replica->random * 0x9e3779b97f4a7c15u;
}

static void put(struct replica *r, uint32_t node, uint32_t at, struct frame *f)
{
    if (r->n_parcels == FRAMES_MAX) {
        die("%d frames wait", FRAMES_MAX);
    }
    r->parcels[r->n_parcels++] = (struct parcel){node, {at}, f};
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct replica *r = node_of(io)->replica;
    uint32_t i = (to.v - 1) / 2, other = to.v % 2;

    put(r, r->connections[i].node[other], 2 * i + 1 + other, *f);
    *f = NULL;
    return ST_OK;
}

static struct peer_id connect_to(struct node *from, uint32_t to)
{
    struct replica *r = from->replica;
    uint32_t i = r->n_connections++;

    if (i == CONNECTIONS_MAX) {
        die("%d connections", CONNECTIONS_MAX);
    }
    r->connections[i] = (struct connection){{from->index, to}};
    put(r, from->index, 2 * i + 1, NULL);
    return (struct peer_id){2 * i + 1};
}

static struct peer_id io_open(struct node_io *io)
{
    struct node *n = node_of(io);

    return connect_to(n, n->replica->n);
}

static struct peer_id io_open_to(struct node_io *io, const char *endpoint,
                                 const uint8_t *key)
{
    struct replica *r = node_of(io)->replica;

    (void)key;
    for (uint32_t i = 0; i < r->n; i++) {
        if (strcmp(endpoint, r->nodes[i].endpoint) == 0) {
            return connect_to(node_of(io), i);
        }
    }
    die("no stage at %s", endpoint);
}

/* Only a Goodbye ends a connection here. */
static void io_close(struct node_io *io, struct peer_id who)
{
    (void)io, (void)who;
}

static void io_make(struct replica *r, uint32_t i)
{
    struct node *n = &r->nodes[i];

    n->replica = r;
    n->index = i;
    n->io = (struct node_io){.impl = n,
                             .now_us = io_now,
                             .random = io_random,
                             .send = io_send,
                             .open = i < r->n ? io_open : NULL,
                             .open_to = i < r->n ? io_open_to : NULL,
                             .close = io_close};
}

/* ---- the router's end: received messages ---- */

static struct replica_ask *ask_of(struct replica *r, uint64_t grant)
{
    for (uint32_t i = 0; i < r->n_sent; i++) {
        if (r->asks[i].grant == grant) {
            return &r->asks[i];
        }
    }
    die("an output of grant %llu", (unsigned long long)grant);
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
        die("more tokens than were asked for");
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
        die("no room for Acknowledge");
    }
}

static void hear_output(struct replica *r, struct peer *p,
                        const Sluice__V1__StepOutputMessage *m)
{
    struct places at = {0, 0, 0};

    if (m->has_failure) {
        die("a step failed: %.*s", (int)m->failure.len,
            (const char *)m->failure.data);
    }
    r->news_us = clock_us();
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

        die("the assembly is over: %.*s", (int)b->why.len,
            (const char *)b->why.data);
    }
}

/* Checks what each stage freed: once, and as much as was granted there. */
static void hear_receipt(struct replica *r, uint64_t tag,
                         const Sluice__V1__Receipt *m)
{
    struct replica_ask *a = &r->asks[tag - TAG_CANCEL];

    if (a->receipt || m->n_stage_blocks != (r->n > 1 ? r->n : 0)) {
        die("a receipt of %zu stages", m->n_stage_blocks);
    }
    if (m->blocks + m->slots == 0) {
        die("a cancel that freed nothing");
    }
    a->receipt = true;
    r->n_over++;
}

static void on_end(void *arg, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms)
{
    struct replica *r = arg;

    (void)p, (void)retry_after_ms;
    if (status != ST_OK && status != ST_UNAVAILABLE) {
        die("%s: %s", m->method, e->text);
    }
    if (status == ST_OK && m->number == METHOD_WORKER_CANCEL) {
        hear_receipt(r, tag, (const Sluice__V1__Receipt *)reply);
    }
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
    put(r, n->index, at.v - 1, hello_answer(c.session, &reply.base, NULL, 0));
}

static void router_recv(struct replica *r, struct peer_id at, struct frame *f)
{
    struct node *n = &r->nodes[r->connections[(at.v - 1) / 2].node[0]];
    struct frame_header h;
    struct envelope e;

    if (frame_check(f->data, f->bytes, &h, NULL) != ST_OK) {
        die("a frame that is none");
    }
    if (hello_is_call(f, &h, &e)) {
        hear_hello(r, at);
    } else if (n->peer != NULL &&
               peer_recv(n->peer, f, &h, clock_us()) == PEER_STRIKE) {
        die("a frame of stage %u breaks a rule", n->index);
    }
    frame_free(&f);
}

/* ---- and sent messages ---- */

struct stages {
    Sluice__V1__StageGrants m;
    uint64_t grant[REPLICA_STAGES];
    uint32_t blocks[REPLICA_STAGES], slots[REPLICA_STAGES];
    uint32_t checkpoints[REPLICA_STAGES];
};

static void need_of(const struct node *n, const struct replica_ask *a,
                    uint32_t *blocks, uint32_t *slots)
{
    uint32_t bt = n->replica->o.block_tokens;

    *blocks =
        n->stage.has_blocks ? (a->n_prompt + a->max_tokens + bt - 1) / bt : 0;
    *slots = n->stage.has_slots ? 1 : 0;
}

static void fill_stages(struct replica *r, const struct replica_ask *a,
                        struct stages *out)
{
    sluice__v1__stage_grants__init(&out->m);
    for (uint32_t i = 0; i + 1 < r->n; i++) {
        struct node *n = &r->nodes[i + 1];

        out->grant[i] = ++n->grant;
        out->checkpoints[i] = 0;
        need_of(n, a, &out->blocks[i], &out->slots[i]);
    }
    out->m.n_grant = out->m.n_blocks = out->m.n_slots = r->n - 1;
    out->m.n_checkpoints = r->n - 1;
    out->m.grant = out->grant;
    out->m.blocks = out->blocks;
    out->m.slots = out->slots;
    out->m.checkpoints = out->checkpoints;
}

static void make_id(uint32_t i, uint8_t id[16])
{
    memset(id, 0x5a, 16);
    memcpy(id, &i, sizeof i);
}

static void call(struct replica *r, uint32_t node, enum method m,
                 const ProtobufCMessage *message, uint64_t tag)
{
    if (peer_call(r->nodes[node].peer, m, message, 0, tag, NULL) != ST_OK) {
        die("no room for %s", method_find((uint16_t)m)->method);
    }
}

static void send_submit(struct replica *r, uint32_t i)
{
    Sluice__V1__SubmitRequest m = SLUICE__V1__SUBMIT_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    Sluice__V1__Need need = SLUICE__V1__NEED__INIT;
    struct replica_ask *a = &r->asks[i];
    struct stages stages;
    uint8_t id[16];

    make_id(i, id);
    ref.request_id = (ProtobufCBinaryData){sizeof id, id};
    need_of(&r->nodes[0], a, &need.blocks, &need.slots);
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
    m.stages = r->n > 1 ? &stages.m : NULL;
    call(r, 0, METHOD_WORKER_SUBMIT, &m.base, TAG_SUBMIT + i);
}

static void send_cancel(struct replica *r, struct replica_ask *a)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;
    Sluice__V1__SequenceRef ref = SLUICE__V1__SEQUENCE_REF__INIT;
    uint32_t i = (uint32_t)(a - r->asks);
    uint8_t id[16];

    make_id(i, id);
    ref.request_id = (ProtobufCBinaryData){sizeof id, id};
    m.sequence = &ref;
    a->cancelled = true;
    call(r, 0, METHOD_WORKER_CANCEL, &m.base, TAG_CANCEL + i);
}

static void send_assemble(struct replica *r, uint32_t i)
{
    Sluice__V1__AssembleRequest m = SLUICE__V1__ASSEMBLE_REQUEST__INIT;

    m.assembly = 77;
    m.stage = i;
    m.n_stages = r->n;
    m.next = wire_text(r->nodes[(i + 1) % r->n].endpoint);
    call(r, i, METHOD_WORKER_ASSEMBLE, &m.base, TAG_ASSEMBLE + i);
}

/* ---- turns ---- */

static void deliver(struct replica *r)
{
    struct parcel parcels[FRAMES_MAX];
    uint32_t n = r->n_parcels;

    memcpy(parcels, r->parcels, n * sizeof *parcels);
    r->n_parcels = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct parcel *p = &parcels[i];
        struct node *to = &r->nodes[p->node];

        if (p->node == r->n) {
            router_recv(r, p->at, p->frame);
        } else if (p->frame == NULL) {
            worker_node_ops.opened(to->core, p->at);
        } else {
            worker_node_ops.recv(to->core, p->at, &p->frame);
        }
    }
}

/* Waits until an engine has a result, or a node's timer is due. */
static void wait_for_work(struct replica *r)
{
    struct pollfd fds[REPLICA_STAGES];
    int64_t due_us = clock_us() + 1000000, now;
    int n;

    for (uint32_t i = 0; i < r->n; i++) {
        struct node *x = &r->nodes[i];

        fds[i] = (struct pollfd){.fd = x->stage.fd, .events = POLLIN};
        due_us = x->due_us < due_us ? x->due_us : due_us;
    }
    now = clock_us();
    n = poll(fds, r->n, due_us <= now ? 0 : (int)((due_us - now) / 1000 + 1));
    for (uint32_t i = 0; i < r->n && n > 0; i++) {
        r->nodes[i].stage.quiet(r->nodes[i].stage.arg);
    }
}

static void turn(struct replica *r)
{
    if (r->n_parcels == 0) {
        wait_for_work(r);
    }
    deliver(r);
    for (uint32_t i = 0; i < r->n; i++) {
        struct node *n = &r->nodes[i];

        if (n->peer != NULL) {
            peer_flush(n->peer, clock_us());
        }
        n->due_us = worker_node_ops.tick(n->core, clock_us());
    }
}

/* Takes turns until the condition holds; any result of a step restarts the
 * timeout. */
#define UNTIL(r, condition)                                  \
    for ((r)->news_us = clock_us(); !(condition); turn(r)) { \
        if (clock_us() - (r)->news_us > patience_us()) {     \
            die("it hangs before %s", #condition);           \
        }                                                    \
    }

static struct worker_account account(const struct node *n)
{
    struct worker_account a;

    worker_account(n->core, &a);
    return a;
}

static bool all_free(const struct replica *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        struct worker_account a = account(&r->nodes[i]);

        if (a.blocks.free != a.blocks.total || a.slots.free != a.slots.total ||
            a.n_sequences > 0) {
            return false;
        }
    }
    return true;
}

void replica_run(struct replica *r, struct replica_ask *asks, uint32_t n)
{
    r->asks = asks;
    r->n_asks = n;
    r->n_sent = r->n_over = 0;
    while (r->n_over < n) {
        uint32_t over = r->n_over;

        while (r->n_sent < n && r->n_sent - r->n_over < r->o.at_once) {
            send_submit(r, r->n_sent++);
        }
        UNTIL(r, r->n_over > over);
    }
    UNTIL(r, all_free(r));
}

/* ---- set-up and release ---- */

static struct worker_options options(const struct replica *r,
                                     const struct node *n)
{
    const struct replica_stage *s = &n->stage;
    uint32_t bt = r->o.block_tokens;
    uint32_t blocks = REPLICA_ASKS * ((r->o.context + bt - 1) / bt);

    return (struct worker_options){
        .name = n->endpoint,
        .model = "golden",
        .device = "cpu",
        .layer_begin = s->begin,
        .layer_end = s->end,
        .n_layers = s->n_layers,
        .block_tokens = bt,
        .n_pages =
            (s->has_blocks ? blocks : 0) + REPLICA_ASKS * s->pages_per_slot,
        .pages_per_block = s->has_blocks,
        .pages_per_slot = s->pages_per_slot,
        .slot_cap = REPLICA_ASKS,
        .reuse = true,
        .checkpoint_share = 0.5f,
        .tenant_share = 1,
        .one_arithmetic = s->one_arithmetic,
        .context = r->o.context,
        .vocab = s->vocab,
        .max_rows = r->o.max_rows,
        .step_tokens = r->o.step_tokens,
        .chunk_tokens = r->o.chunk_tokens,
        .engine_depth = r->o.engine_depth,
        .stage_endpoint = r->n > 1 ? n->endpoint : NULL,
        .hidden = s->hidden,
    };
}

static void node_make(struct replica *r, uint32_t i,
                      const struct replica_stage *stage)
{
    struct node *n = &r->nodes[i];
    struct worker_options o;

    io_make(r, i);
    snprintf(n->endpoint, sizeof n->endpoint, "ipc:///replica/%u", i);
    n->stage = *stage;
    o = options(r, n);
    n->core = worker_new(&o, &n->io, stage->engine);
    if (n->core == NULL) {
        die("no worker of these options");
    }
}

static bool all_in(const struct replica *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->nodes[i].peer == NULL) {
            return false;
        }
    }
    return true;
}

struct replica *replica_new(const struct replica_stage *stages, uint32_t n,
                            const struct replica_options *o)
{
    struct replica *r = calloc(1, sizeof *r);

    if (r == NULL) {
        die("memory is out");
    }
    r->n = n;
    r->o = *o;
    arena_init(&r->arena);
    io_make(r, n);
    for (uint32_t i = 0; i < n; i++) {
        node_make(r, i, &stages[i]);
    }
    UNTIL(r, all_in(r));
    for (uint32_t i = 0; i < n && n > 1; i++) {
        send_assemble(r, i);
    }
    UNTIL(r, n == 1 || r->n_assembled == n);
    return r;
}

void replica_free(struct replica **rp)
{
    struct replica *r = *rp;

    *rp = NULL;
    if (!all_free(r)) {
        die("something is left");
    }
    for (uint32_t i = 0; i < r->n; i++) {
        struct node *n = &r->nodes[i];

        worker_free(&n->core);
        peer_free(&n->peer);
    }
    for (uint32_t i = 0; i < r->n_parcels; i++) {
        frame_free(&r->parcels[i].frame);
    }
    arena_fini(&r->arena);
    free(r);
}
