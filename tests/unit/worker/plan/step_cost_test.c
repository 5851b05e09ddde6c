/* What is learnt of the time of a step. */
#include <math.h>

#include "tests/unit/cmocka.h"
#include "worker/plan/step_cost.h"

#define BASE   10000.0
#define ROW    120.0
#define PROMPT 500.0

static double real_us(uint32_t rows, uint32_t prompts)
{
    return BASE + ROW * rows + PROMPT * prompts;
}

static uint32_t draw(uint64_t *x, uint32_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*x >> 33) % n);
}

/* Notes n steps of drawn sizes, whose times are off by at most noise percent.
 */
static void run(struct step_cost *c, uint64_t *x, uint32_t n, uint32_t noise,
                double factor)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rows = draw(x, 64), prompts = draw(x, 2) ? draw(x, 512) : 0;
        double off = 1 + ((double)draw(x, 2 * noise + 1) - noise) / 100;

        step_cost_note(c, rows, prompts,
                       (uint32_t)(factor * off * real_us(rows, prompts)));
    }
}

/* The estimate is within `percent` of the truth for all sizes. */
static void check(const struct step_cost *c, double factor, double percent)
{
    static const uint32_t sizes[][2] = {{0, 64},  {0, 512},  {1, 0},   {64, 0},
                                        {64, 64}, {64, 448}, {32, 256}};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        double us = factor * real_us(sizes[i][0], sizes[i][1]);
        double got = step_cost_us(c, sizes[i][0], sizes[i][1]);

        assert_true(fabs(got / us - 1) * 100 <= percent);
    }
}

static void finds_the_three_terms(void **state)
{
    struct step_cost c;
    uint64_t x = 1;
    struct step_cost_terms t;

    (void)state;
    step_cost_init(&c);
    run(&c, &x, 100, 0, 1);
    t = step_cost_terms(&c);
    assert_true(fabs(t.base / BASE - 1) < 0.02);
    assert_true(fabs(t.row / ROW - 1) < 0.05);
    assert_true(fabs(t.prompt / PROMPT - 1) < 0.01);
    check(&c, 1, 2);
}

static void bears_noise(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct step_cost c;
        uint64_t x = seed;

        step_cost_init(&c);
        run(&c, &x, 300, 20, 1);
        check(&c, 1, 15);
    }
}

static void nothing_is_known_at_first(void **state)
{
    struct step_cost c;
    uint64_t x = 3;

    (void)state;
    step_cost_init(&c);
    run(&c, &x, STEP_COST_LEAST - 1, 0, 1);
    step_cost_note(&c, 1, 1, 0);
    assert_false(step_cost_known(&c));
    run(&c, &x, 1, 0, 1);
    assert_true(step_cost_known(&c));
}

/* One step that took a thousand times as long. */
static void an_outlier_moves_it_little(void **state)
{
    struct step_cost c;
    uint64_t x = 4;

    (void)state;
    step_cost_init(&c);
    run(&c, &x, 200, 0, 1);
    step_cost_note(&c, 20, 256, (uint32_t)(1000 * real_us(20, 256)));
    check(&c, 1, 5);
    step_cost_note(&c, 1, 0, UINT32_MAX);
    check(&c, 1, 10);
    run(&c, &x, 200, 0, 1);
    check(&c, 1, 2);
}

/* A device that becomes slower, or faster, for good. */
static void follows_the_device(void **state)
{
    struct step_cost c;
    uint64_t x = 5;

    (void)state;
    step_cost_init(&c);
    run(&c, &x, 200, 0, 1);
    run(&c, &x, 200, 0, 4);
    check(&c, 4, 10);
    run(&c, &x, 100, 0, 0.5);
    check(&c, 0.5, 10);
}

/* Steps of one size show one sum only; the next size shows more. */
static void equal_steps_are_estimated_too(void **state)
{
    struct step_cost c;

    (void)state;
    step_cost_init(&c);
    for (int i = 0; i < 1000; i++) {
        step_cost_note(&c, 8, 512, (uint32_t)real_us(8, 512));
    }
    assert_true(fabs(step_cost_us(&c, 8, 512) / real_us(8, 512) - 1) < 0.01);
    for (int i = 0; i < 60; i++) {
        step_cost_note(&c, 8, 128, (uint32_t)real_us(8, 128));
    }
    assert_true(fabs(step_cost_us(&c, 8, 128) / real_us(8, 128) - 1) < 0.02);
    assert_true(fabs(step_cost_us(&c, 8, 512) / real_us(8, 512) - 1) < 0.1);
}

/* Times that fall with the size give no term below 0. */
static void no_term_is_negative(void **state)
{
    struct step_cost c;
    struct step_cost_terms t;

    (void)state;
    step_cost_init(&c);
    for (uint32_t i = 0; i < 200; i++) {
        step_cost_note(&c, i % 10, 512 - i % 10 * 50, 1000 + i % 10 * 300);
        t = step_cost_terms(&c);
        assert_true(t.base >= 0 && t.row >= 0 && t.prompt >= 0);
        assert_true(isfinite(step_cost_us(&c, 512, 8192)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_three_terms),
        cmocka_unit_test(bears_noise),
        cmocka_unit_test(nothing_is_known_at_first),
        cmocka_unit_test(an_outlier_moves_it_little),
        cmocka_unit_test(follows_the_device),
        cmocka_unit_test(equal_steps_are_estimated_too),
        cmocka_unit_test(no_term_is_negative),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
