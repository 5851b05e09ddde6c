#include "tests/golden/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/runner_drafts.h"
#include "tests/golden/runner_windows.h"

#define TABLES 8 /* of all blocks, in one plan: forks share them */

static void die(const char *what)
{
    fprintf(stderr, "runner: %s\n", what);
    abort();
}

static void *must(void *p)
{
    if (p == NULL) {
        die("no memory");
    }
    return p;
}

static uint32_t *numbers(uint32_t n, uint32_t order)
{
    uint32_t *p = must(calloc(n + 1, sizeof *p));
    uint64_t x = order;

    for (uint32_t i = 0; i < n; i++) {
        p[i] = n - 1 - i;
    }
    for (uint32_t i = 0; order && i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint32_t j = (uint32_t)((x >> 33) % n), t = p[i];

        p[i] = p[j];
        p[j] = t;
    }
    return p;
}

/* The logits of a row with drafts are those after each. */
static void tap_logits(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                       uint32_t i)
{
    const struct runner *r = ctx;

    if (r->logits[row]) {
        kernels_logits_read(k, i,
                            r->logits[row] + (size_t)at * r->w->shape.vocab);
    }
}

static void tap_draft(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                      uint32_t i)
{
    const struct runner *r = ctx;

    if (r->tap.draft) {
        r->tap.draft(r->tap.ctx, k, row, at, i);
    }
}

static void tap_layer(void *ctx, struct kernels *k, uint32_t done,
                      uint32_t n_tokens)
{
    const struct runner *r = ctx;

    if (r->tap.layer) {
        r->tap.layer(r->tap.ctx, k, done, n_tokens);
    }
}

void runner_tap(struct runner *r, const struct forward_tap *tap)
{
    r->tap = *tap;
}

static bool has_memory(const struct shard_weights *w, enum mixer_memory memory)
{
    for (uint32_t i = 0; i < shard_layers(w); i++) {
        if (mixer_memory(w->layers[i].kind) == memory) {
            return true;
        }
    }
    return false;
}

/* Deals a page of its own to the blocks, or to the window blocks once these
 * have theirs. */
static void deal_page(struct runner *r, uint32_t page, uint32_t n_blocks)
{
    if (r->n_blocks < n_blocks) {
        r->blocks[r->n_blocks++] = page;
    } else if (r->windows.n_free < r->windows.n_tables * n_blocks) {
        windows_add_page(r, page);
    }
}

/* Deals the pages, in groups as large as a slot: the first n_slots groups of a
 * shuffled list are slots, the pages of the others blocks. */
static void deal_pages(struct runner *r, uint32_t n_blocks, uint32_t n_slots)
{
    uint32_t per = r->pages_per_slot > 0 ? r->pages_per_slot : 1;
    uint32_t n_groups = r->n_pages / per;
    uint32_t *groups = numbers(n_groups, r->order);

    r->n_blocks = r->n_slots = 0;
    /* The stacks are taken from the end. */
    for (uint32_t i = 0; i < n_groups; i++) {
        if (r->pages_per_slot > 0 && n_groups - i <= n_slots) {
            r->slots[r->n_slots++] = groups[i] * per;
            continue;
        }
        for (uint32_t j = per; j > 0; j--) {
            deal_page(r, groups[i] * per + j - 1, n_blocks);
        }
    }
    /* Without linear layers a slot is only a number. */
    while (r->n_slots < n_slots) {
        r->slots[r->n_slots++] = SLOT_NONE;
    }
    free(groups);
}

bool runner_pool(struct runner *r, uint32_t n_blocks, uint32_t n_slots,
                 struct error *e)
{
    uint32_t per = r->pages_per_slot > 0 ? r->pages_per_slot : 1;
    uint32_t n_single = n_blocks * (1 + r->windows.n_tables);

    r->n_pages = n_slots * r->pages_per_slot + (n_single + per - 1) / per * per;
    if (forward_alloc(r->forward, r->n_pages, e) != ST_OK) {
        return false;
    }
    free(r->plan.blocks);
    free(r->slots);
    free(r->blocks);
    r->blocks = must(calloc(n_blocks + 1, sizeof *r->blocks));
    r->slots = must(calloc(n_slots + 1, sizeof *r->slots));
    r->plan.blocks =
        must(calloc(TABLES * ((size_t)r->n_pages + 1), sizeof *r->plan.blocks));
    windows_open(r, n_single);
    deal_pages(r, n_blocks, n_slots);
    return true;
}

void runner_open(struct runner *r, const struct shard_weights *w,
                 const struct kernels_options *o, uint32_t n_blocks,
                 uint32_t n_slots, uint32_t order)
{
    struct forward_tap tap = {
        .ctx = r, .layer = tap_layer, .logits = tap_logits, .draft = tap_draft};
    struct kernels_sizes sizes;
    struct error e;

    memset(r, 0, sizeof *r);
    r->w = w;
    r->attention = has_memory(w, MIXER_IN_BLOCKS);
    r->linear = has_memory(w, MIXER_IN_SLOT);
    r->block_tokens = o->block_tokens;
    if (forward_new(&r->forward, w, o, &e) != ST_OK ||
        forward_alloc_hidden(r->forward, ENGINE_DEPTH_MAX + 1,
                             RUNNER_STAGE_TOKENS, &e) != ST_OK) {
        die(e.text);
    }
    forward_set_tap(r->forward, &tap);
    r->order = order;
    forward_sizes(r->forward, &sizes);
    r->pages_per_slot = sizes.pages_per_slot;
    r->windows.n_tables = sizes.window_pages;
    if (!runner_pool(r, n_blocks, n_slots, &e)) {
        die(e.text);
    }
    r->logits = must(calloc(PLAN_ROWS_MAX, sizeof *r->logits));
    r->plan.rows = must(calloc(PLAN_ROWS_MAX, sizeof *r->plan.rows));
    r->plan.tokens = must(calloc(PLAN_TOKENS_MAX, sizeof *r->plan.tokens));
    r->plan.zero_slots =
        must(calloc(PLAN_ROWS_MAX, sizeof *r->plan.zero_slots));
    r->plan.saves =
        must(calloc(PLAN_SAVES_MAX * PLAN_ROWS_MAX, sizeof *r->plan.saves));
    r->plan.before = must(calloc(PLAN_COPIES_MAX, sizeof *r->plan.before));
    r->plan.after = must(calloc(2 * PLAN_ROWS_MAX, sizeof *r->plan.after));
    r->plan.poison = must(calloc(PLAN_COPIES_MAX, sizeof *r->plan.poison));
    r->plan.replays = must(calloc(PLAN_ROWS_MAX, sizeof *r->plan.replays));
}

void runner_close(struct runner *r)
{
    free(r->plan.replays);
    free(r->plan.poison);
    free(r->plan.after);
    free(r->plan.before);
    free(r->plan.saves);
    free(r->plan.zero_slots);
    free(r->plan.blocks);
    free(r->plan.tokens);
    free(r->plan.rows);
    free(r->logits);
    free(r->slots);
    free(r->blocks);
    windows_close(r);
    forward_free(&r->forward);
}

/* Poisons at once if the plan has no room for more. */
void runner_poison_pages(struct runner *r, uint32_t first, uint32_t n)
{
    struct plan *p = &r->plan;

    if (!r->poisons || first == SLOT_NONE || n == 0) {
        return;
    }
    if (p->n_poison == PLAN_COPIES_MAX) {
        kernels_poison_pages(forward_kernels(r->forward), first, n);
        return;
    }
    p->poison[p->n_poison++] = (struct plan_copy){.from = first, .n = n};
}

void runner_poison(struct runner *r)
{
    struct kernels *k = forward_kernels(r->forward);

    r->poisons = true;
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        kernels_poison_pages(k, r->blocks[i], 1);
    }
    for (uint32_t i = 0; i < r->windows.n_free; i++) {
        kernels_poison_pages(k, r->windows.free[i], 1);
    }
    for (uint32_t i = 0; i < r->n_slots && r->linear; i++) {
        kernels_poison_pages(k, r->slots[i], r->pages_per_slot);
    }
}

uint32_t runner_take_slot(struct runner *r)
{
    if (r->n_slots == 0) {
        die("no slot is free");
    }
    return r->slots[--r->n_slots];
}

void runner_give_slot(struct runner *r, uint32_t slot)
{
    r->slots[r->n_slots++] = slot;
    runner_poison_pages(r, slot, r->pages_per_slot);
}

/* The old place is freed when the plan has run: until then it is read. */
void runner_move_block(struct runner *r, struct run_seq *s, uint32_t i)
{
    uint32_t to;

    windows_move(r, s, i);
    if (!r->attention || r->n_blocks == 0 ||
        r->n_moved_blocks == RUNNER_MOVES_MAX) {
        return;
    }
    to = r->blocks[--r->n_blocks];
    runner_before(r, s->blocks[i], to, 1);
    r->moved_blocks[r->n_moved_blocks++] = s->blocks[i];
    s->blocks[i] = to;
}

void runner_move_slot(struct runner *r, struct run_seq *s)
{
    uint32_t to;

    if (!r->linear || r->n_slots == 0 || r->n_moved_slots == RUNNER_MOVES_MAX) {
        return;
    }
    to = runner_take_slot(r);
    runner_before(r, s->slot, to, r->pages_per_slot);
    r->moved_slots[r->n_moved_slots++] = s->slot;
    s->slot = to;
}

static void give_block(struct runner *r, uint32_t page)
{
    r->blocks[r->n_blocks++] = page;
    runner_poison_pages(r, page, 1);
}

static void free_moved(struct runner *r)
{
    windows_free_moved(r);
    while (r->n_moved_blocks > 0) {
        give_block(r, r->moved_blocks[--r->n_moved_blocks]);
    }
    while (r->n_moved_slots > 0) {
        runner_give_slot(r, r->moved_slots[--r->n_moved_slots]);
    }
}

static void take_blocks(struct runner *r, struct run_seq *s)
{
    if (s->n_blocks - s->n_shared > r->n_blocks) {
        die("pool is too small");
    }
    for (uint32_t i = s->n_shared; i < s->n_blocks; i++) {
        s->blocks[i] = r->blocks[--r->n_blocks];
    }
}

void runner_start(struct runner *r, struct run_seq *s, const uint32_t *ids,
                  uint32_t n_prompt, uint32_t more)
{
    uint32_t capacity = n_prompt + more;

    *s = (struct run_seq){
        .n_ids = n_prompt,
        .n_prompt = n_prompt,
        .capacity = capacity,
        .fresh = true,
        .sampling = {.top_p = 1.0f, .repetition_penalty = 1.0f}};
    s->ids = must(calloc(capacity, sizeof *s->ids));
    memcpy(s->ids, ids, n_prompt * sizeof *ids);
    s->n_blocks = (capacity + r->block_tokens - 1) / r->block_tokens;
    s->blocks = must(calloc(s->n_blocks, sizeof *s->blocks));
    take_blocks(r, s);
    windows_start(r, s);
    s->slot = runner_take_slot(r);
}

void runner_stop(struct runner *r, struct run_seq *s)
{
    for (uint32_t i = s->n_blocks; i > s->n_shared; i--) {
        give_block(r, s->blocks[i - 1]);
    }
    windows_stop(r, s);
    runner_give_slot(r, s->slot);
    free(s->history);
    free(s->blocks);
    free(s->ids);
    memset(s, 0, sizeof *s);
}

/* Makes s a sequence that has positions [0, at) of another. */
static void share(struct runner *r, struct run_seq *s, const struct run_seq *of,
                  uint32_t at)
{
    *s = *of;
    s->history = NULL;
    s->fresh = false;
    s->n_done = at;
    s->n_shared = r->attention ? at / r->block_tokens : 0;
    s->ids = must(calloc(s->capacity, sizeof *s->ids));
    memcpy(s->ids, of->ids, of->n_ids * sizeof *s->ids);
    s->blocks = must(calloc(s->n_blocks, sizeof *s->blocks));
    memcpy(s->blocks, of->blocks, s->n_shared * sizeof *s->blocks);
    take_blocks(r, s);
    s->slot = runner_take_slot(r);
}

/* Returns whether the last block before `at` is partly filled. */
static bool has_part(const struct runner *r, uint32_t at)
{
    return r->attention && at % r->block_tokens > 0;
}

void runner_fork(struct runner *r, struct run_seq *s, const struct run_seq *of,
                 uint32_t at, uint32_t from)
{
    uint32_t part = at / r->block_tokens;

    share(r, s, of, at);
    windows_share(r, s, of, at, false);
    if (has_part(r, at)) {
        runner_before(r, of->blocks[part], s->blocks[part], 1);
    }
    if (r->linear) {
        runner_before(r, from, s->slot, r->pages_per_slot);
    }
}

uint32_t runner_twin(struct runner *r, struct run_seq *s,
                     const struct run_seq *of, uint32_t row, float *logits)
{
    uint32_t choice = s->choice;
    struct plan *p = &r->plan;
    uint32_t part = of->n_done / r->block_tokens;

    share(r, s, of, of->n_done);
    windows_share(r, s, of, of->n_done, true);
    s->choice = choice;
    if (has_part(r, of->n_done)) {
        runner_after(r, of->blocks[part], s->blocks[part], 1);
    }
    if (r->linear) {
        runner_after(r, of->slot, s->slot, r->pages_per_slot);
    }
    p->rows[p->n_rows] = p->rows[row];
    p->rows[p->n_rows].n_tokens = 0;
    p->rows[p->n_rows].source = row;
    p->rows[p->n_rows].choice = s->choice;
    if (p->rows[row].sampling != NULL) {
        p->rows[p->n_rows].sampling = &s->sampling;
    }
    r->logits[p->n_rows] = logits;
    return p->n_rows++;
}

void runner_skip(struct run_seq *s, uint32_t n)
{
    s->n_done = n;
    s->fresh = false;
}

/* Adds ids or, where hidden states take their place, ids that must not be
 * read. */
static void add_ids(struct runner *r, const struct run_seq *s,
                    const struct plan_row *row)
{
    uint32_t *to = r->plan.tokens + r->plan.n_tokens;
    bool last = r->w->end == r->w->shape.n_layers;
    bool reads = r->w->begin == 0 || (last && (row->mtp || row->n_drafts > 0));

    for (uint32_t i = 0; i < row->n_tokens; i++) {
        to[i] = reads ? s->ids[s->n_done + i] : TOKEN_NONE;
    }
    r->plan.n_tokens += row->n_tokens;
}

void runner_check_tables(const struct runner *r, uint32_t n)
{
    if (r->plan.n_blocks + n > TABLES * r->n_pages) {
        die("tables past their room");
    }
}

/* A shard without attention has no table. */
static uint32_t add_table(struct runner *r, const struct run_seq *s, uint32_t n)
{
    struct plan *p = &r->plan;
    uint32_t table = (s->n_done + n + r->block_tokens - 1) / r->block_tokens;

    if (!r->attention) {
        return 0;
    }
    runner_check_tables(r, table);
    memcpy(p->blocks + p->n_blocks, s->blocks, table * sizeof *s->blocks);
    p->n_blocks += table;
    return table;
}

bool runner_is_prompt(const struct run_seq *s, uint32_t *n)
{
    uint32_t at = s->n_done, end = s->n_ids;
    bool prompt = at < s->n_prompt || (at >= s->again && at < s->n_again);

    if (at < s->n_prompt) {
        end = s->n_prompt;
    } else if (prompt) {
        end = s->n_again;
    } else if (at < s->again) {
        end = s->again;
    }
    *n = end - at;
    return prompt;
}

uint32_t runner_add(struct runner *r, struct run_seq *s, uint32_t n,
                    bool sample, float *logits)
{
    return runner_add_row(r, s, n, 0, sample, logits);
}

static void add_tables(struct runner *r, struct run_seq *s,
                       struct plan_row *row)
{
    uint32_t end = s->n_done + row->n_tokens;

    row->n_blocks = add_table(r, s, row->n_tokens + row->propose);
    windows_advance(r, s, end);
    windows_add_tables(r, s, end, row);
}

uint32_t runner_add_row(struct runner *r, struct run_seq *s, uint32_t n,
                        uint32_t n_drafts, bool sample, float *logits)
{
    struct plan *p = &r->plan;
    struct plan_row *row = &p->rows[p->n_rows];
    bool last = r->w->end == r->w->shape.n_layers;
    uint32_t of_kind;

    if (s->n_done + n > s->n_ids || p->n_tokens + n > PLAN_TOKENS_MAX) {
        die("a row past the ids, or past a plan");
    }
    *row = (struct plan_row){
        .kind = runner_is_prompt(s, &of_kind) ? ROW_PROMPT : ROW_GENERATED,
        .position = s->n_done,
        .n_tokens = n,
        .token = p->n_tokens,
        .block = p->n_blocks,
        .slot = r->linear ? s->slot : SLOT_NONE,
        .sample = sample,
        .index = s->n_done + n - s->n_prompt,
        .choice = s->choice,
        .sampling = last ? &s->sampling : NULL,
    };
    runner_add_drafts(r, s, n_drafts, row);
    add_tables(r, s, row);
    add_ids(r, s, row);
    if (s->fresh && r->linear) {
        p->zero_slots[p->n_zero++] = s->slot;
    }
    s->fresh = false;
    s->n_done += n - n_drafts;
    r->logits[p->n_rows] = logits;
    return p->n_rows++;
}

uint32_t runner_verify(struct runner *r, struct run_seq *s,
                       const uint32_t *drafts, uint32_t n, float *logits)
{
    uint32_t room = s->capacity - s->n_ids, row;

    if (s->n_done + 1 != s->n_ids || room == 0) {
        die("drafts behind ids that are not computed, or past the room");
    }
    n = n < room ? n : room - 1;
    memcpy(s->ids + s->n_ids, drafts, n * sizeof *drafts);
    s->n_ids += n;
    row = runner_add_row(r, s, 1 + n, n, true, logits);
    s->n_ids -= n;
    return row;
}

void runner_save(struct runner *r, uint32_t position, uint32_t page)
{
    struct plan *p = &r->plan;
    struct plan_row *row = &p->rows[p->n_rows - 1];

    row->save = row->n_saves++ > 0 ? row->save : p->n_saves;
    p->saves[p->n_saves++] = (struct plan_save){position, page};
}

void runner_before(struct runner *r, uint32_t from, uint32_t to, uint32_t n)
{
    r->plan.before[r->plan.n_before++] =
        (struct plan_copy){.from = from, .to = to, .n = n};
}

void runner_after(struct runner *r, uint32_t from, uint32_t to, uint32_t n)
{
    r->plan.after[r->plan.n_after++] =
        (struct plan_copy){.from = from, .to = to, .n = n};
}

void runner_step(struct runner *r)
{
    forward_run(r->forward, &r->plan, &r->result);
    runner_done(r);
}

void runner_done(struct runner *r)
{
    if (r->result.status != ST_OK) {
        die(r->result.error.text);
    }
    r->plan.n_rows = 0;
    r->plan.n_tokens = 0;
    r->plan.n_blocks = 0;
    r->plan.n_zero = 0;
    r->plan.n_saves = 0;
    r->plan.n_before = 0;
    r->plan.n_after = 0;
    r->plan.n_poison = 0;
    r->plan.n_replays = 0;
    r->n_kept = 0;
    r->plan.step++;
    free_moved(r);
}

uint32_t runner_token(const struct runner *r, uint32_t row)
{
    return r->result.tokens[row];
}

void run_seq_push(struct run_seq *s, uint32_t id)
{
    if (s->n_ids == s->capacity) {
        die("a sequence past its room");
    }
    s->ids[s->n_ids++] = id;
}
