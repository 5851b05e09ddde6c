/* Values of options that are lists or escaped text. */
#include "client/argument.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define MOST 4

static uint32_t ids[MOST];
static struct client_bias biases[MOST];
static struct error e;

static void ids_are_appended(void **state)
{
    size_t n = 0;

    (void)state;
    assert_int_equal(argument_ids("7", ids, MOST, &n, &e), ST_OK);
    assert_int_equal(argument_ids("0,4294967295", ids, MOST, &n, &e), ST_OK);
    assert_int_equal(n, 3);
    assert_int_equal(ids[0], 7);
    assert_int_equal(ids[2], UINT32_MAX);
    assert_int_equal(argument_ids("1,2", ids, MOST, &n, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "more than 4 are given");
}

static void what_is_no_id_is_quoted(void **state)
{
    static const char *const wrong[] = {
        "",  ",",  "7,", ",7",         "7,,8", "7 8",
        "x", "-1", "+1", "4294967296", "7=1",  "99999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t n = 0;

        assert_int_equal(argument_ids(wrong[i], ids, MOST, &n, &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "ID or ID,ID,... is wanted"));
        assert_non_null(strstr(e.text, wrong[i]));
    }
}

static void biases_are_appended(void **state)
{
    size_t n = 0;

    (void)state;
    assert_int_equal(argument_biases("451=-100", biases, MOST, &n, &e), ST_OK);
    assert_int_equal(argument_biases("0=2.5,9=1e-3", biases, MOST, &n, &e),
                     ST_OK);
    assert_int_equal(n, 3);
    assert_int_equal(biases[0].token, 451);
    assert_true(biases[0].bias == -100);
    assert_true(biases[1].bias == 2.5f);
    assert_true(biases[2].bias == 1e-3f);
    assert_int_equal(argument_biases("1=1", biases, MOST, &n, &e), ST_OK);
    assert_int_equal(argument_biases("2=1", biases, MOST, &n, &e),
                     ST_INVALID_ARGUMENT);
}

static void what_is_no_bias_is_quoted(void **state)
{
    static const char *const wrong[] = {
        "",        "7",      "7=",    "=1",      "7=x",  "7=nan",
        "7=inf",   "7=0x10", "7=1,",  "7=1;8=1", "7= 1", "7=1e",
        "7=1e999", "7==1",   "7=--1", "7=1.1.1"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t n = 0;

        assert_int_equal(argument_biases(wrong[i], biases, MOST, &n, &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "ID=BIAS or ID=BIAS,"));
    }
}

static void escapes_are_read(void **state)
{
    char out[64];
    size_t n;

    (void)state;
    assert_int_equal(argument_text("a\\n\\t\\r\\\\n\xc3\xa9", out, &n, &e),
                     ST_OK);
    assert_string_equal(out, "a\n\t\r\\n\xc3\xa9");
    assert_int_equal(n, 8);
    assert_int_equal(argument_text("", out, &n, &e), ST_OK);
    assert_int_equal(n, 0);
    assert_int_equal(argument_text("\\d", out, &n, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "after a backslash"));
    assert_int_equal(argument_text("end\\", out, &n, &e), ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_appended),
        cmocka_unit_test(what_is_no_id_is_quoted),
        cmocka_unit_test(biases_are_appended),
        cmocka_unit_test(what_is_no_bias_is_quoted),
        cmocka_unit_test(escapes_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
