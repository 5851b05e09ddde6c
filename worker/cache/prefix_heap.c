/* Pairing heaps (Fredman, Sedgewick, Sleator and Tarjan, 1986): a node enters
 * in constant time and leaves in logarithmic time, amortised, from any place,
 * and the heaps of all tenants need no array. */
#include <assert.h>

#include "worker/cache/prefix_state.h"

static uint32_t meld(struct prefix *x, uint32_t a, uint32_t b)
{
    struct prefix_node *first, *other;
    uint32_t low = a, high = b;

    if (a == PREFIX_NONE || b == PREFIX_NONE) {
        return a == PREFIX_NONE ? b : a;
    }
    if (x->nodes[b].key < x->nodes[a].key) {
        low = b;
        high = a;
    }
    first = &x->nodes[low];
    other = &x->nodes[high];
    other->heap_prev = low;
    other->heap_next = first->heap_child;
    if (other->heap_next != PREFIX_NONE) {
        x->nodes[other->heap_next].heap_prev = high;
    }
    first->heap_child = high;
    return low;
}

/* Melds the siblings from n on, in pairs and then from the last pair back. */
static uint32_t meld_siblings(struct prefix *x, uint32_t n)
{
    uint32_t pairs = PREFIX_NONE, root = PREFIX_NONE;

    while (n != PREFIX_NONE) {
        uint32_t other = x->nodes[n].heap_next, next = PREFIX_NONE, pair;

        x->nodes[n].heap_next = PREFIX_NONE;
        if (other != PREFIX_NONE) {
            next = x->nodes[other].heap_next;
            x->nodes[other].heap_next = PREFIX_NONE;
        }
        pair = meld(x, n, other);
        x->nodes[pair].heap_next = pairs;
        pairs = pair;
        n = next;
    }
    while (pairs != PREFIX_NONE) {
        uint32_t next = x->nodes[pairs].heap_next;

        x->nodes[pairs].heap_next = PREFIX_NONE;
        root = meld(x, root, pairs);
        pairs = next;
    }
    if (root != PREFIX_NONE) {
        x->nodes[root].heap_prev = PREFIX_NONE;
    }
    return root;
}

_Static_assert((PREFIX_TENANTS_MAX & (PREFIX_TENANTS_MAX - 1)) == 0,
               "the tournament is a full tree");

/* Sets the root of a heap.  Every eviction asks for the lowest root of all
 * tenants, so the winners of each pair of roots are kept. */
static void set_root(struct prefix *x, enum prefix_heap h, uint32_t tenant,
                     uint32_t root)
{
    uint32_t *t = x->lowest[h];

    x->tenants[tenant].heaps[h] = root;
    t[PREFIX_TENANTS_MAX + tenant] = root;
    for (uint32_t i = (PREFIX_TENANTS_MAX + tenant) / 2; i > 0; i /= 2) {
        uint32_t a = t[2 * i], b = t[2 * i + 1];

        t[i] = a == PREFIX_NONE ||
                       (b != PREFIX_NONE && x->nodes[b].key < x->nodes[a].key)
                   ? b
                   : a;
    }
}

void prefix_heap_add(struct prefix *x, uint32_t node, enum prefix_heap h)
{
    struct prefix_node *n = &x->nodes[node];
    uint32_t root = x->tenants[n->tenant].heaps[h], low;

    assert(n->heap == HEAP_NONE);
    n->heap = (uint8_t)h;
    n->heap_child = n->heap_next = n->heap_prev = PREFIX_NONE;
    low = meld(x, root, node);
    if (low != root) {
        set_root(x, h, n->tenant, low);
    }
}

void prefix_heap_drop(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];
    enum prefix_heap h = (enum prefix_heap)n->heap;
    uint32_t root, below, low;

    if (n->heap >= HEAPS) {
        return;
    }
    root = x->tenants[n->tenant].heaps[h];
    below = meld_siblings(x, n->heap_child);
    n->heap = HEAP_NONE;
    if (root == node) {
        set_root(x, h, n->tenant, below);
        return;
    }
    /* heap_prev is the sibling before it, or the parent of the first. */
    if (x->nodes[n->heap_prev].heap_child == node) {
        x->nodes[n->heap_prev].heap_child = n->heap_next;
    } else {
        x->nodes[n->heap_prev].heap_next = n->heap_next;
    }
    if (n->heap_next != PREFIX_NONE) {
        x->nodes[n->heap_next].heap_prev = n->heap_prev;
    }
    low = meld(x, root, below);
    if (low != root) {
        set_root(x, h, n->tenant, low);
    }
}
