#include "worker/sequences/batcher.h"

#include <assert.h>
#include <string.h>

#include "common/base/plant.h"
#include "worker/cache/windows.h"
#include "worker/sequences/continue.h"
#include "worker/sequences/twins.h"

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A chunk must fit into a step, so a smaller budget lowers the cut. */
static void set_cut(struct batcher *b)
{
    b->cut = least(BATCHER_CUT,
                   least(b->limits.chunk_tokens, b->limits.step_tokens));
}

bool batcher_init(struct batcher *b, const struct batcher_limits *l,
                  struct sequence_table *table, struct reuse *reuse)
{
    bool ok = true;

    assert(l->depth <= l->batches && l->batches <= BATCHES_MAX);
    memset(b, 0, sizeof *b);
    b->limits = *l;
    b->rows_made = l->max_rows;
    b->tokens_made = l->step_tokens;
    set_cut(b);
    b->table = table;
    b->reuse = reuse;
    b->prefill.link = b->decode.link = b->again.link = LIST_PLAN;
    b->twins.link = b->spent.link = LIST_PLAN;
    b->stages = 1;
    for (uint32_t i = 0; i < l->batches; i++) {
        ok = batch_init(&b->ring[i], l) && ok;
    }
    if (!ok) {
        batcher_fini(b);
    }
    return ok;
}

void batcher_fini(struct batcher *b)
{
    for (int i = 0; i < BATCHES_MAX; i++) {
        batch_fini(&b->ring[i]);
    }
    memset(b, 0, sizeof *b);
}

void batcher_lead(struct batcher *b, uint32_t n_stages, uint32_t max_rows,
                  uint32_t step_tokens)
{
    assert(n_stages >= 2 && n_stages <= b->limits.batches);
    assert(max_rows > 0 && step_tokens > 0);
    b->stages = n_stages;
    b->limits.max_rows = least(max_rows, b->rows_made);
    b->limits.step_tokens = least(step_tokens, b->tokens_made);
    set_cut(b);
}

/* Returns how many plans may be under way. */
static uint32_t inflight_max(const struct batcher *b)
{
    return b->stages > 1 ? b->stages : b->limits.depth;
}

void batcher_add(struct batcher *b, struct sequence *s)
{
    if (!twins_join(b, s)) {
        sequence_push(&b->prefill, s);
    }
}

void batcher_again(struct batcher *b, struct sequence *s)
{
    assert(s->inflight == 0);
    s->recompute = RECOMPUTE_ALONE;
    if (s->lost == 0) {
        s->lost = s->n_computed;
        s->waste = WASTE_FAILED;
    }
    s->n_planned = s->pending = 0;
    if (!PLANT(RECOMPUTE_LOST)) {
        sequence_push(&b->again, s);
    }
}

void batcher_drop(struct batcher *b, struct sequence *s)
{
    twins_leave(s);
    twins_release(b, s);
    sequence_unlink(s, LIST_PLAN);
}

bool batcher_load(struct batcher *b, uint32_t checkpoint, uint32_t slot)
{
    if (b->n_loads == LOADS_MAX) {
        return false;
    }
    b->loads[b->n_loads++] = (struct plan_copy){
        .from = checkpoint, .to = slot, .n = b->limits.pages_per_slot};
    return true;
}

bool batcher_out(struct batcher *b, uint32_t page, uint32_t host,
                 uint32_t first)
{
    struct plan_copy *last = b->n_outs > first ? &b->outs[b->n_outs - 1] : NULL;

    if (last != NULL && last->from + last->n == page &&
        last->to + last->n == host) {
        last->n++;
        return true;
    }
    if (b->n_outs == OUTS_MAX) {
        return false;
    }
    b->outs[b->n_outs++] =
        (struct plan_copy){.from = page, .to = host, .n = 1, .kind = COPY_OUT};
    return true;
}

/* ---- rows ---- */

static void fill_ids(struct batcher *b, struct plan *p, struct plan_row *row,
                     const struct sequence *s)
{
    row->token = p->n_tokens;
    p->n_tokens += row->n_tokens;
    if (row->chained) {
        row->chain_row = PLANT(CHAIN_ASTRAY) ? 0 : s->last_row;
        p->tokens[row->token] = TOKEN_NONE;
        return;
    }
    paged_read(&b->table->slab, &s->tokens, row->position,
               &p->tokens[row->token], row->n_tokens);
}

void batcher_own_row(struct batcher *b, struct batch *t, struct sequence *s)
{
    struct plan *p = &t->plan;
    const struct plan_row *row = &p->rows[p->n_rows];

    s->pending += row->sample ? 1 : 0;
    s->inflight++;
    s->last_step = p->step;
    s->last_row = p->n_rows;
    t->owners[p->n_rows++] = s;
    if (s->state == SEQUENCE_QUEUED) {
        sequence_move(b->table, s, SEQUENCE_PREFILL);
    }
    /* From its first sample on, a sequence decodes; pushing it again moves it
     * to the tail, which is how turns are taken. */
    if (row->sample) {
        sequence_push(&b->decode, s);
    }
}

/* Adds the copies before the first row of a sequence. */
struct begin {
    uint32_t checkpoint; /* to its slot; SLOT_NONE: nothing */
    struct continue_copies kept;
};

static const struct begin nothing = {SLOT_NONE, {PLACE_NONE, NULL}};

/* Copies the partly filled window block of a kept sequence. */
static void copy_windows(struct batcher *b, struct batch *t,
                         const struct sequence *s, const struct sequence *kept)
{
    struct pool *pool = b->table->pool;
    uint32_t last = s->n_planned / b->limits.block_tokens;

    for (uint32_t i = 0; i < b->table->windows.pages; i++) {
        struct plan_copy c = {
            .from = pool_page(pool, windows_page(b->table, kept, last, i)),
            .to = pool_page(pool, windows_page(b->table, s, last, i)),
            .n = 1};

        batch_copy(t, pool, c);
    }
}

static void copy_begin(struct batcher *b, struct batch *t,
                       const struct sequence *s, const struct begin *from)
{
    struct pool *pool = b->table->pool;
    struct plan_copy c;

    if (from->checkpoint != SLOT_NONE && !PLANT(RESTORED_WITHOUT_COPY)) {
        c = (struct plan_copy){.from = from->checkpoint,
                               .to = s->slot,
                               .n = b->limits.pages_per_slot};
        batch_copy(t, pool, c);
    }
    if (from->kept.windows != NULL) {
        copy_windows(b, t, s, from->kept.windows);
    }
    if (from->kept.block != PLACE_NONE) {
        uint32_t last = s->n_planned / b->limits.block_tokens;
        uint32_t own = paged_get(&b->table->slab, &s->blocks, last);

        c = (struct plan_copy){.from = pool_page(pool, from->kept.block),
                               .to = pool_page(pool, own),
                               .n = 1};
        batch_copy(t, pool, c);
    }
}

/* Adds a page that comes back to the copies, or to the last one. */
static void copy_in(struct batch *t, struct pool *pool, struct plan_copy *run,
                    uint32_t host, uint32_t page)
{
    if (run->n > 0 && run->from + run->n == host && run->to + run->n == page) {
        run->n++;
        return;
    }
    if (run->n > 0) {
        batch_copy(t, pool, *run);
    }
    *run =
        (struct plan_copy){.from = host, .to = page, .n = 1, .kind = COPY_IN};
}

/* Takes the slot and the blocks that s has in the host tier. */
static bool take_back(struct batcher *b, struct sequence *s)
{
    struct pool *pool = b->table->pool;
    uint32_t n = s->n_host - b->limits.pages_per_slot - s->n_host_windows;
    uint32_t block;

    /* The slot first: it may move blocks, and then those of s stay. */
    if (b->limits.pages_per_slot > 0 &&
        !pool_take(pool, POOL_SLOTS, 1, &s->slot)) {
        return false;
    }
    for (; n > 0; n--) {
        if (!pool_take(pool, POOL_BLOCKS, 1, &block)) {
            return false;
        }
        paged_write(&b->table->slab, &s->blocks, s->n_blocks++, &block, 1);
    }
    return windows_restore(b->table, s);
}

/* Brings back what s has in the host tier, for the row that follows. */
static bool bring_in(struct batcher *b, struct batch *t, struct sequence *s)
{
    struct pool *pool = b->table->pool;
    uint32_t n_slot = b->limits.pages_per_slot, host = s->host;
    uint32_t first = s->n_blocks;
    struct plan_copy run = {.n = 0};

    if (!take_back(b, s)) {
        return false;
    }
    for (uint32_t i = 0; i < s->n_host - s->n_host_windows; i++) {
        uint32_t at = first + i - n_slot;

        if (PLANT(SWAP_ASTRAY) && i >= n_slot) {
            at = s->n_blocks - 1 - (i - n_slot);
        } else if (PLANT(SWAP_SHARED) && i >= n_slot) {
            at = i - n_slot;
        }
        uint32_t page =
            i < n_slot
                ? s->slot + i
                : pool_page(pool, paged_get(&b->table->slab, &s->blocks, at));

        copy_in(t, pool, &run, host, page);
        host = host_next(b->table->host, host);
    }
    for (uint32_t i = 0; i < s->n_host_windows; i++) {
        copy_in(t, pool, &run, host,
                pool_page(pool, windows_nth(b->table, s, i)));
        host = host_next(b->table->host, host);
    }
    batch_copy(t, pool, run);
    t->n_swapped += s->n_host;
    b->n_back += s->n_host;
    s->swap_step = t->plan.step;
    sequence_give_host(b->table, s);
    return true;
}

/* Counts the positions that are computed again from here on. */
static void count_waste(struct batcher *b, struct sequence *s)
{
    if (s->lost > s->n_planned) {
        b->n_wasted[s->waste] += s->lost - s->n_planned;
    }
    s->lost = 0;
}

/* Adds a row with the next n positions of s. */
static void add_row(struct batcher *b, struct batch *t, struct sequence *s,
                    uint32_t n, const struct begin *from)
{
    struct plan *p = &t->plan;
    uint32_t known = sequence_known(s), i = p->n_rows, run;
    struct plan_row *row = &p->rows[i];

    count_waste(b, s);
    if ((s->n_host > 0 && !bring_in(b, t, s)) ||
        !batch_take_memory(&b->limits, b->table, t, s, s->n_planned,
                           s->n_planned + n)) {
        batcher_drop(b, s);
        b->stuck = s;
        return;
    }
    copy_begin(b, t, s, from);
    *row = (struct plan_row){
        .sequence = s->number,
        .kind = sequence_kind(s, s->n_planned, &run),
        .position = s->n_planned,
        .n_tokens = n,
        .chained = s->n_planned >= known,
        .sample = s->n_planned + n >= known,
        .index = s->n_generated + (PLANT(INDEX_REUSED) ? 0 : s->pending),
        .choice = s->key.choice,
        .sampling = &s->sampling,
    };
    fill_ids(b, p, row, s);
    if (row->sample) {
        row->history = batch_history(b->table, s);
    }
    if (row->kind == ROW_PROMPT) {
        t->n_prompt_tokens += n;
    }
    if (b->reuse != NULL) {
        reuse_save(b->reuse, &b->limits, t, s, i);
    }
    s->n_planned += n;
    batcher_own_row(b, t, s);
    if (s->n_twins > 0 && row->sample && s->n_planned == s->n_prompt) {
        twins_add(b, t, s, i);
    }
}

/* ---- decode ---- */

/* Returns false if the window is full: s waits for an acknowledgement. */
static bool window_open(const struct sequence *s)
{
    return !s->sampling.logprobs || PLANT(WINDOW_IGNORED) ||
           logprobs_room(&s->logprobs, s->acked, s->pending);
}

/* Returns whether s has a next token to compute, known or chained. */
static bool decode_ready(const struct batcher *b, const struct sequence *s)
{
    if (!window_open(s)) {
        return false;
    }
    if (s->n_planned < sequence_known(s)) {
        return true;
    }
    return b->stages == 1 && s->pending > 0 && s->last_step == b->step &&
           s->n_generated + s->pending < s->max_tokens;
}

static uint32_t ceil_div(uint32_t a, uint32_t b)
{
    return a / b + (a % b != 0);
}

/* Returns the most decode rows of this microbatch; the others get the rest. */
static uint32_t decode_share(const struct batcher *b)
{
    uint32_t ready = 0;

    if (b->stages == 1) {
        return UINT32_MAX;
    }
    for (const struct sequence *s = b->decode.head; s != NULL;
         s = sequence_next(s, LIST_PLAN)) {
        ready += decode_ready(b, s);
    }
    return least(ceil_div(ready, inflight_max(b) - b->inflight),
                 ceil_div(b->decode.n, b->stages));
}

/* Reserves a part of the step for prefill while it waits.  Where a step is too
 * small to divide, prefill and decode take turns. */
static void decode_limits(const struct batcher *b, uint32_t *rows,
                          uint32_t *tokens)
{
    bool small = b->limits.max_rows == 1 || b->limits.step_tokens <= b->cut;

    *rows = b->limits.max_rows;
    *tokens = b->limits.step_tokens;
    /* Nothing waits for prefill: decode may use the whole step. */
    if (b->prefill.head == NULL) {
        return;
    }
    if (small) {
        *rows = b->step % 2 == 0 ? 0 : *rows;
        return;
    }
    *rows -= 1;
    *tokens -= b->cut;
}

static void plan_decode(struct batcher *b, struct batch *t)
{
    uint32_t rows, tokens, left = b->decode.n;

    decode_limits(b, &rows, &tokens);
    rows = least(rows, decode_share(b));
    /* Visit each once, from the head; add_row() moves it to the tail. */
    for (struct sequence *s = b->decode.head, *next; left > 0;
         left--, s = next) {
        next = sequence_next(s, LIST_PLAN);
        if (t->plan.n_rows == rows || t->plan.n_tokens == tokens) {
            return;
        }
        if (decode_ready(b, s) && batch_has_room(&b->limits, b->table->pool, t,
                                                 s, s->n_planned + 1)) {
            add_row(b, t, s, 1, &nothing);
        }
    }
}

/* ---- prefill ---- */

/* Returns how many positions of s fit into `room` tokens; 0: none now. */
static uint32_t chunk_length(const struct batcher *b, const struct sequence *s,
                             uint32_t room)
{
    uint32_t at = s->n_planned, past = at % b->cut;
    uint32_t n = least(room, b->limits.chunk_tokens);
    uint32_t end, stop;
    enum row_kind kind = sequence_kind(s, at, &end);

    end = least(end, sequence_known(s));
    if (kind == ROW_GENERATED) {
        return least(n, end - at);
    }
    if (past > 0) {
        end = least(end, at - past + b->cut);
    }
    /* The last chunk may end anywhere: the run's end is the same under any
     * load. */
    if (n >= end - at) {
        return end - at;
    }
    stop = at + n;
    stop -= stop % b->cut;
    return stop > at ? stop - at : 0;
}

/* Decides where the first plan of s begins.  Returns false if s cannot begin
 * yet, because a plan still computes what it continues. */
static bool begin(struct batcher *b, struct sequence *s, struct begin *from)
{
    if (s->n_planned > 0) {
        return true;
    }
    if (s->from != NULL) {
        if (s->from->inflight > 0) {
            return false;
        }
        continue_take(b, s, &from->kept);
    }
    if (s->n_planned == 0 && reuse_has(b->reuse, s)) {
        reuse_begin(b->reuse, s, &from->checkpoint);
    }
    return true;
}

/* Returns whether a first row of s fits, wherever it will begin: a cut of
 * tokens, or all of them. */
static bool can_begin(const struct batcher *b, const struct batch *t,
                      const struct sequence *s, uint32_t room)
{
    uint32_t known = sequence_known(s);

    return (room >= b->cut || known <= room) &&
           batch_has_room(&b->limits, b->table->pool, t, s, known);
}

static void plan_prefill(struct batcher *b, struct batch *t)
{
    struct sequence *s = b->prefill.head, *next;

    for (; s != NULL && t->plan.n_rows < b->limits.max_rows; s = next) {
        uint32_t n, room = b->limits.step_tokens - t->plan.n_tokens;
        struct begin from = nothing;

        next = sequence_next(s, LIST_PLAN);
        /* FIFO: later sequences wait behind this one, or a long prompt could
         * starve. */
        if (s->n_planned == 0 && !can_begin(b, t, s, room)) {
            return;
        }
        if (!begin(b, s, &from)) {
            continue;
        }
        n = chunk_length(b, s, room);
        if (n == 0 || !batch_has_room(&b->limits, b->table->pool, t, s,
                                      s->n_planned + n)) {
            return;
        }
        add_row(b, t, s, n, &from);
    }
}

/* ---- computed again ---- */

/* One plan of s at a time: it may write again to blocks that others have.  If
 * its step failed, a row behind would fill them with garbage. */
static void plan_again(struct batcher *b, struct batch *t)
{
    struct sequence *s = b->again.head;
    struct begin from = nothing;

    while (s != NULL && (s->inflight > 0 || !window_open(s))) {
        s = sequence_next(s, LIST_PLAN);
    }
    if (s == NULL || t->plan.n_rows > 0) {
        return;
    }
    if (s->n_planned == 0) {
        s->anew_step = t->plan.step;
    }
    if (!begin(b, s, &from)) {
        return;
    }
    add_row(b, t, s, chunk_length(b, s, b->limits.step_tokens), &from);
}

/* ---- plans ---- */

/* Returns the ring index of the i-th plan in flight, 0 being the oldest. */
static uint32_t ring_index(const struct batcher *b, uint32_t i)
{
    return (b->oldest + i) % b->limits.batches;
}

/* Starts a plan, with the states that it loads for kept sequences. */
static void begin_batch(struct batcher *b, struct batch *t)
{
    batch_begin(t, b->table->pool, b->step + 1);
    for (t->n_loads = 0; t->n_loads < b->n_loads; t->n_loads++) {
        batch_copy(t, b->table->pool, b->loads[t->n_loads]);
        batch_unpoison(t, &b->loads[t->n_loads]);
    }
    /* Their pages are free already, and poison comes before copies. */
    for (uint32_t i = 0; i < b->n_outs; i++) {
        batch_copy(t, b->table->pool, b->outs[i]);
        batch_unpoison(t, &b->outs[i]);
        t->n_swapped += b->outs[i].n;
    }
}

const struct plan *batcher_plan(struct batcher *b)
{
    struct batch *t;

    /* Rows are added to the ring's next batch in place; it counts as in flight
     * only if it got any. */
    b->stuck = NULL;
    if (b->inflight >= inflight_max(b) || b->here == b->limits.depth) {
        return NULL;
    }
    if (b->prefill.n + b->decode.n + b->again.n == 0) {
        return NULL;
    }
    t = &b->ring[ring_index(b, b->inflight)];
    begin_batch(b, t);
    /* In turns, so that the others go on. */
    if (b->step % 2 == 1) {
        plan_again(b, t);
    }
    if (t->plan.n_rows == 0 || PLANT(RECOMPUTE_SHARED)) {
        plan_decode(b, t);
        plan_prefill(b, t);
    }
    plan_again(b, t);
    if (t->plan.n_rows == 0) {
        batch_undo(t, b->table->pool);
        return NULL;
    }
    batch_finish(&b->limits, b->table, t);
    b->n_loads = b->n_outs = 0;
    b->n_moves += t->n_moves;
    b->step++;
    b->inflight++;
    b->here++;
    return &t->plan;
}

void batcher_sent(struct batcher *b, int64_t now_us)
{
    assert(b->here > 0);
    b->ring[ring_index(b, b->inflight - 1)].sent_us = now_us;
}

const struct batch *batcher_here(const struct batcher *b)
{
    return b->here > 0 ? &b->ring[ring_index(b, b->inflight - b->here)] : NULL;
}

void batcher_pass(struct batcher *b)
{
    assert(b->here > 0);
    b->here--;
}

static bool batch_names(const struct batch *t, const struct sequence *s)
{
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        if (t->owners[i] == s) {
            return true;
        }
    }
    return false;
}

bool batcher_names(const struct batcher *b, const struct sequence *s)
{
    for (uint32_t i = b->inflight - b->here; i < b->inflight; i++) {
        const struct batch *t = &b->ring[ring_index(b, i)];

        if (s->last_step >= t->plan.step && batch_names(t, s)) {
            return true;
        }
    }
    return false;
}

const struct batch *batcher_oldest(const struct batcher *b)
{
    return b->inflight > 0 ? &b->ring[b->oldest] : NULL;
}

void batcher_return(struct batcher *b)
{
    assert(b->inflight > 0);
    b->oldest = ring_index(b, 1);
    b->inflight--;
    b->here = least(b->here, b->inflight);
}

/* The states that the plan was to load are not there: the sequences that kept
 * them are computed anew by whoever continues them. */
static void lose_loads(struct batcher *b)
{
    struct sequence *s = b->table->all.head;

    for (; s != NULL; s = sequence_next(s, LIST_ALL)) {
        if (s->state == SEQUENCE_KEPT) {
            s->n_computed = 0;
        }
    }
}

const struct batch *batcher_withdraw(struct batcher *b)
{
    struct batch *t;

    assert(b->here > 0);
    b->here--;
    b->inflight--;
    t = &b->ring[ring_index(b, b->inflight)];
    batch_undo(t, b->table->pool);
    if (t->n_loads > 0) {
        lose_loads(b);
    }
    return t;
}
