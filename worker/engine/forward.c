#include "worker/engine/forward.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/failpoint.h"
#include "kernels/backends/backend.h"
#include "worker/engine/forward_state.h"

_Static_assert(PLAN_SAVES_MAX == KERNELS_SAVES_MAX, "saves of a row");
_Static_assert(FORWARD_CUT == KERNELS_SAVE_CUT, "a cut keeps a row's saves");

static bool has_layer(const struct shard_weights *w, enum mixer_memory memory)
{
    for (uint32_t i = 0; i < shard_layers(w); i++) {
        if (mixer_memory(w->layers[i].kind) == memory) {
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
    f->pass.saves = calloc(rows * PLAN_SAVES_MAX, sizeof *f->pass.saves);
    f->pass.tokens = calloc(f->sizes.max_tokens, sizeof *f->pass.tokens);
    f->heads.tokens = calloc(logits, sizeof *f->heads.tokens);
    f->heads.plan_rows = calloc(logits, sizeof *f->heads.plan_rows);
    f->heads.at = calloc(logits, sizeof *f->heads.at);
    f->heads.out = calloc(logits, sizeof *f->heads.out);
    f->heads.rows = calloc(logits, sizeof *f->heads.rows);
    f->kept.of = calloc((size_t)f->bounds.keep_tokens + 1, sizeof *f->kept.of);
    return f->pass.rows && f->pass.plan_rows && f->pass.saves &&
           f->pass.tokens && f->heads.tokens && f->heads.plan_rows &&
           f->heads.at && f->heads.out && f->heads.rows && f->kept.of &&
           forward_drafts_new(f);
}

static void set_sizes(struct forward *f)
{
    kernels_sizes(f->kernels, &f->sizes);
    f->bounds.pages_per_slot = f->sizes.pages_per_slot;
    f->bounds.window_pages = f->sizes.window_pages;
    f->bounds.drafts = f->sizes.drafts;
    f->bounds.max_tokens = f->sizes.max_tokens;
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
        .has_attention = has_layer(w, MIXER_IN_BLOCKS),
        .has_deltanet = has_layer(w, MIXER_IN_SLOT),
        .block_tokens = o->block_tokens,
        .marks = &f->marks,
        .has_mtp = w->mtp != NULL,
        .keep_tokens = o->keep_tokens,
        .kept = &f->kept,
        .last = f->last,
    };
    st = backend_new(&f->kernels, w, o, e);
    if (st != ST_OK) {
        forward_free(&f);
        return st;
    }
    set_sizes(f);
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
    forward_drafts_free(f);
    free(f->kept.of);
    free(f->marks.of);
    free(f->hidden.rows);
    free(f->heads.history);
    free(f->heads.rows);
    free(f->heads.out);
    free(f->heads.at);
    free(f->heads.plan_rows);
    free(f->heads.tokens);
    free(f->pass.tokens);
    free(f->pass.saves);
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

/* A history has at most a whole context.  Histories of sequences that share
 * blocks may together exceed the pool; a head call takes fewer rows then. */
static bool allocate_history(struct forward *f)
{
    const struct plan_bounds *b = &f->bounds;
    size_t rows = f->sizes.max_logits, context = f->w->shape.context;
    size_t in_pool = (size_t)b->n_pages * b->block_tokens, ids;

    if (b->has_deltanet && b->n_pages / b->pages_per_slot < rows) {
        rows = b->n_pages / b->pages_per_slot;
    }
    ids = plan_gives_hidden(b) ? 0 : rows * context;
    if (b->has_attention && in_pool < ids) {
        ids = in_pool > context ? in_pool : context;
    }
    free(f->heads.history);
    f->heads.history = malloc((ids + 1) * sizeof *f->heads.history);
    f->heads.history_room = ids;
    return f->heads.history != NULL;
}

enum status forward_alloc(struct forward *f, uint32_t n_pages, struct error *e)
{
    f->bounds.n_pages = n_pages;
    f->bounds.n_last = 0;
    free(f->marks.of);
    f->marks.now = 0;
    f->marks.of = calloc((size_t)n_pages + 1, sizeof *f->marks.of);
    if (f->marks.of == NULL || !allocate_history(f)) {
        return error_set(e, ST_RESOURCE_EXHAUSTED,
                         "no memory for the marks of %u pages and histories "
                         "of %zu ids",
                         n_pages, f->heads.history_room);
    }
    return kernels_alloc(f->kernels, n_pages, e);
}

enum status forward_alloc_host(struct forward *f, uint32_t n_pages,
                               struct error *e)
{
    enum status st = kernels_alloc_host(f->kernels, n_pages, e);

    f->bounds.n_host = st == ST_OK ? n_pages : 0;
    return st;
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

/* Returns how many tokens of a row, after the `done` ones of earlier passes, go
 * into the pass.  A row with drafts is never cut: its tokens are accepted
 * together, and its slot has no state that a second part could continue from.
 */
static uint32_t tokens_of(const struct forward *f, const struct plan_row *r,
                          uint32_t done)
{
    const struct forward_pass *s = &f->pass;
    uint32_t room = f->sizes.max_tokens - s->n_tokens;
    bool last = !plan_gives_hidden(&f->bounds);
    bool keeps = plan_keeps(&f->bounds, r);
    bool whole = keeps || (last && r->n_drafts > 0);

    if ((whole && r->n_tokens > room) ||
        (keeps && last && r->n_tokens > f->bounds.keep_tokens - s->n_kept)) {
        return 0;
    }
    return fit_tokens(r->position + done, r->n_tokens - done, room,
                      s->n_rows == 0);
}

/* Keeps the inputs of a row of the pass where the plan wants them, or, at the
 * last stage, until the end of the pass. */
static void gather_keep(struct forward *f, const struct plan_row *r,
                        struct kernel_row *k)
{
    k->keep = plan_keeps(&f->bounds, r);
    if (!k->keep) {
        return;
    }
    k->keep_at = r->keep_at;
    if (!plan_gives_hidden(&f->bounds)) {
        k->keep_at = f->pass.n_kept;
        f->pass.n_kept += r->n_tokens;
    }
}

/* Gives a row of the pass the checkpoints that lie inside it. */
static void gather_saves(struct forward *f, const struct plan *p,
                         const struct plan_row *r, struct kernel_row *k)
{
    struct kernel_save *to =
        f->pass.saves + (size_t)f->pass.n_rows * PLAN_SAVES_MAX;

    k->saves = to;
    /* A shard without linear layers reads no saves. */
    for (uint32_t i = 0; f->bounds.has_deltanet && i < r->n_saves; i++) {
        const struct plan_save *s = &p->saves[r->save + i];

        if (s->position > k->position &&
            s->position <= k->position + k->n_tokens) {
            to[k->n_saves++] = (struct kernel_save){s->position, s->page};
        }
    }
}

/* Adds n tokens of a row, after the `done` ones of earlier passes. */
static void gather_row(struct forward *f, const struct plan *p, uint32_t row,
                       uint32_t done, uint32_t n)
{
    const struct plan_row *r = &p->rows[row];
    struct forward_pass *s = &f->pass;
    struct kernel_row *k = &s->rows[s->n_rows];

    gather_ids(f, p, r, done, n);
    *k = (struct kernel_row){
        .first = s->n_tokens,
        .n_tokens = n,
        .position = r->position + done,
        .blocks = f->bounds.has_attention ? p->blocks + r->block : NULL,
        .window = f->bounds.window_pages > 0 ? p->blocks + r->window : NULL,
        .window_first = r->window_first,
        .window_stride = r->n_window,
        .slot = r->slot,
        .generated = r->kind == ROW_GENERATED,
    };
    gather_keep(f, r, k);
    gather_saves(f, p, r, k);
    s->plan_rows[s->n_rows++] = row;
    s->n_tokens += n;
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
    s->n_kept = 0;
    while (*row < p->n_rows && s->n_rows < f->sizes.max_rows) {
        const struct plan_row *r = &p->rows[*row];
        uint32_t n = tokens_of(f, r, *done);

        if (plan_is_twin(r) || is_cut_off(f, r)) {
            ++*row;
            continue;
        }
        if (n == 0) {
            return;
        }
        gather_row(f, p, *row, *done, n);
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
        kernels_mixer(f->kernels, i);
        kernels_ffn(f->kernels, i);
        tap_layer(f, i + 1);
        FP(ENGINE_LAYER);
        if (f->pass.n_tokens > f->pass.n_rows) {
            FP(ENGINE_PREFILL_LAYER);
        }
    }
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
        return forward_sample(f, p, out);
    }
    kernels_hidden_read(f->kernels, 0, f->pass.n_tokens,
                        hidden_room(f) + f->pass.first * f->w->shape.hidden);
    return ST_OK;
}

enum status forward_end(struct forward *f, enum status st,
                        struct plan_result *out)
{
    struct error e;
    enum status end = kernels_end(f->kernels, &e);

    if (FP_FAILS(ENGINE_STEP)) {
        end = error_set(&e, ST_INTERNAL, "a failpoint failed the step");
    }
    if (end != ST_OK) {
        out->error = e;
        return end;
    }
    return st;
}

static enum status run_pass(struct forward *f, const struct plan *p,
                            struct plan_result *out)
{
    struct kernel_step step = {f->pass.rows, f->pass.n_rows, f->pass.n_tokens};
    bool mtp = forward_has_mtp(f, p);
    enum status st;

    kernels_begin(f->kernels, &step);
    run_input(f, p);
    run_layers(f);
    if (mtp) {
        kernels_keep_hidden(f->kernels);
    }
    st = forward_end(f, run_output(f, p, out), out);
    if (st == ST_OK) {
        forward_replay(f, out);
    }
    return st == ST_OK && mtp ? forward_draft(f, p, out) : st;
}

/* Finds the rows that are not computed: those cut off, and the twins. */
static void sort_rows(struct forward *f, const struct plan *p,
                      struct plan_result *out)
{
    f->n_twins = 0;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if (plan_is_twin(&p->rows[i])) {
            f->twins[f->n_twins++] = i;
        }
        if (is_cut_off(f, plan_source(p, &p->rows[i]))) {
            out->outcomes[i] = ROW_CUT_OFF;
        }
    }
}

static void run_copy(struct forward *f, const struct plan_copy *c)
{
    switch (c->kind) {
    case COPY_PAGES:
        kernels_copy_pages(f->kernels, c->from, c->to, c->n);
        break;
    case COPY_OUT:
        kernels_page_out(f->kernels, c->from, c->to, c->n);
        break;
    case COPY_IN:
        kernels_page_in(f->kernels, c->from, c->to, c->n);
        break;
    }
}

static void run_replays(struct forward *f, const struct plan *p)
{
    struct kernel_replay *to = f->drafts.replays;
    uint32_t n = 0;

    for (uint32_t i = 0; f->bounds.has_deltanet && i < p->n_replays; i++) {
        const struct plan_replay *r = &p->replays[i];

        to[n++] = (struct kernel_replay){r->slot, r->keep_at, r->n_tokens};
    }
    if (n > 0) {
        kernels_replay(f->kernels, to, n);
    }
}

/* Slots are zeroed before any row runs: a sequence starts with no state of the
 * one that had the slot before. */
static void run_before(struct forward *f, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_poison; i++) {
        kernels_poison_pages(f->kernels, p->poison[i].from, p->poison[i].n);
    }
    run_replays(f, p);
    for (uint32_t i = 0; i < p->n_before; i++) {
        run_copy(f, &p->before[i]);
    }
    for (uint32_t i = 0; i < p->n_zero; i++) {
        kernels_zero_slot(f->kernels, p->zero_slots[i]);
    }
}

static void run_after(struct forward *f, const struct plan *p)
{
    for (uint32_t i = 0; i < p->n_after; i++) {
        const struct plan_copy *c = &p->after[i];

        kernels_copy_pages(f->kernels, c->from, c->to, c->n);
    }
}

/* A twin has its source's blocks and slot: it is not done if that is not. */
static void fail_twins(const struct forward *f, const struct plan *p,
                       struct plan_result *out)
{
    for (uint32_t i = 0; i < f->n_twins; i++) {
        uint32_t row = f->twins[i], source = p->rows[row].source;

        if (out->outcomes[source] != ROW_DONE) {
            out->outcomes[row] = out->outcomes[source];
            out->tokens[row] = TOKEN_NONE;
        }
    }
}

static enum status run_plan(struct forward *f, const struct plan *p,
                            struct plan_result *out)
{
    enum status st = plan_check(&f->bounds, p, &out->error);
    uint32_t row = 0, done = 0;

    if (st != ST_OK) {
        return st;
    }
    f->pass.first = 0;
    f->pass.n_tokens = 0;
    sort_rows(f, p, out);
    run_before(f, p);
    while (row < p->n_rows && st == ST_OK) {
        gather_pass(f, p, &row, &done);
        /* Nothing is left to run if all of the rows were cut off. */
        st = f->pass.n_rows > 0 ? run_pass(f, p, out) : ST_OK;
    }
    if (st == ST_OK) {
        run_after(f, p);
        fail_twins(f, p, out);
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
        out->n_accepted[i] = 0;
        out->n_drafts[i] = 0;
        f->heads.ended[i] = false;
    }
    f->drafts.ns = 0;
    out->status = run_plan(f, p, out);
    out->draft_us = f->drafts.ns / 1000 < UINT32_MAX
                        ? (uint32_t)(f->drafts.ns / 1000)
                        : UINT32_MAX;
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
