#include "worker/cache/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/plant.h"

const char *pool_class_name(enum pool_class c)
{
    static const char *const names[POOL_CLASSES] = {"blocks", "slots",
                                                    "checkpoints", "windows"};

    return names[c];
}

/* ---- begin and end ---- */

static uint32_t extent_pages(const struct pool_options *o)
{
    uint32_t slot = o->pages_per[POOL_SLOTS];
    uint32_t checkpoint = o->pages_per[POOL_CHECKPOINTS];
    uint32_t most = slot > checkpoint ? slot : checkpoint;

    return most > 0 ? most : 1;
}

bool pool_init(struct pool *p, const struct pool_options *o, bool poison)
{
    uint32_t per = extent_pages(o);
    bool numbered = o->pages_per[POOL_BLOCKS] + o->pages_per[POOL_WINDOWS] > 0;
    uint32_t n_blocks = numbered ? o->n_pages : 0;

    memset(p, 0, sizeof *p);
    p->o = *o;
    p->free = o->n_pages;
    /* Slots and checkpoints become each other, so they are equal. */
    if (per > POOL_EXTENT_MAX || o->pages_per[POOL_WINDOWS] > 1 ||
        (o->pages_per[POOL_SLOTS] > 0 && o->pages_per[POOL_SLOTS] != per) ||
        !places_open(&p->places, o->n_pages, per)) {
        return false;
    }
    p->blocks = calloc(n_blocks + (size_t)1, sizeof *p->blocks);
    p->idle = malloc((n_blocks + (size_t)1) * sizeof *p->idle);
    p->moves = malloc(2 * PLAN_COPIES_MAX * sizeof *p->moves);
    if (p->blocks == NULL || p->idle == NULL || p->moves == NULL ||
        !poison_init(&p->poison, o->n_pages, poison)) {
        pool_fini(p);
        return false;
    }
    /* Number 0 is on top, so a light load stays in low numbers. */
    for (uint32_t i = n_blocks; i-- > 0;) {
        p->blocks[i].page = PLACE_NONE;
        p->idle[p->n_idle++] = i;
    }
    return true;
}

void pool_fini(struct pool *p)
{
    places_close(&p->places);
    poison_fini(&p->poison);
    free(p->blocks);
    free(p->idle);
    free(p->moves);
    memset(p, 0, sizeof *p);
}

void pool_violation(struct pool *p, const char *what, enum pool_class c,
                    uint64_t number)
{
    p->violations++;
    log_error("ledger-violation", "what=%s class=%s number=%llu", what,
              pool_class_name(c), (unsigned long long)number);
}

/* ---- accounts ---- */

static uint64_t pages_of(const struct pool *p, enum pool_class c, uint32_t n)
{
    return (uint64_t)n * p->o.pages_per[c];
}

uint64_t pool_need_pages(const struct pool *p, const struct pool_need *need)
{
    uint64_t sum = 0;

    for (int c = 0; c < POOL_CLASSES; c++) {
        sum += pages_of(p, (enum pool_class)c, need->n[c]);
    }
    return sum;
}

/* Returns how many of a class an empty pool gives. */
static uint32_t class_total(const struct pool *p, enum pool_class c)
{
    uint32_t per = p->o.pages_per[c], n = per > 0 ? p->o.n_pages / per : 0;

    if (c == POOL_SLOTS && p->o.slot_cap > 0 && p->o.slot_cap < n) {
        n = p->o.slot_cap;
    }
    return n;
}

/* Returns how many of a class the free pages give. */
static uint32_t class_free(const struct pool *p, enum pool_class c)
{
    uint32_t per = p->o.pages_per[c], n = per > 0 ? p->free / per : 0, left;

    if (c == POOL_SLOTS) {
        left = class_total(p, c) - p->held.n[c] - p->granted.n[c];
        n = left < n ? left : n;
    }
    return n;
}

struct pool_account pool_account(const struct pool *p, enum pool_class c)
{
    return (struct pool_account){.total = class_total(p, c),
                                 .free = class_free(p, c),
                                 .held = p->held.n[c],
                                 .cached = p->cached.n[c],
                                 .granted = p->granted.n[c]};
}

struct pool_account pool_pages(const struct pool *p)
{
    return (struct pool_account){
        .total = p->o.n_pages,
        .free = p->free,
        .held = (uint32_t)pool_need_pages(p, &p->held),
        .cached = (uint32_t)pool_need_pages(p, &p->cached),
        .granted = (uint32_t)pool_need_pages(p, &p->granted)};
}

enum status pool_grant(struct pool *p, const struct pool_need *need,
                       struct error *e)
{
    uint64_t pages = pool_need_pages(p, need);

    /* Check everything before anything is changed: all or nothing. */
    for (int c = 0; c < POOL_CLASSES; c++) {
        uint32_t n = class_free(p, (enum pool_class)c);

        if (need->n[c] > n) {
            return error_set(e, ST_RESOURCE_EXHAUSTED,
                             "needs %u %s, %u free of %u", need->n[c],
                             pool_class_name((enum pool_class)c), n,
                             class_total(p, (enum pool_class)c));
        }
    }
    if (pages > p->free) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "needs %llu pages, %u free of %u",
                         (unsigned long long)pages, p->free, p->o.n_pages);
    }
    p->free -= (uint32_t)pages;
    for (int c = 0; c < POOL_CLASSES; c++) {
        p->granted.n[c] += need->n[c];
    }
    return ST_OK;
}

void pool_ungrant(struct pool *p, const struct pool_need *need)
{
    for (int c = 0; c < POOL_CLASSES; c++) {
        /* The other classes are still given back: they are not at fault. */
        if (need->n[c] > p->granted.n[c]) {
            pool_violation(p, "ungrant-more-than-granted", (enum pool_class)c,
                           need->n[c]);
            continue;
        }
        p->granted.n[c] -= need->n[c];
        p->free += (uint32_t)pages_of(p, (enum pool_class)c, need->n[c]);
    }
}

/* ---- places ---- */

/* Puts a block into a page that is free. */
static void place_block(struct pool *p, uint32_t block)
{
    uint32_t page = places_take(&p->places, block);

    p->blocks[block].page = page;
    p->blocks[block].arrives = 0;
    poison_taken(&p->poison, page, 1);
}

static void move_block(struct pool *p, uint32_t block)
{
    uint32_t from = p->blocks[block].page;

    places_give(&p->places, from);
    place_block(p, block);
    p->moves[p->n_moves++] =
        (struct plan_copy){.from = from, .to = p->blocks[block].page, .n = 1};
    p->blocks[block].arrives = p->n_moves;
    poison_move(&p->poison, from);
}

/* Returns the most moves that n extents take; the pages are free. */
static uint32_t most_moves(const struct pool *p, uint32_t n)
{
    const struct places *l = &p->places;
    uint32_t n_blocks, n_empty = 0;
    uint32_t extent = places_emptiest(l, &n_blocks);

    if (extent == PLACE_NONE || n == 1) {
        return extent == PLACE_NONE ? 0 : n_blocks;
    }
    for (extent = l->heads[0]; extent != PLACE_NONE && n_empty < n; n_empty++) {
        extent = l->extents[extent].next;
    }
    return (n - n_empty) * (l->per - 1);
}

/* Empties the emptiest extent and returns its first page.  As many pages as it
 * has are free somewhere; then an extent that is not full exists, because the
 * tail is smaller, and the others have room for its blocks. */
static uint32_t place_extent(struct pool *p, enum extent_use use)
{
    struct places *l = &p->places;
    uint32_t n_blocks, extent = places_emptiest(l, &n_blocks);
    uint32_t first = extent * l->per;

    places_claim(l, extent, use);
    for (uint32_t i = first; n_blocks > 0; i++) {
        if (l->owners[i] != PLACE_NONE) {
            move_block(p, l->owners[i]);
            n_blocks--;
        }
    }
    poison_taken(&p->poison, first, l->per);
    return first;
}

static void free_extent(struct pool *p, uint32_t first)
{
    places_yield(&p->places, first / p->places.per);
    poison_free(&p->poison, first, p->places.per);
}

/* Returns whether `first` is the first page of an extent in that use. */
static bool is_extent(const struct pool *p, uint32_t first, enum extent_use use)
{
    const struct places *l = &p->places;

    return first % l->per == 0 && first / l->per < l->n_extents &&
           l->extents[first / l->per].use == use;
}

static void free_block(struct pool *p, uint32_t block)
{
    struct pool_block *b = &p->blocks[block];

    /* A move whose result nothing will read is dropped: nothing copies it on,
     * because then it would not be the block's last move. */
    if (b->arrives > 0) {
        struct plan_copy *move = &p->moves[b->arrives - 1];

        poison_unmove(&p->poison, move->from);
        move->n = 0;
    }
    places_give(&p->places, b->page);
    poison_free(&p->poison, b->page, 1);
    b->page = PLACE_NONE;
    b->arrives = 0;
    p->idle[p->n_idle++] = block;
    p->free++;
}

/* ---- take and release ---- */

/* Classes of single pages with logical numbers. */
static bool is_numbered(enum pool_class c)
{
    return c == POOL_BLOCKS || c == POOL_WINDOWS;
}

bool pool_can_take(const struct pool *p, enum pool_class c, uint32_t n,
                   uint32_t most)
{
    uint32_t n_moves = p->n_moves - p->n_swaps;

    return is_numbered(c) || n_moves + most_moves(p, n) <= most;
}

bool pool_take(struct pool *p, enum pool_class c, uint32_t n, uint32_t *out)
{
    /* A free number never stands in for a missing grant: it may be promised
     * to a Submit that is on its way. */
    if (n > p->granted.n[c]) {
        pool_violation(p, "take-more-than-granted", c, n);
        return false;
    }
    if (!pool_can_take(p, c, n, PLAN_COPIES_MAX)) {
        pool_violation(p, "take-without-room-for-moves", c, n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (is_numbered(c)) {
            out[i] = p->idle[--p->n_idle];
            p->blocks[out[i]].refs = 1;
            p->blocks[out[i]].window = c == POOL_WINDOWS;
            place_block(p, out[i]);
        } else {
            out[i] = place_extent(p, c == POOL_SLOTS ? EXTENT_SLOT
                                                     : EXTENT_CHECKPOINT);
        }
    }
    p->granted.n[c] -= n;
    p->held.n[c] += n;
    return true;
}

static enum pool_class class_of(const struct pool_block *b)
{
    return b->window ? POOL_WINDOWS : POOL_BLOCKS;
}

/* Returns NULL if there is no such number, or it is in use by another class. */
static struct pool_block *block_at(const struct pool *p, enum pool_class c,
                                   uint32_t block)
{
    bool exists = p->o.pages_per[c] > 0 && block < p->o.n_pages;

    return exists && class_of(&p->blocks[block]) == c ? &p->blocks[block]
                                                      : NULL;
}

static void tell_watch(const struct pool *p, uint32_t block, bool held)
{
    if (p->watch.held != NULL) {
        p->watch.held(p->watch.self, block, held);
    }
}

/* Removes the last reference. */
static void leave_block(struct pool *p, struct pool_block *b, uint32_t block)
{
    enum pool_class c = class_of(b);

    b->refs = 0;
    p->held.n[c]--;
    if (b->indexed) {
        p->cached.n[c]++;
        tell_watch(p, block, false);
    } else {
        free_block(p, block);
    }
}

static void release_block(struct pool *p, enum pool_class c, uint32_t block)
{
    struct pool_block *b = block_at(p, c, block);

    if (b == NULL || b->refs == 0) {
        pool_violation(p, "release-of-what-is-not-held", c, block);
        return;
    }
    if (b->refs == 1) {
        leave_block(p, b, block);
        return;
    }
    b->refs--;
    if (c == POOL_WINDOWS && p->granted.n[c] == 0) {
        pool_violation(p, "share-without-a-grant", c, block);
    } else if (c == POOL_WINDOWS) {
        p->granted.n[c]--;
        p->free++;
    }
}

bool pool_return(struct pool *p, uint32_t window)
{
    struct pool_block *b = block_at(p, POOL_WINDOWS, window);

    if (b == NULL || b->refs == 0) {
        pool_violation(p, "return-of-what-is-not-held", POOL_WINDOWS, window);
        return true;
    }
    if (b->refs > 1) {
        b->refs--;
        return true;
    }
    if (b->indexed && p->free == 0) {
        return false;
    }
    leave_block(p, b, window);
    p->free--;
    p->granted.n[PLANT(WINDOW_MISCOUNTED) ? POOL_BLOCKS : POOL_WINDOWS]++;
    return true;
}

void pool_release(struct pool *p, enum pool_class c, uint32_t number)
{
    enum extent_use use = c == POOL_SLOTS ? EXTENT_SLOT : EXTENT_CHECKPOINT;

    if (is_numbered(c)) {
        release_block(p, c, number);
        return;
    }
    /* A number released twice would be given to two sequences. */
    if (p->held.n[c] == 0 || !is_extent(p, number, use)) {
        pool_violation(p, "release-of-what-is-not-held", c, number);
        return;
    }
    p->held.n[c]--;
    p->free += p->o.pages_per[c];
    free_extent(p, number);
}

/* Adds the first reference. */
static void hold_cached(struct pool *p, struct pool_block *b, uint32_t block)
{
    enum pool_class c = class_of(b);

    b->refs = 1;
    p->cached.n[c]--;
    p->held.n[c]++;
    tell_watch(p, block, true);
}

void pool_share(struct pool *p, uint32_t block, bool from_grant)
{
    struct pool_block *b = block_at(p, POOL_BLOCKS, block);

    if (b == NULL || (b->refs == 0 && !b->indexed)) {
        pool_violation(p, "share-of-what-is-free", POOL_BLOCKS, block);
        return;
    }
    if (from_grant && p->granted.n[POOL_BLOCKS] == 0) {
        pool_violation(p, "share-without-a-grant", POOL_BLOCKS, block);
        return;
    }
    if (PLANT(REFERENCE_MISSED) && b->refs > 0) {
        b->refs--;
    }
    if (b->refs == 0) {
        hold_cached(p, b, block);
    } else {
        b->refs++;
    }
    if (from_grant) {
        p->granted.n[POOL_BLOCKS]--;
        p->free++;
    }
}

void pool_share_window(struct pool *p, uint32_t window)
{
    struct pool_block *b = block_at(p, POOL_WINDOWS, window);

    if (b == NULL || (b->refs == 0 && !b->indexed)) {
        pool_violation(p, "share-of-what-is-free", POOL_WINDOWS, window);
        return;
    }
    if (p->granted.n[POOL_WINDOWS] == 0) {
        pool_violation(p, "share-without-a-grant", POOL_WINDOWS, window);
        return;
    }
    if (b->refs > 0) {
        b->refs++; /* the sharer's page stays granted */
        return;
    }
    hold_cached(p, b, window);
    p->granted.n[POOL_WINDOWS]--;
    p->free++;
}

/* ---- the index ---- */

/* Returns the block or window page of that number; NULL: none. */
static struct pool_block *number_at(const struct pool *p, uint32_t number)
{
    bool window = p->o.pages_per[POOL_WINDOWS] > 0 && number < p->o.n_pages &&
                  p->blocks[number].window;

    return block_at(p, window ? POOL_WINDOWS : POOL_BLOCKS, number);
}

void pool_index(struct pool *p, uint32_t block)
{
    struct pool_block *b = number_at(p, block);

    if (b == NULL || b->refs == 0 || b->indexed) {
        pool_violation(p, "index-of-what-is-not-held", POOL_BLOCKS, block);
        return;
    }
    b->indexed = true;
}

void pool_unindex(struct pool *p, uint32_t block)
{
    struct pool_block *b = number_at(p, block);

    if (b == NULL || !b->indexed) {
        pool_violation(p, "unindex-of-what-is-not-indexed", POOL_BLOCKS, block);
        return;
    }
    b->indexed = false;
    if (PLANT(EVICTED_HELD) && b->refs > 0) {
        b->refs = 0;
        p->held.n[POOL_BLOCKS]--;
        p->cached.n[POOL_BLOCKS]++;
    }
    if (b->refs == 0) {
        p->cached.n[class_of(b)]--;
        free_block(p, block);
    }
}

bool pool_cache(struct pool *p, uint32_t *checkpoint)
{
    uint32_t per = p->o.pages_per[POOL_CHECKPOINTS];

    if (per == 0 || p->free < per ||
        !pool_can_take(p, POOL_CHECKPOINTS, 1, POOL_EXTENT_MAX)) {
        return false;
    }
    *checkpoint = place_extent(p, EXTENT_CHECKPOINT);
    p->free -= per;
    p->cached.n[POOL_CHECKPOINTS]++;
    return true;
}

void pool_uncache(struct pool *p, uint32_t checkpoint)
{
    if (p->cached.n[POOL_CHECKPOINTS] == 0 ||
        !is_extent(p, checkpoint, EXTENT_CHECKPOINT)) {
        pool_violation(p, "uncache-of-what-is-not-cached", POOL_CHECKPOINTS,
                       checkpoint);
        return;
    }
    p->cached.n[POOL_CHECKPOINTS]--;
    p->free += p->o.pages_per[POOL_CHECKPOINTS];
    free_extent(p, checkpoint);
}
