#include "worker/forward.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/failpoint.h"

struct pool_size {
    uint32_t blocks, slots;
};

/* One pass over the layers: a part of the plan. */
struct pass {
    struct kernel_row *rows; /* [max_rows] */
    uint32_t *plan_rows;     /* [max_rows] where each comes from */
    uint32_t *tokens;        /* [max_tokens] ids */
    uint32_t n_rows, n_tokens;
};

/* Rows of a pass that ask for a token, as many as one head call takes. */
struct heads {
    uint32_t *tokens;          /* [max_logits] in the pass */
    uint32_t *plan_rows;       /* [max_logits] */
    struct sample_result *out; /* [max_logits] */
    struct sample_row *rows;   /* [max_logits] */
    uint32_t n;
    uint32_t *history; /* [history_room] of these rows, one after the other */
    size_t history_room, n_history;
};

struct forward {
    const struct shard_weights *w;
    struct kernels *kernels;
    struct kernels_sizes sizes;
    uint32_t block_tokens;
    struct pool_size pool;
    struct forward_tap tap;
    struct pass pass;
    struct heads heads;
    uint32_t last[PLAN_ROWS_MAX]; /* tokens of the plan before */
    uint32_t n_last;
    bool last_failed;
};

static bool has_kind(const struct shard_weights *w, enum mixer_kind kind)
{
    for (uint32_t i = 0; i < w->end - w->begin; i++) {
        if (w->layers[i].kind == kind) {
            return true;
        }
    }
    return false;
}

static bool allocate(struct forward *f)
{
    size_t rows = f->sizes.max_rows, logits = f->sizes.max_logits;

    f->pass.rows = calloc(rows, sizeof *f->pass.rows);
    f->pass.plan_rows = calloc(rows, sizeof *f->pass.plan_rows);
    f->pass.tokens = calloc(f->sizes.max_tokens, sizeof *f->pass.tokens);
    f->heads.tokens = calloc(logits, sizeof *f->heads.tokens);
    f->heads.plan_rows = calloc(logits, sizeof *f->heads.plan_rows);
    f->heads.out = calloc(logits, sizeof *f->heads.out);
    f->heads.rows = calloc(logits, sizeof *f->heads.rows);
    return f->pass.rows && f->pass.plan_rows && f->pass.tokens &&
           f->heads.tokens && f->heads.plan_rows && f->heads.out &&
           f->heads.rows;
}

enum status forward_new(struct forward **out, const struct shard_weights *w,
                        const struct kernels_options *o, struct error *e)
{
    struct forward *f;
    enum status st;

    *out = NULL;
    if (w->begin != 0 || w->end != w->shape.n_layers) {
        return error_set(e, ST_UNIMPLEMENTED,
                         "layers %u-%u of %u: an engine runs all layers of "
                         "its model",
                         w->begin, w->end, w->shape.n_layers);
    }
    f = calloc(1, sizeof *f);
    if (f == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory");
    }
    f->w = w;
    f->block_tokens = o->block_tokens;
    st = kernels_new(&f->kernels, w, o, e);
    if (st != ST_OK) {
        forward_free(&f);
        return st;
    }
    kernels_sizes(f->kernels, &f->sizes);
    if (!allocate(f)) {
        forward_free(&f);
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory");
    }
    *out = f;
    return ST_OK;
}

void forward_free(struct forward **self)
{
    struct forward *f = *self;

    if (f == NULL) {
        return;
    }
    free(f->heads.history);
    free(f->heads.rows);
    free(f->heads.out);
    free(f->heads.plan_rows);
    free(f->heads.tokens);
    free(f->pass.tokens);
    free(f->pass.plan_rows);
    free(f->pass.rows);
    kernels_free(&f->kernels);
    free(f);
    *self = NULL;
}

void forward_sizes(const struct forward *f, struct kernels_sizes *out)
{
    *out = f->sizes;
}

/* Rows of one head call have whole contexts at most; no two of them share a
 * block or a slot. */
static bool allocate_history(struct forward *f)
{
    size_t rows = f->sizes.max_logits, ids;
    size_t in_blocks = (size_t)f->pool.blocks * f->block_tokens;

    if (has_kind(f->w, MIXER_DELTANET) && f->pool.slots < rows) {
        rows = f->pool.slots;
    }
    ids = rows * f->w->shape.context;
    if (has_kind(f->w, MIXER_ATTENTION) && in_blocks < ids) {
        ids = in_blocks;
    }
    free(f->heads.history);
    f->heads.history = malloc((ids + 1) * sizeof *f->heads.history);
    f->heads.history_room = ids;
    return f->heads.history != NULL;
}

enum status forward_alloc(struct forward *f, uint32_t n_blocks,
                          uint32_t n_slots, uint32_t n_checkpoints,
                          struct error *e)
{
    f->pool = (struct pool_size){n_blocks, n_slots};
    f->n_last = 0;
    if (!allocate_history(f)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for histories of %zu ids",
                         f->heads.history_room);
    }
    return kernels_alloc(f->kernels, n_blocks, n_slots, n_checkpoints, e);
}

void forward_set_tap(struct forward *f, const struct forward_tap *tap)
{
    f->tap = tap ? *tap : (struct forward_tap){0};
}

uint64_t forward_progress(const struct forward *f)
{
    return kernels_progress(f->kernels);
}

struct kernels *forward_kernels(struct forward *f)
{
    return f->kernels;
}

static enum status check_table(const struct forward *f, const struct plan *p,
                               const struct plan_row *r, struct error *e)
{
    uint64_t end = (uint64_t)r->position + r->n_tokens;

    if (!has_kind(f->w, MIXER_ATTENTION)) {
        return ST_OK;
    }
    if ((uint64_t)r->block + r->n_blocks > p->n_blocks ||
        (uint64_t)r->n_blocks * f->block_tokens < end) {
        return error_set(e, ST_INTERNAL,
                         "table of %u blocks for %llu positions", r->n_blocks,
                         (unsigned long long)end);
    }
    for (uint32_t i = 0; i < r->n_blocks; i++) {
        if (p->blocks[r->block + i] >= f->pool.blocks) {
            return error_set(e, ST_INTERNAL, "block %u of %u",
                             p->blocks[r->block + i], f->pool.blocks);
        }
    }
    return ST_OK;
}

static enum status check_tokens(const struct forward *f, const struct plan *p,
                                const struct plan_row *r, struct error *e)
{
    if (r->n_tokens == 0 || (uint64_t)r->token + r->n_tokens > p->n_tokens) {
        return error_set(e, ST_INTERNAL, "%u tokens at %u of %u", r->n_tokens,
                         r->token, p->n_tokens);
    }
    if (r->chained) {
        if (f->last_failed) {
            return error_set(e, ST_ABORTED, "the step before failed");
        }
        if (r->n_tokens != 1 || r->chain_row >= f->n_last ||
            f->last[r->chain_row] == TOKEN_NONE) {
            return error_set(e, ST_INTERNAL,
                             "chained to row %u, which chose no token",
                             r->chain_row);
        }
        return ST_OK;
    }
    for (uint32_t i = 0; i < r->n_tokens; i++) {
        if (p->tokens[r->token + i] >= f->w->shape.vocab) {
            return error_set(e, ST_INTERNAL, "token id %u of %u",
                             p->tokens[r->token + i], f->w->shape.vocab);
        }
    }
    return ST_OK;
}

static enum status check_pages(const struct id_pages *p, uint32_t n,
                               struct error *e)
{
    uint32_t last = p->shift < 32 ? (n - 1) >> p->shift : 0;
    const uint32_t *root;

    if (p->memory == NULL || p->shift >= 32 || last >= 1u << p->shift ||
        p->root >= p->n_pages) {
        return error_set(e, ST_INTERNAL,
                         "history of %u ids in pages of 2^%u, its root is "
                         "page %u of %u",
                         n, p->shift, p->root, p->n_pages);
    }
    root = p->memory + ((size_t)p->root << p->shift);
    for (uint32_t i = 0; i <= last; i++) {
        if (root[i] >= p->n_pages) {
            return error_set(e, ST_INTERNAL, "history on page %u of %u",
                             root[i], p->n_pages);
        }
    }
    return ST_OK;
}

static enum status check_sampling(const struct plan_row *r, struct error *e)
{
    const struct plan_history *h = &r->history;
    uint64_t end = (uint64_t)r->position + r->n_tokens;

    if (!r->sample) {
        return ST_OK;
    }
    if (r->sampling == NULL) {
        return error_set(e, ST_INTERNAL,
                         "no sampling says how to choose a token");
    }
    if (!sampling_penalises(r->sampling)) {
        return ST_OK;
    }
    if (h->n_prompt == 0 || h->n_prompt > h->n ||
        (uint64_t)h->n + r->chained != end) {
        return error_set(e, ST_INTERNAL,
                         "history of %u ids, %u of a prompt, for %llu "
                         "positions",
                         h->n, h->n_prompt, (unsigned long long)end);
    }
    return check_pages(&h->pages, h->n, e);
}

static enum status check_row(const struct forward *f, const struct plan *p,
                             const struct plan_row *r, struct error *e)
{
    enum status st = check_tokens(f, p, r, e);

    if (st == ST_OK) {
        st = check_table(f, p, r, e);
    }
    if (st == ST_OK) {
        st = check_sampling(r, e);
    }
    if (st == ST_OK && has_kind(f->w, MIXER_DELTANET) &&
        r->slot >= f->pool.slots) {
        st = error_set(e, ST_INTERNAL, "slot %u of %u", r->slot, f->pool.slots);
    }
    return st;
}

static enum status check_plan(const struct forward *f, const struct plan *p,
                              struct error *e)
{
    if (p->n_rows > PLAN_ROWS_MAX) {
        return error_set(e, ST_INTERNAL, "%u rows", p->n_rows);
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (check_row(f, p, &p->rows[i], e) != ST_OK) {
            return error_wrap(e, "row %u, sequence %llu", i,
                              (unsigned long long)p->rows[i].sequence);
        }
    }
    for (uint32_t i = 0; i < p->n_zero; i++) {
        if (p->zero_slots[i] >= f->pool.slots) {
            return error_set(e, ST_INTERNAL, "slot %u of %u to zero",
                             p->zero_slots[i], f->pool.slots);
        }
    }
    return ST_OK;
}

/* Tokens of a row, of which `left` remain from position `at`, that go into a
 * pass with this room: all, or as many as end at a multiple of FORWARD_CUT. */
static uint32_t fit(uint32_t at, uint32_t left, uint32_t room, bool empty)
{
    uint32_t end = (at + room) / FORWARD_CUT * FORWARD_CUT;

    if (left <= room) {
        return left;
    }
    if (end > at) {
        return end - at;
    }
    return empty ? room : 0;
}

/* Fill a pass from *row, *done tokens of it being in passes before; moves
 * both on. */
static void gather(struct forward *f, const struct plan *p, uint32_t *row,
                   uint32_t *done)
{
    struct pass *s = &f->pass;

    s->n_rows = 0;
    s->n_tokens = 0;
    while (*row < p->n_rows && s->n_rows < f->sizes.max_rows) {
        const struct plan_row *r = &p->rows[*row];
        uint32_t n = fit(r->position + *done, r->n_tokens - *done,
                         f->sizes.max_tokens - s->n_tokens, s->n_rows == 0);

        if (n == 0) {
            return;
        }
        for (uint32_t i = 0; i < n; i++) {
            s->tokens[s->n_tokens + i] = r->chained
                                             ? f->last[r->chain_row]
                                             : p->tokens[r->token + *done + i];
        }
        s->plan_rows[s->n_rows] = *row;
        s->rows[s->n_rows++] = (struct kernel_row){
            .first = s->n_tokens,
            .n_tokens = n,
            .position = r->position + *done,
            .blocks = p->blocks + r->block,
            .slot = r->slot,
            .generated = r->kind == ROW_GENERATED,
        };
        s->n_tokens += n;
        *done += n;
        if (*done == r->n_tokens) {
            *done = 0;
            ++*row;
        }
    }
}

static void tap_layer(struct forward *f, uint32_t done)
{
    if (f->tap.layer) {
        f->tap.layer(f->tap.ctx, f->kernels, done, f->pass.n_tokens);
    }
}

static void run_layers(struct forward *f)
{
    kernels_embed(f->kernels, f->pass.tokens);
    tap_layer(f, 0);
    for (uint32_t i = 0; i < f->w->end - f->w->begin; i++) {
        if (f->w->layers[i].kind == MIXER_ATTENTION) {
            kernels_attention(f->kernels, i);
        } else {
            kernels_deltanet(f->kernels, i);
        }
        kernels_mlp(f->kernels, i);
        tap_layer(f, i + 1);
        FP(ENGINE_LAYER);
        if (f->pass.n_tokens > f->pass.n_rows) {
            FP(ENGINE_PREFILL_LAYER);
        }
    }
}

static void read_pages(const struct id_pages *p, uint32_t *out, uint32_t n)
{
    const uint32_t *root = p->memory + ((size_t)p->root << p->shift);
    uint32_t page = 1u << p->shift;

    for (uint32_t at = 0; at < n; at += page) {
        uint32_t run = n - at < page ? n - at : page;

        memcpy(out + at, p->memory + ((size_t)root[at >> p->shift] << p->shift),
               run * sizeof *out);
    }
}

/* What the row's penalties look at, flat, the chained id at its end. */
static enum status add_history(struct forward *f, const struct plan_row *r,
                               struct sample_row *out, struct error *e)
{
    struct heads *h = &f->heads;
    uint32_t n = r->history.n + (r->chained ? 1 : 0);
    uint32_t *ids = h->history + h->n_history;

    if (!sampling_penalises(r->sampling)) {
        return ST_OK;
    }
    if (n > h->history_room - h->n_history) {
        return error_set(e, ST_INTERNAL, "histories of over %zu ids",
                         h->history_room);
    }
    read_pages(&r->history.pages, ids, r->history.n);
    if (r->chained) {
        ids[n - 1] = f->last[r->chain_row];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= f->w->shape.vocab) {
            return error_set(e, ST_INTERNAL, "history has token id %u of %u",
                             ids[i], f->w->shape.vocab);
        }
    }
    out->ids = ids;
    out->n_ids = n;
    out->n_prompt = r->history.n_prompt;
    h->n_history += n;
    return ST_OK;
}

static enum status add_head(struct forward *f, const struct plan *p,
                            uint32_t plan_row, uint32_t token, struct error *e)
{
    const struct plan_row *r = &p->rows[plan_row];
    struct heads *h = &f->heads;
    struct sample_row *out = &h->rows[h->n];

    h->tokens[h->n] = token;
    h->plan_rows[h->n++] = plan_row;
    *out = (struct sample_row){
        .sampling = r->sampling,
        .choice = r->choice,
        .index = r->index,
    };
    if (add_history(f, r, out, e) != ST_OK) {
        return error_wrap(e, "row %u, sequence %llu", plan_row,
                          (unsigned long long)r->sequence);
    }
    return ST_OK;
}

static void take_result(const struct plan_row *r, uint32_t row,
                        const struct sample_result *s, struct plan_result *out)
{
    out->tokens[row] = s->token;
    if (r->sampling->logprobs) {
        out->logprobs[row] = s->logprob;
        memcpy(out->top[row], s->top,
               r->sampling->n_top_logprobs * sizeof s->top[0]);
    }
}

/* Choose tokens for the rows gathered in heads. */
static enum status run_heads(struct forward *f, const struct plan *p,
                             struct plan_result *out)
{
    struct heads *h = &f->heads;
    enum status st;

    if (h->n == 0) {
        return ST_OK;
    }
    kernels_head(f->kernels, h->tokens, h->n);
    for (uint32_t i = 0; f->tap.logits && i < h->n; i++) {
        f->tap.logits(f->tap.ctx, f->kernels, h->plan_rows[i], i);
    }
    st = kernels_sample(f->kernels, h->rows, h->n, h->out, &out->error);
    for (uint32_t i = 0; st == ST_OK && i < h->n; i++) {
        uint32_t row = h->plan_rows[i];

        assert(row < p->n_rows);
        take_result(&p->rows[row], row, &h->out[i], out);
    }
    h->n = 0;
    h->n_history = 0;
    return st;
}

static enum status run_sampling(struct forward *f, const struct plan *p,
                                struct plan_result *out)
{
    enum status st = ST_OK;

    f->heads.n = 0;
    f->heads.n_history = 0;
    for (uint32_t i = 0; i < f->pass.n_rows && st == ST_OK; i++) {
        const struct kernel_row *k = &f->pass.rows[i];
        const struct plan_row *r = &p->rows[f->pass.plan_rows[i]];
        bool ends = k->position + k->n_tokens == r->position + r->n_tokens;

        if (!r->sample || !ends) {
            continue;
        }
        st = add_head(f, p, f->pass.plan_rows[i], k->first + k->n_tokens - 1,
                      &out->error);
        if (st == ST_OK && f->heads.n == f->sizes.max_logits) {
            st = run_heads(f, p, out);
        }
    }
    return st == ST_OK ? run_heads(f, p, out) : st;
}

static enum status run_pass(struct forward *f, const struct plan *p,
                            struct plan_result *out)
{
    struct kernel_step step = {f->pass.rows, f->pass.n_rows, f->pass.n_tokens};
    enum status st, end;
    struct error e;

    kernels_begin(f->kernels, &step);
    run_layers(f);
    st = run_sampling(f, p, out);
    end = kernels_end(f->kernels, &e);
    if (FP_FAILS(ENGINE_STEP)) {
        end = error_set(&e, ST_INTERNAL, "a failpoint failed the step");
    }
    if (end != ST_OK) {
        out->error = e;
        return end;
    }
    return st;
}

static enum status run_plan(struct forward *f, const struct plan *p,
                            struct plan_result *out)
{
    enum status st = check_plan(f, p, &out->error);
    uint32_t row = 0, done = 0;

    for (uint32_t i = 0; i < p->n_zero && st == ST_OK; i++) {
        kernels_zero_slot(f->kernels, p->zero_slots[i]);
    }
    while (row < p->n_rows && st == ST_OK) {
        gather(f, p, &row, &done);
        st = run_pass(f, p, out);
    }
    return st;
}

void forward_run(struct forward *f, const struct plan *p,
                 struct plan_result *out)
{
    out->step = p->step;
    out->n_rows = p->n_rows <= PLAN_ROWS_MAX ? p->n_rows : 0;
    out->error = (struct error){ST_OK, ""};
    for (uint32_t i = 0; i < out->n_rows; i++) {
        out->tokens[i] = TOKEN_NONE;
    }
    out->status = run_plan(f, p, out);
    for (uint32_t i = 0; out->status != ST_OK && i < out->n_rows; i++) {
        out->tokens[i] = TOKEN_NONE;
    }
    memcpy(f->last, out->tokens, out->n_rows * sizeof *f->last);
    f->n_last = out->n_rows;
    f->last_failed = out->status != ST_OK;
}
