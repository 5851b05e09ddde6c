/* prefix_tier.c - What the prefix index has in the host tier. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/prefix.h"
#include "worker/cache/prefix_state.h"

bool prefix_tier_init(struct prefix *x)
{
    size_t n = ((size_t)x->o.n_nodes + 1) * PARTS;

    x->tier.host = x->o.host;
    x->tier.pinned = PREFIX_NONE;
    if (x->tier.host == NULL) {
        return true;
    }
    x->tier.most =
        (uint32_t)(x->tier.host->n_pages * (double)x->o.tenant_share);
    x->tier.copies = malloc(n * sizeof *x->tier.copies);
    for (uint32_t i = 0; i < PREFIX_TENANTS_MAX; i++) {
        x->accounts.groups[i].oldest = x->accounts.groups[i].newest =
            PREFIX_NONE;
    }
    return x->tier.copies != NULL;
}

void prefix_tier_begin(struct prefix *x, uint32_t node)
{
    for (uint32_t i = 0; x->tier.host != NULL && i < PARTS; i++) {
        x->tier.copies[node * PARTS + i].first = HOST_NONE;
    }
}

bool prefix_has_copy(const struct prefix *x, uint32_t node,
                     enum prefix_part part)
{
    return x->tier.host != NULL &&
           x->tier.copies[node * PARTS + part].first != HOST_NONE;
}

uint32_t prefix_copy_at(const struct prefix *x, uint32_t node,
                        enum prefix_part part)
{
    return prefix_has_copy(x, node, part)
               ? x->tier.copies[node * PARTS + part].first
               : HOST_NONE;
}

uint32_t prefix_host_pages(const struct prefix *x)
{
    return x->tier.n;
}

static uint32_t part_pages(const struct prefix *x, uint32_t copy)
{
    switch ((enum prefix_part)(copy % PARTS)) {
    case PART_STATE:
        return x->checkpoint_pages;
    case PART_WINDOWS:
        return x->windows.unit -
               x->nodes[copy / PARTS].window_at * x->o.window_pages;
    default:
        return x->unit_blocks;
    }
}

/* ---- the lists: those of a tenant, the least recently used first ---- */

static struct prefix_group *group_of(const struct prefix *x, uint32_t copy)
{
    return prefix_group_of(x, x->nodes[copy / PARTS].tenant);
}

static void link_copy(struct prefix *x, uint32_t copy)
{
    struct prefix_group *g = group_of(x, copy);
    struct prefix_copy *c = &x->tier.copies[copy];

    c->prev = g->newest;
    c->next = PREFIX_NONE;
    c->stamp = ++x->tier.clock;
    if (g->newest != PREFIX_NONE) {
        x->tier.copies[g->newest].next = copy;
    } else {
        g->oldest = copy;
    }
    g->newest = copy;
}

static void unlink_copy(struct prefix *x, uint32_t copy)
{
    struct prefix_group *g = group_of(x, copy);
    const struct prefix_copy *c = &x->tier.copies[copy];

    if (c->prev != PREFIX_NONE) {
        x->tier.copies[c->prev].next = c->next;
    } else {
        g->oldest = c->next;
    }
    if (c->next != PREFIX_NONE) {
        x->tier.copies[c->next].prev = c->prev;
    } else {
        g->newest = c->prev;
    }
}

static void touch(struct prefix *x, uint32_t copy)
{
    unlink_copy(x, copy);
    link_copy(x, copy);
}

void prefix_use_copies(struct prefix *x, uint32_t node)
{
    for (uint32_t i = 0; x->tier.host != NULL && i < PARTS; i++) {
        if (x->tier.copies[node * PARTS + i].first != HOST_NONE) {
            touch(x, node * PARTS + i);
        }
    }
}

void prefix_drop_copy(struct prefix *x, uint32_t node, enum prefix_part part)
{
    uint32_t copy = node * PARTS + part, n;

    if (!prefix_has_copy(x, node, part)) {
        return;
    }
    n = part_pages(x, copy);
    unlink_copy(x, copy);
    group_of(x, copy)->host_pages -= n;
    x->tier.n -= n;
    if (!PLANT(CACHED_HOST_LEAKS)) {
        host_give(x->tier.host, x->tier.copies[copy].first);
    }
    x->tier.copies[copy].first = HOST_NONE;
}

/* ---- room in the host tier ---- */

/* Returns whether the blocks of a node serve a later request. */
static bool is_worth(const struct prefix *x, uint32_t node)
{
    return x->o.has_states ? x->nodes[node].n_states > 0
                           : x->nodes[node].child != PREFIX_NONE ||
                                 prefix_is_restorable(x, node);
}

/* Removes nodes upwards that lead to nothing any more, but for those whose
 * blocks the caller is about to bring. */
static void prune(struct prefix *x, uint32_t node)
{
    while (node != PREFIX_NONE && x->nodes[node].outside &&
           x->nodes[node].mark != x->walk && node != x->tier.pinned &&
           x->nodes[node].child == PREFIX_NONE && !is_worth(x, node)) {
        uint32_t parent = x->nodes[node].parent;

        prefix_remove(x, node);
        node = parent;
    }
}

/* Returns whether a copy may go: not that of the only blocks of a node while
 * something is below it, nor what is marked or about to be restored. */
static bool may_go(const struct prefix *x, uint32_t copy)
{
    const struct prefix_node *n = &x->nodes[copy / PARTS];
    bool carries =
        copy % PARTS == PART_BLOCKS && n->outside && n->child != PREFIX_NONE;

    return !carries && n->mark != x->walk && copy / PARTS != x->tier.pinned;
}

/* Returns the least recently used copy of a tenant that may go. */
static uint32_t oldest_of(const struct prefix *x, const struct prefix_group *g)
{
    uint32_t copy = g->n_scopes > 0 ? g->oldest : PREFIX_NONE;

    while (copy != PREFIX_NONE && !may_go(x, copy)) {
        copy = x->tier.copies[copy].next;
    }
    return copy;
}

static uint32_t oldest(const struct prefix *x)
{
    uint32_t best = PREFIX_NONE;

    for (uint32_t i = 0; i < x->accounts.n; i++) {
        uint32_t copy = oldest_of(x, &x->accounts.groups[i]);

        if (copy != PREFIX_NONE &&
            (best == PREFIX_NONE ||
             x->tier.copies[copy].stamp < x->tier.copies[best].stamp)) {
            best = copy;
        }
    }
    return best;
}

/* Drops the least recently used copy, of a tenant or of all.  What only the
 * host tier had leaves the index.  Returns false if there is none. */
static bool drop_oldest(struct prefix *x, const struct prefix_group *g)
{
    uint32_t copy = g != NULL ? oldest_of(x, g) : oldest(x);
    uint32_t node = copy / PARTS, was = x->tier.n, parent;

    if (copy == PREFIX_NONE) {
        return false;
    }
    if (copy % PARTS == PART_STATE && x->nodes[node].checkpoint == SLOT_NONE) {
        prefix_drop_checkpoint(x, node);
        prune(x, node);
    } else if (copy % PARTS == PART_WINDOWS &&
               x->nodes[node].windows == WINDOWS_NONE) {
        prefix_drop_windows(x, node);
        prune(x, node);
    } else if (copy % PARTS == PART_BLOCKS && x->nodes[node].outside) {
        parent = x->nodes[node].parent;
        prefix_remove(x, node);
        prune(x, parent);
    } else {
        prefix_drop_copy(x, node, copy % PARTS);
    }
    x->figures.host_dropped += was - x->tier.n;
    return true;
}

bool prefix_tier_drop(struct prefix *x)
{
    return x->tier.host != NULL && drop_oldest(x, NULL);
}

bool prefix_host_room(struct prefix *x, uint32_t n)
{
    bool more = x->tier.host != NULL;

    x->walk++;
    x->tier.pinned = PREFIX_NONE;
    while (more && host_free(x->tier.host) < n) {
        more = drop_oldest(x, NULL);
    }
    return more;
}

/* ---- from the pool to the host ---- */

/* Copies of cached pages leave room in a plan for those of suspended sequences
 * and for what comes back. */
#define TIER_LEFT_MIN (POOL_SWAPS_MAX / 4 * 3)

/* Makes room for n pages of a tenant.  dear: others may go for them. */
static bool make_room(struct prefix *x, const struct prefix_group *g,
                      uint32_t n, bool dear)
{
    if (n == 0 || n > x->tier.host->n_pages ||
        pool_swaps_left(x->pool) < TIER_LEFT_MIN + n) {
        return false;
    }
    while (g->host_pages + (uint64_t)n > x->tier.most) {
        if (!dear || !drop_oldest(x, g)) {
            return false;
        }
    }
    while (host_free(x->tier.host) < n) {
        if (!dear || !drop_oldest(x, NULL)) {
            return false;
        }
    }
    return true;
}

/* Returns the i-th page of the pool of a part. */
static uint32_t page_of(const struct prefix *x, uint32_t copy, uint32_t i)
{
    uint32_t node = copy / PARTS;

    switch ((enum prefix_part)(copy % PARTS)) {
    case PART_STATE:
        return x->nodes[node].checkpoint + i;
    case PART_WINDOWS:
        return pool_page(x->pool, prefix_window_page(x, node, i));
    default:
        return pool_page(x->pool, prefix_unit(x, node)[i]);
    }
}

/* Copies a part of a node that is in the pool to the host, unless a copy is
 * there already.  Returns false if there is no room. */
static bool copy_out(struct prefix *x, uint32_t node, enum prefix_part part,
                     bool dear)
{
    uint32_t copy = node * PARTS + part, host, n;
    struct prefix_group *g;

    if (prefix_has_copy(x, node, part)) {
        touch(x, copy);
        return true;
    }
    if (x->tier.host == NULL) {
        return false;
    }
    n = part_pages(x, copy);
    g = group_of(x, copy);
    if (!make_room(x, g, n, dear) ||
        !host_take(x->tier.host, n, &x->tier.copies[copy].first)) {
        return false;
    }
    host = x->tier.copies[copy].first;
    for (uint32_t i = 0; i < n; i++, host = host_next(x->tier.host, host)) {
        pool_copy_out(x->pool, page_of(x, copy, i), host);
    }
    link_copy(x, copy);
    g->host_pages += n;
    x->tier.n += n;
    x->figures.host_out += n;
    return true;
}

void prefix_demote_state(struct prefix *x, uint32_t node, bool dear)
{
    struct prefix_node *n = &x->nodes[node];
    uint32_t checkpoint = n->checkpoint;

    if (!copy_out(x, node, PART_STATE, dear)) {
        prefix_drop_checkpoint(x, node);
        return;
    }
    prefix_give_state(x, checkpoint);
    n->checkpoint = SLOT_NONE;
    prefix_group_of(x, n->tenant)->pages -= x->checkpoint_pages;
    x->figures.n_checkpoints--;
    prefix_place(x, node);
}

/* Takes the blocks of a node out of the pool; a copy is in the host tier. */
static void put_outside(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];

    prefix_unplace(x, node);
    prefix_unindex_blocks(x, node);
    n->outside = true;
    n->n_held = 0;
}

void prefix_demote_windows(struct prefix *x, uint32_t node)
{
    if (copy_out(x, node, PART_WINDOWS, true)) {
        prefix_leave_windows(x, node);
    } else {
        prefix_drop_windows(x, node);
    }
}

void prefix_demote(struct prefix *x, uint32_t node)
{
    uint32_t parent = x->nodes[node].parent;

    if (x->nodes[node].windows == WINDOWS_LIVE) {
        prefix_demote_windows(x, node);
    } else {
        prefix_drop_windows(x, node);
    }
    if (!is_worth(x, node) || !copy_out(x, node, PART_BLOCKS, true) ||
        !is_worth(x, node)) {
        prefix_remove_tree(x, node);
        return;
    }
    put_outside(x, node);
    if (parent != PREFIX_NONE) {
        prefix_place(x, parent);
    }
}

/* ---- from the host to the pool ---- */

void prefix_take_in(struct prefix *x, uint32_t node, const uint32_t *blocks)
{
    uint32_t parent = x->nodes[node].parent;

    assert(x->nodes[node].outside);
    x->nodes[node].outside = false;
    prefix_index_blocks(x, node, blocks);
    if (parent != PREFIX_NONE) {
        prefix_place(x, parent);
    }
    prefix_place(x, node);
}

uint32_t prefix_outside(const struct prefix *x, uint32_t node)
{
    uint32_t n = 0;

    for (; node != PREFIX_NONE && x->nodes[node].outside;
         node = x->nodes[node].parent) {
        n++;
    }
    return n;
}

/* Takes blocks for a node and records their copies. */
static void bring_unit(struct prefix *x, uint32_t node)
{
    uint32_t blocks[PREFIX_UNIT], k = x->unit_blocks;
    uint32_t host = prefix_copy_at(x, node, PART_BLOCKS);

    if (!pool_take(x->pool, POOL_BLOCKS, k, blocks)) {
        return; /* it was granted: counted as a violation */
    }
    for (uint32_t i = 0; i < k; i++, host = host_next(x->tier.host, host)) {
        uint32_t at = PLANT(CACHED_SWAP_ASTRAY) ? k - 1 - i : i;

        if (!PLANT(CACHED_SWAP_LOST)) {
            pool_copy_in(x->pool, host, pool_page(x->pool, blocks[at]));
        }
    }
    prefix_take_in(x, node, blocks);
    touch(x, node * PARTS + PART_BLOCKS);
    x->figures.host_in += k;
}

/* Shares the blocks of a node that the pool has. */
static void share_unit(struct prefix *x, uint32_t node)
{
    for (uint32_t i = 0; i < x->unit_blocks; i++) {
        pool_share(x->pool, prefix_unit(x, node)[i], true);
    }
}

bool prefix_share(struct prefix *x, uint32_t node, uint32_t *out)
{
    uint32_t pages = prefix_outside(x, node) * x->unit_blocks;

    if (pages > 0) {
        prefix_mark(x, node);
        if (pages > pool_swaps_left(x->pool) ||
            pages > x->pool->granted.n[POOL_BLOCKS] ||
            !prefix_free_share(x, x->nodes[node].tenant, pages)) {
            return false;
        }
    }
    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        if (x->nodes[i].outside) {
            bring_unit(x, i);
        } else {
            share_unit(x, i);
        }
    }
    prefix_blocks(x, node, out);
    return true;
}

/* ---- checks ---- */

void prefix_walk_host(const struct prefix *x,
                      void (*each)(void *ctx, uint32_t first, uint32_t n),
                      void *ctx)
{
    for (uint32_t i = 0; x->tier.host != NULL && i < x->n_fresh * PARTS; i++) {
        if (x->nodes[i / PARTS].depth > 0 &&
            x->tier.copies[i].first != HOST_NONE) {
            each(ctx, x->tier.copies[i].first, part_pages(x, i));
        }
    }
}
