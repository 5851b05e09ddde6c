#include "worker/sequences/orphans.h"

#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"
#include "common/sampling/sampling_message.h"
#include "common/wire/ids_hash.h"

#define HASH_STEP 256 /* ids read at once */

/* ---- the end of a session ---- */

static bool lives_on(const struct sequence *s)
{
    if (s->forgotten || s->waiters != NULL) {
        return false;
    }
    switch (s->state) {
    case SEQUENCE_QUEUED:
    case SEQUENCE_PREFILL:
    case SEQUENCE_DECODE:
        return true;
    case SEQUENCE_KEPT:
    case SEQUENCE_RELEASING:
    case SEQUENCE_FINISHED:
        return finish_is_whole(s->finish);
    default:
        return false;
    }
}

static void set_deadline(struct worker_core *w, struct sequence *s)
{
    if (!PLANT(ORPHAN_FOREVER)) {
        timer_set(&w->timers, &s->keep, w->io->now_us(w->io) + ORPHAN_US);
    }
}

static void become_orphan(struct worker_core *w, struct sequence *s)
{
    if (s->state == SEQUENCE_KEPT) {
        worker_let_go(w, s);
    }
    s->orphan = true;
    s->orphan_told = false;
    list_remove(s, LIST_OUT);
    if (!PLANT(ORPHAN_GRANT)) {
        sequence_set_grant(&w->table, s, 0);
    }
    set_deadline(w, s);
}

void orphans_begin(struct worker_core *w)
{
    struct sequence *s = w->table.all.head, *next;
    uint32_t n_orphans = 0, n_dropped = 0;

    for (; s != NULL; s = next) {
        next = list_next(s, LIST_ALL);
        if (s->orphan) {
            n_orphans++;
        } else if (lives_on(s)) {
            become_orphan(w, s);
            w->metrics.orphans++;
            n_orphans++;
        } else {
            worker_drop(w, s);
            n_dropped++;
        }
    }
    worker_drop_tombstones(w);
    w->changed = true;
    if (n_orphans + n_dropped > 0) {
        log_warn("session-over", "orphans=%u dropped=%u", n_orphans, n_dropped);
    }
}

/* ---- the next session ---- */

/* Until when all of a Live are here. */
static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void add_row(struct live *l, const struct sequence *s)
{
    memcpy(l->ids + (size_t)l->n * REQUEST_ID_BYTES, s->key.request_id,
           REQUEST_ID_BYTES);
    l->choice[l->n] = s->key.choice;
    l->n_generated[l->n] = s->n_generated;
    l->n++;
}

/* A link that is new has room for all that the table holds. */
static void send_live(struct worker_core *w, struct peer *p, int64_t until_us)
{
    struct live *l = &w->live;
    Sluice__V1__LiveMessage m = SLUICE__V1__LIVE_MESSAGE__INIT;
    int64_t left_us = until_us - w->io->now_us(w->io);

    m.request_ids.data = l->ids;
    m.request_ids.len = (size_t)l->n * REQUEST_ID_BYTES;
    m.n_choice = m.n_n_generated = l->n;
    m.choice = l->choice;
    m.n_generated = l->n_generated;
    m.expires_ms = left_us > 0 ? (uint32_t)(left_us / 1000) : 0;
    if (peer_oneway(p, METHOD_REGISTRY_LIVE, &m.base) != ST_OK) {
        worker_break(w, "Live finds no room");
    }
    l->n = 0;
}

void orphans_tell(struct worker_core *w, struct peer *p)
{
    int64_t until_us = INT64_MAX;
    uint32_t n = 0;

    w->live.n = 0;
    for (struct sequence *s = w->table.all.head; s != NULL;
         s = list_next(s, LIST_ALL)) {
        if (!s->orphan) {
            continue;
        }
        if (!s->orphan_told) {
            s->orphan_told = true;
            set_deadline(w, s);
        }
        if (w->live.n == LIVE_ROWS_MAX) {
            send_live(w, p, until_us);
            until_us = INT64_MAX;
        }
        add_row(&w->live, s);
        until_us = earlier(until_us, s->keep.due_us);
        n++;
    }
    if (n > 0) {
        send_live(w, p, until_us);
        log_info("orphans-told", "sequences=%u", n);
    }
}

uint32_t orphans_count(const struct worker_core *w)
{
    uint32_t n = 0;

    for (const struct sequence *s = w->table.all.head; s != NULL;
         s = list_next(s, LIST_ALL)) {
        n += s->orphan;
    }
    return n;
}

/* ---- their end ---- */

void orphan_disclaim(struct worker_core *w, struct sequence *s)
{
    s->orphan = false;
    s->forgotten = true;
    timer_clear(&w->timers, &s->keep);
    sequence_clear_key(&w->table, s);
}

void orphan_end(struct worker_core *w, struct sequence *s)
{
    orphan_disclaim(w, s);
    if (s->state == SEQUENCE_FINISHED) {
        worker_forget(w, s);
    } else if (s->state != SEQUENCE_RELEASING) {
        worker_end(w, s, FINISH_CANCELLED);
    }
}

void orphan_expire(struct worker_core *w, struct sequence *s)
{
    char name[SEQUENCE_NAME];

    log_info("orphan-expired", "request=%s state=%s generated=%u",
             sequence_name(&s->key, name), sequence_state_name(s->state),
             s->n_generated);
    w->metrics.orphans_expired++;
    orphan_end(w, s);
}

bool orphans_make_room(struct worker_core *w)
{
    struct sequence *s = w->table.all.head;

    while (s != NULL && !(s->orphan && s->state == SEQUENCE_FINISHED)) {
        s = list_next(s, LIST_ALL);
    }
    if (s == NULL) {
        return false;
    }
    orphan_expire(w, s);
    return true;
}

/* ---- adoption ---- */

/* Of prompt ++ generated, the first n; n is not before what was hashed. */
static uint64_t hash_to(const struct worker_core *w, const struct sequence *s,
                        uint32_t n)
{
    uint64_t h = s->n_hashed > 0 ? s->ids_hash : IDS_HASH_START;
    uint32_t ids[HASH_STEP];

    for (uint32_t at = s->n_hashed; at < n;) {
        uint32_t k = n - at < HASH_STEP ? n - at : HASH_STEP;

        paged_read(&w->table.slab, &s->tokens, at, ids, k);
        h = ids_hash(h, ids, k);
        at += k;
    }
    return h;
}

void orphan_remember(struct worker_core *w, struct sequence *s)
{
    if (finish_is_whole(s->finish)) {
        s->ids_hash = hash_to(w, s, s->n_prompt + s->acked);
        s->n_hashed = s->n_prompt + s->acked;
    }
}

/* A router that keeps the rules says none of this. */
static enum status check_fields(const struct worker_core *w,
                                const Sluice__V1__SubmitRequest *m,
                                struct error *e)
{
    if (!m->has_ids_hash || !m->has_have_index) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "adopt is set: ids_hash and have_index must be there");
    }
    if (m->n_tokens > 0 || m->n_generated > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "adopt is set: no ids come with it, %zu came",
                         m->n_tokens);
    }
    if (m->need->blocks + m->need->slots + m->need->checkpoints > 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "adopt is set: nothing is granted with it, need must "
                         "be 0");
    }
    if (m->has_keep_ms && m->keep_ms > KEEP_MS_MAX) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "keep_ms is %u, it must be at most %u", m->keep_ms,
                         KEEP_MS_MAX);
    }
    return sampling_check(m->sampling, w->o.vocab, e);
}

/* Where the router is ahead, its ids cannot be compared.  What has ended is
 * not kept, so it is none that is to be kept. */
static bool can_go_on(const struct worker_core *w, const struct sequence *s,
                      const Sluice__V1__SubmitRequest *m)
{
    return submit_is_same(s, m) && m->have_index <= s->n_generated &&
           submit_can_tell(s, m->have_index) &&
           (s->finish == FINISH_NONE || m->keep_ms == 0) &&
           hash_to(w, s, s->n_prompt + m->have_index) == m->ids_hash;
}

enum status orphan_adopt(struct worker_core *w, const struct sequence_key *key,
                         const Sluice__V1__SubmitRequest *m, struct error *e)
{
    struct sequence *s = sequence_by_key(&w->table, key);

    if (check_fields(w, m, e) != ST_OK) {
        return e->code;
    }
    if (s == NULL || !s->orphan) {
        return error_set(e, ST_NOT_FOUND, "no such sequence lives here");
    }
    if (!can_go_on(w, s, m)) {
        return error_set(e, ST_NOT_FOUND,
                         "what lives here is another sequence of this name, "
                         "or not to be told from %u on",
                         m->have_index);
    }
    s->orphan = false;
    timer_clear(&w->timers, &s->keep);
    s->keep_ms = m->keep_ms;
    if (PLANT(ADOPT_FREE)) {
        struct pool_need promised = s->need;

        promised.n[POOL_BLOCKS] -= s->n_blocks;
        promised.n[POOL_SLOTS] -= s->slot != SLOT_NONE;
        pool_ungrant(&w->pool, &promised);
    }
    submit_regrant(w, s, m);
    return ST_OK;
}
