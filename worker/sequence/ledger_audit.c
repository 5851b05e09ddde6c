/* The audit and the reaper of worker/sequence/ledger.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "worker/sequence/ledger.h"
#include "worker/sequence/windows.h"

/* Claims of a number: references below, and these bits. */
#define CLAIM_INDEX  ((uint32_t)1 << 31)
#define CLAIM_IDLE   ((uint32_t)1 << 30)
#define CLAIM_BLOCK  ((uint32_t)1 << 29) /* as a block */
#define CLAIM_WINDOW ((uint32_t)1 << 28) /* as a window page */
#define CLAIM_REFS   (CLAIM_WINDOW - 1)

struct walk {
    const struct pool *pool;
    const struct sequence_table *table;
    ledger_walk_fn walk;
    const void *index;
    const struct prefix *prefix;
    uint32_t *claims;
    uint32_t n_host; /* found in chains */
    uint32_t differences;
    char *text; /* NULL: none */
    size_t cap, used;
};

__attribute__((format(printf, 2, 3))) static void
add_difference(struct walk *w, const char *fmt, ...)
{
    va_list ap;
    int n;
    w->differences++; /* also when the text is full */
    if (w->text == NULL || w->used + 1 >= w->cap) {
        return;
    }
    va_start(ap, fmt);
    n = vsnprintf(w->text + w->used, w->cap - w->used, fmt, ap);
    va_end(ap);
    w->used += n > 0 ? (size_t)n : 0;
    if (w->used + 2 > w->cap) {
        w->text[w->cap - 1] = '\0';
        w->used = w->cap;
        return;
    }
    w->text[w->used++] = '\n';
    w->text[w->used] = '\0';
}

/* Each column is counted twice: by the pool as it went, and by this walk. */
static void compare_column(struct walk *w, const char *of, const char *column,
                           uint64_t counted, uint64_t found)
{
    if (counted != found) {
        add_difference(w, "%s: %s is %llu, found %llu", of, column,
                       (unsigned long long)counted, (unsigned long long)found);
    }
}

/* Returns false, and adds a difference, if there is no such number. */
static bool is_number(struct walk *w, enum pool_class c, uint32_t number)
{
    if (number < w->pool->o.n_pages) {
        return true;
    }
    add_difference(w, "%s: number %u is none", pool_class_name(c), number);
    return false;
}

/* ---- blocks and windows ---- */

static uint32_t class_claim(enum pool_class c)
{
    return c == POOL_WINDOWS ? CLAIM_WINDOW : CLAIM_BLOCK;
}

static void claim_block(void *ctx, enum pool_class c, uint32_t number)
{
    struct walk *w = ctx;

    if ((c != POOL_BLOCKS && c != POOL_WINDOWS) || !is_number(w, c, number)) {
        return;
    }
    if (w->claims[number] & CLAIM_INDEX) {
        add_difference(w, "%s: number %u is twice in the index",
                       pool_class_name(c), number);
    }
    w->claims[number] |= CLAIM_INDEX | class_claim(c);
}

static void claim_reference(struct walk *w, enum pool_class c, uint32_t number)
{
    if (is_number(w, c, number)) {
        w->claims[number]++;
        w->claims[number] |= class_claim(c);
    }
}

static void claim_windows(struct walk *w, const struct sequence *s)
{
    for (uint32_t i = 0; i < s->memory.n_windows * w->table->windows.pages;
         i++) {
        claim_reference(w, POOL_WINDOWS, windows_nth(w->table, s, i));
    }
}

static void claim_blocks(struct walk *w)
{
    memset(w->claims, 0, w->pool->o.n_pages * sizeof *w->claims);
    for (const struct sequence *s = w->table->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        for (uint32_t i = 0; i < s->memory.n_blocks; i++) {
            claim_reference(w, POOL_BLOCKS,
                            paged_get(&w->table->slab, &s->memory.blocks, i));
        }
        claim_windows(w, s);
    }
    if (w->walk != NULL) {
        w->walk(w->index, claim_block, w);
    }
}

/* A number that is idle twice would be given to two sequences. */
static void claim_idle(struct walk *w)
{
    for (uint32_t i = 0; i < w->pool->n_idle; i++) {
        uint32_t number = w->pool->idle[i];

        if (is_number(w, POOL_BLOCKS, number) &&
            w->claims[number] & CLAIM_IDLE) {
            add_difference(w, "blocks: number %u is twice idle", number);
        } else if (number < w->pool->o.n_pages) {
            w->claims[number] |= CLAIM_IDLE;
        }
    }
}

static void audit_block(struct walk *w, uint32_t number)
{
    const struct pool_block *b = &w->pool->blocks[number];
    const struct places *l = &w->pool->places;
    uint32_t claim = w->claims[number], refs = claim & CLAIM_REFS;
    bool indexed = (claim & CLAIM_INDEX) != 0;
    bool idle = (claim & CLAIM_IDLE) != 0;

    if ((claim & CLAIM_BLOCK && b->window) ||
        (claim & CLAIM_WINDOW && !b->window)) {
        add_difference(w, "blocks: number %u is a %s, but has a place of %s",
                       number, b->window ? "window page" : "block",
                       b->window ? "blocks" : "windows");
    }
    if (b->refs != refs) {
        add_difference(w, "blocks: number %u has %u references, found %u",
                       number, b->refs, refs);
    }
    if (b->indexed != indexed) {
        add_difference(w, "blocks: number %u is%s indexed, the index has it%s",
                       number, b->indexed ? "" : " not", indexed ? "" : " not");
    }
    if (idle == (b->refs > 0 || b->indexed)) {
        add_difference(w, "blocks: number %u is %s", number,
                       idle ? "in use and idle" : "nowhere");
    }
    if (idle != (b->page == PLACE_NONE)) {
        add_difference(w, "blocks: number %u is%s idle, but has page %u",
                       number, idle ? "" : " not", b->page);
    } else if (!idle &&
               (b->page >= l->n_pages || l->owners[b->page] != number)) {
        add_difference(w, "blocks: number %u is not in its page %u", number,
                       b->page);
    }
}

static bool has_numbers(const struct walk *w)
{
    const struct pool_options *o = &w->pool->o;

    return o->pages_per[POOL_BLOCKS] + o->pages_per[POOL_WINDOWS] > 0;
}

static void audit_blocks(struct walk *w)
{
    uint32_t held[POOL_CLASSES] = {0}, cached[POOL_CLASSES] = {0};

    claim_blocks(w);
    if (!has_numbers(w)) {
        return;
    }
    claim_idle(w);
    for (uint32_t i = 0; i < w->pool->o.n_pages; i++) {
        uint32_t claim = w->claims[i];
        enum pool_class c = claim & CLAIM_WINDOW ? POOL_WINDOWS : POOL_BLOCKS;

        audit_block(w, i);
        held[c] += (claim & CLAIM_REFS) > 0;
        cached[c] += (claim & (CLAIM_REFS | CLAIM_INDEX)) == CLAIM_INDEX;
    }
    for (int i = 0; i < POOL_CLASSES; i++) {
        enum pool_class c = (enum pool_class)i;

        if (c == POOL_BLOCKS || c == POOL_WINDOWS) {
            compare_column(w, pool_class_name(c), "held", w->pool->held.n[c],
                           held[c]);
            compare_column(w, pool_class_name(c), "cached",
                           w->pool->cached.n[c], cached[c]);
        }
    }
}

/* ---- slots and checkpoints ---- */

static void claim_extent(struct walk *w, enum pool_class c, uint32_t first)
{
    const struct places *l = &w->pool->places;
    enum extent_use use = c == POOL_SLOTS ? EXTENT_SLOT : EXTENT_CHECKPOINT;

    if (!is_number(w, c, first)) {
        return;
    }
    if (w->claims[first]++ > 0) {
        add_difference(w, "%s: number %u is in two places", pool_class_name(c),
                       first);
    }
    if (first % l->per != 0 || first / l->per >= l->n_extents ||
        l->extents[first / l->per].use != use) {
        add_difference(w, "%s: number %u is none", pool_class_name(c), first);
    }
}

static void claim_checkpoint(void *ctx, enum pool_class c, uint32_t number)
{
    if (c == POOL_CHECKPOINTS) {
        claim_extent(ctx, c, number);
    }
}

/* The claims of blocks have been compared by now; the array serves again, by
 * the first page of an extent. */
static void claim_extents(struct walk *w)
{
    memset(w->claims, 0, w->pool->o.n_pages * sizeof *w->claims);
    for (const struct sequence *s = w->table->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        if (s->memory.slot != SLOT_NONE) {
            claim_extent(w, POOL_SLOTS, s->memory.slot);
        }
    }
    if (w->walk != NULL) {
        w->walk(w->index, claim_checkpoint, w);
    }
}

static void audit_extents(struct walk *w)
{
    const struct places *l = &w->pool->places;
    uint32_t found[3] = {0};

    claim_extents(w);
    for (uint32_t i = 0; i < l->n_extents; i++) {
        enum extent_use use = l->extents[i].use;

        found[use]++;
        if (use != EXTENT_BLOCKS && w->claims[i * l->per] == 0) {
            add_difference(w, "%s: number %u is nowhere",
                           use == EXTENT_SLOT ? "slots" : "checkpoints",
                           i * l->per);
        }
    }
    compare_column(w, "slots", "held", w->pool->held.n[POOL_SLOTS],
                   found[EXTENT_SLOT]);
    compare_column(w, "checkpoints", "held and cached",
                   (uint64_t)w->pool->held.n[POOL_CHECKPOINTS] +
                       w->pool->cached.n[POOL_CHECKPOINTS],
                   found[EXTENT_CHECKPOINT]);
}

/* ---- pages ---- */

/* Pages name their blocks and blocks name their pages: both directions are
 * compared, because a move changes both. */
static void audit_page(struct walk *w, uint32_t page)
{
    const struct places *l = &w->pool->places;
    uint32_t block = l->owners[page];

    if (block == PLACE_NONE) {
        return;
    }
    if (l->extents[page / l->per].use != EXTENT_BLOCKS) {
        add_difference(w, "pages: page %u is in a slot, and has block %u", page,
                       block);
    }
    if (block >= l->n_pages || w->pool->blocks[block].page != page) {
        add_difference(w, "pages: page %u has block %u, which is not there",
                       page, block);
    }
}

static void audit_pages(struct walk *w)
{
    const struct places *l = &w->pool->places;
    struct pool_account a = pool_pages(w->pool);
    uint32_t n_free = 0;

    for (uint32_t i = 0; i < l->n_pages; i++) {
        audit_page(w, i);
        n_free += places_is_free(l, i);
    }
    for (uint32_t i = 0; i < w->pool->n_moves; i++) {
        const struct plan_copy *m = &w->pool->moves[i];

        if ((m->kind != COPY_IN && m->from + (uint64_t)m->n > l->n_pages) ||
            (m->kind != COPY_OUT && m->to + (uint64_t)m->n > l->n_pages)) {
            add_difference(w, "pages: a move from %u to %u leaves the pool",
                           m->from, m->to);
        }
    }
    compare_column(w, "pages", "free and granted", (uint64_t)a.free + a.granted,
                   n_free);
    compare_column(w, "pages", "total", a.total,
                   (uint64_t)a.free + a.held + a.cached + a.granted);
}

/* ---- sequences ---- */

/* Returns how many of the class s has in its tables. */
static uint32_t has(const struct sequence_table *t, const struct sequence *s,
                    enum pool_class c)
{
    switch (c) {
    case POOL_BLOCKS:
        return s->memory.n_blocks;
    case POOL_WINDOWS:
        return s->memory.n_windows * t->windows.pages;
    case POOL_SLOTS:
        return s->memory.slot != SLOT_NONE;
    default:
        return 0;
    }
}

/* Each reference of a window page beyond the first keeps one granted. */
static uint64_t promised_to_sharers(const struct pool *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; p->o.pages_per[POOL_WINDOWS] > 0 && i < p->o.n_pages;
         i++) {
        const struct pool_block *b = &p->blocks[i];

        sum += b->window && b->refs > 1 ? b->refs - 1 : 0;
    }
    return sum;
}

/* The pool has one sum of what is granted.  The sequences have the parts.
 * Returns how many are promised to sequences and not taken. */
static uint64_t promised(const struct pool *p, const struct sequence_table *t,
                         enum pool_class c)
{
    uint64_t sum = c == POOL_WINDOWS ? promised_to_sharers(p) : 0;

    for (const struct sequence *s = t->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        uint32_t n = has(t, s, c);

        sum += s->memory.need.n[c] > n ? s->memory.need.n[c] - n : 0;
    }
    return sum;
}

static void audit_needs(struct walk *w)
{
    for (int i = 0; i < POOL_CLASSES; i++) {
        enum pool_class c = (enum pool_class)i;

        for (const struct sequence *s = w->table->all.head; s != NULL;
             s = sequence_next(s, LIST_ALL)) {
            if (has(w->table, s, c) > s->memory.need.n[c]) {
                add_difference(w, "%s: sequence %llu has %u of %u",
                               pool_class_name(c),
                               (unsigned long long)s->number,
                               has(w->table, s, c), s->memory.need.n[c]);
            }
        }
        compare_column(w, pool_class_name(c), "granted", w->pool->granted.n[c],
                       promised(w->pool, w->table, c));
    }
}

static void audit_states(struct walk *w)
{
    uint32_t found[SEQUENCE_STATES] = {0};

    for (const struct sequence *s = w->table->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        found[s->state]++;
    }
    for (int i = 0; i < SEQUENCE_STATES; i++) {
        if (found[i] != w->table->in_state[i]) {
            add_difference(w, "sequences: %u are counted %s, found %u",
                           w->table->in_state[i],
                           sequence_state_name((enum sequence_state)i),
                           found[i]);
        }
    }
}

/* ---- the host tier ---- */

static void claim_chain(void *ctx, uint32_t first, uint32_t n)
{
    struct walk *w = ctx;

    w->n_host += n;
    if (!host_mark(w->table->host, first, n)) {
        add_difference(w, "host: the chain from page %u is broken", first);
    }
}

/* Each page that is used is in the chain of one sequence, or of the index. */
static void audit_host(struct walk *w)
{
    struct host *h = w->table->host;
    uint32_t leaks;

    if (h == NULL) {
        return;
    }
    host_mark_begin(h);
    w->n_host = 0;
    if (w->prefix != NULL) {
        prefix_walk_host(w->prefix, claim_chain, w);
    }
    for (const struct sequence *s = w->table->all.head; s != NULL;
         s = sequence_next(s, LIST_ALL)) {
        w->n_host += s->memory.n_host;
        if (s->memory.n_host > 0 &&
            !host_mark(h, s->memory.host, s->memory.n_host)) {
            add_difference(w, "host: the chain of sequence %llu is broken",
                           (unsigned long long)s->number);
        }
    }
    leaks = host_unmarked(h, false);
    if (leaks > 0) {
        add_difference(w, "host: %u pages are nowhere", leaks);
    }
    compare_column(w, "host", "used", h->n_used, w->n_host);
}

static struct walk walk_of(const struct ledger *l, const struct pool *pool,
                           const struct sequence_table *t)
{
    return (struct walk){.pool = pool,
                         .table = t,
                         .walk = l->walk,
                         .index = l->index,
                         .prefix = l->prefix,
                         .claims = l->claims};
}

uint32_t ledger_audit(const struct ledger *l, const struct pool *pool,
                      const struct sequence_table *t, char *text, size_t cap)
{
    struct walk w = walk_of(l, pool, t);

    if (cap > 0) {
        w.text = text;
        w.cap = cap;
        text[0] = '\0';
    }
    audit_blocks(&w);
    audit_extents(&w);
    audit_pages(&w);
    audit_needs(&w);
    audit_states(&w);
    audit_host(&w);
    return w.differences;
}

/* ---- the reaper ---- */

static uint32_t reap_blocks(struct walk *w, struct pool *pool)
{
    uint32_t n = 0;

    claim_blocks(w);
    if (!has_numbers(w)) {
        return 0;
    }
    for (uint32_t i = 0; i < pool->o.n_pages; i++) {
        enum pool_class c = pool->blocks[i].window ? POOL_WINDOWS : POOL_BLOCKS;

        for (; pool->blocks[i].refs > (w->claims[i] & CLAIM_REFS); n++) {
            pool_violation(pool, "leak", c, i);
            pool_release(pool, c, i);
        }
        if (pool->blocks[i].indexed && !(w->claims[i] & CLAIM_INDEX)) {
            pool_violation(pool, "leak-of-index", c, i);
            pool_unindex(pool, i);
            n++;
        }
    }
    return n;
}

static uint32_t reap_extents(struct walk *w, struct pool *pool)
{
    const struct places *l = &pool->places;
    uint32_t n = 0;

    claim_extents(w);
    for (uint32_t i = 0; i < l->n_extents; i++) {
        uint32_t first = i * l->per;

        if (l->extents[i].use == EXTENT_BLOCKS || w->claims[first] > 0) {
            continue;
        }
        n++;
        if (l->extents[i].use == EXTENT_SLOT) {
            pool_violation(pool, "leak", POOL_SLOTS, first);
            pool_release(pool, POOL_SLOTS, first);
        } else {
            pool_violation(pool, "leak", POOL_CHECKPOINTS, first);
            pool_uncache(pool, first);
        }
    }
    return n;
}

static uint32_t reap_grants(struct pool *pool, const struct sequence_table *t)
{
    struct pool_need leak = {{0, 0, 0}};
    uint32_t n = 0;

    for (int c = 0; c < POOL_CLASSES; c++) {
        uint64_t owed = promised(pool, t, (enum pool_class)c);

        if (pool->granted.n[c] > owed) {
            leak.n[c] = pool->granted.n[c] - (uint32_t)owed;
            n += leak.n[c];
            pool_violation(pool, "leak-of-grants", (enum pool_class)c,
                           leak.n[c]);
        }
    }
    pool_ungrant(pool, &leak);
    return n;
}

static uint32_t reap_host(struct walk *w)
{
    uint32_t before = w->differences;

    audit_host(w);
    return w->table->host == NULL || w->differences == before
               ? 0
               : host_unmarked(w->table->host, true);
}

uint32_t ledger_reap(struct ledger *l, struct pool *pool,
                     const struct sequence_table *t)
{
    struct walk w = walk_of(l, pool, t);
    uint32_t n = reap_blocks(&w, pool);

    n += reap_extents(&w, pool);
    n += reap_grants(pool, t);
    n += reap_host(&w);
    l->leaks += n;
    if (n > 0) {
        log_error("leak-reaped", "n=%u total=%llu", n,
                  (unsigned long long)l->leaks);
    }
    return n;
}
