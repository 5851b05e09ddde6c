/* The learned cost of a step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "router/schedule/costs.h"

static const struct costs nothing;

/* Adds n steps of up to 16 rows, one of four with 256 prompt tokens. */
static void show(struct costs *c, uint32_t n, uint32_t base_us, uint32_t row_us,
                 uint32_t token_us)
{
    for (uint32_t i = 0; i < n; i++) {
        struct step_seen x = {.n_rows = i * 7 % 16,
                              .n_prompt_tokens = i % 4 == 0 ? 256 : 0,
                              .more = true};

        x.us = base_us + x.n_rows * row_us + x.n_prompt_tokens * token_us;
        costs_add(c, &x);
    }
}

static void about(uint64_t ns, uint64_t us)
{
    assert_in_range(ns, us * 960, us * 1040);
}

static void nothing_is_known_at_first(void **state)
{
    struct step_cost c = costs_among(&nothing, &nothing);

    (void)state;
    assert_int_equal(c.base_ns, COSTS_STEP_US * 1000);
    assert_int_equal(c.row_ns, 0);
    assert_int_equal(c.token_ns, COSTS_TOKEN_NS);
    assert_int_equal(c.chunk, COSTS_CHUNK);
}

static void base_rows_and_tokens_are_told_apart(void **state)
{
    struct costs x = nothing;
    struct step_cost c;

    (void)state;
    show(&x, 400, 8000, 900, 40);
    c = costs_among(&x, &nothing);
    about(c.base_ns, 8000);
    about(c.row_ns, 900);
    about(c.token_ns, 40);
    assert_in_range(c.chunk, 250, 256);
}

static void a_change_is_followed(void **state)
{
    struct costs x = nothing;
    struct step_cost c;

    (void)state;
    show(&x, 4000, 8000, 900, 40);
    show(&x, 4 * COSTS_WINDOW * 8, 4000, 200, 10);
    c = costs_among(&x, &nothing);
    about(c.base_ns, 4000);
    about(c.row_ns, 200);
    about(c.token_ns, 10);
}

static void a_pause_is_no_cost(void **state)
{
    struct step_seen pause = {.us = 5000000, .n_rows = 8};
    struct costs x = nothing;
    struct step_cost c;

    (void)state;
    show(&x, 400, 8000, 900, 40);
    costs_add(&x, &pause);
    c = costs_among(&x, &nothing);
    assert_in_range(c.base_ns + 8 * c.row_ns, 15000000, 17000000);
}

/* One row in each step: nothing shows what more would cost. */
static void equal_steps_show_no_cost_of_rows(void **state)
{
    struct step_seen x = {.us = 9000, .n_rows = 1};
    struct costs y = nothing;
    struct step_cost c;

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        costs_add(&y, &x);
    }
    c = costs_among(&y, &nothing);
    assert_int_equal(c.row_ns, 0);
    assert_int_equal(c.base_ns, 9000000);
}

static void without_plain_steps_tokens_have_all_the_time(void **state)
{
    struct step_seen x = {.us = 10000, .n_rows = 1, .n_prompt_tokens = 500};
    struct costs y = nothing;
    struct step_cost c;

    (void)state;
    for (uint32_t i = 0; i < COSTS_LEAST; i++) {
        costs_add(&y, &x);
    }
    c = costs_among(&y, &nothing);
    assert_int_equal(c.base_ns, 0);
    assert_int_equal(c.token_ns, 20000);
}

static void a_new_place_is_like_its_siblings(void **state)
{
    struct costs all = nothing, x = nothing;
    struct step_cost c;

    (void)state;
    show(&all, 400, 8000, 900, 40);
    c = costs_among(&x, &all);
    about(c.base_ns, 8000);
    about(c.row_ns, 900);
    about(c.token_ns, 40);
    show(&x, 9, 1000, 100, 5); /* six plain steps of these: too few */
    c = costs_among(&x, &all);
    about(c.base_ns, 8000);
}

static void a_small_difference_is_noise_and_a_large_one_is_not(void **state)
{
    struct costs all = nothing, x = nothing, y = nothing;
    struct step_cost c;

    (void)state;
    show(&all, 400, 8000, 800, 40);
    show(&x, 400, 8800, 880, 44);
    c = costs_among(&x, &all);
    about(c.base_ns, 8000);
    about(c.token_ns, 40);
    show(&y, 400, 16000, 1600, 80);
    c = costs_among(&y, &all);
    about(c.base_ns, 16000);
    about(c.token_ns, 80);
}

static void the_greatest_figures_do_not_overflow(void **state)
{
    struct step_seen x = {.us = UINT32_MAX, .n_rows = UINT32_MAX};
    struct costs y = nothing;
    struct step_cost c;

    (void)state;
    for (uint32_t i = 0; i < 3 * COSTS_WINDOW; i++) {
        x.n_rows = i % 2 == 0 ? UINT32_MAX : 0;
        costs_add(&y, &x);
    }
    c = costs_among(&y, &nothing);
    assert_in_range(c.base_ns, 1, (uint64_t)COSTS_US_CAP * 1000);
    assert_true(c.row_ns <= (uint64_t)COSTS_US_CAP * 1000);
}

/* At most max_rows are in a step; the others take turns. */
static void rows_take_turns(void **state)
{
    const struct step_cost c = {.base_ns = 100, .row_ns = 10, .chunk = 100};

    (void)state;
    assert_int_equal(costs_step_ns(&c, 8, 8), 180);
    assert_int_equal(costs_step_ns(&c, 16, 8), 352); /* in whole 22 ns */
    assert_int_equal(costs_step_ns(&c, 16, 0), 260);
}

static void prompts_take_steps_of_a_chunk(void **state)
{
    const struct step_cost c = {
        .base_ns = 100, .row_ns = 10, .token_ns = 2, .chunk = 50};

    (void)state;
    /* 200 tokens in 4 steps of 120 ns, in whole 2 ns a token */
    assert_int_equal(costs_prompt_ns(&c, 200, 2, 8), 400 + 4 * 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(base_rows_and_tokens_are_told_apart),
        cmocka_unit_test(a_change_is_followed),
        cmocka_unit_test(a_pause_is_no_cost),
        cmocka_unit_test(equal_steps_show_no_cost_of_rows),
        cmocka_unit_test(without_plain_steps_tokens_have_all_the_time),
        cmocka_unit_test(a_new_place_is_like_its_siblings),
        cmocka_unit_test(a_small_difference_is_noise_and_a_large_one_is_not),
        cmocka_unit_test(the_greatest_figures_do_not_overflow),
        cmocka_unit_test(rows_take_turns),
        cmocka_unit_test(prompts_take_steps_of_a_chunk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
