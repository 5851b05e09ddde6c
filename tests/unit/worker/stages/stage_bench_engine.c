/* stage_bench_engine.c - The engine of some layers, which checks its plans. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/stage_bench_internal.h"

static struct bench *bench_of(struct engine *e)
{
    return (struct bench *)(void *)((char *)e - offsetof(struct bench, engine));
}

static enum status submit(struct engine *e, const struct plan *p)
{
    struct bench *b = bench_of(e);

    /* A stage has at most one plan at the engine. */
    assert_null(b->plan);
    if (b->refuse_plans) {
        return ST_RESOURCE_EXHAUSTED;
    }
    assert_in_range(p->n_rows, 1, b->o.max_rows);
    assert_in_range(p->n_tokens, 1, b->o.step_tokens);
    assert_non_null(p->hidden);
    b->plan = p;
    b->n_plans++;
    return ST_OK;
}

static bool poll(struct engine *e, struct plan_result *out)
{
    struct bench *b = bench_of(e);

    if (!b->has_result) {
        return false;
    }
    *out = b->result;
    b->has_result = false;
    return true;
}

static uint64_t progress(struct engine *e)
{
    const struct bench *b = bench_of(e);

    return b->stands ? 1 : (uint64_t)b->now_us;
}

static const struct engine_ops ops = {submit, poll, progress};

/* The id of a token is what it is taken for: the last value of x. */
static uint32_t token_id(const struct bench *b, const struct plan *p,
                         uint32_t token)
{
    return (uint32_t)p->hidden[(size_t)(token + 1) * b->o.hidden - 1];
}

/* Reads and writes the row's blocks and slot, which advances by its first n
 * tokens unless they are kept; a table, a slot or a checkpoint
 * that belongs to other ids fails the test. */
static void compute_row(struct bench *b, const struct plan *p,
                        const struct plan_row *row, uint32_t n)
{
    uint64_t h;

    if (b->astray || row->n_tokens == 0) {
        return;
    }
    h = rig_memory_read(b->memory, p, row);
    for (uint32_t i = 0; i < row->n_tokens; i++) {
        uint32_t id = token_id(b, p, row->token + i);

        if (row->keep) {
            h = rig_memory_keep(b->memory, p, row, i, id, h);
        } else if (i < n) {
            h = rig_memory_write(b->memory, p, row, i, id, h);
        } else {
            rig_memory_refuse(b->memory, p, row, i, id);
        }
    }
}

static uint32_t history_id(const struct id_pages *p, uint32_t i)
{
    uint32_t leaf = p->memory[((size_t)p->root << p->shift) + (i >> p->shift)];

    return p->memory[((size_t)leaf << p->shift) + i % (1u << p->shift)];
}

/* Returns the token behind the first `drafts` drafts.  With penalties, it
 * contains the last id and the length of the history, so that a test can check
 * both. */
static uint32_t sampled(const struct bench *b, const struct plan *p,
                        const struct plan_row *row, uint32_t drafts)
{
    const struct plan_row *from =
        row->n_tokens == 0 ? &p->rows[row->source] : row;
    uint32_t at = from->token + from->n_tokens - 1 - row->n_drafts + drafts;
    uint32_t token = token_id(b, p, at);

    if (row->history.n > 0 && drafts > 0) {
        token = p->tokens[at] * 7 + row->history.n + drafts;
    } else if (row->history.n > 0) {
        token = history_id(&row->history.pages, row->history.n - 1) * 7 +
                row->history.n;
    }
    return token % BENCH_VOCAB;
}

/* Accepts drafts up to the first that differs. */
static uint32_t accept(const struct bench *b, const struct plan *p, uint32_t i,
                       struct plan_result *r)
{
    const struct plan_row *row = &p->rows[i];
    uint32_t n = 0;

    while (n < row->n_drafts &&
           p->tokens[row->token + 1 + n] == sampled(b, p, row, n)) {
        r->draft_logprobs[i][n] = -1.0f - (float)n;
        for (uint32_t j = 0; j < row->sampling->n_top_logprobs; j++) {
            r->draft_top[i][n][j] =
                (struct token_logprob){10 * (n + 1) + j, -(float)j};
        }
        n++;
    }
    r->n_accepted[i] = (uint8_t)n;
    return n;
}

/* Samples the token of row i behind its accepted drafts, and drafts the numbers
 * that follow it. */
static void choose(const struct bench *b, const struct plan *p, uint32_t i,
                   uint32_t n_accepted, struct plan_result *r)
{
    const struct plan_row *row = &p->rows[i];

    r->tokens[i] = sampled(b, p, row, n_accepted);
    r->logprobs[i] = -0.5f;
    for (uint32_t j = 0; j < row->sampling->n_top_logprobs; j++) {
        r->top[i][j] = (struct token_logprob){j, -(float)j};
    }
    r->n_drafts[i] = (uint8_t)row->propose;
    for (uint32_t j = 0; j < row->propose; j++) {
        assert_true(row->mtp);
        r->drafts[i][j] = (r->tokens[i] + 1 + j) % BENCH_VOCAB;
    }
}

static void compute(struct bench *b, const struct plan *p,
                    struct plan_result *r)
{
    bool last = b->o.layer_end == b->o.n_layers;

    rig_memory_before(b->memory, p);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        const struct plan_row *row = &p->rows[i];
        uint32_t n_accepted =
            last && row->n_drafts > 0 ? accept(b, p, i, r) : 0;

        compute_row(b, p, row,
                    last ? row->n_tokens - row->n_drafts + n_accepted
                         : row->n_tokens);
        r->tokens[i] = TOKEN_NONE;
        r->outcomes[i] = ROW_DONE;
        if (last && row->sample && row->sequence == b->damaged) {
            r->outcomes[i] = ROW_NOT_FINITE;
        } else if (last && row->sample) {
            choose(b, p, i, n_accepted, r);
        }
    }
    rig_memory_after(b->memory, p, false);
    for (uint32_t i = 0; i < p->n_tokens * b->o.hidden; i++) {
        b->x[i] = p->hidden[i] + 1;
    }
    r->hidden = last || b->no_hidden ? NULL : b->x;
}

static void ruin(struct bench *b, const struct plan *p)
{
    rig_memory_before(b->memory, p);
    for (uint32_t i = 0; i < p->n_rows; i++) {
        rig_memory_ruin(b->memory, p, &p->rows[i]);
    }
    rig_memory_after(b->memory, p, true);
}

bool bench_run(struct bench *b)
{
    const struct plan *p = b->plan;
    struct plan_result *r = &b->result;

    if (p == NULL) {
        return false;
    }
    memset(r, 0xff, sizeof *r);
    r->step = p->step;
    r->status = ST_OK;
    r->lost = b->lost;
    r->n_rows = p->n_rows;
    r->hidden = NULL;
    r->device_us = 11;
    if (b->lost) {
        r->status = error_set(&r->error, ST_DATA_LOSS, "the device is gone");
    } else if (b->fail_next != NULL) {
        r->status = error_set(&r->error, ST_INTERNAL, "%s", b->fail_next);
        b->fail_next = NULL;
        ruin(b, p);
    } else {
        compute(b, p, r);
    }
    b->plan = NULL;
    b->has_result = true;
    b->now_us += 100;
    bench_turn(b);
    return true;
}

void bench_engine_new(struct bench *b)
{
    static const bool counts = false;
    const struct worker_options *o = &b->o;

    b->engine.ops = &ops;
    b->x = calloc((size_t)o->step_tokens * b->o.hidden, sizeof *b->x);
    b->memory = rig_memory_new(o, &counts);
}

void bench_engine_free(struct bench *b)
{
    free(b->x);
    rig_memory_free(b->memory);
}
