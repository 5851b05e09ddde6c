#include "worker/sequences/batcher.h"
#include "common/base/plant.h"

#include <assert.h>
#include <string.h>

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
                  struct sequence_table *table)
{
    bool ok = true;

    assert(l->depth <= l->batches && l->batches <= BATCHES_MAX);
    memset(b, 0, sizeof *b);
    b->limits = *l;
    b->rows_made = l->max_rows;
    b->tokens_made = l->step_tokens;
    set_cut(b);
    b->table = table;
    b->prefill.link = b->decode.link = b->again.link = LIST_PLAN;
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
    sequence_push(&b->prefill, s);
}

void batcher_again(struct batcher *b, struct sequence *s)
{
    assert(s->inflight == 0);
    s->recompute = RECOMPUTE_ALONE;
    s->n_planned = s->pending = 0;
    if (!PLANT(RECOMPUTE_LOST)) {
        sequence_push(&b->again, s);
    }
}

void batcher_drop(struct sequence *s)
{
    sequence_unlink(s, LIST_PLAN);
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

/* Adds a row with the next n positions of s. */
static void add_row(struct batcher *b, struct batch *t, struct sequence *s,
                    uint32_t n)
{
    struct plan *p = &t->plan;
    uint32_t known = sequence_known(s);
    struct plan_row *row = &p->rows[p->n_rows];

    if (!batch_take_memory(&b->limits, b->table, p, s, s->n_planned + n)) {
        batcher_drop(s);
        b->stuck = s;
        return;
    }
    *row = (struct plan_row){
        .sequence = s->number,
        .kind = s->n_planned < s->n_prompt ? ROW_PROMPT : ROW_GENERATED,
        .position = s->n_planned,
        .n_tokens = n,
        .chained = s->n_planned >= known,
        .sample = s->n_planned + n >= known,
        .index = s->n_generated + (PLANT(INDEX_REUSED) ? 0 : s->pending),
        .choice = s->key.choice,
        .sampling = &s->sampling,
    };
    fill_ids(b, p, row, s);
    batch_fill_table(b->table, p, row, s);
    if (row->sample) {
        row->history = batch_history(b->table, s);
    }
    if (row->kind == ROW_PROMPT) {
        t->n_prompt_tokens += n;
    }
    s->n_planned += n;
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
        if (decode_ready(b, s)) {
            add_row(b, t, s, 1);
        }
    }
}

/* ---- prefill ---- */

/* Returns how many positions of s fit into `room` tokens; 0: none now. */
static uint32_t chunk_length(const struct batcher *b, const struct sequence *s,
                             uint32_t room)
{
    uint32_t at = s->n_planned;
    uint32_t n = least(room, b->limits.chunk_tokens);
    uint32_t end;

    if (at >= s->n_prompt) {
        return least(n, sequence_known(s) - at);
    }
    /* The last chunk may end anywhere: the prompt's end is the same under any
     * load. */
    if (n >= s->n_prompt - at) {
        return s->n_prompt - at;
    }
    end = at + n;
    end -= end % b->cut;
    return end > at ? end - at : 0;
}

static void plan_prefill(struct batcher *b, struct batch *t)
{
    struct sequence *s = b->prefill.head, *next;

    for (; s != NULL && t->plan.n_rows < b->limits.max_rows; s = next) {
        uint32_t n =
            chunk_length(b, s, b->limits.step_tokens - t->plan.n_tokens);

        /* FIFO: later sequences wait behind this one, or a long prompt could
         * starve. */
        if (n == 0) {
            return;
        }
        next = sequence_next(s, LIST_PLAN);
        add_row(b, t, s, n);
    }
}

/* ---- computed again ---- */

static void plan_again(struct batcher *b, struct batch *t)
{
    struct sequence *s = b->again.head;

    while (s != NULL && !window_open(s)) {
        s = sequence_next(s, LIST_PLAN);
    }
    if (s != NULL && t->plan.n_rows == 0) {
        add_row(b, t, s, chunk_length(b, s, b->limits.step_tokens));
    }
}

/* ---- plans ---- */

/* Returns the ring index of the i-th plan in flight, 0 being the oldest. */
static uint32_t ring_index(const struct batcher *b, uint32_t i)
{
    return (b->oldest + i) % b->limits.batches;
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
    t = &b->ring[ring_index(b, b->inflight)];
    batch_begin(t, b->step + 1);
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
        return NULL;
    }
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

const struct batch *batcher_withdraw(struct batcher *b)
{
    assert(b->here > 0);
    b->here--;
    b->inflight--;
    return &b->ring[ring_index(b, b->inflight)];
}
