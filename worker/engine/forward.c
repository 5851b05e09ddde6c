#include "worker/engine/forward.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "kernels/backends/backend.h"
#include "worker/engine/plan_check.h"

/* One pass over the layers: a part of the plan. */
struct forward_pass {
    struct kernel_row *rows; /* [max_rows] */
    uint32_t *plan_rows;     /* [max_rows] the row of the plan */
    uint32_t *tokens;        /* [max_tokens] ids */
    uint32_t n_rows, n_tokens;
    size_t first; /* tokens of the plan in earlier passes */
};

/* The results of a shard without the last layer, one plan after the other. */
struct hidden {
    float *rows; /* [n_plans, n_tokens, H] */
    uint32_t n_plans, n_tokens;
    uint32_t next; /* the part that the next plan uses */
};

/* Rows of a pass that sample, at most as many as one head call takes. */
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
    struct plan_bounds bounds;
    struct forward_tap tap;
    struct forward_pass pass;
    struct heads heads;
    struct hidden hidden;
    uint32_t last[PLAN_ROWS_MAX]; /* tokens of the previous plan; TOKEN_LOST */
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

static bool allocate_arrays(struct forward *f)
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
    f = calloc(1, sizeof *f);
    if (f == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED, "no memory");
    }
    f->w = w;
    f->bounds = (struct plan_bounds){
        .shape = &w->shape,
        .begin = w->begin,
        .end = w->end,
        .has_attention = has_kind(w, MIXER_ATTENTION),
        .has_deltanet = has_kind(w, MIXER_DELTANET),
        .block_tokens = o->block_tokens,
        .last = f->last,
    };
    st = backend_new(&f->kernels, w, o, e);
    if (st != ST_OK) {
        forward_free(&f);
        return st;
    }
    kernels_sizes(f->kernels, &f->sizes);
    if (!allocate_arrays(f)) {
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
    free(f->hidden.rows);
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

/* The memory is touched here, so that no step has a page fault. */
enum status forward_alloc_hidden(struct forward *f, uint32_t n_plans,
                                 uint32_t n_tokens, struct error *e)
{
    size_t bytes = (size_t)n_plans * n_tokens * f->w->shape.hidden *
                   sizeof *f->hidden.rows;

    assert(f->hidden.rows == NULL && n_plans > 0 && n_tokens > 0);
    if (!plan_gives_hidden(&f->bounds)) {
        return ST_OK;
    }
    f->hidden.rows = malloc(bytes);
    if (f->hidden.rows == NULL) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for the hidden states of %u plans of %u "
                         "tokens: %zu bytes",
                         n_plans, n_tokens, bytes);
    }
    memset(f->hidden.rows, 0, bytes);
    f->hidden.n_plans = n_plans;
    f->hidden.n_tokens = n_tokens;
    f->bounds.hidden_tokens = n_tokens;
    f->sizes.scratch_bytes += bytes;
    return ST_OK;
}

uint32_t forward_hidden_plans(const struct forward *f)
{
    return plan_gives_hidden(&f->bounds) ? f->hidden.n_plans : UINT32_MAX;
}

/* The rows of one head call have at most a whole context each, and no two share
 * a block or a slot.  A shard without the head reads no history. */
static bool allocate_history(struct forward *f)
{
    const struct plan_bounds *b = &f->bounds;
    size_t rows = f->sizes.max_logits, ids;
    size_t in_blocks = (size_t)b->n_blocks * b->block_tokens;

    if (b->has_deltanet && b->n_slots < rows) {
        rows = b->n_slots;
    }
    ids = plan_gives_hidden(b) ? 0 : rows * f->w->shape.context;
    if (b->has_attention && in_blocks < ids) {
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
    f->bounds.n_blocks = f->bounds.has_attention ? n_blocks : 0;
    f->bounds.n_slots = f->bounds.has_deltanet ? n_slots : 0;
    f->bounds.n_last = 0;
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

/* Returns how many tokens of a row go into a pass with `room` tokens left: all
 * `left` from position `at`, or as many as end at a multiple of FORWARD_CUT. */
static uint32_t fit_tokens(uint32_t at, uint32_t left, uint32_t room,
                           bool empty)
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

/* Copies n ids of a row, after the `done` ones of earlier passes.  A shard that
 * reads hidden states needs no ids. */
static void gather_ids(struct forward *f, const struct plan *p,
                       const struct plan_row *r, uint32_t done, uint32_t n)
{
    uint32_t *to = f->pass.tokens + f->pass.n_tokens;

    if (r->chained) {
        *to = f->last[r->chain_row];
    } else if (!plan_takes_hidden(&f->bounds)) {
        memcpy(to, p->tokens + r->token + done, n * sizeof *to);
    }
}

/* The token that the row continues from does not exist, so there is nothing to
 * compute.  Its sequence has ended, or is computed again. */
static bool is_cut_off(const struct forward *f, const struct plan_row *r)
{
    return r->chained && f->last[r->chain_row] == TOKEN_LOST;
}

/* Fills a pass from *row, after the *done tokens of earlier passes, and
 * advances both. */
static void gather_pass(struct forward *f, const struct plan *p, uint32_t *row,
                        uint32_t *done)
{
    struct forward_pass *s = &f->pass;

    s->first += s->n_tokens;
    s->n_rows = 0;
    s->n_tokens = 0;
    while (*row < p->n_rows && s->n_rows < f->sizes.max_rows) {
        const struct plan_row *r = &p->rows[*row];
        uint32_t n =
            fit_tokens(r->position + *done, r->n_tokens - *done,
                       f->sizes.max_tokens - s->n_tokens, s->n_rows == 0);

        if (is_cut_off(f, r)) {
            ++*row;
            continue;
        }
        if (n == 0) {
            return;
        }
        gather_ids(f, p, r, *done, n);
        s->plan_rows[s->n_rows] = *row;
        s->rows[s->n_rows++] = (struct kernel_row){
            .first = s->n_tokens,
            .n_tokens = n,
            .position = r->position + *done,
            .blocks = f->bounds.has_attention ? p->blocks + r->block : NULL,
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

/* Fills the residual stream before the first layer: [n_tokens, H]. */
static void run_input(struct forward *f, const struct plan *p)
{
    if (plan_takes_hidden(&f->bounds)) {
        kernels_hidden_write(f->kernels, 0, f->pass.n_tokens,
                             p->hidden + f->pass.first * f->w->shape.hidden);
    } else {
        kernels_embed(f->kernels, f->pass.tokens);
    }
    tap_layer(f, 0);
}

static void run_layers(struct forward *f)
{
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

/* Copies the history of a row into one array, with the chained id at its end.
 */
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
        return error_set(e, ST_INTERNAL, "histories of more than %zu ids",
                         h->history_room);
    }
    read_pages(&r->history.pages, ids, r->history.n);
    if (r->chained) {
        ids[n - 1] = f->last[r->chain_row];
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= f->w->shape.vocab) {
            return error_set(
                e, ST_INTERNAL,
                "history has id %u, which is not below the vocabulary "
                "of %u",
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
    if (s->status != ST_OK || FP_FAILS(ENGINE_ROW)) {
        out->outcomes[row] = ROW_NOT_FINITE;
        return;
    }
    out->tokens[row] = s->token;
    if (r->sampling->logprobs) {
        out->logprobs[row] = s->logprob;
        memcpy(out->top[row], s->top,
               r->sampling->n_top_logprobs * sizeof s->top[0]);
    }
}

/* Samples tokens for the rows gathered in heads. */
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
        /* Only the last part of a row that was cut samples. */
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

/* Returns the room for the hidden states of this plan: [n_tokens, H]. */
static float *hidden_room(const struct forward *f)
{
    const struct hidden *h = &f->hidden;

    return h->rows + (size_t)h->next * h->n_tokens * f->w->shape.hidden;
}

static enum status run_output(struct forward *f, const struct plan *p,
                              struct plan_result *out)
{
    if (!plan_gives_hidden(&f->bounds)) {
        return run_sampling(f, p, out);
    }
    kernels_hidden_read(f->kernels, 0, f->pass.n_tokens,
                        hidden_room(f) + f->pass.first * f->w->shape.hidden);
    return ST_OK;
}

static enum status run_pass(struct forward *f, const struct plan *p,
                            struct plan_result *out)
{
    struct kernel_step step = {f->pass.rows, f->pass.n_rows, f->pass.n_tokens};
    enum status st, end;
    struct error e;

    kernels_begin(f->kernels, &step);
    run_input(f, p);
    run_layers(f);
    st = run_output(f, p, out);
    /* An error of the kernels is the cause; that of the sampling may follow
     * from it. */
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
    enum status st = plan_check(&f->bounds, p, &out->error);
    uint32_t row = 0, done = 0;

    f->pass.first = 0;
    f->pass.n_tokens = 0;
    for (uint32_t i = 0; i < out->n_rows && st == ST_OK; i++) {
        if (is_cut_off(f, &p->rows[i])) {
            out->outcomes[i] = ROW_CUT_OFF;
        }
    }
    /* Slots are zeroed before any row runs: a sequence starts with no state of
     * the one that had the slot before. */
    for (uint32_t i = 0; i < p->n_zero && st == ST_OK; i++) {
        kernels_zero_slot(f->kernels, p->zero_slots[i]);
    }
    while (row < p->n_rows && st == ST_OK) {
        gather_pass(f, p, &row, &done);
        /* Nothing is left to run if all of the rows were cut off. */
        st = f->pass.n_rows > 0 ? run_pass(f, p, out) : ST_OK;
    }
    return st;
}

/* Keeps what chained rows of the next plan read. */
static void keep_tokens(struct forward *f, const struct plan *p,
                        const struct plan_result *out)
{
    for (uint32_t i = 0; i < out->n_rows; i++) {
        bool lost = p->rows[i].sample && out->tokens[i] == TOKEN_NONE;

        f->last[i] = lost ? TOKEN_LOST : out->tokens[i];
    }
    f->bounds.n_last = out->n_rows;
}

/* The rooms are used in turn, so a result stays valid while the rooms of the
 * other plans are filled. */
static const float *take_hidden(struct forward *f)
{
    const float *room = hidden_room(f);

    f->hidden.next = (f->hidden.next + 1) % f->hidden.n_plans;
    return room;
}

void forward_run(struct forward *f, const struct plan *p,
                 struct plan_result *out)
{
    struct plan_bounds *b = &f->bounds;

    out->step = p->step;
    out->n_rows = p->n_rows <= PLAN_ROWS_MAX ? p->n_rows : 0;
    out->error = (struct error){ST_OK, ""};
    out->hidden = NULL;
    out->lost = false;
    for (uint32_t i = 0; i < out->n_rows; i++) {
        out->tokens[i] = TOKEN_NONE;
        out->outcomes[i] = ROW_DONE;
    }
    out->status = run_plan(f, p, out);
    if (FP_FAILS(ENGINE_LOST)) {
        out->status = error_set(&out->error, ST_UNAVAILABLE,
                                "a failpoint took the device");
        out->lost = true;
    }
    out->lost = out->lost || kernels_lost(f->kernels);
    for (uint32_t i = 0; out->status != ST_OK && i < out->n_rows; i++) {
        out->tokens[i] = TOKEN_NONE;
    }
    if (out->status == ST_OK && plan_gives_hidden(b) && p->n_tokens > 0) {
        out->hidden = take_hidden(f);
    }
    keep_tokens(f, p, out);
}
