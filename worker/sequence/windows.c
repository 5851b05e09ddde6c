#include "worker/sequence/windows.h"

#include <assert.h>

#include "common/base/minmax.h"
#include "common/base/plant.h"

/* A stage runs the rows that the leader chose. */
struct window_rules windows_rules(const struct worker_options *o)
{
    bool chooses = worker_options_role(o) != ROLE_STAGE;

    return (struct window_rules){
        .window = o->window,
        .pages = o->pool.window_pages,
        .block_tokens = o->block_tokens,
        .chunk_tokens = chooses ? min_u32(o->chunk_tokens, o->step_tokens)
                                : o->step_tokens};
}

uint32_t windows_blocks(const struct window_rules *r, uint32_t n_tokens)
{
    uint64_t span = (uint64_t)r->window + r->chunk_tokens, most;
    uint32_t all;

    if (r->window == 0) {
        return 0;
    }
    most = span / r->block_tokens + (span % r->block_tokens != 0) + 1;
    all = ceil_div_u32(n_tokens, r->block_tokens);
    return all < most ? all : (uint32_t)most;
}

uint32_t windows_first(const struct window_rules *r, uint32_t position)
{
    uint32_t early = PLANT(WINDOW_FREED_EARLY) && position > r->window;

    if (r->window == 0 || position < r->window) {
        return 0;
    }
    return (position - r->window + 1 + early) / r->block_tokens;
}

bool windows_make(struct sequence_table *t, struct sequence *s,
                  uint32_t n_blocks)
{
    uint64_t n = (uint64_t)n_blocks * t->windows.pages;

    if (n > UINT32_MAX ||
        !paged_make(&t->slab, &s->memory.windows, (uint32_t)n)) {
        return false;
    }
    s->memory.window_room = n_blocks;
    return true;
}

/* ---- the ring ---- */

static uint32_t entry_of(const struct sequence_table *t,
                         const struct sequence *s, uint32_t block,
                         uint32_t table)
{
    return block % s->memory.window_room * t->windows.pages + table;
}

uint32_t windows_page(const struct sequence_table *t, const struct sequence *s,
                      uint32_t block, uint32_t table)
{
    assert(block - s->memory.window_first < s->memory.n_windows);
    return paged_get(&t->slab, &s->memory.windows,
                     entry_of(t, s, block, table));
}

uint32_t windows_nth(const struct sequence_table *t, const struct sequence *s,
                     uint32_t i)
{
    uint32_t tables = t->windows.pages;

    return windows_page(t, s, s->memory.window_first + i / tables, i % tables);
}

static void put(struct sequence_table *t, struct sequence *s, uint32_t block,
                uint32_t table, uint32_t number)
{
    paged_write(&t->slab, &s->memory.windows, entry_of(t, s, block, table),
                &number, 1);
}

/* ---- what is behind the window ---- */

static bool return_page(struct sequence_table *t, uint32_t page)
{
    if (pool_return(t->pool, page)) {
        return true;
    }
    if (t->index == NULL) {
        return false;
    }
    if (!prefix_free_page(t->index)) {
        prefix_drop_window(t->index, page);
    }
    return pool_return(t->pool, page);
}

/* Gives back the first block. */
static bool give_back(struct sequence_table *t, struct sequence *s)
{
    for (uint32_t i = 0; i < t->windows.pages; i++) {
        uint32_t number = windows_page(t, s, s->memory.window_first, i);

        bool kept = PLANT(WINDOW_KEPT) && s->memory.window_first % 3 == 1;

        if (!kept && !return_page(t, number)) {
            return false;
        }
    }
    s->memory.window_first++;
    s->memory.n_windows--;
    return true;
}

/* Returns whether s holds the blocks from the first that a row at `position`
 * sees up to `end`. */
static bool has_blocks(const struct window_rules *r, const struct sequence *s,
                       uint32_t position, uint32_t end)
{
    uint32_t first = windows_first(r, position);

    return first >= end ||
           (s->memory.window_first <= first &&
            s->memory.window_first + s->memory.n_windows >= end);
}

bool windows_reach(const struct sequence_table *t, const struct sequence *s,
                   uint32_t position)
{
    const struct window_rules *r = &t->windows;

    return r->window == 0 ||
           has_blocks(r, s, position, ceil_div_u32(position, r->block_tokens));
}

static bool take_block(struct sequence_table *t, struct sequence *s)
{
    uint32_t block = s->memory.window_first + s->memory.n_windows, number;

    if (s->memory.n_windows == s->memory.window_room ||
        (s->memory.n_windows + 1) * t->windows.pages >
            s->memory.need.n[POOL_WINDOWS]) {
        return false;
    }
    s->memory.n_windows++;
    for (uint32_t i = 0; i < t->windows.pages; i++) {
        if (!pool_take(t->pool, POOL_WINDOWS, 1, &number)) {
            return false;
        }
        put(t, s, block, i, number);
    }
    return true;
}

uint32_t windows_seen(const struct window_rules *r, uint32_t position)
{
    return r->window == 0 ? 0
                          : ceil_div_u32(position, r->block_tokens) -
                                windows_first(r, position);
}

bool windows_restore(struct sequence_table *t, struct sequence *s)
{
    uint32_t n = windows_seen(&t->windows, s->plan.n_planned);

    assert(s->memory.n_windows == 0);
    s->memory.window_first = windows_first(&t->windows, s->plan.n_planned);
    while (s->memory.n_windows < n) {
        if (!take_block(t, s)) {
            return false;
        }
    }
    return true;
}

/* Gives back the first blocks, below `first`, until s holds at most `most`.  A
 * row that begins anew, before what s holds, gives all of it back. */
static bool leave_behind(struct sequence_table *t, struct sequence *s,
                         uint32_t first, uint32_t most)
{
    bool anew = s->memory.window_first > first;

    while (s->memory.n_windows > (anew ? 0 : most) &&
           (anew || s->memory.window_first < first)) {
        if (!give_back(t, s)) {
            return false;
        }
    }
    if (s->memory.n_windows == 0) {
        s->memory.window_first = first;
    }
    return true;
}

bool windows_trim(struct sequence_table *t, struct sequence *s,
                  uint32_t position)
{
    const struct window_rules *r = &t->windows;
    uint32_t first = windows_first(r, position);

    return r->window == 0 || s->memory.window_first >= first ||
           leave_behind(t, s, first, 0);
}

/* Returns how many blocks s may hold. */
static uint32_t room_of(const struct sequence_table *t,
                        const struct sequence *s)
{
    uint32_t pages = t->windows.pages;

    return pages == 0 ? s->memory.window_room
                      : min_u32(s->memory.window_room,
                                s->memory.need.n[POOL_WINDOWS] / pages);
}

bool windows_move(struct sequence_table *t, struct sequence *s,
                  uint32_t position, uint32_t end)
{
    const struct window_rules *r = &t->windows;
    uint32_t first = windows_first(r, position), last, room, more;

    if (r->window == 0) {
        return true;
    }
    last = ceil_div_u32(end, r->block_tokens);
    more = last - min_u32(last, s->memory.window_first + s->memory.n_windows);
    room = room_of(t, s);
    /* The contents of a partly filled block may follow by a copy. */
    if (!leave_behind(t, s, first, room - min_u32(room, more)) ||
        !has_blocks(r, s, position, position / r->block_tokens)) {
        return false;
    }
    while (s->memory.window_first + s->memory.n_windows < last) {
        if (!take_block(t, s)) {
            return false;
        }
    }
    return true;
}

/* ---- shared and cut ---- */

void windows_share(struct sequence_table *t, const struct sequence *from,
                   struct sequence *s, uint32_t position, bool whole)
{
    const struct window_rules *r = &t->windows;
    uint32_t end;

    if (r->window == 0) {
        return;
    }
    end = whole ? ceil_div_u32(position, r->block_tokens)
                : position / r->block_tokens;
    s->memory.window_first = windows_first(r, position);
    assert(s->memory.n_windows == 0 &&
           s->memory.window_room >= end - s->memory.window_first);
    for (uint32_t b = s->memory.window_first; b < end; b++) {
        s->memory.n_windows++;
        for (uint32_t i = 0; i < r->pages; i++) {
            uint32_t number = windows_page(t, from, b, i);

            pool_share_window(t->pool, number);
            put(t, s, b, i, number);
        }
    }
}

bool windows_clear(struct sequence_table *t, struct sequence *s)
{
    while (s->memory.n_windows > 0) {
        if (!give_back(t, s)) {
            return false;
        }
    }
    return true;
}

/* Returns the number of a page that the caller shares, or takes for one in the
 * host tier. */
static uint32_t adopt_page(struct sequence_table *t, uint32_t page)
{
    uint32_t number = page;

    if ((page & WINDOW_IN_HOST) == 0) {
        pool_share_window(t->pool, page);
    } else if (pool_take(t->pool, POOL_WINDOWS, 1, &number)) {
        pool_copy_in(t->pool, page & ~WINDOW_IN_HOST,
                     pool_page(t->pool, number));
    }
    return number;
}

void windows_adopt(struct sequence_table *t, struct sequence *s,
                   uint32_t position, const uint32_t *pages)
{
    const struct window_rules *r = &t->windows;
    uint32_t n = windows_seen(r, position);

    assert(s->memory.n_windows == 0 && position % r->block_tokens == 0);
    s->memory.window_first = windows_first(r, position);
    s->memory.n_windows = n;
    for (uint32_t i = 0; i < n * r->pages; i++) {
        put(t, s, s->memory.window_first + i / r->pages, i % r->pages,
            adopt_page(t, pages[i]));
    }
}

bool windows_shared(const struct sequence_table *t, const struct sequence *s,
                    uint32_t block)
{
    for (uint32_t i = 0; i < t->windows.pages; i++) {
        const struct pool_block *b =
            &t->pool->blocks[windows_page(t, s, block, i)];

        if (b->refs > 1 || b->indexed) {
            return true;
        }
    }
    return false;
}

static void release_block(struct sequence_table *t, const struct sequence *s,
                          uint32_t block)
{
    for (uint32_t i = 0; i < t->windows.pages; i++) {
        pool_release(t->pool, POOL_WINDOWS, windows_page(t, s, block, i));
    }
}

uint32_t windows_cut(struct sequence_table *t, struct sequence *s,
                     uint32_t position)
{
    uint32_t bt = t->windows.block_tokens, n = 0;
    uint32_t first = windows_first(&t->windows, position);

    while (s->memory.n_windows > 0 && s->memory.window_first < first) {
        release_block(t, s, s->memory.window_first);
        s->memory.window_first++;
        s->memory.n_windows--;
        n += t->windows.pages;
    }
    while (s->memory.n_windows > 0 &&
           (s->memory.window_first + s->memory.n_windows - 1) * bt >=
               position) {
        release_block(t, s, s->memory.window_first + s->memory.n_windows - 1);
        s->memory.n_windows--;
        n += t->windows.pages;
    }
    s->memory.need.n[POOL_WINDOWS] -= n;
    return n;
}

void windows_release(struct sequence_table *t, struct sequence *s)
{
    for (uint32_t i = 0; i < s->memory.n_windows; i++) {
        release_block(t, s, s->memory.window_first + i);
    }
    s->memory.n_windows = s->memory.window_first = 0;
}
