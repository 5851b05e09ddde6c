#include "worker/plan/reuse.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "common/base/plant.h"
#include "worker/sequence/windows.h"

/* Nodes where no blocks bound them. */
#define NODES_MAX (1u << 16)

/* ---- made and freed ---- */

/* Pool and host tier bound the nodes that have blocks. */
static uint32_t nodes_of(const struct worker_options *o)
{
    uint64_t n = NODES_MAX,
             pages = (uint64_t)o->pool.n_pages + o->pool.host_pages;

    if (o->pool.pages_per_block > 0) {
        n = pages * o->block_tokens / PREFIX_UNIT + 1;
    }
    return (uint32_t)n;
}

/* The stages of a replica keep no window pages for the leader's index. */
static bool reuses(const struct worker_options *o)
{
    bool alone = worker_options_role(o) == ROLE_ALONE;

    if (o->reuse && o->window > 0 && !alone) {
        log_warn("no-reuse",
                 "why=\"a replica of several stages keeps no prefixes of a "
                 "model with sliding windows\"");
    }
    return o->reuse && (o->window == 0 || alone);
}

/* Returns the most pages that a row sees before it, or a unit has. */
static size_t windows_entries(const struct worker_options *o)
{
    size_t seen = o->window / o->block_tokens + 2;
    size_t unit = PREFIX_UNIT / o->block_tokens;

    return (seen > unit ? seen : unit) * o->pool.window_pages + 1;
}

bool reuse_init(struct reuse *u, const struct worker_options *o,
                struct sequence_table *table, const struct role *role)
{
    struct prefix_options x = {.block_tokens = o->block_tokens,
                               .n_nodes = nodes_of(o),
                               .has_blocks = o->pool.pages_per_block > 0,
                               .has_states = o->pool.pages_per_slot > 0,
                               .window = o->window,
                               .window_pages = o->pool.window_pages,
                               .checkpoint_share = o->pool.checkpoint_share,
                               .tenant_share = o->pool.tenant_share,
                               .host =
                                   o->pool.host_pages > 0 ? table->host : NULL,
                               .on = o->reuse};

    memset(u, 0, sizeof *u);
    u->on = reuses(o);
    u->table = table;
    u->role = role;
    u->block_tokens = o->block_tokens;
    u->pages_per_slot = o->pool.pages_per_slot;
    u->has_blocks = o->pool.pages_per_block > 0;
    u->one_arithmetic = o->one_arithmetic;
    u->blocks =
        malloc((o->context / o->block_tokens + (size_t)1) * sizeof *u->blocks);
    u->windows = malloc(windows_entries(o) * sizeof *u->windows);
    u->units =
        malloc((o->context / PREFIX_UNIT + (size_t)1) * sizeof *u->units);
    if (u->blocks == NULL || u->windows == NULL || u->units == NULL ||
        !prefix_init(&u->index, &x, table->pool)) {
        reuse_fini(u);
        return false;
    }
    table->index = u->index;
    return true;
}

void reuse_fini(struct reuse *u)
{
    prefix_free(&u->index);
    free(u->blocks);
    free(u->windows);
    free(u->units);
    memset(u, 0, sizeof *u);
}

bool reuse_has(const struct reuse *u, const struct sequence *s)
{
    return u != NULL && u->on && (s->portable.cache || PLANT(UNCACHED_KEPT)) &&
           u->role->ops->reuses;
}

void reuse_tell(const struct reuse *u, const struct sequence *s,
                const struct role_restore *to)
{
    if (u->role->ops->restore != NULL) {
        u->role->ops->restore(u->role->self, s, to);
    }
}

/* ---- the first plan ---- */

static struct prefix_hit no_hit(uint32_t branch)
{
    return (struct prefix_hit){.node = PREFIX_NONE,
                               .checkpoint = SLOT_NONE,
                               .host = HOST_NONE,
                               .branch = branch};
}

/* Returns the end of the positions that may be restored and inserted. */
static uint32_t reusable(const struct reuse *u, const struct sequence *s)
{
    return u->one_arithmetic || PLANT(GENERATED_SHARED) ? sequence_known(s)
                                                        : sequence_first_run(s);
}

/* Returns false if they are in the host tier and find no room. */
static bool share_blocks(struct reuse *u, struct sequence *s, uint32_t node,
                         uint32_t n_tokens)
{
    uint32_t n = u->has_blocks ? n_tokens / u->block_tokens : 0;

    if (n == 0) {
        return true;
    }
    if (!prefix_share(u->index, node, u->blocks)) {
        return false;
    }
    paged_write(&u->table->slab, &s->memory.blocks, 0, u->blocks, n);
    s->memory.n_blocks = n;
    return true;
}

/* Shares the window pages that the next row sees; s holds none. */
static void share_windows(struct reuse *u, struct sequence *s,
                          const struct prefix_hit *hit)
{
    const struct window_rules *r = &u->table->windows;

    if (r->pages == 0) {
        return;
    }
    if (windows_seen(r, hit->n_tokens) > 0) {
        prefix_windows(u->index, hit->node, windows_first(r, hit->n_tokens),
                       u->windows);
    }
    windows_adopt(u->table, s, hit->n_tokens, u->windows);
}

static void set_wants(struct reuse *u, struct sequence *s,
                      const struct prefix_hit *hit)
{
    uint32_t end = min_u32(s->portable.n_prompt, reusable(u, s));

    s->reuse.n_wants = 0;
    if (u->pages_per_slot > 0) {
        s->reuse.n_wants = prefix_wants(u->index, hit, end, s->reuse.wants,
                                        SEQUENCE_WANTS_MAX);
    }
}

void reuse_begin(struct reuse *u, struct sequence *s, struct reuse_state *state)
{
    bool again = s->memory.n_blocks > 0 || s->memory.slot != SLOT_NONE ||
                 s->memory.n_windows > 0;
    uint32_t n = min_u32(reusable(u, s) + 1, sequence_known(s));
    struct prefix_hit hit;

    /* The last known id is computed in any case, for its logits.  What is given
     * back may evict, so it goes before the match. */
    if (again) {
        n = min_u32(n, s->plan.n_computed + 1);
        if (!windows_clear(u->table, s)) {
            return; /* the row finds the account broken */
        }
    }
    hit = prefix_match(u->index, s->portable.scope, s->portable.n_scope,
                       &u->table->slab, &s->portable.tokens, n);
    if (!again && hit.n_tokens > 0 &&
        !share_blocks(u, s, hit.node, hit.n_tokens)) {
        hit = no_hit(hit.branch);
    }
    set_wants(u, s, &hit);
    s->plan.n_planned = s->plan.n_computed = hit.n_tokens;
    s->reuse.node = hit.node;
    if (hit.n_tokens == 0) {
        return;
    }
    *state = (struct reuse_state){hit.checkpoint, hit.host};
    drafts_add_hole(&s->drafts, prefix_has_hole(u->index, hit.node));
    share_windows(u, s, &hit);
    if (!again) {
        s->reuse.reused = suspension_happened(&s->suspension) ? s->reuse.reused
                                                              : hit.n_tokens;
        u->n_restored += hit.n_tokens;
        u->n_from_host += hit.n_tokens - hit.n_pool;
    }
    /* Other stages get the node in any case: its own blocks here may have come
     * with a plan that was refused, of which they have seen nothing. */
    reuse_tell(u, s,
               &(struct role_restore){.position = hit.n_tokens,
                                      .node = hit.node,
                                      .checkpoint = hit.checkpoint});
}

void reuse_continue(struct reuse *u, struct sequence *s)
{
    uint32_t at = s->plan.n_planned - s->plan.n_planned % PREFIX_UNIT;
    struct prefix_hit hit = no_hit(at);

    hit.n_tokens = at;
    set_wants(u, s, &hit);
}

struct prefix_hit reuse_find(struct reuse *u, const struct sequence *s,
                             uint32_t end)
{
    uint32_t n = min_u32(end, reusable(u, s)) + 1;
    struct prefix_hit none = no_hit(0);

    return reuse_has(u, s)
               ? prefix_match(u->index, s->portable.scope, s->portable.n_scope,
                              &u->table->slab, &s->portable.tokens, n)
               : none;
}

uint32_t reuse_spare(struct reuse *u, const struct sequence *s)
{
    uint32_t n = min_u32(reusable(u, s) + 1, s->arrival.n_received);

    return reuse_has(u, s)
               ? prefix_find(u->index, s->portable.scope, s->portable.n_scope,
                             &u->table->slab, &s->portable.tokens, n)
               : PREFIX_NONE;
}

/* ---- saves ---- */

/* Returns false if no checkpoint can be had, here or at another stage. */
static bool reserve(struct reuse *u, bool rolling, uint32_t *checkpoint)
{
    const struct role *role = u->role;
    bool ok = rolling ? prefix_reserve_free(u->index, checkpoint)
                      : prefix_reserve(u->index, checkpoint);

    if (!ok || role->ops->reserve == NULL ||
        role->ops->reserve(role->self, *checkpoint)) {
        return ok;
    }
    prefix_drop(u->index, *checkpoint);
    return false;
}

/* Adds a save to the row; does nothing if there is no room for it. */
static bool add_save(struct reuse *u, const struct batcher_limits *l,
                     struct batch *t, struct plan_row *row, uint32_t position,
                     bool rolling)
{
    struct plan *p = &t->plan;
    uint32_t checkpoint;
    bool ok;

    if (row->n_saves == PLAN_SAVES_MAX || !batch_has_copies(l, t)) {
        return false;
    }
    /* One that fails may have moved blocks too: out of extents that earlier
     * reservations name still. */
    ok = reserve(u, rolling, &checkpoint);
    batch_carry(t, u->table->pool);
    if (!ok) {
        return false;
    }
    p->saves[p->n_saves++] =
        (struct plan_save){.position = position, .page = checkpoint};
    row->n_saves++;
    return true;
}

bool reuse_rolls(const struct reuse *u, const struct sequence *s)
{
    return reuse_has(u, s) && u->pages_per_slot > 0 && u->one_arithmetic;
}

/* A decode row saves at the last multiple that it reaches, in free pages
 * only.  A sequence whose ids came from elsewhere saves once, at the end of
 * what is computed again. */
static void add_rolling(struct reuse *u, const struct batcher_limits *l,
                        struct batch *t, struct sequence *s,
                        struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens;

    end -= end % PREFIX_UNIT;
    if (!u->one_arithmetic || !row->sample || end <= row->position ||
        end < s->portable.n_prompt || s->memory.rolling_next != SLOT_NONE) {
        return;
    }
    if (add_save(u, l, t, row, end, true)) {
        s->memory.rolling_next = t->plan.saves[t->plan.n_saves - 1].page;
    }
}

/* Adds the saves of a prompt.  A row has room for PLAN_SAVES_MAX: those at the
 * end of a long row save most. */
static void add_wants(struct reuse *u, const struct batcher_limits *l,
                      struct batch *t, const struct sequence *s,
                      struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens, first = 0, last;

    while (first < s->reuse.n_wants && s->reuse.wants[first] <= row->position) {
        first++;
    }
    for (last = first;
         last < s->reuse.n_wants && s->reuse.wants[last] <= end;) {
        last++;
    }
    if (last - first > PLAN_SAVES_MAX) {
        first = last - PLAN_SAVES_MAX;
    }
    for (; first < last; first++) {
        (void)add_save(u, l, t, row, s->reuse.wants[first], false);
    }
}

void reuse_save(struct reuse *u, const struct batcher_limits *l,
                struct batch *t, struct sequence *s, uint32_t i)
{
    struct plan_row *row = &t->plan.rows[i];

    row->save = t->plan.n_saves;
    if (!reuse_has(u, s) || u->pages_per_slot == 0) {
        return;
    }
    add_wants(u, l, t, s, row);
    add_rolling(u, l, t, s, row);
}

/* ---- results ---- */

/* Ends a reservation; it may have been taken back for a Submit meanwhile. */
static void drop(struct reuse *u, uint32_t checkpoint)
{
    const struct role *role = u->role;

    prefix_drop(u->index, checkpoint);
    if (role->ops->drop != NULL) {
        role->ops->drop(role->self, checkpoint);
    }
}

/* Gives a node the window pages of its unit that s holds, up to the last. */
static void put_unit(struct reuse *u, const struct sequence *s, uint32_t unit,
                     uint32_t node)
{
    uint32_t per = PREFIX_UNIT / u->block_tokens;
    uint32_t pages = u->table->windows.pages, first = unit * per;
    uint32_t skip =
        s->memory.window_first > first ? s->memory.window_first - first : 0;

    if (skip >= per ||
        first + per > s->memory.window_first + s->memory.n_windows) {
        return;
    }
    for (uint32_t i = 0; i < (per - skip) * pages; i++) {
        u->windows[i] =
            windows_page(u->table, s, first + skip + i / pages, i % pages);
    }
    prefix_put_windows(u->index, node, u->windows, skip);
}

/* From the first one on, so that the last ones go last. */
static void put_windows(struct reuse *u, const struct sequence *s,
                        uint32_t node, uint32_t end)
{
    uint32_t n = end / PREFIX_UNIT;
    uint32_t unit = s->memory.window_first * u->block_tokens / PREFIX_UNIT;

    if (u->table->windows.pages == 0 || node == PREFIX_NONE ||
        s->memory.n_windows == 0) {
        return;
    }
    prefix_units(u->index, node, u->units);
    for (; unit < n; unit++) {
        put_unit(u, s, unit, u->units[unit]);
    }
}

/* Inserts the whole units below `end`; returns the node of the last one.  Where
 * the room ends before, the index has the first units all the same, and the
 * other stages must have them too. */
static uint32_t insert(struct reuse *u, const struct sequence *s, uint32_t end)
{
    const struct role *role = u->role;
    uint32_t node;

    end -= end % PREFIX_UNIT;
    if (end == 0) {
        return PREFIX_NONE;
    }
    if (role->ops->insert != NULL) {
        role->ops->insert(role->self, s);
    }
    prefix_set_hole(u->index, drafts_have_hole(&s->drafts));
    node = prefix_insert(u->index, s->portable.scope, s->portable.n_scope,
                         &u->table->slab, &s->portable.tokens,
                         &s->memory.blocks, end);
    put_windows(u, s, node, end);
    if (role->ops->keep != NULL) {
        role->ops->keep(role->self, s);
    }
    return node;
}

/* Without a node there is no room for one: the checkpoint is dropped. */
static void put(struct reuse *u, uint32_t node, uint32_t checkpoint)
{
    const struct role *role = u->role;

    if (node == PREFIX_NONE) {
        drop(u, checkpoint);
        return;
    }
    if (role->ops->put != NULL) {
        role->ops->put(role->self, node, checkpoint);
    }
    prefix_put(u->index, node, checkpoint);
    u->n_saved++;
}

/* Prompts save below their end, decode at or behind it. */
static bool is_rolling(const struct sequence *s, const struct plan_save *save)
{
    return save->position >= s->portable.n_prompt;
}

/* A new checkpoint of decode replaces the last one. */
static void roll(struct reuse *u, struct sequence *s,
                 const struct plan_save *save)
{
    if (s->memory.rolling != SLOT_NONE) {
        drop(u, s->memory.rolling);
    }
    s->memory.rolling = save->page;
    s->memory.rolling_at = save->position;
}

static void take_save(struct reuse *u, struct sequence *s,
                      const struct plan_save *save, bool good)
{
    uint32_t node;

    if (is_rolling(s, save)) {
        s->memory.rolling_next = SLOT_NONE;
    }
    if (!good && !PLANT(FAILED_SAVE_KEPT)) {
        drop(u, save->page);
    } else if (is_rolling(s, save)) {
        roll(u, s, save);
    } else {
        node = insert(u, s, save->position);
        put(u, node, save->page);
    }
}

void reuse_result(struct reuse *u, const struct batch *t, uint32_t i,
                  uint32_t end, bool good)
{
    const struct plan_row *row = &t->plan.rows[i];
    struct sequence *s = t->owners[i];

    /* A range that was removed from a kept sequence may have had the row. */
    good = good && end <= s->plan.n_planned;
    if (good && end > s->plan.n_computed) {
        s->plan.n_computed = end;
    }
    for (uint32_t k = 0; k < row->n_saves; k++) {
        take_save(u, s, &t->plan.saves[row->save + k], good);
    }
    if (!good || !reuse_has(u, s)) {
        return;
    }
    end = min_u32(end, reusable(u, s));
    if (end / PREFIX_UNIT > row->position / PREFIX_UNIT) {
        (void)insert(u, s, end);
    }
    if (s->finish != FINISH_NONE) {
        reuse_end(u, s);
    }
}

void reuse_end(struct reuse *u, struct sequence *s)
{
    uint32_t node, checkpoint = s->memory.rolling;

    if (checkpoint == SLOT_NONE) {
        return;
    }
    s->memory.rolling = SLOT_NONE;
    /* While s is computed again, other stages count its positions anew, and
     * cannot keep the later ones. */
    if (s->finish == FINISH_FAILED ||
        s->memory.rolling_at > s->plan.n_computed) {
        drop(u, checkpoint);
        return;
    }
    node = insert(u, s, s->memory.rolling_at);
    put(u, node, checkpoint);
}

/* ---- damage ---- */

void reuse_forget(struct reuse *u, const struct sequence *s)
{
    uint32_t node;

    if (!reuse_has(u, s) || s->plan.n_computed < PREFIX_UNIT) {
        return;
    }
    /* The first unit is there already, unless it was evicted. */
    node = insert(u, s, PREFIX_UNIT);
    if (node != PREFIX_NONE) {
        prefix_forget(u->index, node);
    }
}
