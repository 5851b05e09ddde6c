/* ending.c - how a sequence ends, whatever the reason, and who is told. */
#include <string.h>

#include "common/base/failpoint.h"
#include "common/base/log.h"
#include "common/base/plant.h"
#include "worker/sequences/orphans.h"
#include "worker/stages/leader.h"

static int64_t now_us(struct worker_core *w)
{
    return w->io->now_us(w->io);
}

/* ---- receipts ---- */

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

/* At once: nothing is freed by it. */
static void receipt_empty(struct peer *p, uint64_t call,
                          const struct sequence_key *key,
                          const struct sequence *s)
{
    Sluice__V1__Receipt m;
    Sluice__V1__SequenceRef ref;

    fill_receipt(&m, &ref, key);
    m.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_UNKNOWN;
    if (s != NULL) {
        m.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_FINISHED;
        m.n_generated = s->n_generated;
    }
    peer_end(p, call, &m.base);
}

/* What the others have freed, m: the sums, and one entry a stage. */
struct by_stage {
    uint32_t blocks[STAGES_MAX], slots[STAGES_MAX];
};

static void add_stages(Sluice__V1__Receipt *m, struct by_stage *b,
                       const Sluice__V1__StageRemove *others)
{
    b->blocks[0] = m->blocks;
    b->slots[0] = m->slots;
    for (size_t i = 0; i < others->n_blocks; i++) {
        m->blocks += b->blocks[i + 1] = others->blocks[i];
        m->slots += b->slots[i + 1] = others->slots[i];
        m->checkpoints += others->checkpoints[i];
    }
    m->n_stage_blocks = m->n_stage_slots = others->n_blocks + 1;
    m->stage_blocks = b->blocks;
    m->stage_slots = b->slots;
}

/* others: NULL if there are none. */
static void receipt_send(struct worker_core *w, const struct sequence *s,
                         const struct waiter *r,
                         const Sluice__V1__StageRemove *others)
{
    struct peer *p = worker_peer(w);
    Sluice__V1__Receipt m;
    Sluice__V1__SequenceRef ref;
    struct by_stage by_stage;

    if (p == NULL) {
        return;
    }
    fill_receipt(&m, &ref, &s->key);
    m.state = (Sluice__V1__SequenceState)r->state;
    m.n_generated = s->n_generated;
    m.blocks = r->freed.n[POOL_BLOCKS];
    m.slots = r->freed.n[POOL_SLOTS];
    m.checkpoints = r->freed.n[POOL_CHECKPOINTS];
    if (r->first && others != NULL) {
        add_stages(&m, &by_stage, others);
    }
    m.micros = (uint64_t)(now_us(w) - r->since_us);
    m.snapshot = ledger_next_snapshot(&w->ledger);
    FP(WORKER_RECEIPT);
    peer_end(p, r->call, &m.base);
}

static struct waiter *waiter_new(struct worker_core *w)
{
    struct waiter *r = w->free_waiters;

    if (r != NULL) {
        w->free_waiters = r->next;
    } else if (w->fresh_waiters < WAITERS_MAX) {
        r = &w->waiters[w->fresh_waiters++];
    }
    return r;
}

/* What came with s is dropped: who still asks is told, if the session stands
 * (an assembly ended in it).  A Submit goes elsewhere. */
static void refuse(struct worker_core *w, uint64_t call)
{
    struct peer *p = worker_peer(w);
    struct error e;

    if (p != NULL && call != 0) {
        error_set(&e, ST_UNAVAILABLE, "the assembly of its stages is over");
        peer_fail(p, call, &e, 0);
    }
}

/* All that wait for s leave, in order, answered or with what it came by. */
static void waiters_end(struct worker_core *w, struct sequence *s, bool answer,
                        const Sluice__V1__StageRemove *others)
{
    while (s->waiters != NULL) {
        struct waiter *r = s->waiters;

        if (!answer) {
            refuse(w, r->call);
        } else if (!PLANT(LOST_RECEIPT)) {
            receipt_send(w, s, r, others);
        }
        s->waiters = r->next;
        r->next = w->free_waiters;
        w->free_waiters = r;
    }
    s->last_waiter = NULL;
}

/* The first to come frees the memory; those after it free nothing. */
static bool waiter_add(struct worker_core *w, struct sequence *s, uint64_t call)
{
    struct waiter *r = waiter_new(w);

    if (r == NULL) {
        return false;
    }
    memset(r, 0, sizeof *r);
    r->call = call;
    r->since_us = now_us(w);
    r->state = sequence_public_state(s);
    r->first = s->state != SEQUENCE_RELEASING;
    if (r->first) {
        r->freed = s->need;
    }
    if (s->last_waiter != NULL) {
        s->last_waiter->next = r;
    } else {
        s->waiters = r;
    }
    s->last_waiter = r;
    return true;
}

/* ---- release ---- */

static void forget_now(struct worker_core *w, struct sequence *s)
{
    timer_clear(&w->timers, &s->keep);
    sequence_free(&w->table, &s);
}

/* Nobody holds anything of it. */
static void finish(struct worker_core *w, struct sequence *s,
                   const Sluice__V1__StageRemove *others)
{
    sequence_move(&w->table, s, SEQUENCE_FINISHED);
    w->changed = true;
    waiters_end(w, s, true, others);
    if (s->forgotten || PLANT(FORGOTTEN_EARLY)) {
        forget_now(w, s);
        return;
    }
    /* Only what the router has not got may still be asked for. */
    orphan_remember(w, s);
    paged_keep(&w->table.slab, &s->tokens, s->n_prompt + s->acked,
               sequence_known(s));
}

/* No plan names it: its memory is free from here, that at other stages when
 * its Remove is back. */
static void released(struct worker_core *w, struct sequence *s)
{
    sequence_release(&w->table, s);
    w->changed = true;
    if (!s->staged) {
        finish(w, s, NULL);
    }
}

void worker_removed(struct worker_core *w, struct sequence *s,
                    const Sluice__V1__StageRemove *m)
{
    s->staged = false;
    finish(w, s, m);
}

void worker_let_go(struct worker_core *w, struct sequence *s)
{
    if (!s->orphan) {
        timer_clear(&w->timers, &s->keep);
    }
    sequence_move(&w->table, s, SEQUENCE_RELEASING);
    w->changed = true;
    leader_remove(w, s);
    if (s->inflight == 0 || PLANT(FREED_EARLY)) {
        released(w, s);
    }
}

void worker_plan_back(struct worker_core *w, struct sequence *s)
{
    s->inflight--;
    if (s->state == SEQUENCE_RELEASING && s->inflight == 0) {
        released(w, s);
    }
}

void worker_forget(struct worker_core *w, struct sequence *s)
{
    s->forgotten = true;
    list_remove(s, LIST_OUT);
    if (s->state == SEQUENCE_FINISHED) {
        forget_now(w, s);
    }
}

static bool is_kept(const struct sequence *s, enum sequence_finish finish)
{
    return s->keep_ms > 0 && !PLANT(KEPT_FREED) &&
           s->state == SEQUENCE_DECODE && !s->orphan && finish_is_whole(finish);
}

void worker_tell(struct worker_core *w, struct sequence *s)
{
    if (s->grant != 0 && !s->forgotten) {
        list_push(&w->out, s);
    }
}

static void count(struct worker_metrics *m, enum sequence_finish finish)
{
    m->stopped += finish == FINISH_STOP;
    m->full += finish == FINISH_LENGTH;
    m->cancelled += finish == FINISH_CANCELLED;
    m->failed += finish == FINISH_FAILED;
}

void worker_end(struct worker_core *w, struct sequence *s,
                enum sequence_finish finish)
{
    char name[SEQUENCE_NAME];

    log_debug("sequence-end", "request=%s grant=%llu finish=%d generated=%u",
              sequence_name(&s->key, name), (unsigned long long)s->grant,
              (int)finish, s->n_generated);
    if (s->orphan && !finish_is_whole(finish)) {
        orphan_disclaim(w, s);
    }
    batcher_drop(s);
    count(&w->metrics, finish);
    s->finish = finish;
    w->changed = true;
    worker_tell(w, s);
    if (is_kept(s, finish)) {
        sequence_move(&w->table, s, SEQUENCE_KEPT);
        if (!PLANT(KEEP_FOREVER)) {
            timer_set(&w->timers, &s->keep,
                      now_us(w) + (int64_t)s->keep_ms * 1000);
        }
        return;
    }
    worker_let_go(w, s);
}

/* ---- cancel and remove ---- */

/* A Submit whose parts are not all here was never accepted: it is refused,
 * and no row will name its grant. */
static void refuse_open_submit(struct peer *p, struct sequence *s)
{
    struct error e;

    if (s->call == 0) {
        return;
    }
    error_set(&e, ST_CANCELLED, "cancelled before all of its ids had come");
    peer_fail(p, s->call, &e, 0);
    s->call = 0;
    s->forgotten = true;
}

/* An orphan has no grant: whichever one is named, that of a Submit that would
 * adopt it or one that could not, it is not wanted.  Its waiter is told when
 * its memory is free. */
static bool is_meant(const struct sequence *s, uint64_t grant)
{
    return grant == GRANT_ANY || s->grant == grant || s->orphan;
}

/* A Submit whose grant was seen has come and gone: a tombstone would strike
 * the next one of its name. */
void worker_remove(struct worker_core *w, struct peer *p, uint64_t call,
                   const struct sequence_key *key, uint64_t grant)
{
    struct sequence *s = sequence_by_key(&w->table, key);
    struct error e;
    bool is_ahead = grant > w->ledger.grant || PLANT(LATE_TOMBSTONE);

    if (s != NULL && !is_meant(s, grant)) {
        s = NULL; /* one of its name that came before */
    }
    if (is_ahead && !PLANT(NO_TOMBSTONE) &&
        (s == NULL || (s->orphan && grant != GRANT_ANY))) {
        tombstone_add(&w->tombstones, key, grant);
    }
    if (s == NULL || s->state == SEQUENCE_FINISHED) {
        receipt_empty(p, call, key, s);
        if (s != NULL && s->orphan) {
            orphan_end(w, s);
        }
        return;
    }
    if (!waiter_add(w, s, call)) {
        error_set(&e, ST_RESOURCE_EXHAUSTED, "%u removals wait already",
                  WAITERS_MAX);
        peer_fail(p, call, &e, REPORT_CHANGE_US / 1000);
        return;
    }
    if (s->orphan) {
        orphan_end(w, s);
        return;
    }
    if (s->state == SEQUENCE_RELEASING) {
        return;
    }
    FP(WORKER_RELEASE);
    refuse_open_submit(p, s);
    if (s->state == SEQUENCE_KEPT) {
        worker_let_go(w, s);
        return;
    }
    worker_end(w, s, FINISH_CANCELLED);
}

/* ---- the end of the session ---- */

void worker_drop(struct worker_core *w, struct sequence *s)
{
    w->metrics.dropped += s->finish == FINISH_NONE;
    s->orphan = false;
    timer_clear(&w->timers, &s->keep);
    waiters_end(w, s, false, NULL);
    s->staged = false; /* its assembly is over */
    list_remove(s, LIST_OUT);
    sequence_clear_key(&w->table, s);
    sequence_set_grant(&w->table, s, 0);
    refuse(w, s->call);
    s->call = 0;
    s->forgotten = true;
    switch (s->state) {
    case SEQUENCE_FINISHED:
        forget_now(w, s);
        break;
    case SEQUENCE_RELEASING:
        if (s->inflight == 0) { /* it waited for its Remove */
            released(w, s);
        }
        break;
    case SEQUENCE_KEPT:
        worker_let_go(w, s);
        break;
    default:
        worker_end(w, s, FINISH_CANCELLED);
    }
}

void worker_drop_tombstones(struct worker_core *w)
{
    w->tombstones.first = w->tombstones.n = 0;
}

void worker_drop_all(struct worker_core *w)
{
    struct sequence *s = w->table.all.head, *next;

    for (; s != NULL; s = next) {
        next = list_next(s, LIST_ALL);
        worker_drop(w, s);
    }
    worker_drop_tombstones(w);
}

/* ---- names and tombstones ---- */

bool worker_key(const Sluice__V1__SequenceRef *ref, struct sequence_key *out,
                struct error *e)
{
    if (ref->request_id.len != REQUEST_ID_BYTES) {
        error_set(e, ST_INVALID_ARGUMENT,
                  "request_id has %zu bytes, it must have %d",
                  ref->request_id.len, REQUEST_ID_BYTES);
        return false;
    }
    if (request_id_is_zero(ref->request_id.data)) {
        error_set(e, ST_INVALID_ARGUMENT,
                  "request_id is all zero, it must be %d random bytes",
                  REQUEST_ID_BYTES);
        return false;
    }
    memcpy(out->request_id, ref->request_id.data, sizeof out->request_id);
    out->choice = PLANT(CHOICE_MIXED) ? 0 : ref->choice;
    return true;
}

static struct tombstone *tombstone_at(struct tombstones *t, uint32_t i)
{
    return &t->of[(t->first + i) % TOMBSTONES_MAX];
}

static bool names(const struct tombstone *t, const struct sequence_key *key)
{
    return t->key.choice == key->choice &&
           memcmp(t->key.request_id, key->request_id, sizeof key->request_id) ==
               0;
}

bool tombstone_take(struct tombstones *t, const struct sequence_key *key,
                    uint64_t grant)
{
    uint32_t i = 0;

    for (; i < t->n; i++) {
        const struct tombstone *x = tombstone_at(t, i);

        if (names(x, key) && (x->grant == grant || x->grant == GRANT_ANY ||
                              PLANT(LATE_TOMBSTONE))) {
            break;
        }
    }
    if (i == t->n) {
        return false;
    }
    /* The later ones move down, so that age stays order. */
    for (; i + 1 < t->n; i++) {
        *tombstone_at(t, i) = *tombstone_at(t, i + 1);
    }
    t->n--;
    return true;
}

void tombstone_add(struct tombstones *t, const struct sequence_key *key,
                   uint64_t grant)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const struct tombstone *x = tombstone_at(t, i);

        if (names(x, key) && x->grant == grant) {
            return;
        }
    }
    if (t->n == TOMBSTONES_MAX) {
        t->first = (t->first + 1) % TOMBSTONES_MAX;
        t->n--;
    }
    *tombstone_at(t, t->n++) = (struct tombstone){*key, grant};
}
