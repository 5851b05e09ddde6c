#include "worker/cache/prefix.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/prefix_state.h"

/* ---- begin and end ---- */

/* Zeroes are not written: fresh memory of the system has them. */
static void *array(size_t n, size_t size, int fill)
{
    void *memory = fill == 0 ? calloc(n + 1, size) : malloc((n + 1) * size);

    if (memory != NULL && fill != 0) {
        memset(memory, fill, n * size);
    }
    return memory;
}

static uint32_t buckets_of(uint32_t n_nodes)
{
    uint32_t n = 16;

    while (n < n_nodes && n < (uint32_t)1 << 31) {
        n *= 2;
    }
    return n;
}

/* Counts what is held of a node. */
static void block_held(void *self, uint32_t block, bool held)
{
    struct prefix *x = self;
    uint32_t node = x->node_of[block];

    if (node == PREFIX_NONE) {
        return;
    }
    x->nodes[node].n_held = (uint8_t)(x->nodes[node].n_held + (held ? 1 : -1));
    if (x->nodes[node].n_held <= 1 && x->nodes[node].checkpoint == SLOT_NONE) {
        prefix_place(x, node);
    }
}

static uint32_t share_of(const struct prefix *x, float share)
{
    double pages = (double)x->pool->o.n_pages * (double)share;

    return pages > 0 ? (uint32_t)pages : 0;
}

static void set_sizes(struct prefix *x)
{
    const struct prefix_options *o = &x->o;

    const struct pool_options *p = &x->pool->o;

    x->checkpoint_pages = p->pages_per[POOL_CHECKPOINTS];
    x->most_pages = share_of(x, o->tenant_share);
    x->most_checkpoints = o->n_nodes;
    if (x->checkpoint_pages > 0) {
        x->most_checkpoints =
            share_of(x, o->checkpoint_share) / x->checkpoint_pages;
    }
    x->mask = buckets_of(o->n_nodes) - 1;
    x->free_node = x->aside = PREFIX_NONE;
    x->outbox.next = 1;
    x->outbox.snapshot = true;
}

/* Returns how many blocks of the pool a node may have. */
static uint32_t blocks_per_unit(const struct prefix *x)
{
    return x->pool->o.pages_per[POOL_BLOCKS] > 0
               ? PREFIX_UNIT / x->o.block_tokens
               : 0;
}

static void set_classes(struct prefix *x, bool has_blocks, bool has_states)
{
    x->o.has_blocks = has_blocks;
    x->o.has_states = has_states;
    x->unit_blocks = has_blocks ? blocks_per_unit(x) : 0;
}

/* Makes the numbers of checkpoints that have no pages. */
static bool make_states(struct prefix *x)
{
    uint32_t n = x->pool->places.n_extents;

    if (x->checkpoint_pages == 0) {
        n = x->o.n_nodes;
        x->extents.numbers = array(n, sizeof *x->extents.numbers, 0);
        for (; x->extents.numbers != NULL && x->extents.n_numbers < n;
             x->extents.n_numbers++) {
            x->extents.numbers[x->extents.n_numbers] =
                n - 1 - x->extents.n_numbers;
        }
    }
    x->extents.reserved = array(n, 1, RESERVED_NOT);
    return x->extents.reserved != NULL &&
           (x->checkpoint_pages > 0 || x->extents.numbers != NULL);
}

bool prefix_init(struct prefix **out, const struct prefix_options *o,
                 struct pool *pool)
{
    struct prefix *x = calloc(1, sizeof *x);

    *out = x;
    if (x == NULL) {
        return false;
    }
    x->o = *o;
    x->pool = pool;
    set_sizes(x);
    set_classes(x, o->has_blocks, o->has_states);
    /* What is not used is not touched, so that it costs no memory. */
    x->nodes = malloc((o->n_nodes + (size_t)1) * sizeof *x->nodes);
    x->heap = malloc((o->n_nodes + (size_t)1) * sizeof *x->heap);
    x->tokens = malloc(((size_t)o->n_nodes + 1) * PREFIX_UNIT * 4);
    x->blocks = malloc(((size_t)o->n_nodes + 1) * (blocks_per_unit(x) + 1) * 4);
    x->buckets = array((size_t)x->mask + 1, sizeof *x->buckets, 0xff);
    x->node_of = array(pool->o.n_pages, sizeof *x->node_of, 0xff);
    x->accounts.tenants =
        array(PREFIX_TENANTS_MAX, sizeof *x->accounts.tenants, 0);
    x->accounts.groups =
        array(PREFIX_TENANTS_MAX, sizeof *x->accounts.groups, 0);
    for (int h = 0; h < HEAPS; h++) {
        x->accounts.lowest[h] = array(2 * PREFIX_TENANTS_MAX, 4, 0xff);
    }
    x->accounts.buckets = array(2 * PREFIX_TENANTS_MAX, 4, 0xff);
    x->memos = array(PREFIX_MEMOS, sizeof *x->memos, 0xff);
    x->outbox.events = malloc(PREFIX_EVENTS_MAX * sizeof *x->outbox.events);
    if (x->accounts.groups == NULL || !prefix_tier_init(x) ||
        !prefix_windows_init(x) || x->nodes == NULL || x->heap == NULL ||
        x->tokens == NULL || x->blocks == NULL || x->buckets == NULL ||
        x->node_of == NULL || !make_states(x) || x->accounts.tenants == NULL ||
        x->accounts.buckets == NULL || x->accounts.lowest[HEAP_LEAF] == NULL ||
        x->accounts.lowest[HEAP_STATE] == NULL || x->memos == NULL ||
        x->outbox.events == NULL) {
        prefix_free(out);
        return false;
    }
    pool->watch = (struct pool_watch){.self = x, .held = block_held};
    return true;
}

void prefix_free(struct prefix **out)
{
    struct prefix *x = *out;

    *out = NULL;
    if (x == NULL) {
        return;
    }
    if (x->pool->watch.self == x) {
        x->pool->watch = (struct pool_watch){0};
    }
    free(x->nodes);
    free(x->heap);
    free(x->tokens);
    free(x->blocks);
    free(x->buckets);
    free(x->node_of);
    prefix_windows_fini(x);
    free(x->extents.reserved);
    free(x->extents.numbers);
    free(x->accounts.tenants);
    free(x->accounts.groups);
    free(x->tier.copies);
    for (int h = 0; h < HEAPS; h++) {
        free(x->accounts.lowest[h]);
    }
    free(x->accounts.buckets);
    free(x->memos);
    free(x->outbox.events);
    free(x);
}

void prefix_set_key(struct prefix *x, const struct prefix_key *key)
{
    x->key = *key;
    prefix_rehash(x);
    prefix_events_clear(x);
}

void prefix_set_watch(struct prefix *x, const struct prefix_watch *w)
{
    x->watch = w != NULL ? *w : (struct prefix_watch){0};
}

void prefix_set_classes(struct prefix *x, bool has_blocks, bool has_states)
{
    prefix_clear(x);
    set_classes(x, has_blocks, has_states);
    prefix_events_clear(x);
}

bool prefix_has_states(const struct prefix *x)
{
    return x->o.has_states;
}

/* ---- match ---- */

static const struct prefix_hit no_hit = {
    .node = PREFIX_NONE, .checkpoint = SLOT_NONE, .host = HOST_NONE};

/* Counts a use: without states of the whole path, because each node serves by
 * itself; otherwise only of the state that is restored.  The other states of a
 * path did not serve, and refreshing them would evict better ones. */
static void use_path(struct prefix *x, uint32_t node)
{
    for (uint32_t i = x->tier.host != NULL ? node : PREFIX_NONE;
         i != PREFIX_NONE; i = x->nodes[i].parent) {
        prefix_use_copies(x, i);
    }
    prefix_use_windows(x, node);
    if (x->o.has_states) {
        prefix_use(x, node);
        return;
    }
    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        prefix_use(x, i);
    }
}

/* Returns the pages of a checkpoint that only the host tier has. */
static uint32_t state_pages(const struct prefix *x, uint32_t node)
{
    bool outside = x->nodes[node].checkpoint == SLOT_NONE &&
                   prefix_has_copy(x, node, PART_STATE);

    return outside ? x->checkpoint_pages : 0;
}

/* Returns the pages that a hit may bring back, but for its window pages. */
static uint32_t swaps_left(const struct prefix *x)
{
    uint32_t left = pool_swaps_left(x->pool);
    uint32_t windows = (x->windows.units + 1) * x->windows.unit;

    return left > windows ? left - windows : 0;
}

/* Walks down as long as tokens are equal, and writes the deepest restorable
 * node and the units that are there into hit. */
static void walk_down(struct prefix *x, uint32_t tenant,
                      const struct slab *slab, const struct paged *ids,
                      uint32_t n_units, struct prefix_hit *hit)
{
    struct prefix_hash hash = x->accounts.tenants[tenant].root;
    uint32_t tokens[PREFIX_UNIT], at = PREFIX_NONE, from = UINT32_MAX;
    uint32_t left = swaps_left(x), outside = 0, from_pool = UINT32_MAX;

    for (uint32_t i = 0; i < n_units; i++) {
        paged_read(slab, ids, i * PREFIX_UNIT, tokens, PREFIX_UNIT);
        hash = prefix_hash_next(&x->key, hash, tokens);
        at = prefix_child(x, tenant, at, hash, tokens);
        if (at == PREFIX_NONE) {
            return;
        }
        hit->branch = (i + 1) * PREFIX_UNIT;
        from = prefix_windows_from(x, at, from, false);
        from_pool = prefix_windows_from(x, at, from_pool, true);
        outside += x->nodes[at].outside ? x->unit_blocks : 0;
        if (prefix_is_restorable(x, at) &&
            from <= prefix_windows_need(x, i + 1) &&
            outside + state_pages(x, at) <= left) {
            hit->n_tokens = hit->branch;
            hit->node = at;
            if (outside + state_pages(x, at) == 0 &&
                from_pool <= prefix_windows_need(x, i + 1)) {
                hit->n_pool = hit->n_tokens;
            }
        }
    }
}

uint32_t prefix_path(struct prefix *x, const void *tenant, size_t n_tenant,
                     const struct slab *slab, const struct paged *ids,
                     uint32_t n, uint32_t *n_tokens)
{
    uint32_t t =
        x->o.on ? prefix_tenant_find(x, tenant, n_tenant) : PREFIX_NONE;
    uint32_t tokens[PREFIX_UNIT], at = PREFIX_NONE;
    struct prefix_hash hash;

    *n_tokens = 0;
    if (t == PREFIX_NONE) {
        return PREFIX_NONE;
    }
    hash = x->accounts.tenants[t].root;
    for (uint32_t i = 0; i < n / PREFIX_UNIT; i++) {
        uint32_t child;

        paged_read(slab, ids, i * PREFIX_UNIT, tokens, PREFIX_UNIT);
        hash = prefix_hash_next(&x->key, hash, tokens);
        child = prefix_child(x, t, at, hash, tokens);
        if (child == PREFIX_NONE) {
            break;
        }
        at = child;
        *n_tokens = (i + 1) * PREFIX_UNIT;
    }
    return at;
}

uint32_t prefix_find(struct prefix *x, const void *tenant, size_t n_tenant,
                     const struct slab *slab, const struct paged *ids,
                     uint32_t n)
{
    struct prefix_hit hit = no_hit;
    uint32_t t =
        x->o.on ? prefix_tenant_find(x, tenant, n_tenant) : PREFIX_NONE;

    if (t != PREFIX_NONE && n > PREFIX_UNIT) {
        walk_down(x, t, slab, ids, (n - 1) / PREFIX_UNIT, &hit);
    }
    return hit.node;
}

struct prefix_hit prefix_match(struct prefix *x, const void *tenant,
                               size_t n_tenant, const struct slab *slab,
                               const struct paged *ids, uint32_t n)
{
    struct prefix_hit hit = no_hit;
    uint32_t t;

    if (!x->o.on) {
        return hit;
    }
    x->figures.lookups++;
    x->figures.prompt_tokens += n;
    t = prefix_tenant_find(x, tenant, n_tenant);
    /* The last token is computed again, for its logits. */
    if (t != PREFIX_NONE && n > PREFIX_UNIT) {
        walk_down(x, t, slab, ids, (n - 1) / PREFIX_UNIT, &hit);
    }
    if (hit.node != PREFIX_NONE) {
        hit.checkpoint = x->nodes[hit.node].checkpoint;
        x->tier.pinned = hit.node;
        if (hit.checkpoint == SLOT_NONE) {
            hit.host = prefix_copy_at(x, hit.node, PART_STATE);
        }
        x->figures.hits++;
        x->figures.hit_tokens += hit.n_tokens;
        use_path(x, hit.node);
    }
    return hit;
}

bool prefix_is_inside(const struct prefix *x, uint32_t node)
{
    return !x->nodes[node].outside;
}

void prefix_blocks(const struct prefix *x, uint32_t node, uint32_t *out)
{
    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        memcpy(out + (size_t)(x->nodes[i].depth - 1) * x->unit_blocks,
               prefix_unit(x, i), x->unit_blocks * sizeof *out);
    }
}

/* ---- insert ---- */

/* What is inserted. */
struct prefix_source {
    const struct slab *slab;
    const struct paged *ids, *blocks;
};

/* Returns whether no block of a new unit below `parent` is in the index, here
 * and at the other stages: twins that differ within a unit share its first
 * blocks. */
static bool is_free(const struct prefix *x, uint32_t parent,
                    const uint32_t *blocks)
{
    uint32_t depth = parent == PREFIX_NONE ? 1 : x->nodes[parent].depth + 1;

    for (uint32_t i = 0; i < x->unit_blocks; i++) {
        if (x->pool->blocks[blocks[i]].indexed) {
            return false;
        }
    }
    return x->watch.keeps == NULL ||
           x->watch.keeps(x->watch.self, depth * PREFIX_UNIT);
}

/* Adds a unit below `parent`, which is marked, with all above it.  Returns
 * PREFIX_NONE if there is no room, or a block is in the index elsewhere. */
static uint32_t add_unit(struct prefix *x, uint32_t tenant, uint32_t parent,
                         struct prefix_hash hash, const uint32_t *tokens,
                         const uint32_t *blocks)
{
    if (!is_free(x, parent, blocks) ||
        !prefix_free_share(x, tenant, x->unit_blocks) ||
        !prefix_free_entry(x)) {
        return PREFIX_NONE;
    }
    return prefix_add(x, tenant, parent, hash, tokens, blocks);
}

/* Lets the blocks of a sequence be those of a node that has its own only in the
 * host tier.  Returns the node, or PREFIX_NONE as above. */
static uint32_t bring_unit(struct prefix *x, uint32_t tenant, uint32_t node,
                           const uint32_t *blocks)
{
    x->nodes[node].mark = x->walk;
    if (!is_free(x, x->nodes[node].parent, blocks) ||
        !prefix_free_share(x, tenant, x->unit_blocks)) {
        return PREFIX_NONE;
    }
    if (x->nodes[node].hole != x->hole) {
        prefix_drop_copy(x, node, PART_BLOCKS);
        x->nodes[node].hole = x->hole;
    }
    prefix_take_in(x, node, blocks);
    return node;
}

/* Returns whether the path to node, which it marks, has the first ids.  Without
 * hashes this is many times as fast as a walk from the root. */
static bool is_path(const struct prefix *x, uint32_t node,
                    const struct slab *slab, const struct paged *ids)
{
    uint32_t tokens[PREFIX_UNIT];

    for (; node != PREFIX_NONE; node = x->nodes[node].parent) {
        struct prefix_node *n = &x->nodes[node];

        paged_read(slab, ids, (n->depth - 1) * PREFIX_UNIT, tokens,
                   PREFIX_UNIT);
        if (memcmp(tokens, prefix_tokens(x, node), sizeof tokens) != 0) {
            return false;
        }
        n->mark = x->walk;
    }
    return true;
}

/* Returns the node where insertion begins: that of the last one, if it is still
 * there; PREFIX_NONE: at the root. */
static uint32_t recall(const struct prefix *x, uint32_t tenant,
                       const struct slab *slab, const struct paged *ids,
                       uint32_t n_units)
{
    const struct prefix_memo *m = &x->memos[ids->root % PREFIX_MEMOS];
    const struct prefix_node *n = prefix_at(x, m->node);

    if (m->root != ids->root || n->depth == 0 || n->depth > n_units ||
        n->tenant != tenant || n->outside || !is_path(x, m->node, slab, ids)) {
        return PREFIX_NONE;
    }
    return m->node;
}

/* Returns the node of a unit below node, which is made if need be. */
static uint32_t insert_unit(struct prefix *x, uint32_t tenant, uint32_t node,
                            const struct prefix_source *from, uint32_t unit)
{
    struct prefix_hash hash = node == PREFIX_NONE
                                  ? x->accounts.tenants[tenant].root
                                  : x->nodes[node].hash;
    uint32_t tokens[PREFIX_UNIT], blocks[PREFIX_UNIT], k = x->unit_blocks;
    uint32_t child;

    paged_read(from->slab, from->ids, unit * PREFIX_UNIT, tokens, PREFIX_UNIT);
    hash = prefix_hash_next(&x->key, hash, tokens);
    child = prefix_child(x, tenant, node, hash, tokens);
    if (child == PREFIX_NONE) {
        if (k > 0) {
            paged_read(from->slab, from->blocks, unit * k, blocks, k);
        }
        child = add_unit(x, tenant, node, hash, tokens, blocks);
    } else if (x->nodes[child].outside) {
        paged_read(from->slab, from->blocks, unit * k, blocks, k);
        child = bring_unit(x, tenant, child, blocks);
    }
    if (child != PREFIX_NONE) {
        x->nodes[child].mark = x->walk;
    }
    return child;
}

uint32_t prefix_insert(struct prefix *x, const void *tenant, size_t n_tenant,
                       const struct slab *slab, const struct paged *ids,
                       const struct paged *blocks, uint32_t end)
{
    struct prefix_source from = {slab, ids, blocks};
    uint32_t n_units = end / PREFIX_UNIT, node, t;

    if (!x->o.on || n_units == 0 ||
        (t = prefix_tenant_make(x, tenant, n_tenant)) == PREFIX_NONE) {
        return PREFIX_NONE;
    }
    x->walk++;
    node = recall(x, t, slab, ids, n_units);
    for (uint32_t i = node == PREFIX_NONE ? 0 : x->nodes[node].depth;
         i < n_units; i++) {
        node = insert_unit(x, t, node, &from, i);
        if (node == PREFIX_NONE) {
            return PREFIX_NONE;
        }
    }
    x->memos[ids->root % PREFIX_MEMOS] =
        (struct prefix_memo){.root = ids->root, .node = node};
    return node;
}

/* ---- removal ---- */

void prefix_forget(struct prefix *x, uint32_t node)
{
    uint32_t parent;

    if (node == PREFIX_NONE || x->nodes[node].depth == 0) {
        return;
    }
    parent = x->nodes[node].parent;
    prefix_remove_tree(x, node);
    while (parent != PREFIX_NONE && x->nodes[parent].child == PREFIX_NONE) {
        node = parent;
        parent = x->nodes[node].parent;
        prefix_remove(x, node);
    }
}

void prefix_clear(struct prefix *x)
{
    for (uint32_t t = 0; t < x->accounts.n; t++) {
        while (x->accounts.tenants[t].child != PREFIX_NONE) {
            prefix_remove_tree(x, x->accounts.tenants[t].child);
        }
    }
}

/* Removes nodes with blocks that are cached although something below is held:
 * a sequence that computed the same units again has its own blocks for them. */
static void free_below_held(struct prefix *x, const struct pool_need *need)
{
    for (uint32_t i = 0; i < x->n_fresh && !prefix_has_room(x, need); i++) {
        const struct prefix_node *n = &x->nodes[i];

        if (n->depth > 0 && !n->outside && n->n_held < x->unit_blocks) {
            prefix_remove_tree(x, i);
        }
    }
}

/* Removes nodes that are held here.  A removed sequence whose last plans run
 * holds its blocks here only: the other stages, which have freed theirs, count
 * them as cached. */
static void free_held(struct prefix *x, const struct pool_need *need)
{
    for (uint32_t i = 0; i < x->n_fresh && !prefix_has_room(x, need); i++) {
        if (x->nodes[i].depth > 0) {
            prefix_remove_tree(x, i);
        }
    }
}

void prefix_make_room(struct prefix *x, const struct pool_need *need,
                      uint32_t spare)
{
    if (prefix_has_room(x, need)) {
        return;
    }
    prefix_mark(x, spare);
    if (prefix_free_pages(x, need)) {
        return;
    }
    /* Everything that is cached was promised to the router. */
    x->walk++;
    if (!prefix_free_pages(x, need)) {
        free_below_held(x, need);
        prefix_take_back(x, need);
        if (x->watch.fits != NULL) {
            free_held(x, need);
        }
    }
}

/* ---- figures and checks ---- */

struct prefix_figures prefix_figures(const struct prefix *x)
{
    return x->figures;
}

uint32_t prefix_tenant_pages(const struct prefix *x, uint32_t *most)
{
    uint32_t pages[PREFIX_TENANTS_MAX] = {0}, largest = 0;

    for (uint32_t i = 0; i < x->n_fresh; i++) {
        const struct prefix_node *n = &x->nodes[i];
        uint32_t *sum;

        if (n->depth == 0) {
            continue;
        }
        sum = &pages[x->accounts.tenants[n->tenant].group];
        *sum += n->outside ? 0 : x->unit_blocks;
        *sum += n->checkpoint == SLOT_NONE ? 0 : x->checkpoint_pages;
        *sum += prefix_windows_of(x, i);
        largest = *sum > largest ? *sum : largest;
    }
    *most = x->most_pages;
    return largest;
}

void prefix_walk(const struct prefix *x,
                 void (*each)(void *ctx, enum pool_class c, uint32_t number),
                 void *ctx)
{
    for (uint32_t i = 0; i < x->n_fresh; i++) {
        const struct prefix_node *n = &x->nodes[i];

        if (n->depth == 0) {
            continue;
        }
        for (uint32_t k = 0; !n->outside && k < x->unit_blocks; k++) {
            each(ctx, POOL_BLOCKS, prefix_unit(x, i)[k]);
        }
        if (n->checkpoint != SLOT_NONE && x->checkpoint_pages > 0) {
            each(ctx, POOL_CHECKPOINTS, n->checkpoint);
        }
        for (uint32_t k = 0; k < prefix_windows_of(x, i); k++) {
            each(ctx, POOL_WINDOWS,
                 x->windows.pages[(size_t)i * x->windows.unit + k]);
        }
    }
    for (uint32_t i = 0;
         x->checkpoint_pages > 0 && i < x->pool->places.n_extents; i++) {
        if (x->extents.reserved[i] == RESERVED) {
            each(ctx, POOL_CHECKPOINTS, i * x->checkpoint_pages);
        }
    }
}
