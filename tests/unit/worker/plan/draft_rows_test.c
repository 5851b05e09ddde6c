/* Rows with drafts: what the sequences of a worker get from them is what they
 * get without, whichever drafts are right. */
#include <math.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"
#include "worker/base/metrics.h"
#include "worker/plan/drafts.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

static void options(struct worker_options *o, uint32_t drafts)
{
    rig_defaults(o);
    o->drafting.most = drafts;
    o->drafting.has_mtp = true;
    o->drafting.keep_tokens = o->max_rows * (drafts + 1);
}

static struct rig *rig_with(uint32_t drafts, enum rig_drafts right)
{
    struct worker_options o;
    struct rig *r;

    options(&o, drafts);
    r = rig_new(&o);
    r->drafts = right;
    return r;
}

static uint64_t submit(struct rig *r, uint32_t id, uint32_t n_prompt,
                       uint32_t max_tokens)
{
    struct rig_submit s = {
        .id = id, .n_prompt = n_prompt, .max_tokens = max_tokens};

    (void)rig_submit(r, &s);
    rig_turn(r);
    return r->grant;
}

static void check(struct rig *r, uint64_t grant, uint32_t id, uint32_t n_prompt,
                  uint32_t n)
{
    rig_check_tokens(r, grant, id, n_prompt, n);
    assert_int_equal(r->heard[grant].finish, LENGTH);
}

static struct worker_metrics counts(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m;
}

/* ---- tokens ---- */

static void tokens_are_those_without_drafts(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= DRAFTS_MAX; k++) {
        for (int right = RIG_DRAFTS_RIGHT; right <= RIG_DRAFTS_MIXED; right++) {
            struct rig *r = rig_with(k, (enum rig_drafts)right);
            uint64_t first = submit(r, 1, 40, 90);

            (void)submit(r, 2, 7, 33);
            (void)submit(r, 3, 130, 120);
            rig_run(r);
            check(r, first, 1, 40, 90);
            check(r, first + 1, 2, 7, 33);
            check(r, first + 2, 3, 130, 120);
            assert_true(r->n_drafts > 0);
            assert_int_equal(r->n_accepted > 0, right != RIG_DRAFTS_WRONG);
            assert_int_equal(counts(r).tokens, 90 + 33 + 120);
            rig_free(&r);
        }
    }
}

/* The rig compares each logprob of the output, and each history, bit for bit.
 */
static void logprobs_and_penalties_are_too(void **state)
{
    (void)state;
    for (int right = RIG_DRAFTS_RIGHT; right <= RIG_DRAFTS_MIXED; right++) {
        struct rig *r = rig_with(5, (enum rig_drafts)right);
        struct rig_submit s = {.id = 1,
                               .n_prompt = 9,
                               .max_tokens = 300,
                               .logprobs = true,
                               .n_top = 20,
                               .penalise = true};

        (void)rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        check(r, 1, 1, 9, 300);
        rig_free(&r);
    }
}

static void right_drafts_save_steps(void **state)
{
    struct rig *r = rig_with(4, RIG_DRAFTS_RIGHT);
    uint64_t grant = submit(r, 1, 10, 51);

    (void)state;
    rig_run(r);
    check(r, grant, 1, 10, 51);
    /* The prompt makes one, each step five more. */
    assert_int_equal(r->n_steps, 11);
    rig_free(&r);
}

static void an_end_token_ends_the_run(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 14; at++) {
        for (int right = RIG_DRAFTS_RIGHT; right <= RIG_DRAFTS_MIXED; right++) {
            struct rig *r = rig_with(4, (enum rig_drafts)right);
            uint64_t grant;

            r->eos_at = at;
            grant = submit(r, 1, 10, 50);
            rig_run(r);
            assert_int_equal(r->heard[grant].n, at + 1);
            assert_int_equal(r->heard[grant].tokens[at], RIG_EOS);
            assert_int_equal(r->heard[grant].finish, STOP);
            rig_free(&r);
        }
    }
}

static void a_request_chooses_fewer(void **state)
{
    static const struct {
        bool has;
        uint32_t drafts, most;
    } of[] = {{false, 0, 4}, {true, 0, 0}, {true, 2, 2}, {true, 8, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct rig *r = rig_with(4, RIG_DRAFTS_RIGHT);
        struct rig_submit s = {.id = 1,
                               .n_prompt = 10,
                               .max_tokens = 40,
                               .has_drafts = of[i].has,
                               .drafts = of[i].drafts};
        uint32_t most = 0;

        (void)rig_submit(r, &s);
        rig_turn(r);
        while (rig_inflight(r) > 0) {
            const struct plan_row *row = &rig_plan(r, 0)->rows[0];

            most = row->n_drafts > most ? row->n_drafts : most;
            assert_int_equal(row->mtp, of[i].most > 0);
            rig_step(r);
        }
        assert_int_equal(most, of[i].most);
        check(r, 1, 1, 10, 40);
        rig_free(&r);
    }
}

static void a_request_for_more_than_the_limit_is_refused(void **state)
{
    struct rig *r = rig_with(4, RIG_DRAFTS_RIGHT);
    struct rig_submit s = {.id = 1,
                           .n_prompt = 10,
                           .max_tokens = 40,
                           .has_drafts = true,
                           .drafts = DRAFTS_MAX + 1};
    uint64_t tag = rig_submit(r, &s);

    (void)state;
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(r->ends[tag].text, "drafts is 9"));
    rig_free(&r);
}

/* ---- clipping ---- */

/* Calls each() for each row of each plan, and runs them all. */
static void run_rows(struct rig *r, void (*each)(const struct plan *p,
                                                 const struct plan_row *row))
{
    while (rig_inflight(r) > 0) {
        const struct plan *p = rig_plan(r, 0);

        for (uint32_t i = 0; i < p->n_rows; i++) {
            each(p, &p->rows[i]);
        }
        rig_step(r);
    }
}

#define N_PROMPT 30
#define N_TOKENS 21

static uint32_t last_end;

static void ends_in_time(const struct plan *p, const struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens;

    (void)p;
    assert_in_range(end + row->propose, 1, N_PROMPT + N_TOKENS - 1);
    last_end = end > last_end ? end : last_end;
}

/* The last token is not computed; and memory is that of the request. */
static void no_position_is_computed_that_the_request_lacks(void **state)
{
    (void)state;
    for (uint32_t k = 1; k <= DRAFTS_MAX; k++) {
        struct rig *r = rig_with(k, RIG_DRAFTS_MIXED);

        last_end = 0;
        (void)submit(r, 1, N_PROMPT, N_TOKENS);
        run_rows(r, ends_in_time);
        assert_int_equal(last_end, N_PROMPT + N_TOKENS - 1);
        check(r, 1, 1, N_PROMPT, N_TOKENS);
        rig_free(&r);
    }
}

static uint32_t n_saved;

static void saves_alone(const struct plan *p, const struct plan_row *row)
{
    uint32_t end = row->position + row->n_tokens;

    (void)p;
    if (row->kind == ROW_GENERATED) {
        assert_true(row->n_drafts == 0 || row->position / 64 == end / 64);
        n_saved += row->n_saves;
    }
}

static void decode_saves_its_state_as_without(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    options(&o, 7);
    o.reuse = true;
    r = rig_new(&o);
    n_saved = 0;
    (void)submit(r, 1, 20, 300);
    run_rows(r, saves_alone);
    assert_int_equal(n_saved, 4); /* at 64, 128, 192 and 256 */
    check(r, 1, 1, 20, 300);
    rig_free(&r);
}

static uint32_t most_kept, n_alone;

static void counts_kept(const struct plan *p, const struct plan_row *row)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < p->n_rows; i++) {
        kept += p->rows[i].n_drafts > 0 ? p->rows[i].n_tokens : 0;
    }
    most_kept = kept > most_kept ? kept : most_kept;
    n_alone += row->kind == ROW_GENERATED && row->n_drafts == 0;
}

/* A row that finds no room decodes without drafts. */
static void kept_inputs_are_limited(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    options(&o, 4);
    o.drafting.keep_tokens = 7;
    r = rig_new(&o);
    most_kept = n_alone = 0;
    for (uint32_t id = 1; id <= 4; id++) {
        (void)submit(r, id, 10, 60);
    }
    run_rows(r, counts_kept);
    assert_int_equal(most_kept, 7);
    assert_true(n_alone > 10);
    for (uint32_t id = 1; id <= 4; id++) {
        check(r, id, id, 10, 60);
    }
    rig_free(&r);
}

/* A step of 8 tokens for 6 sequences: each gets one, two get a draft. */
static void each_sequence_gets_a_token_first(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t n_full = 0;

    (void)state;
    options(&o, 4);
    o.step_tokens = o.chunk_tokens = 8;
    r = rig_new(&o);
    for (uint32_t id = 1; id <= 6; id++) {
        (void)submit(r, id, 8, 90);
    }
    while (rig_inflight(r) > 0) {
        n_full += r->last_rows == 6 && r->last_tokens == 8;
        rig_step(r);
    }
    assert_true(n_full > 3);
    for (uint32_t id = 1; id <= 6; id++) {
        check(r, id, id, 8, 90);
    }
    rig_free(&r);
}

static void the_window_of_logprobs_is_kept(void **state)
{
    struct rig *r = rig_with(6, RIG_DRAFTS_RIGHT);
    struct rig_submit s = {
        .id = 1, .n_prompt = 4, .max_tokens = 400, .logprobs = true};

    (void)state;
    r->acknowledge = false;
    (void)rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(counts(r).tokens, LOGPROB_WINDOW);
    r->acknowledge = true;
    rig_advance(r, REPORT_US);
    rig_run(r);
    check(r, 1, 1, 4, 400);
    rig_free(&r);
}

/* More logprobs than one output has: the rest goes with the next ones. */
static void an_output_keeps_its_limits(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    options(&o, 8);
    o.max_rows = 100;
    o.pool.slot_cap = 100;
    o.pool.n_pages = 100 * 8;
    o.step_tokens = 1000;
    o.drafting.keep_tokens = 900;
    r = rig_new(&o);
    for (uint32_t id = 1; id <= 100; id++) {
        struct rig_submit s = {.id = id,
                               .n_prompt = 4,
                               .max_tokens = 37,
                               .logprobs = true,
                               .n_top = 20};

        (void)rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 4 * REPORT_US);
    for (uint32_t id = 1; id <= 100; id++) {
        check(r, id, id, 4, 37);
    }
    assert_true(r->n_steps < 12);
    rig_free(&r);
}

static void windows_hold_rows_with_drafts(void **state)
{
    (void)state;
    for (uint32_t window = 1; window < 40; window += 3) {
        struct worker_options o;
        struct rig *r;

        options(&o, 8);
        o.window = window;
        o.pool.window_pages = 2;
        o.pool.n_pages += 80;
        o.chunk_tokens = 5 + window;
        r = rig_new(&o);
        r->drafts = RIG_DRAFTS_MIXED;
        (void)submit(r, 1, 50, 120);
        (void)submit(r, 2, 3, 90);
        rig_run(r);
        check(r, 1, 1, 50, 120);
        check(r, 2, 2, 3, 90);
        rig_free(&r);
    }
}

/* ---- two plans in flight ---- */

static void a_sequence_that_drafts_is_not_chained(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t n = 0;

    (void)state;
    options(&o, 3);
    o.engine_depth = 2;
    r = rig_new(&o);
    r->drafts = RIG_DRAFTS_THIRD;
    (void)submit(r, 1, 10, 60);
    (void)submit(r, 2, 10, 60);
    while (rig_inflight(r) > 0) {
        const struct plan *p = rig_plan(r, 0);

        assert_false(p->rows[0].chained);
        n += p->n_rows == 2;
        rig_step(r);
    }
    assert_true(n > 10); /* all of them in one plan */
    check(r, 1, 1, 10, 60);
    check(r, 2, 2, 10, 60);
    rig_free(&r);
}

static void without_drafts_rows_are_chained_again(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {
        .id = 2, .n_prompt = 10, .max_tokens = 60, .has_drafts = true};
    uint32_t n_chained = 0;

    (void)state;
    options(&o, 3);
    o.engine_depth = 2;
    r = rig_new(&o);
    (void)submit(r, 1, 10, 20);
    (void)rig_submit(r, &s);
    rig_turn(r);
    while (rig_inflight(r) > 0) {
        n_chained += rig_plan(r, 0)->rows[0].chained;
        rig_step(r);
    }
    assert_true(n_chained > 30);
    check(r, 1, 1, 10, 20);
    check(r, 2, 2, 10, 60);
    rig_free(&r);
}

/* Prompts fill plans beside those of decode. */
static void prompts_go_on_beside_drafts(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t n_beside = 0;

    (void)state;
    options(&o, 3);
    o.engine_depth = 2;
    o.step_tokens = o.chunk_tokens = 64;
    r = rig_new(&o);
    (void)submit(r, 1, 10, 100);
    for (int i = 0; i < 5; i++) {
        rig_step(r);
    }
    (void)submit(r, 2, 400, 5);
    while (rig_inflight(r) > 0) {
        n_beside += rig_inflight(r) == 2;
        rig_step(r);
    }
    assert_true(n_beside > 0);
    check(r, 1, 1, 10, 100);
    check(r, 2, 2, 400, 5);
    rig_free(&r);
}

/* ---- the MTP layer ---- */

static const uint32_t *prompt_of_next;
static uint32_t n_next;

static void names_the_next_id(const struct plan *p, const struct plan_row *row)
{
    (void)p;
    assert_true(row->mtp);
    if (!row->sample) {
        assert_int_equal(row->next,
                         prompt_of_next[row->position + row->n_tokens]);
        n_next++;
    }
}

static void the_mtp_layer_gets_the_id_behind_a_chunk(void **state)
{
    struct worker_options o;
    uint32_t prompt[300];
    struct rig *r;

    (void)state;
    options(&o, 2);
    o.chunk_tokens = 64;
    r = rig_new(&o);
    for (uint32_t i = 0; i < 300; i++) {
        prompt[i] = rig_prompt_id(1, i);
    }
    prompt_of_next = prompt;
    n_next = 0;
    (void)submit(r, 1, 300, 10);
    run_rows(r, names_the_next_id);
    assert_int_equal(n_next, 4);
    rig_free(&r);
}

/* Another request's prompt was computed without the MTP layer. */
static void a_prefix_with_a_hole_is_drafted_from_the_text(void **state)
{
    (void)state;
    for (int hole = 0; hole < 2; hole++) {
        struct worker_options o;
        uint32_t prompt[200];
        struct rig_submit s = {.id = 1,
                               .n_prompt = 200,
                               .max_tokens = 5,
                               .prompt = prompt,
                               .has_drafts = hole == 1};
        struct rig *r;

        options(&o, 4);
        o.reuse = true;
        r = rig_new(&o);
        for (uint32_t i = 0; i < 200; i++) {
            prompt[i] = rig_prompt_id(1, i);
        }
        (void)rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        s = (struct rig_submit){
            .id = 2, .n_prompt = 200, .max_tokens = 30, .prompt = prompt};
        (void)rig_submit(r, &s);
        rig_turn(r);
        while (rig_inflight(r) > 0) {
            assert_int_equal(rig_plan(r, 0)->rows[0].mtp, hole == 0);
            rig_step(r);
        }
        assert_true(r->heard[2].reused >= 64);
        assert_int_equal(counts(r).drafts_mtp > 0, hole == 0);
        check(r, 2, 1, 200, 30);
        rig_free(&r);
    }
}

/* Choices of one request, one prompt. */
static void twins_draft_too(void **state)
{
    struct worker_options o;
    uint32_t expect[40];
    struct rig *r;

    (void)state;
    options(&o, 4);
    o.reuse = true;
    r = rig_new(&o);
    for (uint32_t choice = 0; choice < 3; choice++) {
        struct rig_submit s = {
            .id = 1, .choice = choice, .n_prompt = 61, .max_tokens = 40};

        (void)rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    assert_int_equal(r->n_twins, 2);
    for (uint32_t choice = 0; choice < 3; choice++) {
        rig_expect_choice(1, choice, 61, 40, expect);
        assert_int_equal(r->heard[1 + choice].n, 40);
        assert_memory_equal(r->heard[1 + choice].tokens, expect, sizeof expect);
    }
    assert_true(r->n_steps < 15);
    rig_free(&r);
}

/* ---- drafts from the text ---- */

/* The sums of ids modulo 8 repeat soon. */
static void a_text_that_repeats_is_drafted(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        uint32_t ids[100], tokens[RIG_CONTEXT];
        struct rig_submit s = {
            .id = 1, .n_prompt = 100, .max_tokens = 200, .prompt = ids};
        struct rig *r;

        for (uint32_t i = 0; i < 100; i++) {
            ids[i] = 8 + i % 10;
        }
        for (int drafts = 0; drafts < 2; drafts++) {
            options(&o, drafts == 0 ? 0 : 4);
            o.drafting.has_mtp = false;
            o.engine_depth = depth;
            r = rig_new(&o);
            r->counts = true;
            s.ignore_eos = true;
            (void)rig_submit(r, &s);
            rig_turn(r);
            rig_run(r);
            assert_int_equal(r->heard[1].n, 200);
            if (drafts == 0) {
                memcpy(tokens, r->heard[1].tokens, 200 * sizeof *tokens);
            } else {
                assert_memory_equal(tokens, r->heard[1].tokens,
                                    200 * sizeof *tokens);
                assert_true(counts(r).accepted_ngram > 100);
                assert_int_equal(counts(r).drafts_mtp, 0);
                assert_true(r->n_steps < 100);
            }
            rig_free(&r);
        }
    }
}

static void a_drafter_is_chosen(void **state)
{
    static const struct {
        enum worker_drafter drafter;
        bool has_mtp, mtp, ngram;
    } of[] = {{DRAFTER_AUTO, true, true, false},
              {DRAFTER_AUTO, false, false, true},
              {DRAFTER_MTP, true, true, false},
              {DRAFTER_MTP, false, false, false},
              {DRAFTER_NGRAM, true, false, true},
              {DRAFTER_NGRAM, false, false, true}};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct worker_options o;
        struct rig_submit s = {
            .id = 1, .n_prompt = 10, .max_tokens = 100, .ignore_eos = true};
        struct rig *r;

        options(&o, 3);
        o.drafting.has_mtp = of[i].has_mtp;
        o.drafting.drafter = of[i].drafter;
        r = rig_new(&o);
        r->counts = true;
        (void)rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        assert_int_equal(counts(r).drafts_mtp > 0, of[i].mtp);
        assert_int_equal(counts(r).drafts_ngram > 0, of[i].ngram);
        assert_int_equal(r->heard[1].n, 100);
        rig_free(&r);
    }
}

/* ---- auto ---- */

/* Steps cost by the token: drafts do not pay, and the MTP layer stops. */
static void auto_stops_where_drafts_do_not_pay(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t drafts = 0, n_mtp = 0;

    (void)state;
    options(&o, 8);
    o.drafting.chooses = true;
    o.drafting.drafter = DRAFTER_MTP;
    r = rig_new(&o);
    r->drafts = RIG_DRAFTS_THIRD;
    r->token_us = 1000;
    (void)submit(r, 1, 10, 400);
    while (rig_inflight(r) > 0) {
        drafts += rig_plan(r, 0)->rows[0].n_drafts;
        n_mtp += rig_plan(r, 0)->rows[0].mtp;
        rig_step(r);
    }
    assert_in_range(drafts, 1, 40);
    assert_true(n_mtp < 400 - 100);
    check(r, 1, 1, 10, 400);
    rig_free(&r);
}

static void auto_drafts_where_they_pay(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    options(&o, 8);
    o.drafting.chooses = true;
    r = rig_new(&o);
    (void)submit(r, 1, 10, 400);
    rig_run(r);
    assert_true(r->n_steps < 120);
    check(r, 1, 1, 10, 400);
    rig_free(&r);
}

/* ---- faults ---- */

static void a_failed_step_loses_its_drafts_alone(void **state)
{
    (void)state;
    for (uint32_t at = 1; at < 8; at++) {
        struct rig *r = rig_with(4, RIG_DRAFTS_MIXED);

        (void)submit(r, 1, 20, 60);
        (void)submit(r, 2, 20, 60);
        for (uint32_t i = 0; i < at; i++) {
            rig_step(r);
        }
        r->fail_next = "out of luck";
        rig_step(r);
        rig_run(r);
        assert_int_equal(counts(r).steps_failed, 1);
        check(r, 1, 1, 20, 60);
        check(r, 2, 2, 20, 60);
        rig_free(&r);
    }
}

static void a_refused_plan_does_too(void **state)
{
    struct rig *r = rig_with(4, RIG_DRAFTS_MIXED);

    (void)state;
    (void)submit(r, 1, 20, 60);
    rig_step(r);
    rig_step(r);
    r->refuse_once = true;
    rig_step(r);
    rig_advance(r, 20000);
    rig_run(r);
    check(r, 1, 1, 20, 60);
    rig_free(&r);
}

static void accepts_too_many(struct plan_result *r)
{
    r->n_accepted[0] = 5;
}

static void proposes_too_many(struct plan_result *r)
{
    r->n_drafts[0] = 5;
}

static void proposes_a_wild_id(struct plan_result *r)
{
    r->drafts[0][1] = RIG_VOCAB;
}

static void has_no_logprob(struct plan_result *r)
{
    r->draft_logprobs[0][1] = NAN;
}

static void ranks_a_wild_id(struct plan_result *r)
{
    r->draft_top[0][1][0].token = RIG_VOCAB;
}

/* A result that breaks the contract fails the step; nothing of it counts. */
static void a_wrong_result_fails_its_step(void **state)
{
    void (*const lies[])(struct plan_result *) = {
        accepts_too_many, proposes_too_many, proposes_a_wild_id, has_no_logprob,
        ranks_a_wild_id};

    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct rig *r = rig_with(4, RIG_DRAFTS_RIGHT);
        struct rig_submit s = {.id = 1,
                               .n_prompt = 20,
                               .max_tokens = 60,
                               .logprobs = true,
                               .n_top = 1};

        (void)rig_submit(r, &s);
        rig_turn(r);
        rig_step(r);
        rig_step(r);
        r->lie = lies[i];
        rig_step(r);
        assert_int_equal(counts(r).steps_failed, 1);
        rig_run(r);
        check(r, 1, 1, 20, 60);
        rig_free(&r);
    }
}

/* The second draft is the end token, and is accepted. */
static void goes_on_behind_the_end(struct plan_result *r)
{
    assert_int_equal(r->n_accepted[0], 1);
    r->n_accepted[0] = 2;
    r->tokens[0] = 20;
    r->n_drafts[0] = 0;
}

static void tokens_behind_an_end_token_fail_the_step(void **state)
{
    struct rig *r = rig_with(4, RIG_DRAFTS_RIGHT);

    (void)state;
    r->eos_at = 2;
    (void)submit(r, 1, 20, 60);
    rig_step(r);
    r->lie = goes_on_behind_the_end;
    rig_step(r);
    assert_int_equal(counts(r).steps_failed, 1);
    rig_run(r);
    assert_int_equal(r->heard[1].n, 3);
    assert_int_equal(r->heard[1].finish, STOP);
    rig_free(&r);
}

static void drafts_are_counted(void **state)
{
    struct rig *r = rig_with(4, RIG_DRAFTS_THIRD);
    struct worker_metrics m;

    (void)state;
    (void)submit(r, 1, 20, 100);
    rig_run(r);
    m = counts(r);
    assert_int_equal(m.drafts_mtp, r->n_drafts);
    assert_int_equal(m.accepted_mtp, r->n_accepted);
    assert_true(m.draft_rows > 0 && m.drafts_ngram == 0);
    assert_int_equal(r->drafts_heard.verified, r->n_drafts);
    assert_int_equal(r->drafts_heard.accepted, r->n_accepted);
    assert_int_equal(r->drafts_heard.rows, m.draft_rows);
    rig_free(&r);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_without_drafts),
        cmocka_unit_test(logprobs_and_penalties_are_too),
        cmocka_unit_test(right_drafts_save_steps),
        cmocka_unit_test(an_end_token_ends_the_run),
        cmocka_unit_test(a_request_chooses_fewer),
        cmocka_unit_test(a_request_for_more_than_the_limit_is_refused),
        cmocka_unit_test(no_position_is_computed_that_the_request_lacks),
        cmocka_unit_test(decode_saves_its_state_as_without),
        cmocka_unit_test(kept_inputs_are_limited),
        cmocka_unit_test(each_sequence_gets_a_token_first),
        cmocka_unit_test(the_window_of_logprobs_is_kept),
        cmocka_unit_test(an_output_keeps_its_limits),
        cmocka_unit_test(windows_hold_rows_with_drafts),
        cmocka_unit_test(a_sequence_that_drafts_is_not_chained),
        cmocka_unit_test(without_drafts_rows_are_chained_again),
        cmocka_unit_test(prompts_go_on_beside_drafts),
        cmocka_unit_test(the_mtp_layer_gets_the_id_behind_a_chunk),
        cmocka_unit_test(a_prefix_with_a_hole_is_drafted_from_the_text),
        cmocka_unit_test(twins_draft_too),
        cmocka_unit_test(a_text_that_repeats_is_drafted),
        cmocka_unit_test(a_drafter_is_chosen),
        cmocka_unit_test(auto_stops_where_drafts_do_not_pay),
        cmocka_unit_test(auto_drafts_where_they_pay),
        cmocka_unit_test(a_failed_step_loses_its_drafts_alone),
        cmocka_unit_test(a_refused_plan_does_too),
        cmocka_unit_test(a_wrong_result_fails_its_step),
        cmocka_unit_test(tokens_behind_an_end_token_fail_the_step),
        cmocka_unit_test(drafts_are_counted),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
