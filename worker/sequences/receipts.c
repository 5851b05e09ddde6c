#include "worker/sequences/receipts.h"

#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/plant.h"

/* ---- the message ---- */

static void fill_receipt(Sluice__V1__Receipt *m, Sluice__V1__SequenceRef *ref,
                         const struct sequence_key *key)
{
    sluice__v1__sequence_ref__init(ref);
    ref->request_id.len = sizeof key->request_id;
    ref->request_id.data = (uint8_t *)(uintptr_t)key->request_id;
    ref->has_choice = true;
    ref->choice = key->choice;
    sluice__v1__receipt__init(m);
    m->sequence = ref;
}

static void set_windows(Sluice__V1__Receipt *m, uint32_t pages)
{
    m->has_windows = pages > 0;
    m->windows = pages;
}

void receipts_answer(struct peer *p, uint64_t call,
                     const struct sequence_key *key, const struct sequence *s)
{
    Sluice__V1__Receipt m;
    Sluice__V1__SequenceRef ref;

    fill_receipt(&m, &ref, key);
    m.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    if (s != NULL) {
        m.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
        m.n_generated = s->portable.n_generated;
    }
    peer_end(p, call, &m.base);
}

/* One entry for each stage, this one first. */
struct freed_columns {
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX], windows[STAGES_MAX];
};

/* Sets the columns of n stages; that of windows if one of them freed some. */
static void set_columns(Sluice__V1__Receipt *m, struct freed_columns *c,
                        size_t n)
{
    m->n_stage_blocks = m->n_stage_slots = n;
    m->stage_blocks = c->blocks;
    m->stage_slots = c->slots;
    m->n_stage_windows = m->windows > 0 ? n : 0;
    m->stage_windows = c->windows;
}

static void add_own(const Sluice__V1__Receipt *m, struct freed_columns *c)
{
    c->blocks[0] = m->blocks;
    c->slots[0] = m->slots;
    c->windows[0] = m->windows;
}

/* Adds what the range freed at each stage; the counts are their sums. */
static void add_cut(const struct sequences *q, Sluice__V1__Receipt *m,
                    struct freed_columns *c)
{
    const struct role_ops *ops = q->role.ops;
    uint32_t n = ops->freed == NULL ? 0
                                    : ops->freed(q->role.self, c->blocks + 1,
                                                 c->slots + 1, c->windows + 1);

    add_own(m, c);
    for (uint32_t i = 1; i <= n; i++) {
        m->blocks += c->blocks[i];
        m->slots += c->slots[i];
        set_windows(m, m->windows + c->windows[i]);
    }
    if (n > 0 && m->blocks + m->slots + m->windows > 0) {
        set_columns(m, c, n + 1);
    }
}

void receipts_cut(struct sequences *q, struct peer *p, uint64_t call,
                  const struct sequence *s, const struct pool_need *freed,
                  uint32_t position)
{
    struct freed_columns columns;
    Sluice__V1__Receipt m;
    Sluice__V1__SequenceRef ref;

    fill_receipt(&m, &ref, &s->key);
    m.state = (Sluice__V1__SequenceState)sequence_public_state(s);
    m.n_generated = s->portable.n_generated;
    m.blocks = freed->n[POOL_BLOCKS];
    m.slots = freed->n[POOL_SLOTS];
    set_windows(&m, freed->n[POOL_WINDOWS]);
    add_cut(q, &m, &columns);
    m.has_position = true;
    m.position = position;
    m.snapshot = ledger_next_snapshot(&q->ledger);
    peer_end(p, call, &m.base);
}

/* Adds what the other stages have freed to m, which holds what this one has. */
static void add_stages(Sluice__V1__Receipt *m, struct freed_columns *c,
                       const Sluice__V1__StageRemove *others)
{
    add_own(m, c);
    for (size_t i = 0; i < others->n_blocks; i++) {
        m->blocks += c->blocks[i + 1] = others->blocks[i];
        m->slots += c->slots[i + 1] = others->slots[i];
        m->checkpoints += others->checkpoints[i];
        c->windows[i + 1] = others->n_windows > 0 ? others->windows[i] : 0;
        set_windows(m, m->windows + c->windows[i + 1]);
    }
    set_columns(m, c, others->n_blocks + 1);
}

static void send_receipt(struct sequences *q, const struct sequence *s,
                         const struct receipt_waiter *r,
                         const Sluice__V1__StageRemove *others)
{
    struct peer *p = base_peer(q->base);
    Sluice__V1__Receipt m;
    Sluice__V1__SequenceRef ref;
    struct freed_columns columns;

    if (p == NULL) {
        return;
    }
    fill_receipt(&m, &ref, &s->key);
    m.state = (Sluice__V1__SequenceState)r->state;
    m.n_generated = s->portable.n_generated;
    m.blocks = r->freed.n[POOL_BLOCKS];
    m.slots = r->freed.n[POOL_SLOTS];
    m.checkpoints = r->freed.n[POOL_CHECKPOINTS];
    set_windows(&m, r->freed.n[POOL_WINDOWS]);
    if (r->first && others != NULL) {
        add_stages(&m, &columns, others);
    }
    m.micros = (uint64_t)(base_now_us(q->base) - r->since_us);
    /* The router counts the room as free when that ledger has come, so no
     * grant is made from figures that are older than the release. */
    m.snapshot = ledger_next_snapshot(&q->ledger);
    FP(WORKER_RECEIPT);
    peer_end(p, r->call, &m.base);
}

/* ---- the calls that wait ---- */

static struct receipt_waiter *waiter_new(struct receipt_waiters *w)
{
    struct receipt_waiter *r = w->free;

    if (r != NULL) {
        w->free = r->next;
    } else if (w->n_fresh < WAITERS_MAX) {
        r = &w->memory[w->n_fresh++];
    }
    return r;
}

bool receipts_wait(struct sequences *q, struct sequence *s, uint64_t call)
{
    struct receipt_waiter *r = waiter_new(&q->waiters);

    /* There is a waiter for every call that may be open, so only cancelled
     * calls that still wait can exhaust them. */
    if (r == NULL) {
        return false;
    }
    memset(r, 0, sizeof *r);
    r->call = call;
    r->since_us = base_now_us(q->base);
    r->state = sequence_public_state(s);
    r->first = s->state != SEQUENCE_RELEASING;
    /* `need` is what the release will free: granted and held together. */
    if (r->first) {
        r->freed = s->memory.need;
    }
    if (s->receipts.last != NULL) {
        s->receipts.last->next = r;
    } else {
        s->receipts.first = r;
    }
    s->receipts.last = r;
    return true;
}

/* Takes the first waiter off s; its memory stays readable until the next
 * receipts_wait(). */
static struct receipt_waiter *waiter_pop(struct sequences *q,
                                         struct sequence *s)
{
    struct receipt_waiter *r = s->receipts.first;

    if (r == NULL) {
        s->receipts.last = NULL;
        return NULL;
    }
    s->receipts.first = r->next;
    r->next = q->waiters.free;
    q->waiters.free = r;
    return r;
}

void receipts_send(struct sequences *q, struct sequence *s,
                   const Sluice__V1__StageRemove *others)
{
    const struct receipt_waiter *r;

    while ((r = waiter_pop(q, s)) != NULL) {
        if (!PLANT(LOST_RECEIPT)) {
            send_receipt(q, s, r, others);
        }
    }
}

void receipts_refuse_call(struct sequences *q, uint64_t call)
{
    struct peer *p = base_peer(q->base);
    struct error e;

    if (p != NULL && call != 0) {
        error_set(&e, ST_UNAVAILABLE, "the assembly of its stages is over");
        peer_fail(p, call, &e, 0);
    }
}

void receipts_refuse(struct sequences *q, struct sequence *s)
{
    const struct receipt_waiter *r;

    while ((r = waiter_pop(q, s)) != NULL) {
        receipts_refuse_call(q, r->call);
    }
}
