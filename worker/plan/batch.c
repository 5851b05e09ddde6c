#include "worker/plan/batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/sequence/windows.h"

/* ---- made and freed ---- */

struct batcher_limits batch_limits(const struct worker_options *o,
                                   uint32_t n_batches)
{
    struct window_rules w = windows_rules(o);

    return (struct batcher_limits){
        .max_rows = o->max_rows,
        .step_tokens = o->step_tokens,
        .chunk_tokens = o->chunk_tokens,
        .depth = o->engine_depth,
        .batches = n_batches,
        .block_tokens = o->block_tokens,
        .context = o->context,
        .pages_per_slot = o->pool.pages_per_slot,
        .copies = BATCH_COPIES_MAX,
        .has_blocks = o->pool.pages_per_block > 0,
        .windows = w,
        .drafts = o->drafting.most,
        .keep_tokens = o->drafting.keep_tokens,
        .drafts_auto = o->drafting.chooses,
        .proposers = {.drafter = o->drafting.drafter,
                      .has_mtp = o->drafting.has_mtp},
        .eos = o->eos,
        .n_eos = o->n_eos,
        .bounded = o->itl.bounded,
        .itl_us = o->itl.target_us,
        .window_table = w.pages * windows_blocks(&w, o->context)};
}

static uint32_t blocks_for(const struct batcher_limits *l, uint32_t n_tokens)
{
    uint32_t bt = l->block_tokens;

    return l->has_blocks ? n_tokens / bt + (n_tokens % bt != 0) : 0;
}

/* Returns the entries of all tables of a plan.  Rows may name a shared block
 * many times, so the pool is no bound. */
static uint32_t table_max(const struct batcher_limits *l)
{
    uint32_t one = blocks_for(l, l->context) + 1 + l->window_table;
    uint64_t all = (uint64_t)one * l->max_rows;

    if (all > PLAN_BLOCKS_MAX) {
        all = one > PLAN_BLOCKS_MAX ? one : PLAN_BLOCKS_MAX;
    }
    return (uint32_t)all;
}

bool batch_init(struct batch *t, const struct batcher_limits *l)
{
    struct plan *p = &t->plan;
    size_t rows = l->max_rows, copies = PLAN_COPIES_MAX;

    p->rows = malloc(rows * sizeof *p->rows);
    p->tokens = malloc(l->step_tokens * sizeof *p->tokens);
    p->blocks = malloc(table_max(l) * sizeof *p->blocks);
    p->zero_slots = malloc(rows * sizeof *p->zero_slots);
    p->saves = malloc(rows * PLAN_SAVES_MAX * sizeof *p->saves);
    p->replays = malloc(PLAN_ROWS_MAX * sizeof *p->replays);
    p->eos = l->eos;
    p->n_eos = l->n_eos;
    p->before = malloc(copies * sizeof *p->before);
    p->after = malloc((2 + l->windows.pages) * rows * sizeof *p->after);
    p->poison = malloc(copies * sizeof *p->poison);
    t->owners = malloc(rows * sizeof *t->owners);
    t->moves = malloc(copies * sizeof *t->moves);
    return p->rows != NULL && p->tokens != NULL && p->blocks != NULL &&
           p->zero_slots != NULL && p->saves != NULL && p->replays != NULL &&
           p->before != NULL && p->after != NULL && p->poison != NULL &&
           t->owners != NULL && t->moves != NULL;
}

void batch_fini(struct batch *t)
{
    free(t->plan.rows);
    free(t->plan.tokens);
    free(t->plan.blocks);
    free(t->plan.zero_slots);
    free(t->plan.saves);
    free(t->plan.replays);
    free(t->plan.before);
    free(t->plan.after);
    free(t->plan.poison);
    free(t->owners);
    free(t->moves);
    memset(t, 0, sizeof *t);
}

/* ---- copies ---- */

void batch_carry(struct batch *t, struct pool *pool)
{
    struct plan *p = &t->plan;
    uint32_t n;

    if (pool->n_moves == 0) {
        return;
    }
    assert(pool->n_moves <= PLAN_COPIES_MAX - p->n_before);
    n = pool_take_moves(pool, &p->before[p->n_before]);
    for (uint32_t i = 0; i < n; i++) {
        const struct plan_copy *c = &p->before[p->n_before + i];

        t->n_swaps += c->kind != COPY_PAGES;
        t->n_swapped += c->kind != COPY_PAGES ? c->n : 0;
    }
    memcpy(&t->moves[t->n_moves], &p->before[p->n_before],
           n * sizeof *t->moves);
    t->n_moves += n;
    p->n_before += PLANT(MOVED_BLOCK_STALE) ? 0 : n;
}

void batch_copy(struct batch *t, struct pool *pool, struct plan_copy c)
{
    batch_carry(t, pool);
    assert(t->plan.n_before < PLAN_COPIES_MAX);
    t->plan.before[t->plan.n_before++] = c;
}

void batch_begin(struct batch *t, struct pool *pool, uint64_t step)
{
    struct plan *p = &t->plan;

    t->n_prompt_tokens = t->n_moves = t->n_loads = t->n_table = 0;
    t->n_swaps = t->n_swapped = t->n_kept = 0;
    t->n_decode = t->n_decode_tokens = 0;
    p->step = step;
    p->n_rows = p->n_tokens = p->n_blocks = p->n_zero = 0;
    p->n_saves = p->n_before = p->n_after = p->n_replays = 0;
    p->hidden = NULL;
    /* Now and not at the end: a checkpoint that this plan restores may be freed
     * while the plan is made, and poison comes before copies. */
    p->n_poison = pool_take_freed(pool, p->poison);
    batch_carry(t, pool);
}

void batch_unpoison(struct batch *t, const struct plan_copy *c)
{
    struct plan *p = &t->plan;

    for (uint32_t i = 0; i < p->n_poison;) {
        const struct plan_copy *x = &p->poison[i];

        if (x->from < c->from + c->n && c->from < x->from + x->n) {
            p->poison[i] = p->poison[--p->n_poison];
        } else {
            i++;
        }
    }
}

void batch_undo(struct batch *t, struct pool *pool)
{
    pool_untake_moves(pool, t->moves, t->n_moves);
    t->n_moves = 0;
}

/* ---- memory of a row ---- */

_Static_assert(POOL_EXTENT_MAX + COPIES_SPARE < BATCH_COPIES_MAX,
               "an empty plan has room for the moves of a slot");
_Static_assert(BATCH_COPIES_MAX + POOL_SWAPS_MAX <= PLAN_COPIES_MAX,
               "a plan has room for them");

/* Returns how many more moves the plan has room for. */
static uint32_t moves_left(const struct batcher_limits *l,
                           const struct batch *t)
{
    uint32_t used = t->plan.n_before - t->n_swaps + COPIES_SPARE;

    return used < l->copies ? l->copies - used : 0;
}

bool batch_has_copies(const struct batcher_limits *l, const struct batch *t)
{
    return moves_left(l, t) >= l->pages_per_slot;
}

bool batch_has_room(const struct batcher_limits *l, const struct pool *pool,
                    const struct batch *t, const struct sequence *s,
                    uint32_t end)
{
    if (suspension_grows(&s->suspension) &&
        (blocks_for(l, end) > s->memory.need.n[POOL_BLOCKS] ||
         windows_blocks(&l->windows, end) * l->windows.pages >
             s->memory.need.n[POOL_WINDOWS])) {
        return false;
    }
    if (s->memory.n_host > 0 &&
        s->memory.n_host + l->pages_per_slot > moves_left(l, t)) {
        return false;
    }
    if (l->pages_per_slot > 0 && s->memory.slot == SLOT_NONE &&
        !pool_can_take(pool, POOL_SLOTS, 1, moves_left(l, t))) {
        return false;
    }
    return t->plan.n_rows == 0 ||
           blocks_for(l, end) + l->window_table <= table_max(l) - t->n_table;
}

/* Blocks are taken only as positions are reached; the rest of the grant stays a
 * promise without numbers. */
bool batch_take_blocks(const struct batcher_limits *l,
                       struct sequence_table *table, struct sequence *s,
                       uint32_t end)
{
    uint32_t want = blocks_for(l, end);

    while (s->memory.n_blocks < want) {
        uint32_t block;

        if (s->memory.n_blocks >= s->memory.need.n[POOL_BLOCKS] ||
            !pool_take(table->pool, POOL_BLOCKS, 1, &block)) {
            return false;
        }
        paged_write(&table->slab, &s->memory.blocks, s->memory.n_blocks++,
                    &block, 1);
    }
    return true;
}

bool batch_take_memory(const struct batcher_limits *l,
                       struct sequence_table *table, struct batch *t,
                       struct sequence *s, uint32_t begin, uint32_t end)
{
    struct pool *pool = table->pool;

    if (!batch_take_blocks(l, table, s, end)) {
        return false;
    }
    if (!windows_move(table, s, begin, end)) {
        return false;
    }
    if (l->pages_per_slot > 0 && s->memory.slot == SLOT_NONE &&
        !pool_take(pool, POOL_SLOTS, 1, &s->memory.slot)) {
        return false;
    }
    batch_carry(t, pool);
    /* The recurrent state of the previous owner is still in the slot, or its
     * own one of before it is computed again. */
    if (l->pages_per_slot > 0 && s->plan.n_planned == 0 &&
        !PLANT(SLOT_NOT_ZEROED) &&
        !(PLANT(RECOMPUTE_STALE) && s->plan.recompute == RECOMPUTE_ALONE)) {
        t->plan.zero_slots[t->plan.n_zero++] = s->memory.slot;
    }
    t->n_table += s->memory.n_blocks + s->memory.n_windows * l->windows.pages;
    return true;
}

/* ---- tables ---- */

/* Table by table, as the kernels read them. */
static void fill_windows(const struct sequence_table *table, struct plan *p,
                         struct plan_row *row, const struct sequence *s)
{
    row->window = p->n_blocks;
    row->n_window = table->windows.pages > 0 ? s->memory.n_windows : 0;
    row->window_first = s->memory.window_first;
    for (uint32_t i = 0; i < table->windows.pages; i++) {
        for (uint32_t k = 0; k < s->memory.n_windows; k++) {
            p->blocks[p->n_blocks++] = pool_page(
                table->pool,
                windows_page(table, s, s->memory.window_first + k, i));
        }
    }
}

static void fill_table(const struct sequence_table *table, struct plan *p,
                       struct plan_row *row, const struct sequence *s)
{
    row->block = p->n_blocks;
    row->n_blocks = s->memory.n_blocks;
    row->slot = s->memory.slot;
    if (s->memory.n_blocks > 0) {
        paged_read(&table->slab, &s->memory.blocks, 0, &p->blocks[p->n_blocks],
                   s->memory.n_blocks);
    }
    for (uint32_t i = 0; i < s->memory.n_blocks; i++) {
        uint32_t *entry = &p->blocks[p->n_blocks++];

        *entry = pool_page(table->pool, *entry);
    }
    fill_windows(table, p, row, s);
}

/* A twin copies the partly filled last window block of its source. */
static void fill_twin_windows(const struct batcher_limits *l, struct plan *p,
                              const struct plan_row *row)
{
    const struct plan_row *source = &p->rows[row->source];
    uint32_t last = row->position / l->block_tokens;

    for (uint32_t i = 0;
         i < l->windows.pages && row->position % l->block_tokens != 0; i++) {
        p->after[p->n_after++] = (struct plan_copy){
            .from = p->blocks[source->window + i * source->n_window + last -
                              source->window_first],
            .to = p->blocks[row->window + i * row->n_window + last -
                            row->window_first],
            .n = 1};
    }
}

/* A twin copies the slot and the partly filled last block of its source. */
static void fill_twin(const struct batcher_limits *l, struct plan *p,
                      const struct plan_row *row)
{
    const struct plan_row *source = &p->rows[row->source];
    uint32_t last = row->position / l->block_tokens;

    if (l->pages_per_slot > 0) {
        p->after[p->n_after++] = (struct plan_copy){
            .from = source->slot, .to = row->slot, .n = l->pages_per_slot};
    }
    if (PLANT(TWIN_COPIES) && last > 0 && row->n_blocks > last - 1) {
        p->after[p->n_after++] =
            (struct plan_copy){.from = p->blocks[source->block + last - 1],
                               .to = p->blocks[row->block + last - 1],
                               .n = 1};
    }
    if (row->n_blocks > last) {
        p->after[p->n_after++] =
            (struct plan_copy){.from = p->blocks[source->block + last],
                               .to = p->blocks[row->block + last],
                               .n = 1};
    }
}

void batch_finish(const struct batcher_limits *l,
                  const struct sequence_table *table, struct batch *t)
{
    struct plan *p = &t->plan;

    batch_carry(t, table->pool);
    pool_end_plan(table->pool);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        fill_table(table, p, &p->rows[i], t->owners[i]);
        if (p->rows[i].n_tokens == 0) {
            fill_twin(l, p, &p->rows[i]);
            fill_twin_windows(l, p, &p->rows[i]);
        }
    }
}

struct plan_history batch_history(const struct sequence_table *table,
                                  const struct sequence *s)
{
    /* Only penalties read the history, so other rows do not carry it. */
    if (!sampling_penalises(&s->portable.sampling)) {
        return (struct plan_history){.n = 0};
    }
    return (struct plan_history){
        .pages = paged_pages(&table->slab, &s->portable.tokens),
        .n = sequence_known(s) - PLANT(HISTORY_STALE),
        .n_prompt = PLANT(HISTORY_SPLIT) ? s->arrival.n_announced
                                         : s->portable.n_prompt};
}
