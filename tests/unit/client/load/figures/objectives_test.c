/* Objectives: their text, and which requests meet them. */
#include <string.h>

#include "client/load/figures/tally.h"
#include "tests/unit/cmocka.h"

static void parses(const char *text, int64_t ttft, int64_t tpot, int64_t itl,
                   int64_t e2e)
{
    struct objectives o = {0};
    struct error e;

    assert_int_equal(objectives_parse(&o, text, &e), ST_OK);
    assert_int_equal(o.ttft_us, ttft);
    assert_int_equal(o.tpot_us, tpot);
    assert_int_equal(o.itl_us, itl);
    assert_int_equal(o.e2e_us, e2e);
    assert_true(objectives_any(&o));
}

static void each_name_sets_its_limit(void **state)
{
    struct objectives none = {0};

    (void)state;
    assert_false(objectives_any(&none));
    parses("ttft=500ms", 500000, 0, 0, 0);
    parses("tpot=12.5ms", 0, 12500, 0, 0);
    parses("itl=1us", 0, 0, 1, 0);
    parses("e2e=2s", 0, 0, 0, 2000000);
    parses("e2e=1m", 0, 0, 0, 60000000);
    parses("e2e=3", 0, 0, 0, 3000000); /* as options: seconds */
}

static void refuses(const char *text, const char *in_sentence)
{
    struct objectives o = {0}, zero = {0};
    struct error e = {0};

    assert_int_equal(objectives_parse(&o, text, &e), ST_INVALID_ARGUMENT);
    assert_memory_equal(&o, &zero, sizeof o);
    if (strstr(e.text, in_sentence) == NULL) {
        print_error("%s: %s\n", text, e.text);
        fail();
    }
}

static void other_texts_are_refused_with_a_suggestion(void **state)
{
    (void)state;
    refuses("tftt=1s", "did you mean ttft");
    refuses("x=1s", "use ttft, tpot, itl or e2e");
    refuses("", "use ttft");
    refuses("=1s", "use ttft");
    refuses("TTFT=1s", "use ttft");
    refuses("ttft", "for example ttft=500ms");
    refuses("ttft=", "for example ttft=500ms");
    refuses("itl=0ms", "for example itl=500ms");
    refuses("itl=0.5us", "for example");
    refuses("itl=-1ms", "for example");
    refuses("itl=5 ms", "for example");
    refuses("itl=5parsecs", "for example");
    refuses("e2e=1000000h", "50 days");
    refuses("e2e=infms", "for example");
}

static struct sample good(void)
{
    return (struct sample){.due_us = 1000,
                           .sent_us = 1500,
                           .first_us = 11000,
                           .last_us = 31000,
                           .end_us = 41000,
                           .n_output = 11,
                           .n_gaps = 2};
}

static const uint32_t gaps[] = {5000, 15000};

static void limits_hold_at_the_limit_and_not_past_it(void **state)
{
    const struct objectives at = {10000, 2000, 15000, 40000, 0.99};
    struct objectives o = at;
    struct sample s = good();

    (void)state;
    assert_true(objectives_met(&at, &s, gaps));
    o.ttft_us--;
    assert_false(objectives_met(&o, &s, gaps));
    o = at;
    o.tpot_us--;
    assert_false(objectives_met(&o, &s, gaps));
    o = at;
    o.itl_us--;
    assert_false(objectives_met(&o, &s, gaps));
    o = at;
    o.e2e_us--;
    assert_false(objectives_met(&o, &s, gaps));
}

static void only_requests_that_end_ok_are_good(void **state)
{
    const struct objectives none = {0};
    struct sample s = good();

    (void)state;
    for (uint8_t i = 0; i < OUTCOMES; i++) {
        s.outcome = i;
        assert_int_equal(objectives_met(&none, &s, gaps), i == OUTCOME_OK);
        assert_true(outcome_names[i][0] != '\0');
    }
}

static void an_answer_without_tokens_counts_its_end_as_the_first(void **state)
{
    const struct objectives o = {.ttft_us = 40000, .tpot_us = 1};
    struct sample s = good();

    (void)state;
    s.first_us = s.last_us = SAMPLE_NEVER;
    s.n_output = s.n_gaps = 0;
    assert_true(objectives_met(&o, &s, NULL));
    s.end_us++;
    assert_false(objectives_met(&o, &s, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_sets_its_limit),
        cmocka_unit_test(other_texts_are_refused_with_a_suggestion),
        cmocka_unit_test(limits_hold_at_the_limit_and_not_past_it),
        cmocka_unit_test(only_requests_that_end_ok_are_good),
        cmocka_unit_test(an_answer_without_tokens_counts_its_end_as_the_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
