/* replay_worker.c - A worker in a replay: its sequences and its steps.
 *
 * A step is planned when the one before has ended, with what has come by then.
 * Decodes come first, then prompts up to the chunk, the oldest first: this is
 * the order of worker/plan for prompts of one length. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "router/replay/replay_state.h"
#include "router/schedule/claims.h"
#include "router/schedule/costs.h"

#define SUSPENDED SLUICE__V1__SEQUENCE_STATE__SEQUENCE_SUSPENDED

/* ---- coming up ---- */

/* The Hello of a worker with one layer: the router sees no other difference
 * to the recorded place.  Its blocks and slots have a size that is not used. */
static void shard_of(const struct replay_worker *w, Sluice__V1__WorkerShard *s,
                     struct replay_ledger *l)
{
    static uint8_t fingerprint[16];
    const struct record_place *p = &w->shape;

    sluice__v1__worker_shard__init(s);
    s->model = wire_text(p->model);
    s->device = wire_text("replay");
    s->fingerprint = (ProtobufCBinaryData){16, fingerprint};
    s->tokenizer = (ProtobufCBinaryData){0, fingerprint};
    s->layer_end = s->n_layers = 1;
    s->block_tokens = p->block_tokens;
    s->block_bytes = p->block_pages > 0 ? 4096 : 0;
    s->slot_bytes = p->slots > 0 && p->slot_pages > 0 ? 4096 : 0;
    s->pages_per_block = p->block_pages;
    s->pages_per_slot = s->pages_per_checkpoint = p->slot_pages;
    s->context = p->context;
    s->vocab = REPLAY_VOCAB;
    s->max_rows = p->max_rows;
    s->has_window_tokens = s->has_window_pages = p->window_pages > 0;
    s->window_tokens = p->window_tokens;
    s->window_pages = p->window_pages;
    s->has_chunk_tokens = p->chunk_tokens > 0;
    s->chunk_tokens = p->chunk_tokens;
    s->has_life = true;
    s->life = w->peer.in->n_peers + 1;
    replay_pool_ledger(w, l);
    s->ledger = &l->m;
}

/* The first costs of its place, or of another of its model. */
/* Before its first steps a recorded place had no cost.  The first that was
 * measured is the best guess. */
static void find_cost(struct replay_worker *w)
{
    const struct recording *r = w->peer.in->recording;
    const struct record_cost *other = NULL;

    for (uint32_t i = 0; w->cost == NULL && i < r->n_costs; i++) {
        const struct recorded_cost *c = &r->costs[i];

        if (c->place == w->place) {
            w->cost = &c->cost;
        } else if (other == NULL &&
                   r->places[c->place].model == r->places[w->place].model) {
            other = &c->cost;
        }
    }
    w->cost = w->cost == NULL ? other : w->cost;
}

/* Costs change with the load and the machine; the newest of that time count. */
static void take_costs(struct replay_worker *w)
{
    const struct replay *x = w->peer.in;
    const struct recording *r = x->recording;

    while (w->next_cost < r->n_costs &&
           r->costs[w->next_cost].at_us <= replay_time(x)) {
        const struct recorded_cost *c = &r->costs[w->next_cost++];

        w->cost = c->place == w->place ? &c->cost : w->cost;
    }
}

struct replay_worker *replay_worker_new(struct replay *x, uint32_t place)
{
    struct replay_worker *w = memory_must(calloc(1, sizeof *w));
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    Sluice__V1__WorkerShard shard;
    struct replay_ledger ledger;
    char name[32];

    w->peer.in = x;
    w->peer.worker = w;
    w->place = place;
    w->shape = x->recording->places[place].shape;
    w->shape.model = x->recording->places[place].model;
    w->shape.pages = x->options.pages > 0 ? x->options.pages : w->shape.pages;
    if (w->shape.slot_pages > 0) { /* as an empty pool gives */
        w->shape.slots =
            min_u32(w->shape.slots, w->shape.pages / w->shape.slot_pages);
    }
    replay_pool_init(w);
    find_cost(w);
    shard_of(w, &shard, &ledger);
    snprintf(name, sizeof name, "w%u", (unsigned)x->n_workers + 1);
    m.version_major = WIRE_VERSION_MAJOR;
    /* Sequences never grow at replicas of several stages. */
    m.version_minor = w->shape.grows || w->shape.window_pages > 0
                          ? WIRE_VERSION_MINOR
                          : GROWS_MINOR - 1;
    m.role = SLUICE__V1__ROLE__ROLE_WORKER;
    m.nonce = x->n_workers + 1;
    m.name = wire_text(name);
    m.worker = &shard;
    replay_connect(x, &w->peer, &m);
    return w;
}

static void free_sequence(struct replay_sequence *s)
{
    free(s->units);
    free(s->hashes);
    free(s);
}

void replay_worker_free(struct replay_worker **pw)
{
    struct replay_worker *w = *pw;

    *pw = NULL;
    for (uint32_t i = 0; i < w->n; i++) {
        if (!w->all[i]->suspended && w->all[i]->finish == 0) {
            replay_pool_release(w, w->all[i]);
        }
        free_sequence(w->all[i]);
    }
    replay_pool_fini(w);
    free(w);
}

/* ---- what the router sends ---- */

/* Hashes the whole length of s, and makes room for its units. */
static void hash_all(struct replay_worker *w, struct replay_sequence *s,
                     const Sluice__V1__SubmitRequest *m)
{
    uint8_t scope[PREFIX_SCOPE_MAX];
    size_t n = prefix_scope(scope, m->tenant.data, m->tenant.len, NULL, 0);
    struct prefix_hash h = prefix_hash_root(&w->peer.key, scope, n);
    const struct recording *r = w->peer.in->recording;
    uint32_t ids[PREFIX_UNIT];

    s->n_hashes = (s->n_prompt + s->length - 1) / PREFIX_UNIT;
    s->hashes = memory_must(calloc(s->n_hashes + 1, sizeof *s->hashes));
    s->units = memory_must(calloc(s->n_hashes + 1, sizeof *s->units));
    for (uint32_t u = 0; s->cached && u < s->n_hashes; u++) {
        for (uint32_t i = 0; i < PREFIX_UNIT; i++) {
            ids[i] =
                replay_token(r, s->request, s->choice, u * PREFIX_UNIT + i);
        }
        h = s->hashes[u] = prefix_hash_next(&w->peer.key, h, ids);
    }
}

/* The id of a request is its number. */
static struct replay_sequence *new_sequence(struct replay_worker *w,
                                            const Sluice__V1__SubmitRequest *m)
{
    struct replay_sequence *s = memory_must(calloc(1, sizeof *s));
    const struct replay *x = w->peer.in;

    memcpy(&s->request, m->sequence->request_id.data, sizeof s->request);
    s->request--;
    s->choice = m->sequence->choice;
    s->grant = m->grant;
    s->n_prompt = m->n_prompt;
    s->n_made = s->n_acked = m->n_generated;
    s->max_tokens = m->max_tokens;
    s->length = min_u32(
        x->lengths[x->recording->requests[s->request].choices + s->choice],
        m->max_tokens);
    s->length = max_u32(s->length, s->n_made + 1);
    s->grows = m->grows;
    s->cached = m->cache;
    hash_all(w, s, m);
    return s;
}

static void note_grant(const struct replay_worker *w,
                       const struct replay_sequence *s)
{
    struct recorded_choice *c =
        replay_choice(w->peer.in, s->request, s->choice);

    if (c->granted_us == RECORDING_NEVER) {
        c->granted_us = replay_time(w->peer.in);
        c->place = w->place;
    }
}

/* A sequence that grows waits among those that are suspended if its pages have
 * been taken since its grant. */
static bool seat(struct replay_worker *w, struct replay_sequence *s)
{
    uint32_t n = s->n_prompt + (s->grows ? s->n_made + 1 : s->max_tokens);

    if (replay_pool_take(w, s, n)) {
        s->n_restored = s->n_done;
        return true;
    }
    s->suspended = s->changed = s->grows;
    w->n_suspended += s->grows;
    return s->grows;
}

static void on_submit(struct replay_worker *w, uint64_t call,
                      const Sluice__V1__SubmitRequest *m)
{
    Sluice__V1__Nothing none = SLUICE__V1__NOTHING__INIT;
    struct replay_sequence *s = NULL;
    struct error e;

    w->last_grant = m->grant;
    if (w->n < REPLAY_SEQUENCES && !m->adopt) {
        s = new_sequence(w, m);
    }
    if (s == NULL || !seat(w, s)) {
        error_set(&e, ST_RESOURCE_EXHAUSTED, "no room is left");
        peer_fail(w->peer.peer, call, &e, 0);
        if (s != NULL) {
            free_sequence(s);
        }
        return;
    }
    w->all[w->n++] = s;
    note_grant(w, s);
    peer_end(w->peer.peer, call, &none.base);
}

/* Takes sequence i off the worker, with its memory. */
static void drop(struct replay_worker *w, uint32_t i)
{
    struct replay_sequence *s = w->all[i];

    if (s->suspended) {
        w->n_suspended--;
    } else if (s->finish == 0) {
        replay_pool_release(w, s);
    }
    free_sequence(s);
    w->n--;
    memmove(&w->all[i], &w->all[i + 1], (w->n - i) * sizeof w->all[0]);
}

static void on_ack(struct replay_worker *w,
                   const Sluice__V1__AcknowledgeMessage *m)
{
    for (size_t k = 0; k < m->n_grant && k < m->n_index; k++) {
        for (uint32_t i = 0; i < w->n; i++) {
            struct replay_sequence *s = w->all[i];

            if (s->grant != m->grant[k]) {
                continue;
            }
            if (m->index[k] == UINT32_MAX ||
                (s->finish != 0 && m->index[k] >= s->n_made)) {
                drop(w, i);
            } else {
                s->n_acked = max_u32(s->n_acked, m->index[k]);
            }
            break;
        }
    }
}

/* The receipt has what is released, as the router checks it. */
static void on_removal(struct replay_worker *w, uint64_t call,
                       Sluice__V1__SequenceRef *ref)
{
    Sluice__V1__Receipt r = SLUICE__V1__RECEIPT__INIT;
    uint32_t request;

    memcpy(&request, ref->request_id.data, sizeof request);
    r.sequence = ref;
    r.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    r.snapshot = w->snapshot + 1;
    for (uint32_t i = 0; i < w->n; i++) {
        struct replay_sequence *s = w->all[i];

        if (s->request == request - 1 && s->choice == ref->choice) {
            r.state = s->n_made > 0
                          ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE
                          : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL;
            r.n_generated = s->n_made;
            r.blocks = s->n_blocks;
            r.slots = w->shape.slots > 0 && !s->suspended && s->finish == 0;
            drop(w, i);
            break;
        }
    }
    peer_end(w->peer.peer, call, &r.base);
}

void replay_worker_hears(struct replay_worker *w, const struct method_row *m,
                         uint64_t call, const ProtobufCMessage *request)
{
    switch (m->number) {
    case METHOD_WORKER_SUBMIT:
        on_submit(w, call, (const void *)request);
        break;
    case METHOD_WORKER_ACKNOWLEDGE:
        on_ack(w, (const void *)request);
        break;
    case METHOD_WORKER_CANCEL:
        on_removal(w, call,
                   ((const Sluice__V1__CancelRequest *)(const void *)request)
                       ->sequence);
        break;
    case METHOD_WORKER_REMOVE:
        on_removal(w, call,
                   ((const Sluice__V1__RemoveRequest *)(const void *)request)
                       ->sequence);
        break;
    default: /* the ids of a prompt are known */
        break;
    }
}

/* ---- steps ---- */

/* It keeps its place in the order, so that the oldest comes back first. */
static void suspend(struct replay_worker *w, struct replay_sequence *s)
{
    replay_pool_release(w, s);
    s->suspended = s->changed = true;
    s->n_now = 0;
    w->n_suspended++;
    replay_choice(w->peer.in, s->request, s->choice)->n_suspended++;
}

/* Returns the sequence that loses least; NULL: none grows. */
static struct replay_sequence *victim(const struct replay_worker *w)
{
    struct replay_sequence *best = NULL;

    for (uint32_t i = 0; i < w->n; i++) {
        struct replay_sequence *s = w->all[i];

        if (s->grows && !s->suspended && s->finish == 0 &&
            (best == NULL || s->n_done <= best->n_done)) {
            best = s;
        }
    }
    return best;
}

/* Gives s the blocks of its next token, at the cost of others.  Returns false
 * if it was suspended itself. */
static bool make_room(struct replay_worker *w, struct replay_sequence *s)
{
    while (!s->suspended &&
           !replay_pool_grow(w, s, s->n_prompt + s->n_made + 1)) {
        struct replay_sequence *v = victim(w);

        if (v == NULL) {
            return true; /* cannot be: a strict one has all its blocks */
        }
        suspend(w, v);
    }
    return !s->suspended;
}

/* Brings suspended sequences back, the oldest first. */
static void come_back(struct replay_worker *w)
{
    for (uint32_t i = 0; w->n_suspended > 0 && i < w->n; i++) {
        struct replay_sequence *s = w->all[i];

        if (!s->suspended) {
            continue;
        }
        if (!replay_pool_take(w, s, s->n_prompt + s->n_made + 1)) {
            return;
        }
        s->suspended = false;
        s->changed = true;
        w->n_suspended--;
    }
}

static uint32_t n_left(const struct replay_sequence *s)
{
    return s->n_prompt + s->n_made - s->n_done;
}

/* A sequence that comes back computes all of its tokens again, and is a prompt
 * until then. */
static bool decodes(const struct replay_sequence *s)
{
    return s->n_made > 0 && n_left(s) == 1;
}

static bool runs(const struct replay_sequence *s)
{
    return !s->suspended && s->finish == 0;
}

/* Strict sequences have all their blocks from the begin. */
static uint32_t plan_rows(struct replay_worker *w)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n && n < w->shape.max_rows; i++) {
        struct replay_sequence *s = w->all[i];

        if (runs(s) && decodes(s) && (!s->grows || make_room(w, s))) {
            s->n_now = 1;
            n++;
        }
    }
    return n;
}

static uint32_t plan_prompts(struct replay_worker *w, uint32_t chunk)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < w->n && n < chunk; i++) {
        struct replay_sequence *s = w->all[i];

        if (runs(s) && !decodes(s)) {
            s->n_now = min_u32(n_left(s), chunk - n);
            n += s->n_now;
        }
    }
    return n;
}

static void begin_step(struct replay_worker *w)
{
    static const struct record_cost guess = {COSTS_STEP_US * 1000ull, 0,
                                             COSTS_TOKEN_NS, COSTS_CHUNK};
    const struct record_cost *c;
    uint32_t n_rows = 0;
    uint64_t ns;

    take_costs(w);
    c = w->cost == NULL ? &guess : w->cost;
    come_back(w);
    (void)plan_rows(w);
    w->n_step_tokens = plan_prompts(w, c->chunk);
    /* Those that get a token: what the recorder counts. */
    for (uint32_t i = 0; i < w->n; i++) {
        const struct replay_sequence *s = w->all[i];

        n_rows += s->n_now > 0 && s->n_now == n_left(s);
    }
    w->busy = n_rows + w->n_step_tokens > 0;
    ns = c->base_ns + c->row_ns * n_rows + c->token_ns * w->n_step_tokens;
    w->step_us = max_u32(1, (uint32_t)min_u64(ns / 1000, COSTS_US_CAP));
    w->due_us = w->peer.in->now_us + w->step_us;
}

/* All but the newest token of an output are computed when it ends. */
static void make_token(struct replay_worker *w, struct replay_sequence *s)
{
    struct replay *x = w->peer.in;
    struct recorded_choice *c = replay_choice(x, s->request, s->choice);

    s->n_made++;
    c->n_tokens = s->n_made;
    if (c->first_us == RECORDING_NEVER) {
        c->first_us = replay_time(x);
        c->n_restored = s->n_restored;
    }
    if (s->n_made >= s->length) {
        c->end_us = replay_time(x);
        c->how = s->n_made == s->max_tokens ? RECORD_LENGTH : RECORD_STOP;
        s->finish = s->n_made == s->max_tokens
                        ? SLUICE__V1__FINISH__FINISH_LENGTH
                        : SLUICE__V1__FINISH__FINISH_STOP;
        replay_pool_share(w, s);
        replay_pool_release(w, s);
    }
}

static void advance(struct replay_worker *w, struct replay_sequence *s)
{
    s->n_done += s->n_now;
    s->n_now = 0;
    replay_pool_share(w, s);
    if (n_left(s) == 0) {
        make_token(w, s);
    }
}

/* ---- what the router gets ---- */

/* The columns of a StepOutput. */
struct columns {
    uint64_t grant[STEP_ROWS_MAX];
    uint32_t first[STEP_ROWS_MAX], count[STEP_ROWS_MAX], finish[STEP_ROWS_MAX];
    uint32_t state[STEP_ROWS_MAX], reused[STEP_ROWS_MAX];
    uint32_t tokens[STEP_TOKENS_MAX];
    uint32_t n_rows, n_tokens;
};

/* A row is repeated until the router has acknowledged it. */
static bool has_news(const struct replay_sequence *s)
{
    return s->n_made > s->n_acked || s->finish != 0 || s->changed;
}

static void add_row(const struct replay_worker *w, struct replay_sequence *s,
                    struct columns *c)
{
    const struct recording *r = w->peer.in->recording;
    uint32_t i = c->n_rows, n = s->n_made - s->n_acked;

    if (i == STEP_ROWS_MAX || n > STEP_TOKENS_MAX - c->n_tokens) {
        return; /* with the next step */
    }
    c->n_rows++;
    c->grant[i] = s->grant;
    c->first[i] = s->n_acked;
    c->count[i] = n;
    c->finish[i] = s->finish;
    c->reused[i] = s->n_restored;
    c->state[i] = s->suspended ? SUSPENDED
                  : s->n_made > 0
                      ? SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE
                      : SLUICE__V1__SEQUENCE_STATE__SEQUENCE_PREFILL;
    s->changed = false;
    for (uint32_t k = s->n_acked; k < s->n_made; k++) {
        c->tokens[c->n_tokens++] =
            replay_token(r, s->request, s->choice, s->n_prompt + k);
    }
}

static void say(struct replay_worker *w)
{
    static struct columns c;
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    struct replay_ledger l;

    c.n_rows = c.n_tokens = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        if (has_news(w->all[i])) {
            add_row(w, w->all[i], &c);
        }
    }
    replay_pool_ledger(w, &l);
    l.m.session = peer_session(w->peer.peer);
    l.m.snapshot = ++w->snapshot;
    m.step = ++w->n_steps;
    m.ledger = &l.m;
    m.grant = c.grant;
    m.first_index = c.first;
    m.count = c.count;
    m.finish = c.finish;
    m.state = c.state;
    m.reused = c.reused;
    m.tokens = c.tokens;
    m.n_grant = m.n_first_index = m.n_count = m.n_finish = m.n_state =
        m.n_reused = c.n_rows;
    m.n_tokens = c.n_tokens;
    m.has_device_us = m.has_n_prompt_tokens = true;
    m.device_us = w->step_us;
    m.n_prompt_tokens = w->n_step_tokens;
    /* Without room the rows come with the next step. */
    (void)!peer_oneway(w->peer.peer, METHOD_REGISTRY_STEP_OUTPUT, &m.base);
    replay_pool_tell(w);
}

void replay_worker_turn(struct replay_worker *w)
{
    if (!w->peer.up || w->peer.gone) {
        w->busy = false;
        return;
    }
    if (w->busy && w->due_us <= w->peer.in->now_us) {
        w->busy = false;
        for (uint32_t i = 0; i < w->n; i++) {
            if (w->all[i]->n_now > 0) {
                advance(w, w->all[i]);
            }
        }
        say(w);
        replay_pump(w->peer.in);
    }
    if (!w->busy) {
        begin_step(w);
    }
}
