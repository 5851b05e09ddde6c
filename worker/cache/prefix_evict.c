/* The value of a node, and the order of eviction.
 *
 * Keys are those of GreedyDual-Size-Frequency (Cherkasova, 1998):
 *
 *     key = age at the last use + tokens to compute again * chance / pages
 *
 * The age of the index is the highest key that was evicted.  Entries that are
 * not used therefore fall behind without being touched. */
#include <assert.h>

#include "common/base/plant.h"
#include "worker/cache/prefix.h"
#include "worker/cache/prefix_state.h"

#define USES_MAX 15

/* A checkpoint with a deeper one below it and no branch in between serves only
 * a request that goes back: an earlier turn of a session that went on, or a
 * grid position. */
#define SUPERSEDED (1.0 / 64)

static bool has_one_child(const struct prefix *x, const struct prefix_node *n)
{
    return n->child != PREFIX_NONE && x->nodes[n->child].next == PREFIX_NONE;
}

/* Returns the units from the checkpoint above to the node, which a request
 * computes again without the node's own.  alone: those of them that serve
 * nothing else. */
static uint32_t units_above(const struct prefix *x, uint32_t node,
                            uint32_t *alone)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t depth = n->depth, i = n->parent;
    bool branched = false;

    *alone = 1;
    for (; i != PREFIX_NONE; i = x->nodes[i].parent) {
        if (prefix_has_state(x, i)) {
            return depth - x->nodes[i].depth;
        }
        branched = branched || !has_one_child(x, &x->nodes[i]);
        *alone += !branched;
    }
    return depth;
}

static bool is_superseded(const struct prefix *x, const struct prefix_node *n)
{
    return n->n_states > 1 && has_one_child(x, n);
}

/* Returns the value of what the node would give back. */
static double value_of(const struct prefix *x, uint32_t node)
{
    const struct prefix_node *n = &x->nodes[node];
    double chance = 1.0 + n->uses;
    uint32_t alone, units, pages;

    if (!x->o.has_states) {
        return prefix_is_restorable(x, node) ? chance * PREFIX_UNIT : 0;
    }
    if (n->checkpoint == SLOT_NONE) {
        return 0;
    }
    units = units_above(x, node, &alone);
    pages = x->checkpoint_pages;
    if (n->n_inside == 0) {
        pages += alone * x->unit_blocks;
    }
    if (is_superseded(x, n)) {
        chance *= SUPERSEDED;
    }
    return chance * PREFIX_UNIT * units / (pages > 0 ? pages : 1);
}

static enum prefix_heap heap_of(const struct prefix_node *n)
{
    if (n->checkpoint != SLOT_NONE) {
        return HEAP_STATE;
    }
    if (n->outside || n->n_inside > 0) {
        return HEAP_NONE;
    }
    return n->n_held == 0 || PLANT(EVICTED_HELD) ? HEAP_LEAF : HEAP_NONE;
}

/* Returns the root of the heap that the node is in, or is to be in. */
static uint32_t root_of(const struct prefix *x, const struct prefix_node *n)
{
    return x->accounts.tenants[n->tenant].heaps[n->heap];
}

_Static_assert((PREFIX_TENANTS_MAX & (PREFIX_TENANTS_MAX - 1)) == 0,
               "the tournament is a full tree");

/* Sets the root of a heap.  Every eviction asks for the lowest root of all
 * tenants, so the winners of each pair of roots are kept. */
static void set_root(struct prefix *x, const struct prefix_node *n,
                     uint32_t root)
{
    uint32_t *t = x->accounts.lowest[n->heap];

    if (root == root_of(x, n)) {
        return;
    }
    x->accounts.tenants[n->tenant].heaps[n->heap] = root;
    t[(uint32_t)PREFIX_TENANTS_MAX + n->tenant] = root;
    for (uint32_t i = ((uint32_t)PREFIX_TENANTS_MAX + n->tenant) / 2; i > 0;
         i /= 2) {
        uint32_t a = t[2 * i], b = t[2 * i + 1];

        t[i] = a == PREFIX_NONE ||
                       (b != PREFIX_NONE && x->heap[b].key < x->heap[a].key)
                   ? b
                   : a;
    }
}

void prefix_unplace(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];

    if (n->heap < HEAPS) {
        set_root(x, n, pairing_drop(x->heap, root_of(x, n), node));
        n->heap = HEAP_NONE;
    }
}

void prefix_place(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];
    enum prefix_heap h = heap_of(n);

    if (n->heap == HEAP_ASIDE) {
        return; /* until the walk ends */
    }
    prefix_unplace(x, node);
    if (h != HEAP_NONE) {
        n->heap = (uint8_t)h;
        x->heap[node].key = n->stamp + value_of(x, node);
        set_root(x, n, pairing_add(x->heap, root_of(x, n), node));
    }
}

void prefix_use(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];

    n->stamp = x->age;
    n->uses = (uint8_t)(n->uses < USES_MAX ? n->uses + 1 : USES_MAX);
    if (n->heap < HEAPS) {
        prefix_place(x, node);
    }
}

void prefix_mark(struct prefix *x, uint32_t node)
{
    x->walk++;
    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        x->nodes[i].mark = x->walk;
    }
}

/* ---- the walk ---- */

/* Returns the lower of a node and the lowest of a scope. */
static uint32_t lower(const struct prefix *x, enum prefix_heap h,
                      uint32_t tenant, uint32_t best)
{
    uint32_t root = x->accounts.tenants[tenant].heaps[h];

    return root != PREFIX_NONE && (best == PREFIX_NONE ||
                                   x->heap[root].key < x->heap[best].key)
               ? root
               : best;
}

/* Returns the lowest of one kind of heap, of a group or of all. */
static uint32_t lowest(const struct prefix *x, enum prefix_heap h,
                       const struct prefix_group *g)
{
    uint32_t best = PREFIX_NONE;

    if (g == NULL) {
        return x->accounts.lowest[h][1];
    }
    for (uint32_t i = g->first; i != PREFIX_NONE;
         i = x->accounts.tenants[i].group_next) {
        best = lower(x, h, i, best);
    }
    return best;
}

/* Takes a node that this walk spares out of its heap. */
static void put_aside(struct prefix *x, uint32_t node)
{
    prefix_unplace(x, node);
    x->nodes[node].heap = HEAP_ASIDE;
    x->heap[node].next = x->aside;
    x->aside = node;
}

static void end_walk(struct prefix *x)
{
    while (x->aside != PREFIX_NONE) {
        uint32_t node = x->aside;

        x->aside = x->heap[node].next;
        x->nodes[node].heap = HEAP_NONE;
        prefix_place(x, node);
    }
}

/* Returns whether this walk spares the node.  entry: only a node that can go as
 * a whole serves. */
static bool is_spared(const struct prefix *x, const struct prefix_node *n,
                      bool entry)
{
    return n->mark == x->walk ||
           (entry && (n->child != PREFIX_NONE || n->n_held > 0));
}

/* Takes the node's part of that kind out of the pool.  gone: and out of the
 * index. */
static void take_out(struct prefix *x, enum prefix_heap h, uint32_t node,
                     bool gone)
{
    if (gone && h == HEAP_STATE) {
        prefix_drop_checkpoint(x, node);
    } else if (gone) {
        prefix_remove(x, node);
    } else if (h == HEAP_STATE) {
        prefix_demote_state(x, node, !is_superseded(x, &x->nodes[node]));
    } else {
        prefix_demote(x, node);
    }
}

/* Evicts the lowest of a kind; false if there is none.  Keys may be too low,
 * because a checkpoint above or below has gone since; such a node goes back
 * with its new key. */
static bool evict(struct prefix *x, enum prefix_heap h,
                  const struct prefix_group *g, bool entry)
{
    uint32_t node;

    while ((node = lowest(x, h, g)) != PREFIX_NONE) {
        struct prefix_node *n = prefix_at(x, node);
        double key = n->stamp + value_of(x, node);

        if (is_spared(x, n, entry)) {
            put_aside(x, node);
        } else if (key > x->heap[node].key) {
            prefix_place(x, node);
        } else {
            x->age = g == NULL && key > x->age ? key : x->age;
            take_out(x, h, node, entry);
            return true;
        }
    }
    return false;
}

/* Nodes that lead to no checkpoint are worth nothing, and go first.  Window
 * pages are shared by all tenants: those at a quota do not reach them. */
static bool evict_any(struct prefix *x, const struct prefix_group *g)
{
    return (g == NULL && prefix_evict_windows(x, WINDOWS_SPENT)) ||
           evict(x, HEAP_LEAF, g, false) || evict(x, HEAP_STATE, g, false) ||
           (g == NULL && prefix_evict_windows(x, WINDOWS_LIVE));
}

bool prefix_has_room(const struct prefix *x, const struct pool_need *need)
{
    return x->pool->free >= pool_need_pages(x->pool, need) &&
           (x->watch.fits == NULL || x->watch.fits(x->watch.self, need));
}

bool prefix_free_pages(struct prefix *x, const struct pool_need *need)
{
    bool more = true, room;

    while (!(room = prefix_has_room(x, need)) && more) {
        more = evict_any(x, NULL);
    }
    end_walk(x);
    return room;
}

bool prefix_free_entry(struct prefix *x)
{
    bool more = true;

    while (more && !prefix_has_entry(x)) {
        more = prefix_tier_drop(x) || evict(x, HEAP_LEAF, NULL, true) ||
               evict(x, HEAP_STATE, NULL, true);
    }
    end_walk(x);
    return prefix_has_entry(x);
}

bool prefix_free_state(struct prefix *x)
{
    bool more = true;

    while (more && x->figures.n_checkpoints + x->extents.n_reserved >=
                       x->most_checkpoints) {
        more = evict(x, HEAP_STATE, NULL, false);
    }
    end_walk(x);
    return more;
}

bool prefix_free_share(struct prefix *x, uint32_t tenant, uint32_t pages)
{
    const struct prefix_group *g = prefix_group_of(x, tenant);
    bool more = true;

    if ((uint64_t)g->pages + pages <= x->most_pages || PLANT(QUOTA_IGNORED)) {
        return true;
    }
    x->figures.at_quota++;
    while (more && (uint64_t)g->pages + pages > x->most_pages) {
        more = evict_any(x, g);
    }
    end_walk(x);
    return more;
}
