#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "client/load/load_verdict.h"

/* A result of one run with ten requests that ended OK. */
struct scene {
    struct result result;
    struct run *run;
    struct tally *tally;
};

static int set_up(void **state)
{
    static struct scene s;
    struct objectives none = {.attain = 0.99};

    memset(&s, 0, sizeof s);
    s.run = result_add(&s.result);
    s.tally = s.run->tally = tally_new(&none);
    s.tally->counts.n_outcomes[OUTCOME_OK] = s.tally->counts.n_good = 10;
    *state = &s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;

    result_fini(&s->result);
    return 0;
}

static void measured_run_is_ok(void **state)
{
    struct scene *s = *state;

    assert_int_equal(load_verdict(&s->result), LOAD_OK);
    s->tally->counts.n_outcomes[OUTCOME_FAILED] = 5; /* figures, not a fault */
    assert_int_equal(load_verdict(&s->result), LOAD_OK);
}

static void failed_checks_fail(void **state)
{
    struct scene *s = *state;

    s->tally->counts.n_leaked = 1;
    assert_int_equal(load_verdict(&s->result), LOAD_FAILED);
    s->tally->counts.n_leaked = 0;
    s->tally->counts.n_differ = 1;
    assert_int_equal(load_verdict(&s->result), LOAD_FAILED);
    s->tally->counts.n_differ = 0;
    s->tally->counts.n_bad_streams = 1;
    assert_int_equal(load_verdict(&s->result), LOAD_FAILED);
    s->tally->counts.n_bad_streams = 0;
    s->run->audited = true;
    assert_int_equal(load_verdict(&s->result), LOAD_FAILED);
    s->run->audit_ok = true;
    assert_int_equal(load_verdict(&s->result), LOAD_OK);
}

static void run_without_success_fails(void **state)
{
    struct scene *s = *state;

    s->tally->counts.n_outcomes[OUTCOME_OK] = 0;
    s->tally->counts.n_outcomes[OUTCOME_REFUSED] = 10;
    assert_int_equal(load_verdict(&s->result), LOAD_FAILED);
}

static void late_generator_is_invalid(void **state)
{
    struct scene *s = *state;

    s->run->invalid = true;
    assert_int_equal(load_verdict(&s->result), LOAD_INVALID);
}

static void missed_objectives_have_a_code(void **state)
{
    struct scene *s = *state;

    s->tally->counts.n_good = 9;
    assert_int_equal(load_verdict(&s->result), LOAD_OK);
    s->result.objectives.ttft_us = 1;
    s->result.objectives.attain = 0.9;
    assert_int_equal(load_verdict(&s->result), LOAD_OK);
    s->result.objectives.attain = 0.91;
    assert_int_equal(load_verdict(&s->result), LOAD_MISSED);
    s->result.searched = true; /* trials may miss; no load met */
    assert_int_equal(load_verdict(&s->result), LOAD_MISSED);
    s->result.search.low = 3;
    s->result.search.done = s->result.search.confirmed = true;
    assert_int_equal(load_verdict(&s->result), LOAD_OK);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(measured_run_is_ok),
        TEST(failed_checks_fail),
        TEST(run_without_success_fails),
        TEST(late_generator_is_invalid),
        TEST(missed_objectives_have_a_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
