/* Every code has its gRPC number, a name and a sentence. */
#include "common/base/status.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static void every_code_has_a_name_and_a_sentence(void **state)
{
    static const char *const names[] = {"OK",
                                        "CANCELLED",
                                        "UNKNOWN",
                                        "INVALID_ARGUMENT",
                                        "DEADLINE_EXCEEDED",
                                        "NOT_FOUND",
                                        "ALREADY_EXISTS",
                                        "PERMISSION_DENIED",
                                        "RESOURCE_EXHAUSTED",
                                        "FAILED_PRECONDITION",
                                        "ABORTED",
                                        "OUT_OF_RANGE",
                                        "UNIMPLEMENTED",
                                        "INTERNAL",
                                        "UNAVAILABLE",
                                        "DATA_LOSS",
                                        "UNAUTHENTICATED"};

    (void)state;
    assert_int_equal(ST_NR, sizeof names / sizeof names[0]);
    for (int i = 0; i < ST_NR; i++) {
        assert_string_equal(status_name((enum status)i), names[i]);
        assert_true(strlen(status_text((enum status)i)) > 0);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(status_text((enum status)i),
                                    status_text((enum status)j));
        }
    }
    assert_string_equal(status_name(ST_NR), "UNKNOWN");
    assert_string_equal(status_text(ST_NR), "unknown status");
    assert_string_equal(status_name((enum status)255), "UNKNOWN");
}

static void context_goes_before_the_cause(void **state)
{
    struct error e;

    (void)state;
    assert_int_equal(error_set(&e, ST_NOT_FOUND, "no file %d", 7),
                     ST_NOT_FOUND);
    assert_int_equal(error_wrap(&e, "shard %d", 3), ST_NOT_FOUND);
    assert_int_equal(error_wrap(&e, "load"), ST_NOT_FOUND);
    assert_string_equal(e.text, "load: shard 3: no file 7");
}

static void nobody_need_listen(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ST_ABORTED, "%d", 1), ST_ABORTED);
    assert_int_equal(error_wrap(NULL, "%d", 1), ST_UNKNOWN);
}

/* Texts of any length are cut and end in NUL. */
static void long_texts_are_cut(void **state)
{
    char longer[2 * ERROR_TEXT];
    struct error e;

    (void)state;
    memset(longer, 'y', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(error_set(&e, ST_INTERNAL, "%s", longer), ST_INTERNAL);
    assert_int_equal(strlen(e.text), ERROR_TEXT - 1);
    assert_int_equal(error_wrap(&e, "%s", longer), ST_INTERNAL);
    assert_int_equal(strlen(e.text), ERROR_TEXT - 1);
    assert_int_equal(error_wrap(&e, "why"), ST_INTERNAL);
    assert_memory_equal(e.text, "why: yyy", 8);
    assert_int_equal(strlen(e.text), ERROR_TEXT - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_sentence),
        cmocka_unit_test(context_goes_before_the_cause),
        cmocka_unit_test(nobody_need_listen),
        cmocka_unit_test(long_texts_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
