/* replay_memory.c - The pool of a worker in a replay.
 *
 *     pages in use = blocks * block_pages + slots * slot_pages + windows
 *     blocks       = those of sequences, where each shared unit counts once
 *     pages left   = all - in use     cached units are among them
 *
 * A unit is PREFIX_UNIT tokens.  It is in use while a sequence has it, and then
 * cached until its pages are needed. */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/base/minmax.h"
#include "router/replay/replay_state.h"

#define UNITS_EXPECTED 4096

void replay_pool_init(struct replay_worker *w)
{
    w->pool.n_pages = w->shape.pages;
    table_init(&w->pool.units, UNITS_EXPECTED);
    list_init(&w->pool.lru);
}

static uint64_t unit_blocks(const struct replay_worker *w)
{
    return PREFIX_UNIT / w->shape.block_tokens;
}

static uint64_t used(const struct replay_worker *w)
{
    const struct replay_pool *p = &w->pool;

    return p->n_blocks * w->shape.block_pages +
           p->n_slots * w->shape.slot_pages + p->n_windows;
}

uint64_t replay_pool_left(const struct replay_worker *w)
{
    return w->pool.n_pages - min_u64(used(w), w->pool.n_pages);
}

static uint64_t cached_pages(const struct replay_worker *w)
{
    return w->pool.n_cached * unit_blocks(w) * w->shape.block_pages;
}

/* ---- events of the index ---- */

void replay_pool_tell(struct replay_worker *w)
{
    Sluice__V1__IndexMessage m = SLUICE__V1__INDEX_MESSAGE__INIT;

    if (w->n_events == 0 || !w->peer.up) {
        return;
    }
    m.first = w->next_event + 1;
    m.hashes =
        (ProtobufCBinaryData){w->n_events * PREFIX_HASH_BYTES, w->event_hashes};
    m.tokens = w->event_tokens;
    m.n_tokens = w->n_events;
    w->next_event += w->n_events;
    w->n_events = 0;
    if (peer_oneway(w->peer.peer, METHOD_REGISTRY_INDEX, &m.base) != ST_OK) {
        w->next_event++; /* a gap: the router counts nothing any more */
    }
}

static void tell(struct replay_worker *w, const struct replay_unit *u,
                 uint32_t n_tokens)
{
    uint8_t *to = w->event_hashes + (size_t)w->n_events * PREFIX_HASH_BYTES;

    for (int b = 0; b < 8; b++) {
        to[b] = (uint8_t)(u->hash.lo >> (8 * b));
        to[8 + b] = (uint8_t)(u->hash.hi >> (8 * b));
    }
    w->event_tokens[w->n_events++] = n_tokens;
    if (w->n_events == INDEX_EVENTS_MAX) {
        replay_pool_tell(w);
    }
}

/* ---- units ---- */

static struct replay_unit *find(const struct replay_worker *w,
                                struct prefix_hash hash)
{
    struct table_node *at = table_find(&w->pool.units, hash.lo);

    while (at != NULL) {
        struct replay_unit *u = LIST_OF(at, struct replay_unit, node);

        if (prefix_hash_same(u->hash, hash)) {
            return u;
        }
        at = table_next(at);
    }
    return NULL;
}

static void forget(struct replay_worker *w, struct replay_unit *u)
{
    list_remove(&u->lru);
    table_remove(&w->pool.units, &u->node);
    tell(w, u, 0);
    free(u);
}

/* Forgets cached units until the pages in use and theirs fit. */
static void evict(struct replay_worker *w)
{
    while (cached_pages(w) > replay_pool_left(w)) {
        w->pool.n_cached--;
        forget(w, LIST_OF(w->pool.lru.next, struct replay_unit, lru));
    }
}

/* Adds a unit to those that s uses.  A new one takes over blocks of s. */
static void use(struct replay_worker *w, struct replay_sequence *s,
                struct replay_unit *u)
{
    if (u->n_users++ == 0) {
        list_remove(&u->lru);
        w->pool.n_cached--;
        w->pool.n_blocks += unit_blocks(w);
    }
    s->units[s->n_units++] = u;
}

static void unuse(struct replay_worker *w, struct replay_unit *u)
{
    if (--u->n_users == 0) {
        list_append(&w->pool.lru, &u->lru);
        w->pool.n_cached++;
        w->pool.n_blocks -= unit_blocks(w);
    }
}

void replay_pool_share(struct replay_worker *w, struct replay_sequence *s)
{
    uint32_t n = min_u32(s->n_hashes, s->n_done / PREFIX_UNIT);

    while (s->cached && s->n_units < n && w->shape.block_pages > 0) {
        struct replay_unit *u = find(w, s->hashes[s->n_units]);

        /* A unit that another sequence has computed meanwhile is shared too, as
         * the worker's index does with equal blocks. */
        /* The blocks are no more those of s alone. */
        w->pool.n_blocks -= unit_blocks(w);
        if (u == NULL) {
            u = memory_must(calloc(1, sizeof *u));
            u->hash = s->hashes[s->n_units];
            u->n_tokens = (s->n_units + 1) * PREFIX_UNIT;
            table_add(&w->pool.units, &u->node, u->hash.lo);
            list_append(&w->pool.lru, &u->lru);
            w->pool.n_cached++;
            tell(w, u, u->n_tokens);
        }
        use(w, s, u);
    }
}

/* ---- sequences ---- */

static uint64_t windows_for(const struct replay_worker *w, uint32_t n)
{
    const struct record_place *p = &w->shape;
    uint64_t all = ((uint64_t)n + p->block_tokens - 1) / p->block_tokens;
    uint64_t most =
        ((uint64_t)p->window_tokens + p->chunk_tokens + p->block_tokens - 1) /
            p->block_tokens +
        1;

    return p->window_pages * min_u64(all, most);
}

static uint32_t blocks_for(const struct replay_worker *w, uint32_t n)
{
    return w->shape.block_pages == 0
               ? 0
               : (n + w->shape.block_tokens - 1) / w->shape.block_tokens;
}

bool replay_pool_grow(struct replay_worker *w, struct replay_sequence *s,
                      uint32_t n)
{
    uint32_t blocks = max_u32(blocks_for(w, n), s->n_blocks) - s->n_blocks;
    uint32_t windows =
        max_u32((uint32_t)windows_for(w, n), s->n_windows) - s->n_windows;

    if ((uint64_t)blocks * w->shape.block_pages + windows >
        replay_pool_left(w)) {
        return false;
    }
    s->n_blocks += blocks;
    s->n_windows += windows;
    w->pool.n_blocks += blocks;
    w->pool.n_windows += windows;
    evict(w);
    return true;
}

/* Takes the units that can be restored.  The last token is computed. */
static void restore(struct replay_worker *w, struct replay_sequence *s)
{
    uint32_t most = (s->n_prompt + s->n_made - 1) / PREFIX_UNIT;
    struct replay_unit *u;

    while (s->cached && s->n_units < min_u32(most, s->n_hashes) &&
           (u = find(w, s->hashes[s->n_units])) != NULL) {
        use(w, s, u);
    }
    s->n_blocks = s->n_units * (uint32_t)unit_blocks(w);
    s->n_done = s->n_units * PREFIX_UNIT;
}

bool replay_pool_take(struct replay_worker *w, struct replay_sequence *s,
                      uint32_t n)
{
    bool has_slot = w->pool.n_slots < w->shape.slots || w->shape.slots == 0;

    if (!has_slot || w->shape.slot_pages > replay_pool_left(w)) {
        return false;
    }
    /* The slot first: a sequence without one does not begin. */
    w->pool.n_slots += w->shape.slots > 0;
    restore(w, s);
    if (!replay_pool_grow(w, s, n)) {
        replay_pool_release(w, s);
        return false;
    }
    return true;
}

/* Those of the begin are the last to go. */
void replay_pool_release(struct replay_worker *w, struct replay_sequence *s)
{
    w->pool.n_blocks -= s->n_blocks - s->n_units * unit_blocks(w);
    w->pool.n_windows -= s->n_windows;
    w->pool.n_slots -= w->shape.slots > 0;
    while (s->n_units > 0) {
        unuse(w, s->units[--s->n_units]);
    }
    s->n_blocks = s->n_windows = s->n_done = 0;
    evict(w);
}

void replay_pool_fini(struct replay_worker *w)
{
    struct list *at;

    w->n_events = 0;
    while ((at = list_take(&w->pool.lru)) != NULL) {
        free(LIST_OF(at, struct replay_unit, lru));
    }
    table_fini(&w->pool.units);
}

static void class_of(Sluice__V1__ClassLedger *c, uint64_t total, uint64_t held,
                     uint64_t cached, uint64_t free_units)
{
    sluice__v1__class_ledger__init(c);
    c->total = (uint32_t)total;
    c->held = (uint32_t)held;
    c->cached = (uint32_t)cached;
    c->free = (uint32_t)min_u64(free_units, total - held);
}

void replay_pool_ledger(const struct replay_worker *w, struct replay_ledger *l)
{
    const struct record_place *p = &w->shape;
    uint64_t left = replay_pool_left(w), cached = cached_pages(w);
    uint64_t pages = left - cached;

    sluice__v1__ledger__init(&l->m);
    class_of(&l->classes[0], p->block_pages > 0 ? p->pages / p->block_pages : 0,
             w->pool.n_blocks, w->pool.n_cached * unit_blocks(w),
             p->block_pages > 0 ? pages / p->block_pages : 0);
    class_of(&l->classes[1], p->slots, w->pool.n_slots, 0,
             p->slot_pages > 0 ? pages / p->slot_pages : p->slots);
    class_of(&l->classes[2], 0, 0, 0, 0);
    class_of(&l->classes[3], p->pages, used(w), cached, pages);
    class_of(&l->classes[4], p->window_pages > 0 ? p->pages : 0,
             w->pool.n_windows, 0, pages);
    l->m.blocks = &l->classes[0];
    l->m.slots = &l->classes[1];
    l->m.checkpoints = &l->classes[2];
    l->m.pages = &l->classes[3];
    l->m.windows = p->window_pages > 0 ? &l->classes[4] : NULL;
    l->m.grant = w->last_grant;
    l->m.has_n_suspended = true;
    l->m.n_suspended = w->n_suspended;
}
