/* Window pages of the nodes of the prefix index.
 *
 * A prompt that goes on behind a node needs the window pages of the nodes that
 * its window reaches.  Further up, only a request that goes back to there needs
 * them: such pages are spent, unless the node is a branch point.  Nodes with
 * window pages are in a list by use, the least recently used first. */
#include <stdlib.h>
#include <string.h>

#include "worker/cache/prefix_state.h"

bool prefix_windows_init(struct prefix *x)
{
    const struct prefix_options *o = &x->o;
    size_t pages = x->pool->o.n_pages, nodes = (size_t)o->n_nodes + 1;

    for (int i = 0; i < WINDOWS_USES; i++) {
        x->lists[i] = (struct prefix_link){PREFIX_NONE, PREFIX_NONE};
    }
    /* A window of one position sees nothing before it. */
    if (o->window_pages == 0 || o->window < 2) {
        return true;
    }
    x->unit_windows = PREFIX_UNIT / o->block_tokens * o->window_pages;
    x->window_units = (o->window + PREFIX_UNIT - 2) / PREFIX_UNIT;
    x->windows = malloc(nodes * x->unit_windows * sizeof *x->windows);
    x->window_of = malloc((pages + 1) * sizeof *x->window_of);
    x->links = malloc(nodes * sizeof *x->links);
    return x->windows != NULL && x->window_of != NULL && x->links != NULL;
}

void prefix_windows_fini(struct prefix *x)
{
    free(x->windows);
    free(x->window_of);
    free(x->links);
}

uint32_t prefix_window_units(const struct prefix *x, uint32_t depth)
{
    uint32_t end = depth * PREFIX_UNIT, first;

    if (x->unit_windows == 0) {
        return 0;
    }
    first = end < x->o.window ? 0 : end - x->o.window + 1;
    return depth - first / PREFIX_UNIT;
}

static uint32_t *pages_of(const struct prefix *x, uint32_t node)
{
    return x->windows + (size_t)node * x->unit_windows;
}

/* ---- lists ---- */

static void unlink_windows(struct prefix *x, uint32_t node)
{
    struct prefix_link *l = &x->lists[x->nodes[node].windows];
    struct prefix_link *n = &x->links[node];

    if (n->prev != PREFIX_NONE) {
        x->links[n->prev].next = n->next;
    } else {
        l->next = n->next;
    }
    if (n->next != PREFIX_NONE) {
        x->links[n->next].prev = n->prev;
    } else {
        l->prev = n->prev;
    }
}

/* Appends the node, which is in no list. */
static void link_windows(struct prefix *x, uint32_t node,
                         enum prefix_windows_use use)
{
    struct prefix_link *l = &x->lists[use];

    x->links[node] = (struct prefix_link){l->prev, PREFIX_NONE};
    if (l->prev != PREFIX_NONE) {
        x->links[l->prev].next = node;
    } else {
        l->next = node;
    }
    l->prev = node;
    x->nodes[node].windows = (uint8_t)use;
}

static void move_windows(struct prefix *x, uint32_t node,
                         enum prefix_windows_use use)
{
    if (x->nodes[node].windows != WINDOWS_NONE) {
        unlink_windows(x, node);
        link_windows(x, node, use);
    }
}

/* Returns the node `units` above, PREFIX_NONE if there is none. */
static uint32_t above(const struct prefix *x, uint32_t node, uint32_t units)
{
    while (node != PREFIX_NONE && units-- > 0) {
        node = x->nodes[node].parent;
    }
    return node;
}

static bool is_branch(const struct prefix *x, uint32_t node)
{
    uint32_t child = x->nodes[node].child;

    return child != PREFIX_NONE && x->nodes[child].next != PREFIX_NONE;
}

/* The node can be gone on from: those that only its own window needed are
 * spent. */
static void spend_above(struct prefix *x, uint32_t node)
{
    uint32_t old = above(x, node, x->window_units);

    if (old != PREFIX_NONE && !is_branch(x, old)) {
        move_windows(x, old, WINDOWS_SPENT);
    }
}

void prefix_use_windows(struct prefix *x, uint32_t node)
{
    for (uint32_t i = 0; i < x->window_units && node != PREFIX_NONE;
         i++, node = x->nodes[node].parent) {
        move_windows(x, node, WINDOWS_LIVE);
    }
}

/* ---- pages ---- */

void prefix_put_windows(struct prefix *x, uint32_t node, const uint32_t *pages)
{
    struct prefix_node *n = &x->nodes[node];
    struct prefix_group *g = prefix_group_of(x, n->tenant);

    if (!x->o.on || x->unit_windows == 0 || n->windows != WINDOWS_NONE ||
        (uint64_t)g->pages + x->unit_windows > x->most_pages) {
        return;
    }
    for (uint32_t i = 0; i < x->unit_windows; i++) {
        if (x->pool->blocks[pages[i]].indexed) {
            return;
        }
    }
    memcpy(pages_of(x, node), pages, x->unit_windows * sizeof *pages);
    for (uint32_t i = 0; i < x->unit_windows; i++) {
        pool_index(x->pool, pages[i]);
        x->window_of[pages[i]] = node;
    }
    g->pages += x->unit_windows;
    link_windows(x, node, WINDOWS_LIVE);
    spend_above(x, node);
    prefix_place(x, node);
    if (prefix_is_restorable(x, n)) {
        prefix_event(x, node, true);
    }
}

void prefix_drop_windows(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];

    if (n->windows == WINDOWS_NONE) {
        return;
    }
    if (prefix_is_restorable(x, n)) {
        prefix_event(x, node, false);
    }
    unlink_windows(x, node);
    n->windows = WINDOWS_NONE;
    prefix_group_of(x, n->tenant)->pages -= x->unit_windows;
    for (uint32_t i = 0; i < x->unit_windows; i++) {
        pool_unindex(x->pool, pages_of(x, node)[i]);
    }
    prefix_place(x, node);
}

void prefix_drop_window(struct prefix *x, uint32_t page)
{
    prefix_drop_windows(x, x->window_of[page]);
}

bool prefix_evict_windows(struct prefix *x, enum prefix_windows_use use)
{
    uint32_t node = x->lists[use].next;

    while (node != PREFIX_NONE && x->nodes[node].mark == x->walk) {
        node = x->links[node].next;
    }
    if (node == PREFIX_NONE) {
        return false;
    }
    prefix_drop_windows(x, node);
    return true;
}

bool prefix_free_page(struct prefix *x)
{
    static const struct pool_need one = {{0, 0, 0, 1}};

    x->walk++;
    return prefix_free_pages(x, &one);
}

/* ---- for a hit ---- */

void prefix_windows(const struct prefix *x, uint32_t node, uint32_t first,
                    uint32_t *out)
{
    uint32_t per = PREFIX_UNIT / x->o.block_tokens, tables = x->o.window_pages;

    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        uint32_t begin = (x->nodes[i].depth - 1) * per;
        uint32_t from = first > begin ? first - begin : 0;

        if (from < per) {
            memcpy(out + (size_t)(begin + from - first) * tables,
                   pages_of(x, i) + (size_t)from * tables,
                   (size_t)(per - from) * tables * sizeof *out);
        }
        if (begin <= first) {
            return;
        }
    }
}

void prefix_units(const struct prefix *x, uint32_t node, uint32_t *out)
{
    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        out[x->nodes[i].depth - 1] = i;
    }
}
