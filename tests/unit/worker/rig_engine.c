/* rig_engine.c - The fake engine, which checks every plan. */
#include <stdlib.h>
#include <string.h>

#include "common/base/minmax.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_internal.h"
#include "tests/unit/worker/rig_memory.h"
#include "tests/unit/worker/stages/ring.h"

/* ---- what a token is ---- */

/* Returns any token but the end token. */
static uint32_t sampled(uint64_t h, uint32_t choice)
{
    h = choice > 0 ? rig_mix(h, ~choice) : h;
    return 16 + (uint32_t)(h % (RIG_VOCAB - 16));
}

float rig_logprob(uint32_t token, uint32_t index)
{
    return -(float)((token * 31 + index * 7) % 1009) / 64.0f;
}

struct token_logprob rig_top(uint32_t token, uint32_t index, uint32_t i)
{
    return (struct token_logprob){(token + 13 * i + index) % RIG_VOCAB,
                                  -(float)(i + index % 5) / 16.0f};
}

uint32_t rig_prompt_id(uint32_t id, uint32_t i)
{
    return 16 + (id * 131u + i * 17u) % (RIG_VOCAB - 16);
}

void rig_expect(uint32_t id, uint32_t n_prompt, uint32_t n, uint32_t *out)
{
    rig_expect_choice(id, 0, n_prompt, n, out);
}

void rig_expect_choice(uint32_t id, uint32_t choice, uint32_t n_prompt,
                       uint32_t n, uint32_t *out)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < n_prompt; i++) {
        h = rig_mix(h, rig_prompt_id(id, i));
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] = sampled(h, choice);
        h = rig_mix(h, out[i]);
    }
}

/* ---- the engine ---- */

struct rig_fake {
    const struct plan *plans[ENGINE_DEPTH_MAX];
    uint64_t looks[ENGINE_DEPTH_MAX][PLAN_ROWS_MAX];
    uint32_t n;
    struct plan_result done[ENGINE_DEPTH_MAX], before;
    uint32_t n_done;
    /* Sequences of failed plans, and the position of their rows: what
     * follows there is garbage until one begins at or before it. */
    struct {
        uint64_t sequence;
        uint32_t position;
    } failed[2 * PLAN_ROWS_MAX];
    uint32_t n_failed;
    uint64_t hashes[PLAN_ROWS_MAX]; /* of the rows of the plan that runs */
    struct rig_memory *memory;
    float *hidden; /* [step_tokens, RING_HIDDEN] the last plan's */
};

static enum row_kind kind_of(const struct rig_prompt *p, uint32_t at)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < p->n_spans; i++) {
        end += p->spans[i];
        if (at < end) {
            return i % 2 == 0 ? ROW_PROMPT : ROW_GENERATED;
        }
    }
    return at < p->n ? ROW_PROMPT : ROW_GENERATED;
}

void rig_expect_prompt(const struct rig *r, const struct rig_prompt *p,
                       uint32_t n, uint32_t *out)
{
    uint64_t h = 0;

    for (uint32_t i = 0; i < p->n + n; i++) {
        uint32_t id = i < p->n ? p->ids[i] : sampled(h, p->choice);

        if (i >= p->n) {
            out[i - p->n] = id;
        }
        h = rig_memory_mix(r->fake->memory, h, id, kind_of(p, i));
    }
}

/* ---- memory borrowed for a row that samples ---- */

static uint32_t history_id(const struct id_pages *p, uint32_t i)
{
    uint32_t page = 1u << p->shift, leaf;

    assert_in_range(p->root, 0, p->n_pages - 1);
    assert_in_range(i >> p->shift, 0, page - 1);
    leaf = p->memory[((size_t)p->root << p->shift) + (i >> p->shift)];
    assert_in_range(leaf, 0, p->n_pages - 1);
    return p->memory[((size_t)leaf << p->shift) + i % page];
}

static uint64_t mix_bits(uint64_t h, const void *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;

        memcpy(&bits, (const char *)values + (size_t)i * sizeof bits,
               sizeof bits);
        h = rig_mix(h, bits);
    }
    return h;
}

/* Hashes everything that the core must not change until the plan returns. */
static uint64_t look(const struct plan_row *row)
{
    const struct sampling *s = row->sampling;
    uint64_t h = 0;

    if (!row->sample) {
        return 0;
    }
    assert_int_equal(row->history.n > 0, sampling_penalises(s));
    for (uint32_t i = 0; i < row->history.n; i++) {
        h = rig_mix(h, history_id(&row->history.pages, i));
    }
    h = mix_bits(h, &s->temperature, 1) + s->seed;
    h = mix_bits(h, s->bias_tokens, s->n_biases);
    h = mix_bits(h, s->biases, s->n_biases);
    return mix_bits(h, s->stop_tokens, s->n_stop_tokens);
}

static struct rig *rig_of(struct engine *e)
{
    return (struct rig *)(void *)((char *)e - offsetof(struct rig, engine));
}

static enum status fake_submit(struct engine *e, const struct plan *p)
{
    struct rig *r = rig_of(e);

    assert_true(r->fake->n < r->o.engine_depth);
    if (r->refuse_plans || r->refuse_once) {
        r->refuse_once = false;
        return ST_RESOURCE_EXHAUSTED;
    }
    assert_in_range(p->n_rows, 1, r->o.max_rows);
    assert_in_range(p->n_tokens, 1, r->o.step_tokens);
    r->last_rows = p->n_rows;
    r->last_tokens = p->n_tokens;
    rig_drafts_check(r, p);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        r->fake->looks[r->fake->n][i] = look(&p->rows[i]);
    }
    r->fake->plans[r->fake->n++] = p;
    return ST_OK;
}

/* Copies the rows of a result, and the row of garbage behind them.  A whole
 * result is large: its copies would take most of a test's time. */
static void copy_result(struct plan_result *to, const struct plan_result *from)
{
    uint32_t n = min_u32(from->n_rows + 1, PLAN_ROWS_MAX);

    memcpy(to, from, offsetof(struct plan_result, n_accepted));
#define COPY(member) memcpy(to->member, from->member, n * sizeof *to->member)
    COPY(n_accepted);
    COPY(tokens);
    COPY(outcomes);
    COPY(logprobs);
    COPY(top);
    COPY(draft_logprobs);
    COPY(draft_top);
    COPY(n_drafts);
    COPY(drafts);
#undef COPY
}

/* Fills the rows of a result, and one more, with garbage: the core must not
 * read what was not requested. */
static void spoil_result(struct plan_result *out, uint32_t n_rows)
{
    uint32_t n = min_u32(n_rows + 1, PLAN_ROWS_MAX);

    memset(out, 0xff, offsetof(struct plan_result, n_accepted));
#define SPOIL(member) memset(out->member, 0xff, n * sizeof *out->member)
    SPOIL(n_accepted);
    SPOIL(tokens);
    SPOIL(outcomes);
    SPOIL(logprobs);
    SPOIL(top);
    SPOIL(draft_logprobs);
    SPOIL(draft_top);
    SPOIL(n_drafts);
    SPOIL(drafts);
#undef SPOIL
}

static bool fake_poll(struct engine *e, struct plan_result *out)
{
    struct rig_fake *f = rig_of(e)->fake;

    if (f->n_done == 0) {
        return false;
    }
    copy_result(out, &f->done[0]);
    f->n_done--;
    for (uint32_t i = 0; i < f->n_done; i++) {
        copy_result(&f->done[i], &f->done[i + 1]);
    }
    return true;
}

static uint64_t fake_progress(struct engine *e)
{
    const struct rig *r = rig_of(e);

    return r->n_steps + (r->ticks ? (uint64_t)r->now_us : 0);
}

static const struct engine_ops fake_ops = {fake_submit, fake_poll,
                                           fake_progress};

static uint32_t row_id(const struct rig_fake *f, const struct plan *p,
                       const struct plan_row *row, uint32_t i)
{
    if (row->chained) {
        assert_int_equal(row->n_tokens, 1);
        assert_in_range(row->chain_row, 0, f->before.n_rows - 1);
        return f->before.tokens[row->chain_row];
    }
    return p->tokens[row->token + i];
}

/* Checks a row's saves against the engine contract. */
static void check_saves(const struct rig *r, const struct plan *p,
                        const struct plan_row *row)
{
    uint32_t after = row->position;

    assert_in_range(row->n_saves, 0, PLAN_SAVES_MAX);
    assert_true(row->n_saves == 0 || r->o.pool.pages_per_slot > 0);
    for (uint32_t i = 0; i < row->n_saves; i++) {
        const struct plan_save *s = &p->saves[row->save + i];

        assert_in_range(row->save + i, 0, p->n_saves - 1);
        assert_int_equal(s->position % 64, 0);
        assert_in_range(s->position, after + 1, row->position + row->n_tokens);
        after = s->position;
    }
}

/* Computes the row: its ids go to its blocks and its slot.  Returns the hash of
 * all ids up to its last. */
static uint64_t compute_row(struct rig *r, const struct plan *p,
                            const struct plan_row *row)
{
    struct rig_fake *f = r->fake;
    uint64_t h = rig_memory_read(f->memory, p, row);

    check_saves(r, p, row);
    for (uint32_t i = 0; i < row->n_tokens; i++) {
        uint32_t id = row_id(f, p, row, i);

        assert_in_range(id, 0, RIG_VOCAB - 1);
        h = rig_memory_write(f->memory, p, row, i, id, h);
    }
    r->n_computed += row->n_tokens;
    return h;
}

/* Checks the row's history against h, the hash of the ids up to its last. */
static void check_history(const struct rig *r, const struct plan *p,
                          const struct plan_row *row, uint64_t h)
{
    const struct rig_fake *f = r->fake;
    const struct plan_history *y = &row->history;
    uint64_t seen = 0;

    if (y->n == 0) {
        return;
    }
    assert_in_range(y->n_prompt, 1, y->n);
    if (!r->o.one_arithmetic) {
        return; /* h depends on kinds, which ids do not show */
    }
    for (uint32_t i = 0; i < y->n; i++) {
        seen = rig_mix(seen, history_id(&y->pages, i));
    }
    if (row->chained) {
        seen = rig_mix(seen, row_id(f, p, row, 0));
    }
    assert_true(seen == h);
}

uint32_t rig_token(const struct rig *r, const struct plan_row *row, uint64_t h,
                   uint32_t index)
{
    uint32_t token = index == r->eos_at ? RIG_EOS : sampled(h, row->choice);

    return r->counts ? (uint32_t)(h % 8) : token;
}

/* Samples the last token of row i, behind the accepted drafts. */
static void choose(const struct rig *r, const struct plan_row *row, uint64_t h,
                   uint32_t i, struct plan_result *out)
{
    const struct sampling *s = row->sampling;
    bool drafts = row->n_drafts > 0 && r->ring == NULL;
    uint32_t index = row->index + (drafts ? out->n_accepted[i] : 0);
    uint32_t token = rig_token(r, row, h, index);

    out->tokens[i] = token;
    if (!s->logprobs) {
        return;
    }
    out->logprobs[i] = rig_logprob(token, index);
    for (uint32_t j = 0; j < s->n_top_logprobs; j++) {
        out->top[i][j] = rig_top(token, index, j);
    }
}

static bool fails(const struct rig *r, const struct plan *p)
{
    bool with = false;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        with = with || p->rows[i].sequence == r->fails_with;
    }
    return r->fail_next != NULL || with;
}

/* Returns whether the row continues from a token that does not exist. */
static bool is_cut_off(const struct rig_fake *f, const struct plan_row *row)
{
    return row->chained && (f->before.status != ST_OK ||
                            f->before.outcomes[row->chain_row] != ROW_DONE);
}

/* Returns whether the row continues from what a failed plan left. */
static bool has_failed(struct rig_fake *f, const struct plan_row *row)
{
    for (uint32_t i = 0; i < f->n_failed; i++) {
        if (f->failed[i].sequence != row->sequence) {
            continue;
        }
        if (row->position > f->failed[i].position) {
            return true;
        }
        f->failed[i].sequence = 0; /* it begins anew */
    }
    return false;
}

/* Several plans may fail before the first sequence begins anew. */
static void note_failed(struct rig_fake *f, const struct plan_row *row)
{
    uint32_t at = 0;

    while (at < f->n_failed && f->failed[at].sequence != row->sequence) {
        at++;
    }
    if (at < f->n_failed) {
        if (row->position < f->failed[at].position) {
            f->failed[at].position = row->position;
        }
        return;
    }
    for (at = 0; at < f->n_failed && f->failed[at].sequence != 0; at++) {
    }
    assert_in_range(at, 0, PLAN_ROWS_MAX - 1);
    f->n_failed += at == f->n_failed;
    f->failed[at].sequence = row->sequence;
    f->failed[at].position = row->position;
}

/* Every second row of a failed plan has written its blocks. */
static void break_down(struct rig *r, const struct plan *p,
                       struct plan_result *out)
{
    struct rig_fake *f = r->fake;

    out->status = error_set(&out->error, ST_INTERNAL, "%s",
                            r->fail_next != NULL ? r->fail_next : "its fault");
    r->fail_next = NULL;
    memset(out->tokens, 0, p->n_rows * sizeof *out->tokens);
    rig_memory_before(f->memory, p);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        if (i % 2 == 1 && row->n_tokens > 0 && !row->chained &&
            !has_failed(f, row)) {
            (void)compute_row(r, p, row);
        }
        rig_memory_ruin(f->memory, p, row);
    }
    rig_memory_after(f->memory, p, true);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        note_failed(f, &p->rows[i]);
    }
}

/* A leader's engine samples nothing: the token that it would sample is in
 * the hidden state of the row's last token. */
static void hide(struct rig *r, const struct plan *p, struct plan_result *out)
{
    float *x = r->fake->hidden;

    if (r->ring == NULL) {
        return;
    }
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];
        const struct plan_row *from =
            row->n_tokens == 0 ? &p->rows[row->source] : row;
        size_t at = (size_t)(from->token + from->n_tokens - 1) * RING_HIDDEN;

        /* The tokens of twins are beside that of their source. */
        for (uint32_t k = 0; row->n_tokens == 0 && k <= i; k++) {
            at += p->rows[k].n_tokens == 0 && p->rows[k].source == row->source;
        }
        if (row->n_drafts == 0) {
            x[at] = row->sample ? (float)out->tokens[i] : 0;
        }
        out->tokens[i] = TOKEN_NONE;
    }
    out->hidden = x;
}

/* Returns the hash of a twin's ids: those of its source, whose row precedes. */
static uint64_t twin_hash(struct rig *r, const struct plan *p, uint32_t i)
{
    const struct plan_row *row = &p->rows[i], *from = &p->rows[row->source];

    assert_in_range(row->source, 0, i - 1);
    assert_true(from->sample && from->n_tokens > 0 && row->sample);
    assert_int_equal(row->position, from->position + from->n_tokens);
    assert_int_equal(row->n_saves, 0);
    r->n_twins++;
    return r->fake->hashes[row->source];
}

/* The twin of a row that continues from what a failed plan left does so too. */
static void fail_twin(struct rig_fake *f, const struct plan *p,
                      const struct plan_row *row)
{
    const struct plan_row *from = &p->rows[row->source];

    for (uint32_t i = 0; i < f->n_failed; i++) {
        if (f->failed[i].sequence == from->sequence) {
            assert_in_range(f->n_failed, 1, PLAN_ROWS_MAX);
            f->failed[f->n_failed] = f->failed[i];
            f->failed[f->n_failed++].sequence = row->sequence;
            return;
        }
    }
}

/* Computes row i, to its last token that counts. */
static uint64_t hash_row(struct rig *r, const struct plan *p, uint32_t i,
                         struct plan_result *out)
{
    if (p->rows[i].n_drafts == 0) {
        return compute_row(r, p, &p->rows[i]);
    }
    return r->ring != NULL
               ? rig_drafts_pass(r, r->fake->memory, p, i, r->fake->hidden)
               : rig_drafts_verify(r, r->fake->memory, p, i, out);
}

/* A leader's row without drafts shows the tokens that would follow it. */
static void hide_row(struct rig *r, const struct plan *p, uint32_t i)
{
    const struct plan_row *row = &p->rows[i];
    size_t at = (size_t)(row->token + row->n_tokens - 1) * RING_HIDDEN;

    if (row->n_drafts == 0) {
        rig_drafts_hide(r, r->fake->memory, row, r->fake->hashes[i], row->index,
                        r->fake->hidden + at);
    }
}

static void take_row(struct rig *r, const struct plan *p, uint32_t i,
                     struct plan_result *out)
{
    struct rig_fake *f = r->fake;
    const struct plan_row *row = &p->rows[i];

    if (is_cut_off(f, row)) {
        out->outcomes[i] = ROW_CUT_OFF;
        out->tokens[i] = TOKEN_NONE;
        rig_memory_ruin(f->memory, p, row);
        return;
    }
    if (has_failed(f, row)) {
        rig_memory_garble(f->memory, p, row);
        return;
    }
    if (row->n_tokens == 0 && has_failed(f, &p->rows[row->source])) {
        fail_twin(f, p, row);
        return;
    }
    if (row->n_tokens == 0) {
        f->hashes[i] = twin_hash(r, p, i);
    } else {
        assert_in_range(row->n_tokens, 1, r->o.chunk_tokens);
        f->hashes[i] = hash_row(r, p, i, out);
    }
    if (r->ring != NULL && row->sample && row->n_tokens > 0) {
        hide_row(r, p, i);
    }
    if (row->sample && row->sequence == r->damaged) {
        out->outcomes[i] = ROW_NOT_FINITE;
        out->tokens[i] = TOKEN_NONE;
    } else if (row->sample) {
        if (row->n_drafts == 0 ||
            (r->ring == NULL && out->n_accepted[i] == 0)) {
            check_history(r, p, row, f->hashes[i]);
        }
        choose(r, row, f->hashes[i], i, out);
    }
    if (row->mtp && out->outcomes[i] == ROW_DONE && r->ring == NULL) {
        rig_drafts_propose(r, f->memory, p, i, f->hashes[i], out);
    }
}

static void compute(struct rig *r, const struct plan *p,
                    struct plan_result *out)
{
    struct rig_fake *f = r->fake;

    rig_memory_before(f->memory, p);
    memset(f->hidden, 0, p->n_tokens * RING_HIDDEN * sizeof *f->hidden);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];

        out->tokens[i] = row->sample ? 16 : TOKEN_NONE;
        out->outcomes[i] = ROW_DONE;
        out->logprobs[i] = 0;
        assert_true(look(row) == f->looks[0][i]);
        take_row(r, p, i, out);
    }
    rig_memory_after(f->memory, p, false);
}

bool rig_step(struct rig *r)
{
    struct rig_fake *f = r->fake;
    struct plan_result *out;
    const struct plan *p;

    if (f->n == 0) {
        return false;
    }
    p = f->plans[0];
    out = &f->done[f->n_done++];
    spoil_result(out, p->n_rows);
    out->step = p->step;
    out->status = ST_OK;
    out->lost = false;
    out->n_rows = p->n_rows;
    out->hidden = NULL;
    out->device_us = 11 + p->n_tokens * r->token_us;
    out->draft_us = 0;
    if (fails(r, p)) {
        break_down(r, p, out);
    } else {
        compute(r, p, out);
        hide(r, p, out);
    }
    if (r->lie != NULL) {
        r->lie(out);
        r->lie = NULL;
    }
    copy_result(&f->before, out);
    f->n--;
    memmove(&f->plans[0], &f->plans[1], f->n * sizeof f->plans[0]);
    memmove(&f->looks[0], &f->looks[1], f->n * sizeof f->looks[0]);
    r->n_steps++;
    r->now_us += 100;
    rig_turn(r);
    return true;
}

uint32_t rig_inflight(const struct rig *r)
{
    return r->fake->n;
}

const struct plan *rig_plan(const struct rig *r, uint32_t i)
{
    return i < r->fake->n ? r->fake->plans[i] : NULL;
}

void rig_run(struct rig *r)
{
    for (int i = 0; rig_step(r); i++) {
        assert_in_range(i, 0, 100000);
    }
}

void rig_engine_new(struct rig *r)
{
    const struct worker_options *o = &r->o;
    struct rig_fake *f = calloc(1, sizeof *f);

    f->memory = rig_memory_new(&r->o, &r->counts);
    f->hidden = calloc((size_t)o->step_tokens * RING_HIDDEN, sizeof *f->hidden);
    r->fake = f;
    r->engine.ops = &fake_ops;
    r->eos_at = UINT32_MAX;
}

void rig_engine_free(struct rig *r)
{
    struct rig_fake *f = r->fake;

    rig_memory_free(f->memory);
    free(f->hidden);
    free(f);
}
