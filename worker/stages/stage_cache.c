#include "worker/stages/stage_cache.h"

#include <stdlib.h>
#include <string.h>

#include "worker/sequence/windows.h"

/* ---- made and freed ---- */

bool stage_cache_init(struct stage_cache *c, struct sequence_table *table,
                      uint32_t block_tokens)
{
    const struct pool_options *o = &table->pool->o;
    uint32_t states = o->pages_per[POOL_CHECKPOINTS];
    uint32_t n_nodes = 0;

    memset(c, 0, sizeof *c);
    c->table = table;
    c->block_tokens = block_tokens;
    c->has_blocks = o->pages_per[POOL_BLOCKS] > 0;
    c->has_states = states > 0;
    c->per = PREFIX_UNIT / block_tokens;
    c->free_head = NAME_NONE;
    if (c->has_blocks) {
        n_nodes = o->n_pages / c->per;
    }
    c->memory = malloc(((size_t)n_nodes + 1) * sizeof *c->memory);
    c->blocks = malloc(((size_t)n_nodes + 1) * c->per * sizeof *c->blocks);
    if (c->memory == NULL || c->blocks == NULL ||
        !name_map_init(&c->nodes, n_nodes) ||
        !name_map_init(&c->checkpoints, states > 0 ? o->n_pages / states : 0)) {
        stage_cache_fini(c);
        return false;
    }
    return true;
}

void stage_cache_fini(struct stage_cache *c)
{
    name_map_fini(&c->nodes);
    name_map_fini(&c->checkpoints);
    free(c->memory);
    free(c->blocks);
    memset(c, 0, sizeof *c);
}

/* ---- nodes ---- */

/* Returns the node's index, NAME_NONE if there is no such node. */
static uint32_t node_at(const struct stage_cache *c, uint32_t node)
{
    uint32_t i = NAME_NONE;

    (void)name_map_find(&c->nodes, node, &i);
    return i;
}

static uint32_t *blocks_of(const struct stage_cache *c, uint32_t i)
{
    return &c->blocks[(size_t)i * c->per];
}

/* Never fails for a node that is kept: each has blocks of its own, and there
 * are as many entries as the pool has units of blocks. */
static uint32_t node_new(struct stage_cache *c)
{
    uint32_t i = c->free_head;

    if (i == NAME_NONE) {
        return c->n_fresh++;
    }
    c->free_head = c->memory[i].next;
    return i;
}

/* Returns how many blocks positions [0, end) have. */
static uint32_t n_blocks_of(const struct stage_cache *c, uint32_t end)
{
    uint32_t bt = c->block_tokens;

    return c->has_blocks ? end / bt + (end % bt != 0) : 0;
}

/* ---- tables ---- */

static uint32_t table_get(const struct stage_cache *c, const struct sequence *s,
                          uint32_t i)
{
    return paged_get(&c->table->slab, &s->memory.blocks, i);
}

/* Puts a shared block into the table: in the place of one that s has, or of one
 * that it was granted. */
static void table_share(struct stage_cache *c, struct sequence *s, uint32_t i,
                        uint32_t block)
{
    struct pool *pool = c->table->pool;
    bool has = i < s->memory.n_blocks;
    uint32_t old = has ? table_get(c, s, i) : 0;

    if (has && old == block) {
        return;
    }
    pool_share(pool, block, !has);
    if (has) {
        pool_release(pool, POOL_BLOCKS, old);
    }
    paged_write(&c->table->slab, &s->memory.blocks, i, &block, 1);
}

static enum status check_granted(const struct sequence *s, uint32_t n,
                                 struct error *e)
{
    return n <= s->memory.need.n[POOL_BLOCKS]
               ? ST_OK
               : error_set(e, ST_RESOURCE_EXHAUSTED,
                           "it goes on after %u blocks, but %u are granted", n,
                           s->memory.need.n[POOL_BLOCKS]);
}

enum status stage_cache_take(struct stage_cache *c, struct sequence *s,
                             uint32_t end, struct error *e)
{
    uint32_t n = n_blocks_of(c, end);

    if (check_granted(s, n, e) != ST_OK) {
        return e->code;
    }
    while (s->memory.n_blocks < n) {
        uint32_t block;

        if (!pool_take(c->table->pool, POOL_BLOCKS, 1, &block)) {
            return error_set(e, ST_INTERNAL, "the granted block was not there");
        }
        paged_write(&c->table->slab, &s->memory.blocks, s->memory.n_blocks++,
                    &block, 1);
    }
    return ST_OK;
}

/* ---- restore ---- */

/* Checks that the path of the node is whole and ends at the position. */
static enum status check_path(const struct stage_cache *c,
                              const struct stage_restore *r, struct error *e)
{
    uint32_t name = r->node, end = r->position;

    while (end > 0) {
        uint32_t i = name == NAME_NONE ? NAME_NONE : node_at(c, name);

        if (i == NAME_NONE) {
            return error_set(e, ST_NOT_FOUND,
                             "node %u, for positions below %u, is not kept",
                             name, end);
        }
        if (c->memory[i].end != end) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "node %u ends at %u, not at %u", name,
                             c->memory[i].end, end);
        }
        name = c->memory[i].parent;
        end -= PREFIX_UNIT;
    }
    return ST_OK;
}

static enum status check_node(const struct stage_cache *c,
                              const struct sequence *s,
                              const struct stage_restore *r, struct error *e)
{
    if (r->position % PREFIX_UNIT != 0 || r->position == 0) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "no node ends at %u, which is no multiple of %u",
                         r->position, PREFIX_UNIT);
    }
    if (!c->has_blocks) {
        return ST_OK;
    }
    return check_path(c, r, e) == ST_OK
               ? check_granted(s, n_blocks_of(c, r->position), e)
               : e->code;
}

static enum status check_from(const struct stage_cache *c,
                              const struct sequence *s,
                              const struct stage_restore *r, struct error *e)
{
    const struct sequence *f = r->from;
    uint32_t n = n_blocks_of(c, r->position);

    /* A sequence that has computed something would lose it. */
    if (s->memory.n_blocks > 0 || s->memory.slot != SLOT_NONE || f == s) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it has %u blocks already, and takes over others",
                         s->memory.n_blocks);
    }
    if (f->memory.n_blocks < n ||
        (c->has_states && f->memory.slot == SLOT_NONE) ||
        !windows_reach(c->table, f, r->position)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "it takes over %u blocks and a state, but the other "
                         "sequence has %u blocks and %s state",
                         n, f->memory.n_blocks,
                         f->memory.slot == SLOT_NONE ? "no" : "a");
    }
    return check_granted(s, n, e);
}

static enum status check_checkpoint(const struct stage_cache *c,
                                    const struct sequence *s,
                                    const struct stage_restore *r,
                                    uint32_t *page, struct error *e)
{
    if (!c->has_states) {
        return ST_OK;
    }
    if (!name_map_find(&c->checkpoints, r->checkpoint, page)) {
        return error_set(e, ST_NOT_FOUND, "checkpoint %u is not kept",
                         r->checkpoint);
    }
    return s->memory.need.n[POOL_SLOTS] > 0
               ? ST_OK
               : error_set(e, ST_INVALID_ARGUMENT,
                           "a checkpoint, but no slot is granted");
}

static void share_path(struct stage_cache *c, struct sequence *s,
                       const struct stage_restore *r)
{
    uint32_t n = n_blocks_of(c, r->position);

    for (uint32_t name = r->node, at = n; at > 0; at -= c->per) {
        uint32_t i = node_at(c, name);

        for (uint32_t k = 0; k < c->per; k++) {
            table_share(c, s, at - c->per + k, blocks_of(c, i)[k]);
        }
        name = c->memory[i].parent;
    }
    s->memory.n_blocks = n > s->memory.n_blocks ? n : s->memory.n_blocks;
}

static void add_copy(struct stage_copies *out, uint32_t from, uint32_t to,
                     uint32_t n)
{
    out->of[out->n++] = (struct plan_copy){.from = from, .to = to, .n = n};
}

/* A block that s will write is in no other table and not in the index. */
static bool is_shared(const struct stage_cache *c, uint32_t block)
{
    const struct pool_block *b = &c->table->pool->blocks[block];

    return b->refs > 1 || b->indexed;
}

/* Copies the partly filled last block, of which others have the rest too. */
static enum status copy_last(struct stage_cache *c, struct sequence *s,
                             uint32_t block, struct stage_copies *out,
                             struct error *e)
{
    struct pool *pool = c->table->pool;
    uint32_t own;

    if (!pool_take(pool, POOL_BLOCKS, 1, &own)) {
        return error_set(e, ST_INTERNAL, "the granted block was not there");
    }
    paged_write(&c->table->slab, &s->memory.blocks, s->memory.n_blocks++, &own,
                1);
    add_copy(out, pool_page(pool, block), pool_page(pool, own), 1);
    return ST_OK;
}

static void take_slot(struct stage_cache *c, struct sequence *s,
                      struct sequence *from)
{
    static const struct pool_need slot = {{0, 1, 0}};

    /* The granted one becomes free; the other sequence has none any more. */
    pool_ungrant(c->table->pool, &slot);
    s->memory.slot = from->memory.slot;
    from->memory.slot = SLOT_NONE;
    from->memory.need.n[POOL_SLOTS] = 0;
}

/* As blocks: the partly filled one is copied if others have it too. */
static enum status take_windows(struct stage_cache *c, struct sequence *s,
                                const struct stage_restore *r,
                                struct stage_copies *out, struct error *e)
{
    struct sequence_table *t = c->table;
    uint32_t last = r->position / c->block_tokens;
    bool partial = t->windows.window > 0 && r->position % c->block_tokens != 0;
    bool shared = partial && windows_shared(t, r->from, last);

    windows_share(t, r->from, s, r->position, !shared);
    if (!shared) {
        return ST_OK;
    }
    if (!windows_move(t, s, r->position, r->position)) {
        return error_set(e, ST_INTERNAL,
                         "the granted window block was not "
                         "there");
    }
    for (uint32_t i = 0; i < t->windows.pages; i++) {
        add_copy(out, pool_page(t->pool, windows_page(t, r->from, last, i)),
                 pool_page(t->pool, windows_page(t, s, last, i)), 1);
    }
    return ST_OK;
}

static enum status take_over(struct stage_cache *c, struct sequence *s,
                             const struct stage_restore *r,
                             struct stage_copies *out, struct error *e)
{
    uint32_t n = n_blocks_of(c, r->position), block;
    bool partial = n > 0 && r->position % c->block_tokens != 0;

    while (s->memory.n_blocks < n) {
        block = table_get(c, r->from, s->memory.n_blocks);
        if (partial && s->memory.n_blocks + 1 == n && is_shared(c, block)) {
            if (copy_last(c, s, block, out, e) != ST_OK) {
                return e->code;
            }
            break;
        }
        table_share(c, s, s->memory.n_blocks, block);
        s->memory.n_blocks++;
    }
    if (c->has_states && s->memory.need.n[POOL_SLOTS] > 0) {
        take_slot(c, s, r->from);
    }
    return take_windows(c, s, r, out, e);
}

/* Releases the window blocks behind the position.  Returns how much of the
 * grant is left then.  The mirror has no tables of windows, but its leader's
 * count. */
static uint32_t cut_windows(struct stage_cache *c, struct sequence *s,
                            const struct stage_restore *r)
{
    const struct window_rules *w = &c->table->windows;
    uint32_t keeps = r->windows, rest;

    if (w->window > 0) {
        (void)windows_cut(c->table, s, r->position);
        keeps = s->memory.n_windows * w->pages;
    }
    rest = s->memory.need.n[POOL_WINDOWS] > keeps
               ? s->memory.need.n[POOL_WINDOWS] - keeps
               : 0;
    s->memory.need.n[POOL_WINDOWS] -= rest;
    return rest;
}

/* The rest of the grant goes back with the blocks: a kept sequence holds no
 * promise, and the router gets the figures in the receipt. */
static void cut(struct stage_cache *c, struct sequence *s,
                const struct stage_restore *r)
{
    struct pool *pool = c->table->pool;
    uint32_t position = r->position, n = n_blocks_of(c, position);
    struct pool_need rest = {
        {s->memory.need.n[POOL_BLOCKS] - s->memory.n_blocks, 0, 0}};

    for (uint32_t i = n; i < s->memory.n_blocks; i++) {
        pool_release(pool, POOL_BLOCKS, table_get(c, s, i));
    }
    s->memory.n_blocks = n < s->memory.n_blocks ? n : s->memory.n_blocks;
    s->memory.need.n[POOL_BLOCKS] = s->memory.n_blocks;
    if (position == 0 && s->memory.need.n[POOL_SLOTS] > 0) {
        rest.n[POOL_SLOTS] = s->memory.slot == SLOT_NONE;
        if (s->memory.slot != SLOT_NONE) {
            pool_release(pool, POOL_SLOTS, s->memory.slot);
        }
        s->memory.slot = SLOT_NONE;
        s->memory.need.n[POOL_SLOTS] = 0;
    }
    rest.n[POOL_WINDOWS] = cut_windows(c, s, r);
    pool_ungrant(pool, &rest);
}

static enum status check_restore(const struct stage_cache *c,
                                 const struct sequence *s,
                                 const struct stage_restore *r, uint32_t *page,
                                 struct error *e)
{
    enum status st = ST_OK;

    if (r->node != NAME_NONE) {
        st = check_node(c, s, r, e);
    }
    if (st == ST_OK && r->from != NULL) {
        st = check_from(c, s, r, e);
    }
    if (st == ST_OK && r->checkpoint != NAME_NONE) {
        st = check_checkpoint(c, s, r, page, e);
    }
    return st;
}

enum status stage_cache_restore(struct stage_cache *c, struct sequence *s,
                                const struct stage_restore *r,
                                struct stage_copies *copies, struct error *e)
{
    uint32_t page = SLOT_NONE;

    copies->n = 0;
    if (check_restore(c, s, r, &page, e) != ST_OK) {
        return e->code;
    }
    if (page != SLOT_NONE && s->memory.slot == SLOT_NONE && r->from == NULL &&
        !pool_take(c->table->pool, POOL_SLOTS, 1, &s->memory.slot)) {
        return error_set(e, ST_INTERNAL, "the granted slot was not there");
    }
    if (r->node != NAME_NONE && c->has_blocks) {
        share_path(c, s, r);
    }
    if (r->from != NULL && take_over(c, s, r, copies, e) != ST_OK) {
        return e->code;
    }
    if (r->cut) {
        cut(c, s, r);
    }
    if (page != SLOT_NONE) {
        add_copy(copies, page, s->memory.slot,
                 c->table->pool->o.pages_per[POOL_SLOTS]);
    }
    return ST_OK;
}

enum status stage_cache_twin(struct stage_cache *c,
                             const struct sequence *source, struct sequence *s,
                             uint32_t end, struct error *e)
{
    uint32_t n = c->has_blocks ? end / c->block_tokens : 0;

    if (s->memory.n_blocks > 0 || s->memory.slot != SLOT_NONE ||
        source->memory.n_blocks < n || s->memory.n_windows > 0 ||
        !windows_reach(c->table, source, end)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "a twin with %u blocks of a source with %u, for "
                         "positions below %u",
                         s->memory.n_blocks, source->memory.n_blocks, end);
    }
    if (check_granted(s, n, e) != ST_OK) {
        return e->code;
    }
    for (uint32_t i = 0; i < n; i++) {
        table_share(c, s, i, table_get(c, source, i));
    }
    s->memory.n_blocks = n;
    windows_share(c->table, source, s, end, false);
    return ST_OK;
}

/* ---- keep and gone ---- */

static enum status check_place(const struct stage_cache *c, uint32_t node,
                               uint32_t parent, uint32_t end, struct error *e)
{
    uint32_t i;

    if (node == NAME_NONE || node_at(c, node) != NAME_NONE) {
        return error_set(e, ST_ALREADY_EXISTS, "node %u is kept already", node);
    }
    if (end == 0 || end % PREFIX_UNIT != 0 ||
        (parent == NAME_NONE) != (end == PREFIX_UNIT)) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "node %u ends at %u and has %s parent", node, end,
                         parent == NAME_NONE ? "no" : "a");
    }
    i = parent == NAME_NONE ? NAME_NONE : node_at(c, parent);
    if (parent != NAME_NONE &&
        (i == NAME_NONE || c->memory[i].end != end - PREFIX_UNIT)) {
        return error_set(e, ST_NOT_FOUND,
                         "node %u ends at %u, but its parent %u does not end "
                         "at %u",
                         node, end, parent, end - PREFIX_UNIT);
    }
    return ST_OK;
}

static enum status check_blocks(const struct stage_cache *c,
                                const struct sequence *s, uint32_t node,
                                uint32_t end, struct error *e)
{
    uint32_t last = end / c->block_tokens;

    if (s->memory.n_blocks < last) {
        return error_set(e, ST_INVALID_ARGUMENT,
                         "node %u ends at %u, but the sequence has %u blocks",
                         node, end, s->memory.n_blocks);
    }
    for (uint32_t i = last - c->per; i < last; i++) {
        uint32_t block = table_get(c, s, i);

        if (c->table->pool->blocks[block].indexed) {
            return error_set(e, ST_INVALID_ARGUMENT,
                             "node %u ends at %u, where another node has the "
                             "blocks",
                             node, end);
        }
    }
    return ST_OK;
}

enum status stage_cache_keep(struct stage_cache *c, const struct sequence *s,
                             uint32_t node, uint32_t parent, uint32_t end,
                             struct error *e)
{
    uint32_t i, *blocks;

    if (!c->has_blocks) {
        return ST_OK;
    }
    if (check_place(c, node, parent, end, e) != ST_OK ||
        check_blocks(c, s, node, end, e) != ST_OK) {
        return e->code;
    }
    /* Every node has blocks of its own, so the pool bounds them. */
    i = node_new(c);
    if (!name_map_add(&c->nodes, node, i)) {
        return error_set(e, ST_INTERNAL, "%u nodes are kept already",
                         c->nodes.n);
    }
    c->memory[i] = (struct stage_node){.parent = parent, .end = end};
    blocks = blocks_of(c, i);
    paged_read(&c->table->slab, &s->memory.blocks,
               end / c->block_tokens - c->per, blocks, c->per);
    for (uint32_t k = 0; k < c->per; k++) {
        pool_index(c->table->pool, blocks[k]);
    }
    return ST_OK;
}

enum status stage_cache_save(struct stage_cache *c, uint32_t name,
                             uint32_t *page, struct error *e)
{
    uint32_t old;

    *page = SLOT_NONE;
    if (!c->has_states) {
        return ST_OK;
    }
    if (name == NAME_NONE || name_map_find(&c->checkpoints, name, &old)) {
        return error_set(e, ST_ALREADY_EXISTS, "checkpoint %u is kept already",
                         name);
    }
    if (!pool_cache(c->table->pool, page)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no room for checkpoint %u: %u pages are free, it "
                         "takes %u",
                         name, c->table->pool->free,
                         c->table->pool->o.pages_per[POOL_CHECKPOINTS]);
    }
    if (!name_map_add(&c->checkpoints, name, *page)) {
        pool_uncache(c->table->pool, *page);
        return error_set(e, ST_INTERNAL, "%u checkpoints are kept already",
                         c->checkpoints.n);
    }
    return ST_OK;
}

/* A block that a sequence holds too stays where it is; only the index's claim
 * on it ends. */
static void free_node(struct stage_cache *c, uint32_t i)
{
    for (uint32_t k = 0; k < c->per; k++) {
        pool_unindex(c->table->pool, blocks_of(c, i)[k]);
    }
}

enum status stage_cache_gone_node(struct stage_cache *c, uint32_t node,
                                  struct error *e)
{
    uint32_t i;

    if (!c->has_blocks) {
        return ST_OK;
    }
    i = node_at(c, node);
    if (i == NAME_NONE) {
        return error_set(e, ST_NOT_FOUND, "node %u is not kept", node);
    }
    free_node(c, i);
    name_map_remove(&c->nodes, node);
    c->memory[i].next = c->free_head;
    c->free_head = i;
    return ST_OK;
}

enum status stage_cache_gone_checkpoint(struct stage_cache *c, uint32_t name,
                                        struct error *e)
{
    uint32_t page;

    if (!c->has_states) {
        return ST_OK;
    }
    if (!name_map_find(&c->checkpoints, name, &page)) {
        return error_set(e, ST_NOT_FOUND, "checkpoint %u is not kept", name);
    }
    pool_uncache(c->table->pool, page);
    name_map_remove(&c->checkpoints, name);
    return ST_OK;
}

/* ---- all ---- */

static bool next_entry(const struct name_map *m, uint32_t *at, uint32_t *value)
{
    for (; m->n > 0 && *at <= m->mask; ++*at) {
        if (m->entries[*at].used) {
            *value = m->entries[(*at)++].value;
            return true;
        }
    }
    return false;
}

/* The assembly is over: the leader of the next one names nothing of this. */
void stage_cache_clear(struct stage_cache *c)
{
    uint32_t value;

    for (uint32_t at = 0; next_entry(&c->nodes, &at, &value);) {
        free_node(c, value);
    }
    for (uint32_t at = 0; next_entry(&c->checkpoints, &at, &value);) {
        pool_uncache(c->table->pool, value);
    }
    name_map_clear(&c->nodes);
    name_map_clear(&c->checkpoints);
    c->free_head = NAME_NONE;
    c->n_fresh = 0;
}

void stage_cache_walk(const void *self,
                      void (*each)(void *ctx, enum pool_class c,
                                   uint32_t number),
                      void *ctx)
{
    const struct stage_cache *c = self;
    uint32_t value;

    for (uint32_t at = 0; next_entry(&c->nodes, &at, &value);) {
        for (uint32_t k = 0; k < c->per; k++) {
            each(ctx, POOL_BLOCKS, blocks_of(c, value)[k]);
        }
    }
    for (uint32_t at = 0; next_entry(&c->checkpoints, &at, &value);) {
        each(ctx, POOL_CHECKPOINTS, value);
    }
}
