/* Workers that send false reports. */
#include <stdio.h>
#include <string.h>

#include "common/wire/prefix_hash.h"
#include "proto/limits.h"
#include "tests/faults/rogue.h"
#include "tests/faults/rogue_node.h"

/* A valid row of grant 1: tokens 2 and 3 after 0 and 1. */
struct step_row {
    uint64_t grant;
    uint32_t first, count, finish, state, tokens[16];
    size_t n_first, n_count, n_finish, n_state, n_tokens;
};

typedef void lie_fn(struct rogue_node *w, struct step_row *s);

struct pair {
    struct rogue_node *node[2]; /* the worker and its only client */
    uint8_t id[16];
};

#define WORKER 0
#define CLIENT 1

static bool has_submit(const void *arg)
{
    return ((const struct pair *)arg)->node[WORKER]->n_submits > 0;
}

static bool has_two(const void *arg)
{
    return ((const struct pair *)arg)->node[CLIENT]->n_tokens >= 2;
}

static bool is_kept_out(const void *arg)
{
    return ((const struct pair *)arg)->node[WORKER]->n_refused > 0;
}

static void send_row(struct rogue_node *w, struct step_row *s)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    uint32_t first[2] = {s->first}, count[2] = {s->count};
    uint32_t finish[2] = {s->finish}, state[2] = {s->state, 3};

    m.grant = &s->grant;
    m.n_grant = 1;
    m.first_index = first;
    m.n_first_index = s->n_first;
    m.count = count;
    m.n_count = s->n_count;
    m.finish = finish;
    m.n_finish = s->n_finish;
    m.state = state;
    m.n_state = s->n_state;
    m.tokens = s->tokens;
    m.n_tokens = s->n_tokens;
    rogue_step(w, &m);
}

static struct step_row truth(uint64_t grant, uint32_t first)
{
    return (struct step_row){.grant = grant,
                             .first = first,
                             .count = 2,
                             .state = 3,
                             .tokens = {100 + first, 101 + first},
                             .n_first = 1,
                             .n_count = 1,
                             .n_finish = 1,
                             .n_state = 1,
                             .n_tokens = 2};
}

/* Starts a worker and a client of its model, which has received two tokens. */
static bool begin(struct rogue_at *at, struct pair *p)
{
    const char *name = rogue_name("liar");
    struct step_row s;

    p->node[WORKER] = rogue_node_new(at->workers, BY_WORKER, name);
    p->node[CLIENT] = rogue_node_new(at->clients, BY_CLIENT, "victim");
    rogue_id(p->id);
    if (!rogue_run_up(p->node[WORKER]) || !rogue_run_up(p->node[CLIENT]) ||
        rogue_generate(p->node[CLIENT], name, p->id, 10) != ST_OK ||
        !rogue_run(p->node, 2, has_submit, p)) {
        return rogue_saw(at, false, "no Submit came: %s %s",
                         p->node[WORKER]->why, p->node[CLIENT]->text);
    }
    s = truth(p->node[WORKER]->grant, 0);
    send_row(p->node[WORKER], &s);
    if (!rogue_run(p->node, 2, has_two, p)) {
        return rogue_saw(at, false, "a valid report was rejected: %s",
                         p->node[WORKER]->why);
    }
    return true;
}

static void end(struct pair *p)
{
    rogue_node_free(&p->node[CLIENT]);
    rogue_node_free(&p->node[WORKER]);
}

static bool no_bad_token(const struct rogue_node *c, uint32_t n)
{
    for (uint32_t i = 0; i < c->n_tokens; i++) {
        if (c->tokens[i] != 100 + i) {
            return false;
        }
    }
    return c->n_tokens == n;
}

/* Sends the false report once: the session must end, the name be quarantined,
 * and the client receive none of it. */
static bool run_lie(struct rogue_at *at, const struct rogue_case *c)
{
    struct pair p;
    struct step_row s;
    lie_fn *const *lie = c->arg;
    bool well = begin(at, &p);

    if (well) {
        struct rogue_node *w = p.node[WORKER];

        s = truth(w->grant, 2);
        (*lie)(w, &s);
        w->mute = true;
        send_row(w, &s);
        well = rogue_run(p.node, 2, is_kept_out, &p) &&
               w->refused == ST_UNAVAILABLE && w->n_up == 1 &&
               no_bad_token(p.node[CLIENT], 2);
        rogue_saw(at, well,
                  "session ended %u times, back in: %s, \"%s\", "
                  "client had %u tokens",
                  w->n_down, status_name(w->refused), w->why,
                  p.node[CLIENT]->n_tokens);
    }
    end(&p);
    return well;
}

#define LIE(name)                                                     \
    static void lie_##name(struct rogue_node *w, struct step_row *s); \
    static lie_fn *const name = lie_##name;                           \
    static void lie_##name(struct rogue_node *w, struct step_row *s)
#define CLASS(i) (w->shard.classes[i])

/* clang-format off */
LIE(token_past_vocab)   { (void)w; s->tokens[1] = ROGUE_VOCAB; }
LIE(token_max)          { (void)w; s->tokens[0] = UINT32_MAX; }
LIE(grant_never_given)  { (void)w; s->grant += 2; }
LIE(grant_zero)         { (void)w; s->grant = 0; }
LIE(past_max_tokens)    { (void)w; s->count = 9; s->n_tokens = 9; }
LIE(index_overflow)     { (void)w; s->first = UINT32_MAX; }
LIE(history_rewritten)  { (void)w; s->first = 0; s->tokens[0] = 99; }
LIE(column_short)       { (void)w; s->n_count = 0; }
LIE(column_long)        { (void)w; s->n_state = 2; }
LIE(count_overflow)     { (void)w; s->count = UINT32_MAX; }
LIE(tokens_left_over)   { (void)w; s->count = 1; }
LIE(finish_unknown)     { (void)w; s->finish = 5; }
LIE(length_too_early)   { (void)w; s->finish = 2; }
LIE(state_99)           { (void)w; s->state = 99; }
LIE(running_free)       { (void)s; rogue_release(w); }
LIE(sum_wrong)          { (void)s; CLASS(3).free -= 1; }
LIE(class_sum_wrong)    { (void)s; CLASS(0).free = CLASS(0).total; }
LIE(column_wrong)       { (void)s; CLASS(0).granted -= 1; }
LIE(cached_nowhere)     { (void)s; CLASS(3).free -= 1; CLASS(3).cached = 1; }
LIE(free_beyond_total)  { (void)s; CLASS(0).free = UINT32_MAX; }
LIE(slots_negative)     { (void)s; CLASS(1).free -= 100; }
LIE(held_from_nowhere)  { (void)s; CLASS(2).held = 1; }
LIE(total_grew)
{
    (void)s;
    for (int i = 0; i < 4; i += 3) { /* blocks and pages */
        CLASS(i).free += 10;
        CLASS(i).total += 10;
    }
}
LIE(total_shrank)       { (void)s; CLASS(1).free -= 1; CLASS(1).total -= 1; }
LIE(settles_future)     { (void)s; w->shard.ledger.grant += 1; }
LIE(settles_max)        { (void)s; w->shard.ledger.grant = UINT64_MAX; }
LIE(settles_back)       { (void)s; w->shard.ledger.grant = 0; }
/* clang-format on */

static bool has_all(const void *arg)
{
    return ((const struct pair *)arg)->node[CLIENT]->n_ends > 0;
}

/* Sends the last eight of ten tokens, and waits for the client's end. */
static bool finish(struct pair *p)
{
    struct rogue_node *w = p->node[WORKER];
    struct step_row s = truth(w->grant, 2);

    s.count = 8;
    s.n_tokens = 8;
    s.finish = 2; /* FINISH_LENGTH */
    for (uint32_t i = 0; i < 8; i++) {
        s.tokens[i] = 102 + i;
    }
    rogue_release(w);
    send_row(w, &s);
    return rogue_run(p->node, 2, has_all, p) &&
           p->node[CLIENT]->status == ST_OK &&
           no_bad_token(p->node[CLIENT], 10) && w->n_down == 0;
}

/* ---- events of the index ---- */

/* Three events, and more ids than an Index may have. */
struct events {
    Sluice__V1__IndexMessage m;
    uint32_t tokens[INDEX_EVENTS_MAX + 1];
    uint8_t hashes[(INDEX_EVENTS_MAX + 1) * PREFIX_HASH_BYTES];
};

typedef void event_fn(struct events *x);

static void events_send(struct rogue_node *w, uint64_t first, event_fn *lie)
{
    static struct events x;

    sluice__v1__index_message__init(&x.m);
    memset(x.hashes, (int)first, sizeof x.hashes);
    for (int i = 0; i <= INDEX_EVENTS_MAX; i++) {
        x.tokens[i] = PREFIX_UNIT;
    }
    x.m.first = first;
    x.m.tokens = x.tokens;
    x.m.n_tokens = 3;
    x.m.hashes = (ProtobufCBinaryData){3 * PREFIX_HASH_BYTES, x.hashes};
    if (lie != NULL) {
        lie(&x);
    }
    (void)!peer_oneway(w->peer, METHOD_REGISTRY_INDEX, &x.m.base);
}

/* Sends true events first, then false ones. */
static bool run_events(struct rogue_at *at, const struct rogue_case *c)
{
    struct pair p;
    event_fn *const *lie = c->arg;
    bool well = begin(at, &p);

    if (well) {
        struct rogue_node *w = p.node[WORKER];

        events_send(w, 1, NULL);
        events_send(w, 4, *lie);
        well = rogue_run(p.node, 2, is_kept_out, &p) &&
               w->refused == ST_UNAVAILABLE && w->n_up == 1 &&
               no_bad_token(p.node[CLIENT], 2);
        rogue_saw(at, well, "session ended %u times, back in: %s, \"%s\"",
                  w->n_down, status_name(w->refused), w->why);
    }
    end(&p);
    return well;
}

#define EVENT(name)                           \
    static void lie_##name(struct events *x); \
    static event_fn *const name = lie_##name; \
    static void lie_##name(struct events *x)

/* clang-format off */
EVENT(hash_short)    { x->m.hashes.len -= 1; }
EVENT(hash_missing)  { x->m.hashes.len -= PREFIX_HASH_BYTES; }
EVENT(no_hashes)     { x->m.hashes.len = 0; }
EVENT(prefix_odd)    { x->tokens[2] = PREFIX_UNIT + 1; }
EVENT(prefix_long)   { x->tokens[2] = ROGUE_CONTEXT + PREFIX_UNIT; }
EVENT(prefix_max)    { x->tokens[0] = UINT32_MAX; }
EVENT(numbers_back)  { x->m.first = 3; }
EVENT(numbers_max)   { x->m.first = UINT64_MAX; }
EVENT(snapshot_mid)  { x->m.snapshot = x->m.has_snapshot = true; x->m.first = 2; }
/* clang-format on */
EVENT(events_many)
{
    x->m.n_tokens = INDEX_EVENTS_MAX + 1;
    x->m.hashes.len = sizeof x->hashes;
}

static bool has_asked(const void *arg)
{
    return ((const struct pair *)arg)->node[WORKER]->n_snapshots > 0;
}

/* After a gap in the numbers the router asks for a snapshot and serves on. */
static bool run_event_gap(struct rogue_at *at, const struct rogue_case *c)
{
    struct pair p;
    bool well = begin(at, &p);

    (void)c;
    if (well) {
        struct rogue_node *w = p.node[WORKER];

        events_send(w, 1, NULL);
        events_send(w, 5, NULL);
        well = rogue_run(p.node, 2, has_asked, &p) && finish(&p);
        rogue_saw(at, well,
                  "asked for %u snapshots, session ended %u times (%s), client "
                  "had %u of 10 tokens",
                  w->n_snapshots, w->n_down, w->why, p.node[CLIENT]->n_tokens);
    }
    end(&p);
    return well;
}

/* ---- receipts ---- */

typedef void spoil_fn(Sluice__V1__Receipt *r);

#define SPOIL(name)                                   \
    static void spoil_##name(Sluice__V1__Receipt *r); \
    static spoil_fn *const name = spoil_##name;       \
    static void spoil_##name(Sluice__V1__Receipt *r)

/* clang-format off */
SPOIL(blocks_beyond)      { r->blocks += 1; }
SPOIL(slots_beyond)       { r->slots += 1; }
SPOIL(tokens_beyond)      { r->n_generated = 11; }
SPOIL(micros_beyond)      { r->micros = UINT64_MAX; }
SPOIL(receipt_state_99)   { r->state = (Sluice__V1__SequenceState)99; }
SPOIL(checkpoints_beyond) { r->checkpoints = 1; }
SPOIL(snapshot_beyond)    { r->snapshot = UINT64_MAX; }
/* clang-format on */

static bool has_receipt(const void *arg)
{
    const struct pair *p = arg;

    return p->node[WORKER]->n_refused > 0 &&
           p->node[CLIENT]->receipt.sequence != NULL;
}

/* The client gets a receipt of the router, with none of the worker's
 * figures. */
static bool run_false_receipt(struct rogue_at *at, const struct rogue_case *c)
{
    struct pair p;
    spoil_fn *const *spoil = c->arg;
    bool well = begin(at, &p);

    if (well) {
        struct rogue_node *w = p.node[WORKER];
        const Sluice__V1__Receipt *r = &p.node[CLIENT]->receipt;

        w->spoil = *spoil;
        well = rogue_cancel(p.node[CLIENT], p.id) == ST_OK &&
               rogue_run(p.node, 2, has_receipt, &p) &&
               w->refused == ST_UNAVAILABLE && r->n_generated == 2 &&
               r->blocks == 0 && r->slots == 0 && r->checkpoints == 0 &&
               r->micros == 0 && r->snapshot == 0 && (int)r->state <= 5;
        rogue_saw(at, well,
                  "back in: %s, \"%s\"; the client's receipt: state %d, %u "
                  "tokens, %u blocks",
                  status_name(w->refused), w->why, (int)r->state,
                  r->n_generated, r->blocks);
    }
    end(&p);
    return well;
}

/* ---- late but valid: dropped, and the session continues ---- */

static bool has_ack(const void *arg)
{
    return ((const struct pair *)arg)->node[WORKER]->n_acks > 1;
}

static bool run_dropped(struct rogue_at *at, const struct rogue_case *c)
{
    struct pair p;
    lie_fn *const *odd = c->arg;
    bool well = begin(at, &p);

    if (well) {
        struct rogue_node *w = p.node[WORKER];
        struct rogue_shard kept = w->shard;
        struct step_row s = truth(w->grant, 2);

        (*odd)(w, &s);
        w->mute = true;
        send_row(w, &s);
        well = rogue_run(p.node, 2, has_ack, &p);
        w->shard.ledger.grant = kept.ledger.grant;
        w->shard.ledger.snapshot = kept.ledger.snapshot + 1;
        w->shard.ledger.session = kept.ledger.session;
        memcpy(w->shard.classes, kept.classes, sizeof kept.classes);
        well = well && finish(&p);
        rogue_saw(at, well,
                  "session ended %u times (%s), last index wanted %u, client "
                  "had %u of 10 tokens, %s",
                  w->n_down, w->why, w->ack_index, p.node[CLIENT]->n_tokens,
                  status_name(p.node[CLIENT]->status));
    }
    end(&p);
    return well;
}

/* In an old report with a free ledger, the rows count and the room does not. */
LIE(snapshot_back)
{
    w->shard.ledger.snapshot =
        UINT64_MAX; /* incremented to 0 when it is sent */
    rogue_release(w);
    s->count = 0;
    s->n_tokens = 0;
}
LIE(index_gap)
{
    (void)w;
    s->first = 3;
}
LIE(repeated_row)
{
    (void)w;
    s->first = 0;
    s->tokens[0] = 100;
    s->tokens[1] = 101;
}

static bool is_acked(const void *arg)
{
    return ((const struct pair *)arg)->node[WORKER]->ack_index == 10;
}

/* A row of an ended sequence must be dropped. */
static bool run_finished_grant(struct rogue_at *at, const struct rogue_case *c)
{
    struct pair p;
    bool well =
        begin(at, &p) && finish(&p) && rogue_run(p.node, 2, is_acked, &p);

    (void)c;
    if (well) {
        struct rogue_node *w = p.node[WORKER];
        struct step_row s = truth(w->grant, 2);

        w->n_acks = 1; /* wait for another ack */
        send_row(w, &s);
        well = rogue_run(p.node, 2, has_ack, &p) &&
               w->ack_index == UINT32_MAX && w->n_down == 0 &&
               p.node[CLIENT]->n_tokens == 10;
        rogue_saw(at, well, "answered with index %u, session ended %u times",
                  w->ack_index, w->n_down);
    }
    end(&p);
    return well;
}

#define A_LIE "the session ends, the name is quarantined, no client sees it"
#define LIED(lie, text)                                 \
    {                                                   \
        "lie-" text, ROGUE_ROUTER, A_LIE, run_lie, &lie \
    }
#define RECEIPT(lie, text)                                                \
    {                                                                     \
        "lie-receipt-" text, ROGUE_ROUTER, A_LIE, run_false_receipt, &lie \
    }
#define EVENTS(lie, text)                                        \
    {                                                            \
        "lie-index-" text, ROGUE_ROUTER, A_LIE, run_events, &lie \
    }
#define ODD(lie, text, rule)                        \
    {                                               \
        text, ROGUE_ROUTER, rule, run_dropped, &lie \
    }

static const struct rogue_case cases[] = {
    LIED(token_past_vocab, "token-past-vocab"),
    LIED(token_max, "token-max"),
    LIED(grant_never_given, "grant-never-given"),
    LIED(grant_zero, "grant-zero"),
    LIED(past_max_tokens, "past-max-tokens"),
    LIED(index_overflow, "index-overflow"),
    LIED(history_rewritten, "history-rewritten"),
    LIED(column_short, "column-short"),
    LIED(column_long, "column-long"),
    LIED(count_overflow, "count-overflow"),
    LIED(tokens_left_over, "tokens-left-over"),
    LIED(finish_unknown, "finish-unknown"),
    LIED(length_too_early, "length-too-early"),
    LIED(state_99, "state-99"),
    LIED(running_free, "running-blocks-free"),
    RECEIPT(blocks_beyond, "blocks"),
    RECEIPT(slots_beyond, "slots"),
    RECEIPT(tokens_beyond, "tokens"),
    RECEIPT(micros_beyond, "micros"),
    RECEIPT(receipt_state_99, "state"),
    RECEIPT(checkpoints_beyond, "checkpoints"),
    RECEIPT(snapshot_beyond, "snapshot"),
    LIED(sum_wrong, "sum-wrong"),
    LIED(class_sum_wrong, "class-sum-wrong"),
    LIED(column_wrong, "column-wrong"),
    LIED(cached_nowhere, "cached-from-nowhere"),
    LIED(free_beyond_total, "free-beyond-total"),
    LIED(slots_negative, "slots-negative"),
    LIED(held_from_nowhere, "held-from-nowhere"),
    LIED(total_grew, "total-grew"),
    LIED(total_shrank, "total-shrank"),
    LIED(settles_future, "settles-future-grant"),
    LIED(settles_max, "settles-max-grant"),
    LIED(settles_back, "settles-back"),
    EVENTS(hash_short, "hash-short"),
    EVENTS(hash_missing, "hash-missing"),
    EVENTS(no_hashes, "no-hashes"),
    EVENTS(prefix_odd, "prefix-odd"),
    EVENTS(prefix_long, "prefix-long"),
    EVENTS(prefix_max, "prefix-max"),
    EVENTS(numbers_back, "numbers-back"),
    EVENTS(numbers_max, "numbers-max"),
    EVENTS(snapshot_mid, "snapshot-mid"),
    EVENTS(events_many, "events-many"),
    {"index-event-gap", ROGUE_ROUTER, "a snapshot is requested", run_event_gap,
     NULL},
    ODD(snapshot_back, "snapshot-back", "an older ledger is dropped"),
    ODD(index_gap, "index-gap", "the row is dropped and requested again"),
    ODD(repeated_row, "repeated-row", "the repeated row is dropped"),
    {"finished-grant", ROGUE_ROUTER, "the worker is asked to drop it",
     run_finished_grant, NULL},
};

const struct rogue_table rogue_lies = {cases, sizeof cases / sizeof cases[0]};
