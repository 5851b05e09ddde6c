/* Rows with drafts in the fake engine: what it accepts, and the faults that it
 * detects. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/fake_hidden.h"
#include "tests/sim/sim.h"
#include "tests/unit/cmocka.h"

#define TOKENS 64
#define PAGES  64
#define PER    2 /* pages of a slot */
#define SLOT   40
#define PROMPT 5
#define KEEP   16

struct bench {
    struct sim *sim;
    struct fake_engine *engine[2];
    struct plan plan;
    struct plan_row rows[2];
    uint32_t tokens[TOKENS], blocks[TOKENS], zero[2];
    struct plan_replay replays[2];
    float hidden[TOKENS * FAKE_HIDDEN];
    uint32_t truth[TOKENS]; /* prompt, and what follows it */
    struct plan_result out;
};

static struct sampling plain = {
    .temperature = 1, .top_p = 1, .repetition_penalty = 1, .seed = 5};

static void find_truth(struct bench *b)
{
    const struct fake_model *m = &b->sim->options.models[0];
    struct oracle o = {0};

    for (uint32_t i = 0; i < TOKENS; i++) {
        b->truth[i] =
            i < PROMPT ? 10 + i : oracle_next(&o, m, &plain, 0, i - PROMPT);
        oracle_feed(&o, m, b->truth[i],
                    i < PROMPT ? ROW_PROMPT : ROW_GENERATED);
    }
}

/* The whole model, or two stages: one with the state, one with attention. */
static struct bench *new_bench(uint32_t n)
{
    struct bench *b = calloc(1, sizeof *b);
    struct sim *s = calloc(1, sizeof *s);

    assert_true(b != NULL && s != NULL);
    b->sim = s;
    clock_init(&s->clock, SIM_START_US);
    s->options.models[0] = (struct fake_model){.salt = 99,
                                               .attention = true,
                                               .linear = true,
                                               .vocab = 1000,
                                               .context = TOKENS,
                                               .n_eos = 1,
                                               .eos = {999}};
    s->options.drafts.mtp[0] = true;
    s->options.stages.n_layers[0] = 2;
    s->options.stages.attention[0] = 2;
    for (uint32_t i = 0; i < n; i++) {
        s->options.workers[i] = (struct worker_draw){.block_tokens = 4,
                                                     .max_rows = 4,
                                                     .step_tokens = TOKENS,
                                                     .chunk_tokens = TOKENS,
                                                     .depth = 1,
                                                     .step_us = 100};
        s->options.pools.workers[i] = (struct pool_of_worker){
            .n_pages = PAGES, .pages_per_slot = PER, .slot_cap = 8};
        s->options.drafts.most[i] = 4;
        s->options.drafts.keep_tokens[i] = KEEP;
        if (n > 1) {
            s->options.stages.layers[i].begin = i;
            s->options.stages.layers[i].end = i + 1;
        }
        b->engine[i] = s->engines[i] = fake_engine_new(s, i);
    }
    find_truth(b);
    return b;
}

static void free_bench(struct bench *b)
{
    for (int i = 0; i < 2; i++) {
        if (b->engine[i] != NULL) {
            fake_engine_free(&b->engine[i]);
        }
    }
    clock_fini(&b->sim->clock);
    free(b->sim);
    free(b);
}

/* Begins a plan with one row of n ids from `at` on. */
static struct plan_row *row_at(struct bench *b, uint32_t at, uint32_t n)
{
    struct plan *p = &b->plan;
    struct plan_row *r = b->rows;
    uint64_t step = p->step + 1;

    *p = (struct plan){.step = step,
                       .n_rows = 1,
                       .n_tokens = n,
                       .n_blocks = 8,
                       .rows = b->rows,
                       .tokens = b->tokens,
                       .blocks = b->blocks,
                       .zero_slots = b->zero,
                       .replays = b->replays,
                       .eos = b->sim->options.models[0].eos,
                       .n_eos = 1};
    *r = (struct plan_row){.sequence = 1,
                           .kind = at < PROMPT ? ROW_PROMPT : ROW_GENERATED,
                           .position = at,
                           .n_tokens = n,
                           .n_blocks = 8,
                           .slot = SLOT,
                           .sample = true,
                           .index = at < PROMPT ? 0 : at - PROMPT + 1,
                           .sampling = &plain};
    for (uint32_t i = 0; i < n; i++) {
        b->tokens[i] = b->truth[at + i];
    }
    for (uint32_t i = 0; i < 8; i++) {
        b->blocks[i] = i;
    }
    if (at == 0) {
        b->zero[p->n_zero++] = SLOT;
    }
    return r;
}

/* A row with n drafts, the first `right` of which are the right ones. */
static struct plan_row *drafts_at(struct bench *b, uint32_t at, uint32_t n,
                                  uint32_t right)
{
    struct plan_row *r = row_at(b, at, n + 1);

    r->n_drafts = n;
    for (uint32_t i = right; i < n; i++) {
        b->tokens[1 + i] = (b->tokens[1 + i] + 1) % 999;
    }
    return r;
}

/* Runs the plan at a stage.  Returns false if a fault was detected. */
static bool run_at(struct bench *b, uint32_t stage)
{
    struct engine *seam = fake_engine_seam(b->engine[stage]);
    struct event e;

    b->plan.hidden = stage > 0 ? b->hidden : NULL;
    if (engine_submit(seam, &b->plan) != ST_OK) {
        return false;
    }
    while (clock_next(&b->sim->clock, &e)) {
        e.fn(b->sim, e.a, e.b);
    }
    if (b->sim->failed || !engine_poll(seam, &b->out)) {
        return false;
    }
    if (b->out.hidden != NULL) {
        memcpy(b->hidden, b->out.hidden,
               (size_t)b->plan.n_tokens * FAKE_HIDDEN * sizeof(float));
    }
    return true;
}

static bool run(struct bench *b)
{
    return run_at(b, 0);
}

/* Runs the prompt.  mtp: also at the MTP layer. */
static struct bench *prompted(bool mtp)
{
    struct bench *b = new_bench(1);

    row_at(b, 0, PROMPT)->mtp = mtp;
    assert_true(run(b));
    assert_int_equal(b->out.tokens[0], b->truth[PROMPT]);
    return b;
}

static void right_drafts_are_accepted_and_others_leave_no_trace(void **state)
{
    (void)state;
    for (uint32_t right = 0; right <= 4; right++) {
        struct bench *b = prompted(false);
        uint32_t at = PROMPT;

        for (int i = 0; i < 5; i++) {
            drafts_at(b, at, 4, right);
            assert_true(run(b));
            assert_int_equal(b->out.n_accepted[0], right);
            at += 1 + right;
            assert_int_equal(b->out.tokens[0], b->truth[at]);
        }
        row_at(b, at, 1);
        assert_true(run(b));
        assert_int_equal(b->out.tokens[0], b->truth[at + 1]);
        free_bench(b);
    }
}

static void logprobs_are_those_of_their_tokens(void **state)
{
    struct bench *b, *c;

    (void)state;
    plain.logprobs = true;
    plain.n_top_logprobs = 2;
    b = prompted(false);
    c = prompted(false);
    drafts_at(b, PROMPT, 3, 2);
    assert_true(run(b));
    assert_int_equal(b->out.n_accepted[0], 2);
    for (uint32_t i = 0; i <= 2; i++) {
        float own = i < 2 ? b->out.draft_logprobs[0][i] : b->out.logprobs[0];
        const struct token_logprob *top =
            i < 2 ? b->out.draft_top[0][i] : b->out.top[0];

        row_at(c, PROMPT + i, 1);
        assert_true(run(c));
        assert_memory_equal(&own, &c->out.logprobs[0], sizeof own);
        assert_memory_equal(top, c->out.top[0], 2 * sizeof *top);
    }
    plain.logprobs = false;
    plain.n_top_logprobs = 0;
    free_bench(b);
    free_bench(c);
}

static void an_end_token_is_not_accepted(void **state)
{
    struct bench *b = prompted(false);
    struct sampling ends = plain;
    uint32_t end = b->truth[PROMPT + 2];

    (void)state;
    ends.n_stop_tokens = 1;
    ends.stop_tokens = &end;
    plain = ends; /* the seed alone decides the tokens */
    drafts_at(b, PROMPT, 4, 4);
    assert_true(run(b));
    assert_int_equal(b->out.n_accepted[0], 1);
    assert_int_equal(b->out.tokens[0], end);
    plain.n_stop_tokens = 0;
    plain.stop_tokens = NULL;
    free_bench(b);
}

/* Runs a row of two drafts, both refused, and then the row. */
static bool is_found(struct bench *b, const struct plan_row *next)
{
    bool found;

    drafts_at(b, PROMPT, 2, 0);
    b->rows[0].mtp = next->mtp;
    assert_true(run(b));
    row_at(b, next->position, 1);
    b->rows[0].mtp = next->mtp;
    b->rows[0].slot = next->slot;
    b->rows[0].propose = next->propose;
    found = !run(b) || b->out.tokens[0] != b->truth[next->position + 1];
    free_bench(b);
    return found;
}

static void rows_behind_refused_drafts_are_found(void **state)
{
    struct plan_row next = {.position = PROMPT + 1, .slot = SLOT};

    (void)state;
    assert_false(is_found(prompted(false), &next));
    next.position = PROMPT + 3;
    assert_true(is_found(prompted(false), &next));
    next.position = PROMPT + 2;
    assert_true(is_found(prompted(false), &next));
}

static void holes_of_the_mtp_layer_are_found(void **state)
{
    struct plan_row next = {
        .position = PROMPT + 1, .slot = SLOT, .mtp = true, .propose = 2};
    struct bench *b = prompted(false);

    (void)state;
    assert_false(is_found(prompted(true), &next));
    drafts_at(b, PROMPT, 2, 0)->mtp = true;
    assert_false(run(b));
    free_bench(b);
}

static void a_wrong_next_id_is_found(void **state)
{
    (void)state;
    for (uint32_t wrong = 0; wrong <= 1; wrong++) {
        struct bench *b = new_bench(1);
        struct plan_row *r = row_at(b, 0, 3);

        r->sample = false;
        r->mtp = true;
        r->next = b->truth[3] + wrong;
        assert_true(run(b));
        row_at(b, 3, 2)->mtp = true;
        b->plan.n_zero = 0;
        assert_int_equal(run(b), !wrong);
        free_bench(b);
    }
}

static void rows_of_a_wrong_shape_are_found(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        struct bench *b = prompted(true);
        struct plan_row *r = drafts_at(b, PROMPT, 2, 2);

        r->mtp = true;
        r->n_drafts -= i == 0;
        r->sample = i != 1;
        r->kind = i == 2 ? ROW_PROMPT : r->kind;
        r->propose = i == 3 ? DRAFTS_MAX + 1 : 0;
        r->n_blocks = i == 4 ? 1 : r->n_blocks;
        b->plan.n_eos = i == 5 ? 0 : 1;
        assert_false(run(b));
        free_bench(b);
    }
}

/* ---- stages ---- */

/* Runs the plan at both stages; the first keeps what has drafts. */
static bool run_both(struct bench *b)
{
    b->rows[0].keep = b->rows[0].n_drafts > 0;
    if (!run_at(b, 0)) {
        return false;
    }
    b->rows[0].keep = false;
    b->rows[0].slot = SLOT_NONE;
    b->plan.n_replays = b->plan.n_zero = 0;
    return run_at(b, 1);
}

static bool stages_agree(uint32_t right, uint32_t replayed)
{
    struct bench *b = new_bench(2);
    uint32_t at = PROMPT + 1 + right;
    bool agree;

    row_at(b, 0, PROMPT);
    assert_true(run_both(b));
    drafts_at(b, PROMPT, 3, right);
    assert_true(run_both(b));
    assert_int_equal(b->out.n_accepted[0], right);
    assert_int_equal(b->out.tokens[0], b->truth[at]);
    row_at(b, at, 1);
    if (replayed > 0) {
        b->replays[b->plan.n_replays++] =
            (struct plan_replay){.slot = SLOT, .n_tokens = replayed};
    }
    agree = run_both(b) && b->out.tokens[0] == b->truth[at + 1];
    free_bench(b);
    return agree;
}

static void replays_must_be_those_that_were_accepted(void **state)
{
    (void)state;
    for (uint32_t right = 0; right <= 3; right++) {
        for (uint32_t n = 0; n <= 4; n++) {
            assert_int_equal(stages_agree(right, n), n == 1 + right);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_drafts_are_accepted_and_others_leave_no_trace),
        cmocka_unit_test(logprobs_are_those_of_their_tokens),
        cmocka_unit_test(an_end_token_is_not_accepted),
        cmocka_unit_test(rows_behind_refused_drafts_are_found),
        cmocka_unit_test(holes_of_the_mtp_layer_are_found),
        cmocka_unit_test(a_wrong_next_id_is_found),
        cmocka_unit_test(rows_of_a_wrong_shape_are_found),
        cmocka_unit_test(replays_must_be_those_that_were_accepted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
