/* The decode speed is printed only if it was measured. */
#include "client/ctl/rate.h"
#include "tests/unit/cmocka.h"

static void a_rate_is_tokens_by_time(void **state)
{
    double rate = 0;

    (void)state;
    assert_true(rate_of(95, 190000, &rate));
    assert_true(rate > 499.9 && rate < 500.1);
    assert_true(rate_of(RATE_TOKENS_MIN, RATE_US_MIN, &rate));
    assert_true(rate > 319.9 && rate < 320.1);
}

/* 35 tokens within 120 us: they had waited on a busy machine. */
static void too_little_gives_no_rate(void **state)
{
    double rate = 7;

    (void)state;
    assert_false(rate_of(35, 120, &rate));
    assert_false(rate_of(RATE_TOKENS_MIN, RATE_US_MIN - 1, &rate));
    assert_false(rate_of(RATE_TOKENS_MIN - 1, 60000000, &rate));
    assert_false(rate_of(0, 0, &rate));
    assert_false(rate_of(1000, -5, &rate));
    assert_true(rate > 6.9 && rate < 7.1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rate_is_tokens_by_time),
        cmocka_unit_test(too_little_gives_no_rate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
