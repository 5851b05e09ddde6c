/* Nodes, tenants and the hash table of the prefix index. */
#include <assert.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/prefix.h"
#include "worker/cache/prefix_state.h"

#define TENANT_BUCKETS (2 * PREFIX_TENANTS_MAX)

/* ---- nodes ---- */

static uint32_t *bucket_of(const struct prefix *x, struct prefix_hash h)
{
    return &x->buckets[h.lo & x->mask];
}

uint32_t prefix_child(const struct prefix *x, uint32_t tenant, uint32_t parent,
                      struct prefix_hash hash, const uint32_t *tokens)
{
    uint32_t i = *bucket_of(x, hash);

    /* The hash finds, the tokens decide: memory is reused, so that equal hashes
     * are not enough. */
    for (; i != PREFIX_NONE; i = x->nodes[i].chain) {
        const struct prefix_node *n = &x->nodes[i];

        if (prefix_hash_same(n->hash, hash) && n->parent == parent &&
            (n->tenant == tenant || PLANT(HASH_WITHOUT_TENANT)) &&
            memcmp(prefix_tokens(x, i), tokens, PREFIX_UNIT * sizeof *tokens) ==
                0) {
            return i;
        }
    }
    return PREFIX_NONE;
}

/* Siblings are a list, not a table: the hash table finds a child, and the list
 * is walked only when a whole tree goes. */
static uint32_t *first_child(struct prefix *x, const struct prefix_node *n)
{
    return n->parent == PREFIX_NONE ? &x->accounts.tenants[n->tenant].child
                                    : &x->nodes[n->parent].child;
}

static void link_node(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];
    uint32_t *first = first_child(x, n), *bucket = bucket_of(x, n->hash);

    n->prev = PREFIX_NONE;
    n->next = *first;
    if (n->next != PREFIX_NONE) {
        x->nodes[n->next].prev = node;
    }
    *first = node;
    n->chain = *bucket;
    *bucket = node;
}

static void unchain(struct prefix *x, uint32_t node)
{
    uint32_t *at = bucket_of(x, x->nodes[node].hash);

    while (*at != node) {
        at = &x->nodes[*at].chain;
    }
    *at = x->nodes[node].chain;
}

static void unlink_node(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];

    if (n->prev != PREFIX_NONE) {
        x->nodes[n->prev].next = n->next;
    } else {
        *first_child(x, n) = n->next;
    }
    if (n->next != PREFIX_NONE) {
        x->nodes[n->next].prev = n->prev;
    }
    unchain(x, node);
}

bool prefix_has_entry(const struct prefix *x)
{
    return x->free_node != PREFIX_NONE || x->n_fresh < x->o.n_nodes;
}

/* Entries that were never used come last, so that an index that stays small
 * touches little of its memory. */
static uint32_t entry_take(struct prefix *x)
{
    uint32_t node = x->free_node;

    if (node == PREFIX_NONE) {
        assert(x->n_fresh < x->o.n_nodes);
        return x->n_fresh++;
    }
    x->free_node = x->nodes[node].chain;
    return node;
}

void prefix_index_blocks(struct prefix *x, uint32_t node,
                         const uint32_t *blocks)
{
    struct prefix_node *n = &x->nodes[node];

    for (uint32_t i = 0; i < x->unit_blocks; i++) {
        prefix_unit(x, node)[i] = blocks[i];
        x->node_of[blocks[i]] = node;
        pool_index(x->pool, blocks[i]);
        n->n_held =
            (uint8_t)(n->n_held + (x->pool->blocks[blocks[i]].refs > 0));
    }
    prefix_group_of(x, n->tenant)->pages += x->unit_blocks;
    if (n->parent != PREFIX_NONE) {
        x->nodes[n->parent].n_inside++;
    }
}

void prefix_unindex_blocks(struct prefix *x, uint32_t node)
{
    const struct prefix_node *n = &x->nodes[node];

    for (uint32_t i = 0; i < x->unit_blocks; i++) {
        pool_unindex(x->pool, prefix_unit(x, node)[i]);
        x->node_of[prefix_unit(x, node)[i]] = PREFIX_NONE;
    }
    prefix_group_of(x, n->tenant)->pages -= x->unit_blocks;
    if (n->parent != PREFIX_NONE) {
        x->nodes[n->parent].n_inside--;
    }
}

uint32_t prefix_add(struct prefix *x, uint32_t tenant, uint32_t parent,
                    struct prefix_hash hash, const uint32_t *tokens,
                    const uint32_t *blocks)
{
    uint32_t node = entry_take(x);
    struct prefix_node *n = &x->nodes[node];

    *n = (struct prefix_node){
        .hash = hash,
        .parent = parent,
        .child = PREFIX_NONE,
        .depth = parent == PREFIX_NONE ? 1 : x->nodes[parent].depth + 1,
        .checkpoint = SLOT_NONE,
        .stamp = x->age,
        .mark = x->walk,
        .tenant = (uint16_t)tenant,
        .heap = HEAP_NONE,
        .hole = x->hole};
    memcpy(x->tokens + (size_t)node * PREFIX_UNIT, tokens,
           PREFIX_UNIT * sizeof *tokens);
    prefix_tier_begin(x, node);
    prefix_index_blocks(x, node, blocks);
    link_node(x, node);
    x->accounts.tenants[tenant].n_nodes++;
    x->figures.n_nodes++;
    x->figures.inserted++;
    /* The parent is no leaf any more. */
    if (parent != PREFIX_NONE) {
        prefix_place(x, parent);
    }
    prefix_place(x, node);
    if (prefix_is_restorable(x, node)) {
        prefix_event(x, node, true);
    }
    if (x->watch.added != NULL) {
        x->watch.added(x->watch.self, node, parent, n->depth * PREFIX_UNIT);
    }
    return node;
}

void prefix_set_hole(struct prefix *x, bool hole)
{
    x->hole = hole;
}

bool prefix_has_hole(const struct prefix *x, uint32_t node)
{
    while (node != PREFIX_NONE && !x->nodes[node].hole) {
        node = x->nodes[node].parent;
    }
    return node != PREFIX_NONE;
}

void prefix_remove(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];
    struct prefix_tenant *t = &x->accounts.tenants[n->tenant];
    uint32_t parent = n->parent;

    assert(n->child == PREFIX_NONE);
    prefix_drop_windows(x, node);
    if (prefix_has_state(x, node)) {
        prefix_drop_checkpoint(x, node);
    }
    if (x->watch.gone != NULL) {
        x->watch.gone(x->watch.self, node, SLOT_NONE);
    }
    if (prefix_is_restorable(x, node)) {
        prefix_event(x, node, false);
    }
    prefix_unplace(x, node);
    unlink_node(x, node);
    if (!n->outside) {
        prefix_unindex_blocks(x, node);
    }
    prefix_drop_copy(x, node, PART_BLOCKS);
    t->n_nodes--;
    x->figures.n_nodes--;
    x->figures.evicted++;
    /* Depth 0 is what marks the entry as free, for those who have its number
     * still: memos, and the results of plans in flight. */
    n->depth = 0;
    n->chain = x->free_node;
    x->free_node = node;
    if (parent != PREFIX_NONE) {
        prefix_place(x, parent);
    }
}

/* Goes down to a leaf and up again: a tree may be as deep as the context has
 * units, which is too deep for a recursive function. */
void prefix_remove_tree(struct prefix *x, uint32_t node)
{
    uint32_t at = node;

    for (;;) {
        uint32_t parent = x->nodes[at].parent;

        if (x->nodes[at].child != PREFIX_NONE) {
            at = x->nodes[at].child;
            continue;
        }
        prefix_remove(x, at);
        if (at == node) {
            return;
        }
        at = parent;
    }
}

/* ---- checkpoints ---- */

/* Every node counts the checkpoints below it, because eviction asks at each
 * node whether a deeper one supersedes it. */
static void count_states(struct prefix *x, uint32_t node, uint32_t change)
{
    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        x->nodes[i].n_states += change;
    }
}

/* Returns the nearest node above that has a checkpoint. */
static uint32_t state_above(const struct prefix *x, uint32_t node)
{
    uint32_t i = x->nodes[node].parent;

    while (i != PREFIX_NONE && !prefix_has_state(x, i)) {
        i = x->nodes[i].parent;
    }
    return i;
}

void prefix_set_checkpoint(struct prefix *x, uint32_t node, uint32_t page)
{
    uint32_t above = state_above(x, node);
    bool had = prefix_has_state(x, node);

    x->nodes[node].checkpoint = page;
    x->nodes[node].stamp = x->age;
    count_states(x, node, had ? 0 : 1);
    prefix_group_of(x, x->nodes[node].tenant)->pages += x->checkpoint_pages;
    x->figures.n_checkpoints++;
    prefix_place(x, node);
    /* Its checkpoint may be superseded now. */
    if (above != PREFIX_NONE) {
        prefix_place(x, above);
    }
    if (!had && prefix_is_restorable(x, node)) {
        prefix_event(x, node, true);
    }
}

void prefix_drop_checkpoint(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];

    /* The event has the hash of a node that may go next: it comes first. */
    if (prefix_is_restorable(x, node)) {
        prefix_event(x, node, false);
    }
    if (n->checkpoint != SLOT_NONE) {
        prefix_give_state(x, n->checkpoint);
        n->checkpoint = SLOT_NONE;
        prefix_group_of(x, n->tenant)->pages -= x->checkpoint_pages;
        x->figures.n_checkpoints--;
    }
    prefix_drop_copy(x, node, PART_STATE);
    count_states(x, node, UINT32_MAX);
    x->figures.evicted_checkpoints++;
    prefix_place(x, node);
}

/* ---- tenants ---- */

static struct prefix_hash root_of(const struct prefix *x, const void *name,
                                  size_t n)
{
    return prefix_hash_root(&x->key, name, PLANT(HASH_WITHOUT_TENANT) ? 0 : n);
}

static uint32_t *tenant_bucket(const struct prefix *x, struct prefix_hash h)
{
    return &x->accounts.buckets[h.lo % TENANT_BUCKETS];
}

uint32_t prefix_tenant_find(struct prefix *x, const void *name, size_t n)
{
    struct prefix_hash root = root_of(x, name, n);
    uint32_t i = *tenant_bucket(x, root);

    for (; i != PREFIX_NONE; i = x->accounts.tenants[i].chain) {
        const struct prefix_tenant *t = &x->accounts.tenants[i];

        if (t->n_name == n && (n == 0 || memcmp(t->name, name, n) == 0)) {
            x->accounts.tenants[i].last_use = ++x->clock;
            return i;
        }
    }
    return PREFIX_NONE;
}

static void tenant_chain(struct prefix *x, uint32_t i)
{
    uint32_t *bucket = tenant_bucket(x, x->accounts.tenants[i].root);

    x->accounts.tenants[i].chain = *bucket;
    *bucket = i;
}

static void tenant_unchain(struct prefix *x, uint32_t i)
{
    uint32_t *at = tenant_bucket(x, x->accounts.tenants[i].root);

    while (*at != i) {
        at = &x->accounts.tenants[*at].chain;
    }
    *at = x->accounts.tenants[i].chain;
}

/* Returns the bytes of a scope that are the tenant's name. */
static size_t name_bytes(const void *scope, size_t n)
{
    const char *salt = n > 0 ? memchr(scope, 0, n) : NULL;

    return salt == NULL ? n : (size_t)(salt - (const char *)scope);
}

/* Returns the group of the tenant of a scope, one without scopes if it is new;
 * there are as many groups as scopes. */
static uint32_t group_find(const struct prefix *x, const void *scope, size_t n)
{
    uint32_t g = 0;

    n = name_bytes(scope, n);
    for (uint32_t i = 0; i < x->accounts.n; i++) {
        const struct prefix_tenant *t = &x->accounts.tenants[i];

        if (t->group != PREFIX_NONE && name_bytes(t->name, t->n_name) == n &&
            (n == 0 || memcmp(t->name, scope, n) == 0)) {
            return t->group;
        }
    }
    while (x->accounts.groups[g].n_scopes > 0) {
        g++;
    }
    return g;
}

static void group_join(struct prefix *x, uint32_t g, uint32_t i)
{
    struct prefix_group *group = &x->accounts.groups[g];

    x->accounts.tenants[i].group = g;
    x->accounts.tenants[i].group_next =
        group->n_scopes > 0 ? group->first : PREFIX_NONE;
    group->first = i;
    group->n_scopes++;
}

static void group_leave(struct prefix *x, uint32_t i)
{
    struct prefix_group *group = prefix_group_of(x, i);
    uint32_t *at = &group->first;

    while (*at != i) {
        at = &x->accounts.tenants[*at].group_next;
    }
    *at = x->accounts.tenants[i].group_next;
    group->n_scopes--;
    x->accounts.tenants[i].group = PREFIX_NONE;
}

/* Returns whether scope a is forgotten rather than b: that of a tenant with
 * more scopes, or the one used longest ago. */
static bool goes_before(const struct prefix *x, uint32_t a, uint32_t b)
{
    uint32_t n_a = prefix_group_of(x, a)->n_scopes;
    uint32_t n_b = prefix_group_of(x, b)->n_scopes;

    return n_a != n_b ? n_a > n_b
                      : x->accounts.tenants[a].last_use <
                            x->accounts.tenants[b].last_use;
}

/* Returns an entry for a scope: a fresh one, or that of a scope which is
 * forgotten, whose nodes go. */
static uint32_t tenant_entry(struct prefix *x)
{
    uint32_t victim = 0;

    if (x->accounts.n < PREFIX_TENANTS_MAX) {
        x->figures.n_tenants++;
        x->accounts.tenants[x->accounts.n].group = PREFIX_NONE;
        return x->accounts.n++;
    }
    for (uint32_t i = 1; i < PREFIX_TENANTS_MAX; i++) {
        victim = goes_before(x, i, victim) ? i : victim;
    }
    while (x->accounts.tenants[victim].child != PREFIX_NONE) {
        prefix_remove_tree(x, x->accounts.tenants[victim].child);
    }
    tenant_unchain(x, victim);
    group_leave(x, victim);
    return victim;
}

uint32_t prefix_tenant_make(struct prefix *x, const void *name, size_t n)
{
    uint32_t i = prefix_tenant_find(x, name, n);
    struct prefix_tenant *t;
    uint32_t group;

    if (i != PREFIX_NONE || n > PREFIX_SCOPE_MAX) {
        return i;
    }
    i = tenant_entry(x);
    group = group_find(x, name, n);
    t = &x->accounts.tenants[i];
    *t = (struct prefix_tenant){.n_name = (uint8_t)n,
                                .root = root_of(x, name, n),
                                .child = PREFIX_NONE,
                                .last_use = ++x->clock,
                                .heaps = {PREFIX_NONE, PREFIX_NONE}};
    if (n > 0) {
        memcpy(t->name, name, n);
    }
    tenant_chain(x, i);
    group_join(x, group, i);
    return i;
}

/* ---- a new key ---- */

/* Returns the node after `node` when parents come before their children. */
static uint32_t next_in_tree(const struct prefix *x, uint32_t node)
{
    uint32_t i = node;

    if (x->nodes[i].child != PREFIX_NONE) {
        return x->nodes[i].child;
    }
    while (i != PREFIX_NONE && x->nodes[i].next == PREFIX_NONE) {
        i = x->nodes[i].parent;
    }
    return i == PREFIX_NONE ? PREFIX_NONE : x->nodes[i].next;
}

/* Tokens are kept for this, too: a new router has another key, and what is
 * computed stays usable. */
void prefix_rehash(struct prefix *x)
{
    memset(x->buckets, 0xff, ((size_t)x->mask + 1) * sizeof *x->buckets);
    memset(x->accounts.buckets, 0xff, TENANT_BUCKETS * sizeof(uint32_t));
    for (uint32_t t = 0; t < x->accounts.n; t++) {
        struct prefix_tenant *tenant = &x->accounts.tenants[t];
        uint32_t i = tenant->child;

        tenant->root = root_of(x, tenant->name, tenant->n_name);
        tenant_chain(x, t);
        for (; i != PREFIX_NONE; i = next_in_tree(x, i)) {
            struct prefix_node *n = &x->nodes[i];
            struct prefix_hash above = n->parent == PREFIX_NONE
                                           ? tenant->root
                                           : x->nodes[n->parent].hash;

            n->hash = prefix_hash_next(&x->key, above, prefix_tokens(x, i));
            n->chain = *bucket_of(x, n->hash);
            *bucket_of(x, n->hash) = i;
        }
    }
}
