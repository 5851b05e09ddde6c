/* The forward pass at its limits: wrong plans, chained rows, logits that are
 * not finite. */
#include "worker/engine/forward.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/model/page_layout.h"
#include "tests/kernels/random_model.h"
#include "tests/unit/cmocka.h"

#define BLOCKS  8
#define SLOTS   2
#define CONTEXT 16

static const struct sampling greedy = {.top_p = 1, .repetition_penalty = 1};
static float logits[100]; /* the newest sampled row's */

struct rig {
    struct random_model model;
    struct forward *forward;
    uint32_t slot_pages, first_block, n_pages; /* slots, then blocks */
    struct plan plan;
    struct plan_row rows[4];
    uint32_t tokens[64], blocks[64], zero[4];
    struct plan_result result;
};

static struct rig *rig_new(void)
{
    struct rig *g = calloc(1, sizeof *g);
    struct kernels_sizes sizes;
    struct kernels_options o = {
        .device = "cpu", .block_tokens = 4, .max_tokens = 8, .n_threads = 1};
    struct dice d = {11};
    struct random_shape r;
    struct error e;

    assert_non_null(g);
    random_shape(&r, &d);
    r.shape.n_layers = 2;
    r.shape.vocab = 100;
    r.shape.context = CONTEXT;
    r.mixers[0] = MIXER_DELTANET;
    r.mixers[1] = MIXER_ATTENTION;
    random_model_new(&g->model, &r, &d);
    assert_int_equal(forward_new(&g->forward, &g->model.w, &o, &e), ST_OK);
    forward_sizes(g->forward, &sizes);
    g->slot_pages = sizes.pages_per_slot;
    g->first_block = SLOTS * g->slot_pages;
    g->n_pages = g->first_block + BLOCKS;
    assert_int_equal(forward_alloc(g->forward, g->n_pages, &e), ST_OK);
    g->plan.rows = g->rows;
    g->plan.tokens = g->tokens;
    g->plan.blocks = g->blocks;
    g->plan.zero_slots = g->zero;
    return g;
}

static void rig_free(struct rig *g)
{
    forward_free(&g->forward);
    random_model_free(&g->model);
    free(g);
}

/* Makes a plan of one row on the first blocks and slot 0. */
static struct plan_row *one_row(struct rig *g, uint32_t position, uint32_t n)
{
    g->plan.step++;
    g->plan.n_rows = 1;
    g->plan.n_tokens = n;
    g->plan.n_blocks = (position + n + 3) / 4;
    g->plan.n_zero = position == 0;
    g->zero[0] = 0;
    for (uint32_t i = 0; i < n; i++) {
        g->tokens[i] = (position + i) * 7 % 100;
    }
    for (uint32_t i = 0; i < g->plan.n_blocks; i++) {
        g->blocks[i] = g->first_block + i;
    }
    g->rows[0] = (struct plan_row){.kind = ROW_PROMPT,
                                   .position = position,
                                   .n_tokens = n,
                                   .n_blocks = g->plan.n_blocks,
                                   .sample = true,
                                   .sampling = &greedy};
    return &g->rows[0];
}

static uint32_t run(struct rig *g)
{
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_OK);
    assert_int_equal(g->result.step, g->plan.step);
    return g->result.tokens[0];
}

static void refused(struct rig *g, enum status code, const char *text)
{
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, code);
    assert_int_equal(g->result.error.code, code);
    assert_int_equal(g->result.n_rows, 1);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    if (strstr(g->result.error.text, text) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", g->result.error.text, text);
    }
}

static void test_wrong_plans(void **state)
{
    struct rig *g = rig_new();

    (void)state;
    one_row(g, 0, 10);
    g->tokens[9] = 100;
    refused(g, ST_INTERNAL, "row 0, sequence 0: token id 100 of 100");
    one_row(g, 0, 10);
    g->blocks[2] = g->n_pages;
    refused(g, ST_INTERNAL, "row 0, sequence 0: block at page");
    one_row(g, 0, 10)->n_blocks = 2;
    refused(g, ST_INTERNAL, "table of 2 blocks for 10 positions");
    one_row(g, 0, 10)->block = 1;
    refused(g, ST_INTERNAL, "table");
    one_row(g, 0, 10)->token = 1;
    refused(g, ST_INTERNAL, "10 tokens at 1 of 10");
    one_row(g, 0, 10)->n_tokens = 0;
    refused(g, ST_INTERNAL, "no tokens, and row 0 is not a row before it");
    one_row(g, 0, 10);
    g->plan.hidden = logits;
    refused(g, ST_INTERNAL, "hidden states for layers 0-2 of 2");
    g->plan.hidden = NULL;
    one_row(g, 0, 10);
    run(g);
    assert_null(g->result.hidden);
    rig_free(g);
}

/* A chained row computes what the row with the explicit token computes. */
static void test_chained(void **state)
{
    struct rig *g = rig_new();
    struct plan_row *row;
    uint32_t first, second;

    (void)state;
    one_row(g, 0, 10);
    first = run(g);
    one_row(g, 10, 1);
    g->tokens[0] = first;
    second = run(g);

    one_row(g, 0, 10);
    assert_int_equal(run(g), first);
    row = one_row(g, 10, 1);
    row->chained = true;
    g->tokens[0] = TOKEN_NONE; /* not read */
    assert_int_equal(run(g), second);
    rig_free(g);
}

static void test_chained_to_nothing(void **state)
{
    struct rig *g = rig_new();

    (void)state;
    one_row(g, 0, 1)->chained = true;
    refused(g, ST_INTERNAL, "chained to row 0");
    one_row(g, 0, 10)->sample = false;
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_OK);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    one_row(g, 10, 1)->chained = true;
    refused(g, ST_INTERNAL, "sampled no token");
    rig_free(g);
}

/* After a failed step, a chained row is left out; a row beside it is computed,
 * and so is one chained to that row.  */
static void test_chained_to_a_failed_step(void **state)
{
    struct rig *g = rig_new();

    (void)state;
    one_row(g, 0, 10)->slot = SLOT_NONE;
    refused(g, ST_INTERNAL, "slot at page 4294967295");
    one_row(g, 10, 1)->chained = true;
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_OK);
    assert_int_equal(g->result.tokens[0], TOKEN_NONE);
    assert_int_equal(g->result.outcomes[0], ROW_CUT_OFF);
    one_row(g, 11, 1)->chained = true; /* nor has that row a token */
    forward_run(g->forward, &g->plan, &g->result);
    assert_int_equal(g->result.status, ST_OK);
    assert_int_equal(g->result.outcomes[0], ROW_CUT_OFF);
    rig_free(g);
}

/* A weight that is NaN: the row gets no token. */
static void test_not_finite(void **state)
{
    struct rig *g = rig_new();
    float *gamma = (float *)(uintptr_t)g->model.w.final_norm;
    float kept = gamma[0];

    (void)state;
    one_row(g, 0, 10);
    memset(&gamma[0], 0xff, sizeof gamma[0]);
    assert_int_equal(run(g), TOKEN_NONE);
    assert_int_equal(g->result.outcomes[0], ROW_NOT_FINITE);
    gamma[0] = kept;
    one_row(g, 0, 10);
    assert_int_not_equal(run(g), TOKEN_NONE);
    rig_free(g);
}

/* The sizes of scratch and pool follow from the shape. */
static void test_sizes(void **state)
{
    struct rig *g = rig_new();
    const struct model_shape *s = &g->model.w.shape;
    struct kernels_sizes z;
    size_t channels = 2 * s->n_k_heads * s->k_dim + s->n_v_heads * s->v_dim;
    size_t state_size = s->n_v_heads * s->k_dim * s->v_dim;
    size_t slot = (state_size + (s->conv - 1) * channels) * 4;
    size_t kv = (size_t)2 * s->n_kv_heads * s->head_dim * 4 * 4;

    (void)state;
    forward_sizes(g->forward, &z);
    /* One layer of each kind: a page is a block, up to its alignment. */
    assert_in_range(z.page_bytes, kv, kv + PAGE_ALIGN - 1);
    assert_int_equal(z.pages_per_block, 1);
    assert_in_range(z.pages_per_slot * z.page_bytes, slot,
                    slot + z.page_bytes + 2 * PAGE_ALIGN - 1);
    assert_true(z.one_arithmetic);
    assert_true(z.scratch_bytes >= 8 * s->hidden * 4);
    assert_true(forward_progress(g->forward) == 0);
    one_row(g, 0, 20);
    run(g);
    assert_true(forward_progress(g->forward) > 20);
    rig_free(g);
}

/* ---- histories ---- */

#define SHIFT 3 /* pages of 8 ids: 64 in an array */
#define PAGES 16

static const struct sampling penalised = {
    .top_p = 1, .repetition_penalty = 1, .frequency_penalty = 2};

/* Writes ids to pages in random order. */
struct book {
    uint32_t memory[PAGES << SHIFT];
    uint32_t used;
};

static uint32_t page_of(struct book *b)
{
    assert_in_range(b->used, 0, PAGES - 1);
    return b->used++ * 5 % PAGES;
}

static struct plan_history write_ids(struct book *b, const uint32_t *ids,
                                     uint32_t n, uint32_t n_prompt)
{
    uint32_t root = page_of(b), leaf = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (i % (1 << SHIFT) == 0) {
            leaf = page_of(b);
            b->memory[(root << SHIFT) + (i >> SHIFT)] = leaf;
        }
        b->memory[(leaf << SHIFT) + i % (1 << SHIFT)] = ids[i];
    }
    return (struct plan_history){.pages = {.memory = b->memory,
                                           .n_pages = PAGES,
                                           .root = root,
                                           .shift = SHIFT},
                                 .n = n,
                                 .n_prompt = n_prompt};
}

static struct plan_history write_history(struct book *b, uint32_t first,
                                         uint32_t n, uint32_t n_prompt)
{
    uint32_t ids[64];

    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (first + 3 * i) % 100;
    }
    return write_ids(b, ids, n, n_prompt);
}

/* A layer between the forward pass and its kernels: it records the arguments
 * of sample, and returns artificial results. */
static struct {
    struct kernels_ops ops;
    struct sample_row rows[4];
    uint32_t ids[4][64], n, calls;
} spy;

static enum status spy_sample(struct kernels *k, const struct sample_row *rows,
                              uint32_t n, struct sample_result *out,
                              struct error *e)
{
    (void)k;
    (void)e;
    spy.calls++;
    for (uint32_t i = 0; i < n; i++) {
        struct sample_row *seen = &spy.rows[spy.n];

        *seen = rows[i];
        assert_in_range(seen->n_ids, 0, 64);
        for (uint32_t j = 0; j < seen->n_ids; j++) {
            spy.ids[spy.n][j] = rows[i].ids[j];
        }
        spy.n++;
        out[i].status = ST_OK;
        out[i].token = 40 + rows[i].index;
        out[i].logprob = -1.0f - (float)rows[i].index;
        for (uint32_t j = 0; j < TOP_LOGPROBS_MAX; j++) {
            out[i].top[j] =
                (struct token_logprob){rows[i].index + j, -2.0f - (float)j};
        }
    }
    return ST_OK;
}

static struct rig *rig_spied(void)
{
    struct rig *g = rig_new();
    struct kernels *k = forward_kernels(g->forward);

    spy.n = spy.calls = 0;
    spy.ops = *k->ops;
    spy.ops.sample = spy_sample;
    k->ops = &spy.ops;
    return g;
}

static void check_ids(uint32_t row, uint32_t first, uint32_t n,
                      uint32_t n_prompt)
{
    assert_int_equal(spy.rows[row].n_ids, n);
    assert_int_equal(spy.rows[row].n_prompt, n_prompt);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(spy.ids[row][i], (first + 3 * i) % 100);
    }
}

/* Adds a second row, on the blocks and the slot after the first's. */
static struct plan_row *second_row(struct rig *g, uint32_t n)
{
    struct plan *p = &g->plan;

    g->rows[1] = (struct plan_row){.kind = ROW_PROMPT,
                                   .n_tokens = n,
                                   .token = p->n_tokens,
                                   .block = p->n_blocks,
                                   .n_blocks = (n + 3) / 4,
                                   .slot = g->slot_pages,
                                   .sample = true,
                                   .index = 1,
                                   .sampling = &greedy};
    for (uint32_t i = 0; i < g->rows[1].n_blocks; i++) {
        g->blocks[p->n_blocks] = g->first_block + p->n_blocks % BLOCKS;
        p->n_blocks++;
    }
    for (uint32_t i = 0; i < n; i++) {
        g->tokens[p->n_tokens++] = i;
    }
    g->zero[p->n_zero++] = g->slot_pages;
    p->n_rows = 2;
    return &g->rows[1];
}

static void test_history(void **state)
{
    struct rig *g = rig_spied();
    struct book b = {.used = 0};
    struct plan_row *row;

    (void)state;
    row = one_row(g, 0, 17);
    row->sampling = &penalised;
    row->history = write_history(&b, 7, 17, 12);
    row = second_row(g, 9);
    run(g);
    check_ids(0, 7, 17, 12);
    assert_null(spy.rows[1].ids); /* no penalties: no history */
    assert_int_equal(spy.rows[1].n_ids, 0);
    /* The chained id, 40, is the last one. */
    row = one_row(g, 17, 1);
    row->chained = true;
    row->sampling = &penalised;
    row->history = write_history(&b, 7, 17, 12);
    run(g);
    assert_int_equal(spy.rows[2].n_ids, 18);
    assert_int_equal(spy.ids[2][17], 40);
    spy.rows[2].n_ids = 17;
    check_ids(2, 7, 17, 12);
    rig_free(g);
}

/* Returns the ids of a head call: a context for each sequence that has room. */
static uint32_t history_room(const struct rig *g)
{
    uint32_t room = g->n_pages / g->slot_pages * CONTEXT;

    assert_in_range(room, 2 * CONTEXT, 4 * g->n_pages);
    assert_in_range(room, 2 * CONTEXT, 63);
    return room;
}

/* A row for the last of n positions, whose history fills them. */
static void last_of(struct rig *g, struct plan_row *row, struct book *b,
                    uint32_t first, uint32_t n)
{
    g->plan.n_tokens -= row->n_tokens - 1;
    row->position = n - 1;
    row->n_tokens = 1;
    row->sampling = &penalised;
    row->history = write_history(b, first, n, 1);
}

/* Two histories fill the room of one head call; one more id takes a second
 * call. */
static void test_history_room(void **state)
{
    struct rig *g = rig_spied();
    uint32_t half = history_room(g) / 2;
    struct book b = {.used = 0};

    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        spy.n = spy.calls = b.used = 0;
        last_of(g, one_row(g, 0, half), &b, 7, half);
        last_of(g, second_row(g, half + over), &b, 9, half + over);
        run(g);
        assert_int_equal(spy.calls, 1 + over);
        check_ids(0, 7, half, 1);
        check_ids(1, 9, half + over, 1);
    }
    rig_free(g);
}

/* A history longer than the pool, in a table that names blocks twice. */
static void test_history_past_the_pool(void **state)
{
    struct rig *g = rig_spied();
    uint32_t room = history_room(g);
    struct book b = {.used = 0};

    (void)state;
    for (uint32_t over = 0; over < 2; over++) {
        b.used = 0;
        one_row(g, 0, 0);
        last_of(g, second_row(g, room + over), &b, 7, room + over);
        g->rows[0] = g->rows[1];
        g->plan.n_rows = 1;
        forward_run(g->forward, &g->plan, &g->result);
        assert_int_equal(g->result.status, over ? ST_INTERNAL : ST_OK);
    }
    assert_non_null(strstr(g->result.error.text,
                           "row 0, sequence 0: histories of more than"));
    rig_free(g);
}

static struct plan_row *with_history(struct rig *g, struct book *b)
{
    struct plan_row *row = one_row(g, 0, 17);

    b->used = 0;
    row->sampling = &penalised;
    row->history = write_history(b, 7, 17, 12);
    return row;
}

static void test_wrong_histories(void **state)
{
    struct rig *g = rig_spied();
    struct book b;

    (void)state;
    with_history(g, &b)->sampling = NULL;
    refused(g, ST_INTERNAL, "has no sampling parameters");
    with_history(g, &b)->history = (struct plan_history){.n = 0};
    refused(g, ST_INTERNAL, "history of 0 ids, 0 of a prompt, for 17");
    with_history(g, &b)->history.n = 16;
    refused(g, ST_INTERNAL, "history of 16 ids");
    with_history(g, &b)->history.n = 18;
    refused(g, ST_INTERNAL, "history of 18 ids");
    with_history(g, &b)->history.n_prompt = 0;
    refused(g, ST_INTERNAL, "17 ids, 0 of a prompt");
    with_history(g, &b)->history.n_prompt = 18;
    refused(g, ST_INTERNAL, "17 ids, 18 of a prompt");
    with_history(g, &b)->history.pages.memory = NULL;
    refused(g, ST_INTERNAL, "history of 17 ids in pages");
    with_history(g, &b)->history.pages.shift = 32;
    refused(g, ST_INTERNAL, "in pages of 2^32");
    with_history(g, &b)->history.pages.shift = 2; /* 4 times 4 ids */
    refused(g, ST_INTERNAL, "history of 17 ids in pages of 2^2");
    with_history(g, &b)->history.pages.root = PAGES;
    refused(g, ST_INTERNAL, "page 16 of 16");
    with_history(g, &b);
    b.memory[2] = PAGES; /* the root is page 0: its third leaf */
    refused(g, ST_INTERNAL, "history on page 16 of 16");
    with_history(g, &b);
    b.memory[5 << SHIFT] = 100; /* page 5 is the first leaf */
    refused(g, ST_INTERNAL, "history has id 100, which is not below");
    with_history(g, &b);
    b.memory[5 << SHIFT] = 99;
    run(g);
    assert_int_equal(spy.ids[0][0], 99);
    rig_free(g);
}

/* Only rows that request logprobs get them, as many as requested; the others
 * are not touched. */
static void test_logprobs(void **state)
{
    struct sampling asks = greedy;
    struct rig *g = rig_spied();

    (void)state;
    asks.logprobs = true;
    asks.n_top_logprobs = 3;
    one_row(g, 0, 10);
    second_row(g, 5)->sampling = &asks;
    g->result.logprobs[0] = 5;
    g->result.top[1][3].logprob = 5;
    g->result.top[0][0].logprob = 5;
    run(g);
    assert_int_equal(g->result.tokens[1], 41);
    assert_true(g->result.logprobs[1] == -2.0f);
    for (uint32_t j = 0; j < 3; j++) {
        assert_int_equal(g->result.top[1][j].token, 1 + j);
        assert_true(g->result.top[1][j].logprob == -2.0f - (float)j);
    }
    assert_true(g->result.logprobs[0] == 5);
    assert_true(g->result.top[1][3].logprob == 5);
    assert_true(g->result.top[0][0].logprob == 5);
    rig_free(g);
}

/* ---- with the real sampler ---- */

static void keep_logits(void *ctx, struct kernels *k, uint32_t row, uint32_t at,
                        uint32_t i)
{
    (void)ctx;
    assert_int_equal(at, 0);
    assert_int_equal(row, 0);
    kernels_logits_read(k, i, logits);
}

/* Returns the best token after penalties (common/sampling/sampling.h),
 * computed in double. */
static uint32_t best_penalised(const struct sampling *s, const uint32_t *ids,
                               uint32_t n, uint32_t n_prompt)
{
    uint32_t best = 0;
    double most = -INFINITY;

    for (uint32_t t = 0; t < 100; t++) {
        uint32_t in_prompt = 0, made = 0;
        double l = logits[t];

        for (uint32_t i = 0; i < n; i++) {
            in_prompt += i < n_prompt && ids[i] == t;
            made += i >= n_prompt && ids[i] == t;
        }
        if (in_prompt + made > 0) {
            l = l > 0 ? l / s->repetition_penalty : l * s->repetition_penalty;
        }
        l -= (double)s->frequency_penalty * made;
        l -= made > 0 ? s->presence_penalty : 0;
        if (l > most) {
            most = l;
            best = t;
        }
    }
    return best;
}

static double log_share(uint32_t token)
{
    double sum = 0;

    for (uint32_t t = 0; t < 100; t++) {
        sum += exp((double)logits[t] - logits[token]);
    }
    return -log(sum);
}

/* Twenty tokens of one sequence, each chained to the one before; without
 * penalties the tokens would differ. */
static uint32_t generate(struct rig *g, const struct sampling *s,
                         uint32_t ids[30])
{
    uint32_t plain = 0;
    struct book b;

    for (uint32_t n = 10; n < 30; n++) {
        struct plan_row *row = one_row(g, n > 10 ? n - 1 : 0, n > 10 ? 1 : 10);
        uint32_t known = n > 10 ? n - 1 : n;

        b.used = 0;
        memcpy(ids, g->tokens, n > 10 ? 0 : 10 * sizeof *ids);
        row->kind = n > 10 ? ROW_GENERATED : ROW_PROMPT;
        row->chained = n > 10;
        row->index = n - 10;
        row->sampling = s;
        row->history = write_ids(&b, ids, known, 10);
        ids[n] = run(g);
        assert_int_equal(ids[n], best_penalised(s, ids, n, 10));
        plain += ids[n] == best_penalised(&greedy, ids, n, 10);
        assert_true(fabs(g->result.logprobs[0] - log_share(ids[n])) < 1e-4);
        assert_true(fabs(g->result.top[0][1].logprob -
                         log_share(g->result.top[0][1].token)) < 1e-4);
    }
    return plain;
}

static void test_penalties(void **state)
{
    struct sampling s[3] = {greedy, greedy, greedy};
    struct forward_tap tap = {.logits = keep_logits};
    uint32_t ids[30];

    (void)state;
    s[0].repetition_penalty = 20;
    s[1].presence_penalty = 2;
    s[2].frequency_penalty = 0.3f;
    for (int i = 0; i < 3; i++) {
        struct rig *g = rig_new();

        s[i].logprobs = true;
        s[i].n_top_logprobs = 2;
        forward_set_tap(g->forward, &tap);
        assert_in_range(generate(g, &s[i], ids), 0, 19);
        rig_free(g);
    }
}

static uint32_t drawn(struct rig *g, const struct sampling *s, uint32_t choice,
                      uint32_t index)
{
    struct plan_row *row = one_row(g, 0, 5);

    row->sampling = s;
    row->choice = choice;
    row->index = index;
    return run(g);
}

/* A sequence that goes on draws as the long one would. */
static void test_draws_go_on(void **state)
{
    struct sampling whole = greedy, half;
    struct rig *g = rig_new();

    (void)state;
    whole.temperature = 2;
    whole.seed = 42;
    half = whole;
    half.draw_index = 20;
    half.draw_choice = 3;
    for (uint32_t i = 0; i < 40; i++) {
        assert_int_equal(drawn(g, &half, i % 2, i),
                         drawn(g, &whole, 3 + i % 2, 20 + i));
    }
    rig_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_plans),
        cmocka_unit_test(test_chained),
        cmocka_unit_test(test_chained_to_nothing),
        cmocka_unit_test(test_chained_to_a_failed_step),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_history_room),
        cmocka_unit_test(test_history_past_the_pool),
        cmocka_unit_test(test_wrong_histories),
        cmocka_unit_test(test_logprobs),
        cmocka_unit_test(test_penalties),
        cmocka_unit_test(test_draws_go_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
