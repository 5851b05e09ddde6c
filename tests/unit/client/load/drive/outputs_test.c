#include "client/load/drive/outputs.h"

#include "tests/unit/cmocka.h"

static struct sample sample_of(uint64_t content, uint32_t turn, uint64_t hash)
{
    return (struct sample){.content = content,
                           .turn = turn,
                           .output_hash = hash,
                           .n_output = 7,
                           .outcome = OUTCOME_OK};
}

static void equal_and_different_outputs_are_told_apart(void **state)
{
    struct outputs *o = outputs_new(2);
    struct sample s = sample_of(1, 0, 42), shorter = s, other = s;

    (void)state;
    shorter.n_output = 6;
    other.output_hash = 43;
    assert_true(outputs_learn(o, &s));
    assert_int_equal(outputs_compare(o, &s), OUTPUTS_EQUAL);
    assert_int_equal(outputs_compare(o, &shorter), OUTPUTS_DIFFERS);
    assert_int_equal(outputs_compare(o, &other), OUTPUTS_DIFFERS);
    outputs_free(&o);
    assert_null(o);
}

static void turns_of_a_content_are_kept_apart(void **state)
{
    struct outputs *o = outputs_new(2);
    struct sample first = sample_of(1, 0, 42), second = sample_of(1, 1, 43);
    struct sample unknown = sample_of(0, 1, 42);

    (void)state;
    assert_true(outputs_learn(o, &first));
    assert_int_equal(outputs_compare(o, &second), OUTPUTS_UNKNOWN);
    assert_true(outputs_learn(o, &second));
    assert_int_equal(outputs_compare(o, &first), OUTPUTS_EQUAL);
    assert_int_equal(outputs_compare(o, &second), OUTPUTS_EQUAL);
    assert_int_equal(outputs_compare(o, &unknown), OUTPUTS_UNKNOWN);
    outputs_free(&o);
}

static void requests_that_did_not_end_ok_are_not_compared(void **state)
{
    struct outputs *o = outputs_new(1);
    struct sample s = sample_of(1, 0, 42), cut = s;

    (void)state;
    assert_true(outputs_learn(o, &s));
    for (int outcome = OUTCOME_OK + 1; outcome < OUTCOMES; outcome++) {
        cut.outcome = (uint8_t)outcome;
        assert_int_equal(outputs_compare(o, &cut), OUTPUTS_NOT_COMPARABLE);
        assert_false(outputs_learn(o, &cut));
    }
    outputs_free(&o);
}

static void solo_runs_that_differ_make_a_prompt_unstable(void **state)
{
    struct outputs *o = outputs_new(2);
    struct sample s = sample_of(1, 0, 42), again = sample_of(1, 0, 43);
    struct sample stable = sample_of(2, 0, 44);

    (void)state;
    assert_true(outputs_learn(o, &s));
    assert_true(outputs_learn(o, &stable));
    assert_true(outputs_learn(o, &again));
    assert_true(outputs_learn(o, &s));
    assert_int_equal(outputs_compare(o, &s), OUTPUTS_NOT_COMPARABLE);
    assert_int_equal(outputs_compare(o, &stable), OUTPUTS_EQUAL);
    outputs_free(&o);
}

static void a_table_takes_as_many_outputs_as_it_was_made_for(void **state)
{
    uint32_t sizes[] = {1, 2, 100, 4096};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct outputs *o = outputs_new(sizes[i]);
        struct sample s;

        for (uint32_t k = 0; k < sizes[i]; k++) {
            s = sample_of(k / 3, k % 3, k);
            assert_true(outputs_learn(o, &s));
        }
        s = sample_of(UINT64_MAX, 0, 1);
        assert_false(outputs_learn(o, &s));
        assert_int_equal(outputs_compare(o, &s), OUTPUTS_UNKNOWN);
        for (uint32_t k = 0; k < sizes[i]; k++) {
            s = sample_of(k / 3, k % 3, k);
            assert_int_equal(outputs_compare(o, &s), OUTPUTS_EQUAL);
            assert_true(outputs_learn(o, &s)); /* a full table has it */
        }
        outputs_free(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_and_different_outputs_are_told_apart),
        cmocka_unit_test(turns_of_a_content_are_kept_apart),
        cmocka_unit_test(requests_that_did_not_end_ok_are_not_compared),
        cmocka_unit_test(solo_runs_that_differ_make_a_prompt_unstable),
        cmocka_unit_test(a_table_takes_as_many_outputs_as_it_was_made_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
