/* Logprobs from the engine to the router: sent with their tokens, kept until
 * acknowledged, and never more than the window. The rig compares each one,
 * in each output, with its engine's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define FAILED SLUICE__V1__FINISH__FINISH_FAILED

static void tells_those_of_each_token(void **state)
{
    static const uint32_t tops[] = {0, 1, TOP_LOGPROBS_MAX};

    for (int t = 0; t < 3; t++) {
        for (uint32_t depth = 1; depth <= 2; depth++) {
            struct rig *r = rig_with_depth(depth);
            struct rig_submit a = {.id = 1,
                                   .n_prompt = 20,
                                   .max_tokens = 300,
                                   .logprobs = true,
                                   .n_top = tops[t]};
            struct rig_submit b = {.id = 2, .n_prompt = 5, .max_tokens = 40};

            rig_submit(r, &a);
            rig_submit(r, &b);
            rig_turn(r);
            rig_step(r);
            rig_step(r);
            /* The second row has none, and its width is 0. */
            assert_int_equal(r->last_outs, 2);
            assert_int_equal(r->last_logprobs,
                             r->last_count[0] * (1 + tops[t]));
            rig_run(r);
            rig_check_tokens(r, 1, 1, 20, 300);
            rig_check_tokens(r, 2, 2, 5, 40);
            rig_advance(r, 20000);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
    (void)state;
}

/* Returns how far sequence 1 runs without acknowledgements. */
static uint32_t reach_unheard(struct rig *r, uint32_t max_tokens)
{
    struct rig_submit s = {
        .id = 1, .n_prompt = 4, .max_tokens = max_tokens, .n_top = 2};

    r->acknowledge = false;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(rig_inflight(r), 0);
    return r->heard[1].n;
}

static void waits_for_the_router_at_the_window(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);

        /* As many tokens as the window need no acknowledgement. */
        assert_int_equal(reach_unheard(r, LOGPROB_WINDOW), LOGPROB_WINDOW);
        assert_int_equal(r->heard[1].finish, LENGTH);
        r->acknowledge = true;
        rig_advance(r, 300000);
        rig_free(&r);
        r = rig_with_depth(depth);
        assert_int_equal(reach_unheard(r, LOGPROB_WINDOW + 1), LOGPROB_WINDOW);
        assert_int_equal(r->heard[1].finish, 0);
        assert_int_equal(rig_state(r, 1), 3);
        rig_advance(r, 1000000);
        assert_int_equal(r->n_steps, LOGPROB_WINDOW);
        rig_ack(r, 1, 0); /* no new tokens */
        rig_turn(r);
        assert_int_equal(rig_inflight(r), 0);
        rig_ack(r, 1, 1);
        rig_turn(r);
        assert_int_equal(rig_inflight(r), 1);
        r->acknowledge = true;
        rig_run(r);
        rig_check_tokens(r, 1, 1, 4, LOGPROB_WINDOW + 1);
        assert_int_equal(r->heard[1].finish, LENGTH);
        rig_advance(r, 300000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* Each acknowledgement allows as many further tokens. */
static void goes_on_as_far_as_is_acknowledged(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        uint32_t made = reach_unheard(r, 500), acked = 0;

        for (uint32_t n = 1; made < 500; n += 7) {
            acked += n;
            rig_ack(r, 1, acked);
            rig_turn(r);
            rig_run(r);
            made = acked + LOGPROB_WINDOW < 500 ? acked + LOGPROB_WINDOW : 500;
            assert_int_equal(r->n_steps, made);
        }
        r->acknowledge = true;
        rig_advance(r, 600000);
        rig_check_tokens(r, 1, 1, 4, 500);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

static void disturbs_nobody_while_it_waits(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        struct rig_submit s = {.id = 2, .n_prompt = 100, .max_tokens = 60};
        uint32_t n;

        assert_int_equal(reach_unheard(r, 400), LOGPROB_WINDOW);
        n = r->n_steps;
        rig_submit(r, &s);
        rig_turn(r);
        rig_run(r);
        rig_check_tokens(r, 2, 2, 100, 60);
        assert_int_equal(r->n_steps - n, 60); /* none is for it */
        rig_cancel(r, 1);
        rig_turn(r);
        r->acknowledge = true;
        rig_advance(r, 600000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* 3 rows of 256 tokens with 20 others each, and 12 of a fourth leave 4
 * values, too few for a fifth. A sequence without logprobs still fits. */
static void cuts_what_one_output_does_not_hold(void **state)
{
    struct worker_options o;
    struct rig *r;
    uint32_t rows[7];

    (void)state;
    rig_defaults(&o);
    o.pool.n_pages = 512;
    r = rig_new(&o);
    r->acknowledge = false;
    for (uint32_t i = 1; i <= 6; i++) {
        struct rig_submit s = {.id = i, .n_prompt = 4, .max_tokens = 300};

        s.n_top = i < 6 ? TOP_LOGPROBS_MAX : 0;
        s.max_tokens = i < 6 ? 300 : 20;
        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 300000);
    for (int turns = 0; r->last_count[0] != 256 || r->last_count[3] != 12;
         turns++) {
        assert_in_range(turns, 0, 12);
        rig_advance(r, 10000);
    }
    assert_int_equal(r->last_outs, 5);
    assert_int_equal(r->last_count[1], 256);
    assert_int_equal(r->last_count[2], 256);
    assert_int_equal(r->last_count[4], 20);
    assert_int_equal(r->last_logprobs, (3 * 256 + 12) * 21);
    assert_true(r->last_logprobs + 21 > STEP_LOGPROBS_MAX);
    /* Sequences that were left out come first in the next output, soon. */
    for (uint32_t i = 1; i <= 6; i++) {
        rows[i] = r->heard[i].rows;
    }
    rig_advance(r, 11000);
    assert_int_equal(r->last_count[0], 256);
    for (uint32_t i = 1, left_out = 0; i <= 6; i++) {
        left_out += r->heard[i].rows == rows[i];
        assert_in_range(left_out, 0, 1);
    }
    r->acknowledge = true;
    rig_advance(r, 300000);
    rig_run(r);
    rig_advance(r, 300000);
    for (uint32_t i = 1; i <= 6; i++) {
        rig_check_tokens(r, i, i, 4, i < 6 ? 300 : 20);
    }
    rig_check_empty(r);
    rig_free(&r);
}

/* 4 rows of 256 tokens with 15 others each fill an output. */
static void fills_an_output_to_the_last_value(void **state)
{
    struct worker_options o;
    struct rig *r;
    bool full = false;

    (void)state;
    rig_defaults(&o);
    o.pool.n_pages = 512;
    r = rig_new(&o);
    r->acknowledge = false;
    for (uint32_t i = 1; i <= 5; i++) {
        struct rig_submit s = {
            .id = i, .n_prompt = 4, .max_tokens = 300, .n_top = 15};

        rig_submit(r, &s);
    }
    rig_turn(r);
    rig_run(r);
    for (int turns = 0; turns < 10; turns++) {
        rig_advance(r, 11000);
        full = full ||
               (r->last_outs == 4 && r->last_logprobs == STEP_LOGPROBS_MAX);
    }
    assert_true(full);
    r->acknowledge = true;
    rig_advance(r, 300000);
    rig_run(r);
    rig_advance(r, 300000);
    for (uint32_t i = 1; i <= 5; i++) {
        rig_check_tokens(r, i, i, 4, 300);
    }
    rig_check_empty(r);
    rig_free(&r);
}

/* An output with the longest columns fits into its message. */
static void fits_the_message_at_its_largest(void **state)
{
    Sluice__V1__StepOutputMessage m = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    Sluice__V1__Ledger ledger = SLUICE__V1__LEDGER__INIT;
    Sluice__V1__ClassLedger class = SLUICE__V1__CLASS_LEDGER__INIT;
    static uint64_t grants[STEP_ROWS_MAX];
    static uint32_t numbers[STEP_LOGPROBS_MAX];
    static float logprobs[STEP_LOGPROBS_MAX];

    (void)state;
    memset(grants, 0xff, sizeof grants);
    memset(numbers, 0xff, sizeof numbers);
    class.total = class.free = class.held = UINT32_MAX;
    class.cached = class.granted = UINT32_MAX;
    ledger.blocks = ledger.slots = &class;
    ledger.checkpoints = ledger.pages = &class;
    ledger.snapshot = ledger.grant = m.step = UINT64_MAX;
    m.ledger = &ledger;
    m.n_grant = m.n_first_index = m.n_count = STEP_ROWS_MAX;
    m.n_finish = m.n_state = m.n_width = STEP_ROWS_MAX;
    m.grant = grants;
    m.first_index = m.count = m.finish = m.state = m.width = numbers;
    m.n_tokens = STEP_TOKENS_MAX;
    m.n_logprobs = m.n_top_tokens = STEP_LOGPROBS_MAX;
    m.tokens = m.top_tokens = numbers;
    m.logprobs = logprobs;
    m.has_failure = true;
    m.failure = (ProtobufCBinaryData){ERROR_TEXT, (uint8_t *)grants};
    assert_in_range(sluice__v1__step_output_message__get_packed_size(&m), 1,
                    method_find(METHOD_REGISTRY_STEP_OUTPUT)->request_cap);
}

/* More of them than fit at once, one after the other. */
static void gives_back_their_memory(void **state)
{
    struct rig *r = rig_new(NULL);

    (void)state;
    for (uint32_t i = 1; i <= 100; i++) {
        struct rig_submit s = {.id = i,
                               .n_prompt = 4,
                               .max_tokens = 300,
                               .n_top = TOP_LOGPROBS_MAX};
        uint64_t tag = rig_submit(r, &s);

        rig_turn(r);
        rig_check_ok(r, tag);
        rig_step(r);
        rig_cancel(r, i);
        rig_turn(r);
        rig_run(r);
        rig_advance(r, 20000);
    }
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

/* ---- sequences that are not new ---- */

/* 300 tokens generated, all acknowledged, the next ones in flight. */
static struct rig *at_300(uint32_t depth, struct rig_submit *s)
{
    struct rig *r = rig_with_depth(depth);

    *s = (struct rig_submit){
        .id = 6, .n_prompt = 20, .max_tokens = 400, .n_top = 3};
    rig_submit(r, s);
    rig_turn(r);
    while (r->heard[1].n < 300) {
        assert_true(rig_step(r));
    }
    assert_int_equal(rig_inflight(r), depth);
    return r;
}

/* Submits it again, for a router that has only so many tokens. */
static uint64_t submit_again(struct rig *r, struct rig_submit *s, uint32_t have)
{
    uint64_t tag;

    s->has_have = true;
    s->have = have;
    tag = rig_submit(r, s);
    r->heard[2].n = have;
    memcpy(r->heard[2].tokens, r->heard[1].tokens, have * sizeof(uint32_t));
    rig_turn(r);
    return tag;
}

static void adopts_one_whose_window_reaches_back(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig_submit s;
        struct rig *r = at_300(depth, &s);

        rig_check_ok(
            r, submit_again(r, &s, 300 + rig_inflight(r) - LOGPROB_WINDOW));
        rig_run(r);
        rig_check_tokens(r, 2, 6, 20, 400);
        assert_int_equal(r->n_steps, 400);
        rig_advance(r, 20000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* One index further back: its logprobs would be overwritten. */
static void starts_anew_one_whose_window_does_not(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig_submit s;
        struct rig *r = at_300(depth, &s);

        rig_check_ok(
            r, submit_again(r, &s, 300 + rig_inflight(r) - LOGPROB_WINDOW - 1));
        assert_int_equal(r->heard[1].finish, 0);
        rig_run(r);
        rig_check_tokens(r, 2, 6, 20, 400);
        assert_in_range(r->n_steps, 300 + 400, 300 + 400 + depth);
        rig_advance(r, 20000);
        assert_int_equal(r->heard[1].finish, 0); /* its grant is forgotten */
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* A kept sequence holds memory for its client, so it is not dropped. */
static void leaves_a_kept_one_to_be_removed(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6,
                           .n_prompt = 20,
                           .max_tokens = 300,
                           .n_top = 3,
                           .keep_ms = 60000};
    uint64_t tag;

    (void)state;
    rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    tag = submit_again(r, &s, 300 - LOGPROB_WINDOW - 1);
    assert_int_equal(r->ends[tag].status, ST_ABORTED);
    assert_non_null(strstr(r->ends[tag].text, "kept: remove it"));
    s.have = 300 - LOGPROB_WINDOW;
    tag = rig_submit(r, &s);
    memcpy(r->heard[3].tokens, r->heard[1].tokens, sizeof r->heard[1].tokens);
    r->heard[3].n = s.have;
    rig_advance(r, 20000);
    rig_check_ok(r, tag);
    rig_check_tokens(r, 3, 6, 20, 300);
    rig_remove(r, 6);
    rig_advance(r, 20000);
    rig_check_empty(r);
    rig_free(&r);
}

static void has_those_of_its_own_tokens(void **state)
{
    for (uint32_t k = 1; k <= 30; k += 29) {
        struct rig *r = rig_new(NULL);
        uint32_t ids[30];
        struct rig_submit s = {.id = 4,
                               .n_prompt = 20,
                               .max_tokens = 30,
                               .n_generated = k,
                               .generated = ids,
                               .n_top = 1,
                               .has_have = true,
                               .have = k - 1};
        uint64_t tag;
        char says[64];

        rig_expect(4, 20, 30, ids);
        tag = rig_submit(r, &s);
        rig_turn(r);
        snprintf(says, sizeof says,
                 "have_index is %u, but with logprobs it must be at least",
                 k - 1);
        assert_int_equal(r->ends[tag].status, ST_INVALID_ARGUMENT);
        assert_non_null(strstr(r->ends[tag].text, says));
        s.have = k;
        tag = rig_submit(r, &s);
        r->heard[2].n = k;
        memcpy(r->heard[2].tokens, ids, k * sizeof *ids);
        rig_turn(r);
        rig_check_ok(r, tag);
        rig_run(r);
        rig_advance(r, 20000);
        rig_check_tokens(r, 2, 4, 20, 30);
        assert_int_equal(r->heard[2].finish, LENGTH);
        rig_advance(r, 300000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* It moved here with 10 tokens, none of which has logprobs here: it starts
 * anew. */
static void does_not_adopt_for_what_came_before(void **state)
{
    struct rig *r = rig_new(NULL);
    uint32_t ids[30];
    struct rig_submit s = {.id = 6,
                           .n_prompt = 20,
                           .max_tokens = 30,
                           .n_generated = 10,
                           .generated = ids,
                           .n_top = 1};
    uint64_t tag;

    (void)state;
    rig_expect(6, 20, 30, ids);
    rig_submit(r, &s);
    r->heard[1].n = 10;
    memcpy(r->heard[1].tokens, ids, 10 * sizeof *ids);
    rig_turn(r);
    rig_step(r);
    rig_step(r);
    s.n_generated = 9;
    tag = submit_again(r, &s, 9);
    rig_check_ok(r, tag);
    rig_run(r);
    rig_check_tokens(r, 2, 6, 20, 30);
    rig_advance(r, 300000);
    rig_check_empty(r);
    rig_free(&r);
}

/* ---- an engine that breaks its contract ---- */

static void lie_nan(struct plan_result *out)
{
    out->logprobs[0] = NAN;
}

static void lie_above(struct plan_result *out)
{
    out->logprobs[0] = nextafterf(0.0f, 1.0f);
}

static void lie_below(struct plan_result *out)
{
    out->logprobs[0] = -INFINITY;
}

static void lie_top_id(struct plan_result *out)
{
    out->top[0][1].token = RIG_VOCAB;
}

static void lie_top_nan(struct plan_result *out)
{
    out->top[0][1].logprob = NAN;
}

static void lie_top_above(struct plan_result *out)
{
    out->top[0][1].logprob = 0.5f;
}

static void fails_a_plan_whose_logprobs_are_none(void **state)
{
    static const struct {
        void (*lie)(struct plan_result *);
        const char *says;
    } lies[] = {{lie_nan, "the engine returned a logprob of "},
                {lie_above, "the engine returned a logprob of 1.4013e-45"},
                {lie_below, "the engine returned a logprob of -inf"},
                {lie_top_id, "the engine ranked id 1000, which is not below"},
                {lie_top_nan, "the engine returned a logprob of "},
                {lie_top_above, "the engine returned a logprob of 0.5"}};

    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        for (uint32_t n_top = 0; n_top <= 2; n_top++) {
            struct rig *r = rig_new(NULL);
            struct rig_submit s = {.id = 1,
                                   .n_prompt = 20,
                                   .max_tokens = 40,
                                   .logprobs = true,
                                   .n_top = n_top};
            /* Only requested values are checked. */
            bool seen = i < 3 || n_top == 2;

            rig_submit(r, &s);
            rig_turn(r);
            rig_step(r);
            r->lie = lies[i].lie;
            rig_step(r);
            assert_int_equal(r->heard[1].n, seen ? 1 : 2);
            rig_step(r); /* computed again, alone: the prompt */
            r->lie = lies[i].lie;
            rig_step(r);
            assert_int_equal(r->heard[1].finish, seen ? FAILED : 0);
            if (seen && strstr(r->failure, lies[i].says) == NULL) {
                fail_msg("%zu: %s", i, r->failure);
            }
            rig_run(r);
            rig_advance(r, 600000);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
    (void)state;
}

static void at_the_limits(struct plan_result *out)
{
    out->tokens[0] = RIG_VOCAB - 1;
    out->logprobs[0] = 0.0f;
    out->top[0][0] = (struct token_logprob){RIG_VOCAB - 1, -0.0f};
}

static void takes_a_logprob_of_zero(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {
        .id = 1, .n_prompt = 20, .max_tokens = 1, .n_top = 1};

    (void)state;
    r->hears_lies = true;
    rig_submit(r, &s);
    rig_turn(r);
    r->lie = at_the_limits;
    rig_step(r);
    assert_int_equal(r->heard[1].n, 1);
    assert_int_equal(r->heard[1].tokens[0], RIG_VOCAB - 1);
    assert_int_equal(r->heard[1].finish, LENGTH);
    rig_advance(r, 300000);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_those_of_each_token),
        cmocka_unit_test(waits_for_the_router_at_the_window),
        cmocka_unit_test(goes_on_as_far_as_is_acknowledged),
        cmocka_unit_test(disturbs_nobody_while_it_waits),
        cmocka_unit_test(cuts_what_one_output_does_not_hold),
        cmocka_unit_test(fills_an_output_to_the_last_value),
        cmocka_unit_test(gives_back_their_memory),
        cmocka_unit_test(fits_the_message_at_its_largest),
        cmocka_unit_test(adopts_one_whose_window_reaches_back),
        cmocka_unit_test(starts_anew_one_whose_window_does_not),
        cmocka_unit_test(leaves_a_kept_one_to_be_removed),
        cmocka_unit_test(has_those_of_its_own_tokens),
        cmocka_unit_test(does_not_adopt_for_what_came_before),
        cmocka_unit_test(fails_a_plan_whose_logprobs_are_none),
        cmocka_unit_test(takes_a_logprob_of_zero),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
