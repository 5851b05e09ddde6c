#include "worker/sequences/orphans.h"

#include <string.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "common/wire/ids_hash.h"
#include "proto/registry.pb-c.h"
#include "worker/sequences/ending.h"
#include "worker/sequences/report.h"
#include "worker/sequences/submit.h"

#define HASH_STEP 256 /* ids read at once */

/* ---- the end of a session ---- */

/* A sequence that was cancelled, or that the router has acknowledged to its
 * end, has nothing left to send. */
static bool outlives_session(const struct sequence *s)
{
    if (report_is_forgotten(&s->report) || receipts_are_awaited(&s->receipts)) {
        return false;
    }
    switch (s->state) {
    case SEQUENCE_QUEUED:
    case SEQUENCE_PREFILL:
    case SEQUENCE_DECODE:
    case SEQUENCE_SUSPENDED:
        return true;
    case SEQUENCE_KEPT:
    case SEQUENCE_RELEASING:
    case SEQUENCE_FINISHED:
        return finish_is_whole(s->finish);
    default:
        return false;
    }
}

static void set_deadline(struct sequences *q, struct sequence *s)
{
    if (!PLANT(ORPHAN_FOREVER)) {
        timer_set(&q->timers, &s->keep, base_now_us(q->base) + ORPHAN_US);
    }
}

static void become_orphan(struct sequences *q, struct sequence *s)
{
    /* The lease ends with its client's session; the tokens may still be needed.
     */
    if (s->state == SEQUENCE_KEPT) {
        ending_release(q, s);
    }
    orphan_move(s, ORPHAN_LEFT);
    sequence_unlink(s, LIST_OUT);
    if (!PLANT(ORPHAN_GRANT)) {
        sequence_set_grant(&q->table, s, 0);
    }
    s->deadline_us = INT64_MAX; /* its call has ended */
    set_deadline(q, s);
}

void orphans_begin(struct sequences *q)
{
    struct sequence *s = q->table.all.head, *next;
    uint32_t n_orphans = 0, n_dropped = 0;

    for (; s != NULL; s = next) {
        next = sequence_next(s, LIST_ALL);
        if (orphan_is(s)) {
            n_orphans++;
        } else if (outlives_session(s)) {
            become_orphan(q, s);
            q->base->metrics.orphans++;
            n_orphans++;
        } else {
            ending_drop(q, s);
            n_dropped++;
        }
    }
    tombstones_clear(&q->tombstones);
    q->report.changed = true;
    if (n_orphans + n_dropped > 0) {
        log_warn("session-over", "orphans=%u dropped=%u", n_orphans, n_dropped);
    }
}

/* ---- the next session ---- */

static void add_row(struct live_columns *l, const struct sequence *s)
{
    memcpy(l->ids + (size_t)l->n * REQUEST_ID_BYTES, s->key.request_id,
           REQUEST_ID_BYTES);
    l->choice[l->n] = s->key.choice;
    l->n_generated[l->n] = s->portable.n_generated;
    l->grows[l->n] = suspension_grows(&s->suspension);
    l->n++;
}

/* The link is new, so it has room for every sequence of the table.  The message
 * promises all of its rows until the earliest of their deadlines. */
static void send_live(struct sequences *q, struct peer *p, int64_t until_us)
{
    struct live_columns *l = &q->live;
    Sluice__V1__LiveMessage m = SLUICE__V1__LIVE_MESSAGE__INIT;
    int64_t left_us = until_us - base_now_us(q->base);

    m.request_ids.data = l->ids;
    m.request_ids.len = (size_t)l->n * REQUEST_ID_BYTES;
    m.n_choice = m.n_n_generated = l->n;
    m.choice = l->choice;
    m.n_generated = l->n_generated;
    m.n_grows = q->table.n_growing > 0 ? l->n : 0;
    m.grows = l->grows;
    m.expires_ms = left_us > 0 ? (uint32_t)(left_us / 1000) : 0;
    if (peer_oneway(p, METHOD_REGISTRY_LIVE, &m.base) != ST_OK) {
        base_break(q->base, "the link has no room for Live");
    }
    l->n = 0;
}

void orphans_announce(struct sequences *q, struct peer *p)
{
    int64_t until_us = INT64_MAX;
    uint32_t n = 0;

    q->live.n = 0;
    for (struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (!orphan_is(s)) {
            continue;
        }
        /* Only the first session after its own extends its time. */
        if (s->orphan.state == ORPHAN_LEFT) {
            orphan_move(s, ORPHAN_ANNOUNCED);
            set_deadline(q, s);
        }
        if (q->live.n == LIVE_ROWS_MAX) {
            send_live(q, p, until_us);
            until_us = INT64_MAX;
        }
        add_row(&q->live, s);
        until_us = min_i64(until_us, s->keep.due_us);
        n++;
    }
    if (n > 0) {
        send_live(q, p, until_us);
        log_info("orphans-announced", "sequences=%u", n);
    }
}

uint32_t orphans_count(const struct sequences *q)
{
    uint32_t n = 0;

    for (const struct sequence *s = q->table.all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        n += orphan_is(s);
    }
    return n;
}

/* ---- their end ---- */

void orphan_drop(struct sequence *s)
{
    if (orphan_is(s)) {
        orphan_move(s, ORPHAN_NONE);
    }
}

void orphan_disclaim(struct sequences *q, struct sequence *s)
{
    orphan_move(s, ORPHAN_NONE);
    report_forget(s);
    timer_clear(&q->timers, &s->keep);
    sequence_clear_key(&q->table, s);
}

void orphan_end(struct sequences *q, struct sequence *s)
{
    orphan_disclaim(q, s);
    if (s->state == SEQUENCE_FINISHED) {
        ending_forget(q, s);
    } else if (s->state != SEQUENCE_RELEASING) {
        ending_finish(q, s, FINISH_CANCELLED);
    }
}

void orphan_expire(struct sequences *q, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    log_debug("orphan-expired", "request=%s state=%s generated=%u",
              sequence_name(&s->key, name), sequence_state_name(s->state),
              s->portable.n_generated);
    q->base->metrics.orphans_expired++;
    orphan_end(q, s);
}

bool orphans_make_room(struct sequences *q)
{
    struct sequence *s = q->table.all.head;

    /* Running orphans stay: ending one would waste what it has computed. */
    while (s != NULL && !(orphan_is(s) && s->state == SEQUENCE_FINISHED)) {
        s = sequence_next(s, LIST_ALL);
    }
    if (s == NULL) {
        return false;
    }
    orphan_expire(q, s);
    return true;
}

/* ---- adoption ---- */

/* Returns the hash of the first n ids of prompt ++ generated, n >= n_hashed. */
static uint64_t hash_to(const struct sequences *q, const struct sequence *s,
                        uint32_t n)
{
    /* A finished orphan has dropped its first ids and kept their hash. */
    uint64_t h = s->orphan.n_hashed > 0 ? s->orphan.ids_hash : IDS_HASH_START;
    uint32_t ids[HASH_STEP];

    for (uint32_t at = s->orphan.n_hashed; at < n;) {
        uint32_t k = n - at < HASH_STEP ? n - at : HASH_STEP;

        paged_read(&q->table.slab, &s->portable.tokens, at, ids, k);
        h = ids_hash(h, ids, k);
        at += k;
    }
    return h;
}

void orphan_remember(struct sequences *q, struct sequence *s)
{
    if (finish_is_whole(s->finish)) {
        s->orphan.ids_hash =
            hash_to(q, s, s->portable.n_prompt + s->portable.acked);
        s->orphan.n_hashed = s->portable.n_prompt + s->portable.acked;
    }
}

/* A router that follows the protocol never gets one of these errors. */
static enum status check_fields(const struct sequences *q,
                                const Sluice__V1__SubmitRequest *m,
                                struct error *e)
{
    if (!m->has_ids_hash || !m->has_have_index) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "adopt is set, so ids_hash and have_index are "
                         "required");
    }
    if (m->n_tokens > 0 || m->n_generated > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "adopt is set with %zu ids; an adoption carries "
                         "none",
                         m->n_tokens);
    }
    if (m->need->blocks + m->need->slots + m->need->checkpoints +
            m->need->windows >
        0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "adopt is set, so nothing is granted and need must be "
                         "0");
    }
    if (m->has_keep_ms && m->keep_ms > KEEP_MS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "keep_ms is %u, it must be at most %u", m->keep_ms,
                         KEEP_MS_MAX);
    }
    return sampling_check(m->sampling, q->base->o.vocab, e);
}

/* If the router is ahead of this worker, its ids cannot be compared.  A
 * sequence that has ended holds no memory, so it cannot satisfy keep_ms. */
static bool can_go_on(const struct sequences *q, const struct sequence *s,
                      const Sluice__V1__SubmitRequest *m)
{
    return submit_is_same(s, m) && m->have_index <= s->portable.n_generated &&
           submit_can_send(s, m->have_index) &&
           (s->finish == FINISH_NONE || m->keep_ms == 0) &&
           hash_to(q, s, s->portable.n_prompt + m->have_index) == m->ids_hash;
}

enum status orphan_adopt(struct sequences *q, const struct sequence_key *key,
                         const Sluice__V1__SubmitRequest *m, struct error *e)
{
    struct sequence *s = sequence_by_key(&q->table, key);

    if (check_fields(q, m, e) != ST_OK) {
        return e->code;
    }
    /* NOT_FOUND makes the router submit the sequence as a new one. */
    if (s == NULL || !orphan_is(s)) {
        return error_set(e, ST_NOT_FOUND, "this worker has no such orphan");
    }
    if (!can_go_on(q, s, m)) {
        return error_set(e, ST_NOT_FOUND,
                         "the orphan of this name is another sequence, or "
                         "its tokens from %u on are gone",
                         m->have_index);
    }
    orphan_move(s, ORPHAN_NONE);
    timer_clear(&q->timers, &s->keep);
    s->portable.keep_ms = m->keep_ms;
    if (PLANT(ADOPT_FREE)) {
        struct pool_need promised = s->memory.need;

        promised.n[POOL_BLOCKS] -= s->memory.n_blocks;
        promised.n[POOL_SLOTS] -= s->memory.slot != SLOT_NONE;
        promised.n[POOL_WINDOWS] -=
            s->memory.n_windows * q->table.windows.pages;
        pool_ungrant(&q->pool, &promised);
    }
    submit_regrant(q, s, m);
    return ST_OK;
}
