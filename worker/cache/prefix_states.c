/* Checkpoints of the prefix index: where they are wanted, their memory, and
 * reservations.  Window pages of its nodes.
 *
 * A reservation that prefix_make_room() takes back is still named by a plan.
 * Its memory may be used again, because plans run in order; but it is not
 * reserved again before its prefix_put() or prefix_drop() has come, which would
 * otherwise be taken for those of the new reservation. */
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/prefix.h"
#include "worker/cache/prefix_state.h"

/* Returns the distance of checkpoints on the grid near a position: an eighth of
 * the depth, and never closer than a checkpoint is large. */
static uint32_t grid_at(const struct prefix *x, uint32_t position)
{
    uint64_t size = (uint64_t)x->checkpoint_pages * x->o.block_tokens;
    uint64_t grid = PREFIX_GRID_MIN;

    while (x->unit_blocks > 0 && grid < size) {
        grid *= 2;
    }
    while (grid * 16 <= position) {
        grid *= 2;
    }
    return grid < UINT32_MAX ? (uint32_t)grid : UINT32_MAX / 2 + 1;
}

/* Inserts a position into out[0..n), which is ascending; returns the new n. */
static uint32_t want(uint32_t *out, uint32_t n, uint32_t position)
{
    uint32_t at = n;

    while (at > 0 && out[at - 1] > position) {
        at--;
    }
    if (at > 0 && out[at - 1] == position) {
        return n;
    }
    memmove(out + at + 1, out + at, (n - at) * sizeof *out);
    out[at] = position;
    return n + 1;
}

uint32_t prefix_wants(const struct prefix *x, const struct prefix_hit *hit,
                      uint32_t n, uint32_t *out, uint32_t cap)
{
    uint32_t end, count = 0, grid;

    if (!x->o.on || !x->o.has_states || n <= PREFIX_UNIT || cap == 0) {
        return 0;
    }
    end = (n - 1) / PREFIX_UNIT * PREFIX_UNIT;
    if (end <= hit->n_tokens) {
        return 0;
    }
    out[count++] = end;
    if (hit->branch > hit->n_tokens && hit->branch < n && count < cap) {
        count = want(out, count, hit->branch);
    }
    /* From the deepest on: the nearer to the end, the more it saves. */
    for (uint32_t at = end - 1; count < cap && at > hit->n_tokens; at--) {
        grid = grid_at(x, at);
        at = at / grid * grid;
        if (at <= hit->n_tokens) {
            break;
        }
        count = want(out, count, at);
    }
    return count;
}

/* ---- memory ---- */

static uint8_t *reservation(const struct prefix *x, uint32_t checkpoint)
{
    uint32_t per = x->checkpoint_pages > 0 ? x->checkpoint_pages : 1;

    return &x->extents.reserved[checkpoint / per];
}

static bool take_state(struct prefix *x, uint32_t *checkpoint)
{
    if (x->checkpoint_pages > 0) {
        return pool_cache(x->pool, checkpoint);
    }
    if (x->extents.n_numbers == 0) {
        return false;
    }
    *checkpoint = x->extents.numbers[--x->extents.n_numbers];
    return true;
}

/* Gives a checkpoint back that no other stage has the number of. */
static void give_back(struct prefix *x, uint32_t checkpoint)
{
    if (x->checkpoint_pages > 0) {
        pool_uncache(x->pool, checkpoint);
    } else {
        x->extents.numbers[x->extents.n_numbers++] = checkpoint;
    }
}

void prefix_give_state(struct prefix *x, uint32_t checkpoint)
{
    if (x->watch.gone != NULL) {
        x->watch.gone(x->watch.self, PREFIX_NONE, checkpoint);
    }
    give_back(x, checkpoint);
}

/* ---- reservations ---- */

/* Takes a free checkpoint that no earlier reservation names. */
static bool reserve(struct prefix *x, uint32_t *checkpoint)
{
    uint32_t others[PREFIX_TAKEN_BACK_MAX], n = 0;
    bool ok = true;

    while ((ok = n < PREFIX_TAKEN_BACK_MAX && take_state(x, checkpoint)) &&
           *reservation(x, *checkpoint) != RESERVED_NOT) {
        others[n++] = *checkpoint;
    }
    while (n > 0) {
        give_back(x, others[--n]);
    }
    if (!ok) {
        return false;
    }
    *reservation(x, *checkpoint) = RESERVED;
    x->extents.n_reserved++;
    if (x->watch.reserved != NULL) {
        x->watch.reserved(x->watch.self, *checkpoint);
    }
    return true;
}

/* Returns whether evicting everything would free a checkpoint. */
static bool can_free(const struct prefix *x)
{
    struct pool_account a = pool_pages(x->pool);

    return (uint64_t)a.free + a.cached >=
           ((uint64_t)x->extents.n_reserved + 1) * x->checkpoint_pages;
}

bool prefix_reserve(struct prefix *x, uint32_t *checkpoint)
{
    static const struct pool_need one = {{0, 0, 1}};

    if (!x->o.on || !x->o.has_states || x->most_checkpoints == 0 ||
        !can_free(x)) {
        return false;
    }
    x->walk++;
    return prefix_free_state(x) && prefix_free_pages(x, &one) &&
           reserve(x, checkpoint);
}

bool prefix_reserve_free(struct prefix *x, uint32_t *checkpoint)
{
    static const struct pool_need one = {{0, 0, 1}};

    return x->o.on && x->o.has_states &&
           x->figures.n_checkpoints + x->extents.n_reserved <
               x->most_checkpoints &&
           prefix_has_room(x, &one) && reserve(x, checkpoint);
}

/* Ends a reservation.  Returns false if it was taken back. */
static bool unreserve(struct prefix *x, uint32_t checkpoint)
{
    uint8_t *r = reservation(x, checkpoint);
    bool mine = *r == RESERVED;

    if (*r == RESERVED_NOT) {
        pool_violation(x->pool, "put-of-what-is-not-reserved", POOL_CHECKPOINTS,
                       checkpoint);
        return false;
    }
    *r = RESERVED_NOT;
    x->extents.n_reserved -= mine;
    return mine;
}

void prefix_put(struct prefix *x, uint32_t node, uint32_t checkpoint)
{
    if (!unreserve(x, checkpoint)) {
        return;
    }
    if (PLANT(CHECKPOINT_ASTRAY) && node != PREFIX_NONE) {
        node = x->nodes[node].parent;
    }
    if (node != PREFIX_NONE && x->nodes[node].depth > 0 &&
        x->nodes[node].checkpoint == SLOT_NONE) {
        prefix_mark(x, node);
        if (prefix_free_share(x, x->nodes[node].tenant, x->checkpoint_pages)) {
            prefix_set_checkpoint(x, node, checkpoint);
            return;
        }
    }
    prefix_give_state(x, checkpoint);
}

void prefix_drop(struct prefix *x, uint32_t checkpoint)
{
    if (unreserve(x, checkpoint)) {
        prefix_give_state(x, checkpoint);
    }
}

void prefix_take_back(struct prefix *x, const struct pool_need *need)
{
    uint32_t per = x->checkpoint_pages > 0 ? x->checkpoint_pages : 1;

    for (uint32_t i = 0; x->extents.n_reserved > 0 && !prefix_has_room(x, need);
         i++) {
        if (x->extents.reserved[i] == RESERVED) {
            x->extents.reserved[i] = RESERVED_TAKEN_BACK;
            x->extents.n_reserved--;
            prefix_give_state(x, i * per);
        }
    }
}

/* ---- window pages ----
 *
 * A prompt that goes on behind a node needs the window pages of the nodes that
 * its window reaches.  Further up, only a request that goes back to there needs
 * them: such pages are spent, unless the node is a branch point.  Nodes with
 * window pages are in a list by use, the least recently used first. */

bool prefix_windows_init(struct prefix *x)
{
    const struct prefix_options *o = &x->o;
    size_t pages = x->pool->o.n_pages, nodes = (size_t)o->n_nodes + 1;

    for (int i = 0; i < WINDOWS_USES; i++) {
        x->windows.lists[i] = (struct prefix_link){PREFIX_NONE, PREFIX_NONE};
    }
    /* A window of one position sees nothing before it. */
    if (o->window_pages == 0 || o->window < 2) {
        return true;
    }
    x->windows.unit = PREFIX_UNIT / o->block_tokens * o->window_pages;
    x->windows.units = (o->window + PREFIX_UNIT - 2) / PREFIX_UNIT;
    x->windows.pages =
        malloc(nodes * x->windows.unit * sizeof *x->windows.pages);
    x->windows.node_of = malloc((pages + 1) * sizeof *x->windows.node_of);
    x->windows.links = malloc(nodes * sizeof *x->windows.links);
    return x->windows.pages != NULL && x->windows.node_of != NULL &&
           x->windows.links != NULL;
}

void prefix_windows_fini(struct prefix *x)
{
    free(x->windows.pages);
    free(x->windows.node_of);
    free(x->windows.links);
}

static uint32_t blocks_per_unit(const struct prefix *x)
{
    return PREFIX_UNIT / x->o.block_tokens;
}

uint32_t prefix_windows_from(const struct prefix *x, uint32_t node,
                             uint32_t above, bool pool)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t begin;

    if (x->windows.unit == 0) {
        return 0;
    }
    begin = (n->depth - 1) * blocks_per_unit(x);
    if (pool ? n->windows == WINDOWS_NONE : !prefix_has_windows(x, node)) {
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
               : x->windows.unit - n->window_at * x->o.window_pages;
}

static uint32_t *pages_of(const struct prefix *x, uint32_t node)
{
    return x->windows.pages + (size_t)node * x->windows.unit;
}

static void unlink_windows(struct prefix *x, uint32_t node)
{
    struct prefix_link *l = &x->windows.lists[x->nodes[node].windows];
    struct prefix_link *n = &x->windows.links[node];

    if (n->prev != PREFIX_NONE) {
        x->windows.links[n->prev].next = n->next;
    } else {
        l->next = n->next;
    }
    if (n->next != PREFIX_NONE) {
        x->windows.links[n->next].prev = n->prev;
    } else {
        l->prev = n->prev;
    }
}

/* Appends the node, which is in no list. */
static void link_windows(struct prefix *x, uint32_t node,
                         enum prefix_windows_use use)
{
    struct prefix_link *l = &x->windows.lists[use];

    x->windows.links[node] = (struct prefix_link){l->prev, PREFIX_NONE};
    if (l->prev != PREFIX_NONE) {
        x->windows.links[l->prev].next = node;
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

    for (uint32_t i = 0; i < x->windows.units && node != PREFIX_NONE; i++) {
        node = x->nodes[node].parent;
        branch = branch || (node != PREFIX_NONE && is_branch(x, node));
    }
    if (node != PREFIX_NONE && !branch) {
        move_windows(x, node, WINDOWS_SPENT);
    }
}

void prefix_use_windows(struct prefix *x, uint32_t node)
{
    for (uint32_t i = 0; i < x->windows.units && node != PREFIX_NONE;
         i++, node = x->nodes[node].parent) {
        move_windows(x, node, WINDOWS_LIVE);
    }
}

/* Returns whether the pages may become those of the node. */
static bool can_put(const struct prefix *x, uint32_t node,
                    const uint32_t *pages, uint32_t first)
{
    const struct prefix_node *n = &x->nodes[node];
    uint32_t begin = (n->depth - 1) * blocks_per_unit(x);
    uint32_t need = prefix_windows_need(x, n->depth);
    uint32_t n_pages = x->windows.unit - first * x->o.window_pages;

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
    bool had = prefix_is_restorable(x, node);
    uint32_t n_pages;

    if (!x->o.on || x->windows.unit == 0 || !can_put(x, node, pages, first)) {
        return;
    }
    if (n->window_at != first) {
        prefix_drop_copy(x, node, PART_WINDOWS);
    }
    n->window_at = (uint8_t)first;
    link_windows(x, node, WINDOWS_LIVE);
    n_pages = prefix_windows_of(x, node);
    memcpy(pages_of(x, node), pages, n_pages * sizeof *pages);
    for (uint32_t i = 0; i < n_pages; i++) {
        pool_index(x->pool, pages[i]);
        x->windows.node_of[pages[i]] = node;
    }
    prefix_group_of(x, n->tenant)->pages += n_pages;
    spend_above(x, node);
    prefix_place(x, node);
    if (!had && prefix_is_restorable(x, node)) {
        prefix_event(x, node, true);
    }
}

uint32_t prefix_window_page(const struct prefix *x, uint32_t node, uint32_t i)
{
    return pages_of(x, node)[i];
}

void prefix_drop_windows(struct prefix *x, uint32_t node)
{
    if (!prefix_has_windows(x, node)) {
        return;
    }
    if (prefix_is_restorable(x, node)) {
        prefix_event(x, node, false);
    }
    prefix_drop_copy(x, node, PART_WINDOWS);
    prefix_leave_windows(x, node);
}

void prefix_leave_windows(struct prefix *x, uint32_t node)
{
    struct prefix_node *n = &x->nodes[node];
    uint32_t n_pages = prefix_windows_of(x, node);

    if (n->windows == WINDOWS_NONE) {
        return;
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
    prefix_drop_windows(x, x->windows.node_of[page]);
}

bool prefix_evict_windows(struct prefix *x, enum prefix_windows_use use)
{
    uint32_t node = x->windows.lists[use].next;

    while (node != PREFIX_NONE && x->nodes[node].mark == x->walk) {
        node = x->windows.links[node].next;
    }
    if (node == PREFIX_NONE) {
        return false;
    }
    if (use == WINDOWS_LIVE) {
        prefix_demote_windows(x, node);
    } else {
        prefix_drop_windows(x, node);
    }
    return true;
}

bool prefix_free_page(struct prefix *x)
{
    static const struct pool_need one = {{0, 0, 0, 1}};

    x->walk++;
    return prefix_free_pages(x, &one);
}

/* Writes n window pages of a node from the skip-th on. */
static void write_windows(struct prefix *x, uint32_t node, uint32_t skip,
                          uint32_t n, uint32_t *out)
{
    uint32_t host;

    if (x->nodes[node].windows != WINDOWS_NONE) {
        memcpy(out, pages_of(x, node) + skip, n * sizeof *out);
        return;
    }
    host = prefix_copy_at(x, node, PART_WINDOWS);
    for (uint32_t i = 0; i < skip + n;
         i++, host = host_next(x->tier.host, host)) {
        if (i >= skip) {
            out[i - skip] = host | WINDOW_IN_HOST;
        }
    }
    x->figures.host_in += n;
}

void prefix_windows(struct prefix *x, uint32_t node, uint32_t first,
                    uint32_t *out)
{
    uint32_t per = blocks_per_unit(x), tables = x->o.window_pages;

    for (uint32_t i = node; i != PREFIX_NONE; i = x->nodes[i].parent) {
        uint32_t begin = (x->nodes[i].depth - 1) * per;
        uint32_t from = first > begin ? first - begin : 0;
        uint32_t skip = from - x->nodes[i].window_at;

        if (from < per) {
            write_windows(x, i, skip * tables, (per - from) * tables,
                          out + (size_t)(begin + from - first) * tables);
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
