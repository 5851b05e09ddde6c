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

static uint32_t blocks_per_unit(const struct prefix *x)
{
    return PREFIX_UNIT / x->o.block_tokens;
}

uint32_t prefix_windows_from(const struct prefix *x, uint32_t node,
                             uint32_t above)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t begin;

    if (x->unit_windows == 0) {
        return 0;
    }
    begin = (n->depth - 1) * blocks_per_unit(x);
    if (n->windows == WINDOWS_NONE) {
        return UINT32_MAX;
    }
    return n->window_at > 0 || above > begin ? begin + n->window_at : above;
}

uint32_t prefix_windows_need(const struct prefix *x, uint32_t depth)
{
    uint32_t end = depth * PREFIX_UNIT;

    return end < x->o.window ? 0 : (end - x->o.window + 1) / x->o.block_tokens;
}

uint32_t prefix_windows_of(const struct prefix *x, uint32_t node)
{
    const struct prefix_node *n = &x->nodes[node];

    return n->windows == WINDOWS_NONE
               ? 0
               : x->unit_windows - n->window_at * x->o.window_pages;
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

static bool is_branch(const struct prefix *x, uint32_t node)
{
    uint32_t child = x->nodes[node].child;

    return child != PREFIX_NONE && x->nodes[child].next != PREFIX_NONE;
}

/* A prompt can go on at the node: the first one above that its window does not
 * reach is spent, unless the window of a branch point in between does. */
static void spend_above(struct prefix *x, uint32_t node)
{
    bool branch = false;

    for (uint32_t i = 0; i < x->window_units && node != PREFIX_NONE; i++) {
        node = x->nodes[node].parent;
        branch = branch || (node != PREFIX_NONE && is_branch(x, node));
    }
    if (node != PREFIX_NONE && !branch) {
        move_windows(x, node, WINDOWS_SPENT);
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

/* Returns whether the pages may become those of the node. */
static bool can_put(const struct prefix *x, uint32_t node,
                    const uint32_t *pages, uint32_t first)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t begin = (n->depth - 1) * blocks_per_unit(x);
    uint32_t need = prefix_windows_need(x, n->depth);
    uint32_t n_pages = x->unit_windows - first * x->o.window_pages;

    if (n->windows != WINDOWS_NONE || (first > 0 && begin + first > need) ||
        (uint64_t)prefix_group_of(x, n->tenant)->pages + n_pages >
            x->most_pages) {
        return false;
    }
    for (uint32_t i = 0; i < n_pages; i++) {
        if (x->pool->blocks[pages[i]].indexed) {
            return false;
        }
    }
    return true;
}

void prefix_put_windows(struct prefix *x, uint32_t node, const uint32_t *pages,
                        uint32_t first)
{
    struct prefix_node *n = &x->nodes[node];
    uint32_t n_pages;

    if (!x->o.on || x->unit_windows == 0 || !can_put(x, node, pages, first)) {
        return;
    }
    n->window_at = (uint8_t)first;
    link_windows(x, node, WINDOWS_LIVE);
    n_pages = prefix_windows_of(x, node);
    memcpy(pages_of(x, node), pages, n_pages * sizeof *pages);
    for (uint32_t i = 0; i < n_pages; i++) {
        pool_index(x->pool, pages[i]);
        x->window_of[pages[i]] = node;
    }
    prefix_group_of(x, n->tenant)->pages += n_pages;
    spend_above(x, node);
    prefix_place(x, node);
    if (prefix_is_restorable(x, n)) {
        prefix_event(x, node, true);
    }
}

void prefix_drop_windows(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];
    uint32_t n_pages = prefix_windows_of(x, node);

    if (n->windows == WINDOWS_NONE) {
        return;
    }
    if (prefix_is_restorable(x, n)) {
        prefix_event(x, node, false);
    }
    unlink_windows(x, node);
    n->windows = WINDOWS_NONE;
    prefix_group_of(x, n->tenant)->pages -= n_pages;
    for (uint32_t i = 0; i < n_pages; i++) {
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
    uint32_t per = blocks_per_unit(x), tables = x->o.window_pages;

    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        uint32_t begin = (x->nodes[i].depth - 1) * per;
        uint32_t from = first > begin ? first - begin : 0;
        uint32_t skip = from - x->nodes[i].window_at;

        if (from < per) {
            memcpy(out + (size_t)(begin + from - first) * tables,
                   pages_of(x, i) + (size_t)skip * tables,
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
