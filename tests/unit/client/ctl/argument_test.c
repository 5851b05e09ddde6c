/* Parsing of option values that are lists or escaped text. */
#include "client/ctl/argument.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define MOST 4

static uint32_t ids[MOST];
static uint32_t tokens[MOST];
static float biases[MOST];
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
    assert_string_equal(e.text, "too many values; the limit is 4");
}

static void bad_ids_are_quoted_in_the_error(void **state)
{
    static const char *const wrong[] = {
        "",  ",",  "7,", ",7",         "7,,8", "7 8",
        "x", "-1", "+1", "4294967296", "7=1",  "99999999999999999999999"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t n = 0;

        assert_int_equal(argument_ids(wrong[i], ids, MOST, &n, &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "ID or ID,ID,... is required"));
        assert_non_null(strstr(e.text, wrong[i]));
    }
}

static void biases_are_appended(void **state)
{
    size_t n = 0;

    (void)state;
    assert_int_equal(argument_biases("451=-100", tokens, biases, MOST, &n, &e),
                     ST_OK);
    assert_int_equal(
        argument_biases("0=2.5,9=1e-3", tokens, biases, MOST, &n, &e), ST_OK);
    assert_int_equal(n, 3);
    assert_int_equal(tokens[0], 451);
    assert_true(biases[0] == -100);
    assert_true(biases[1] == 2.5f);
    assert_true(biases[2] == 1e-3f);
    assert_int_equal(argument_biases("1=1", tokens, biases, MOST, &n, &e),
                     ST_OK);
    assert_int_equal(argument_biases("2=1", tokens, biases, MOST, &n, &e),
                     ST_INVALID_ARGUMENT);
}

static void bad_biases_are_quoted_in_the_error(void **state)
{
    static const char *const wrong[] = {
        "",        "7",      "7=",    "=1",      "7=x",  "7=nan",
        "7=inf",   "7=0x10", "7=1,",  "7=1;8=1", "7= 1", "7=1e",
        "7=1e999", "7==1",   "7=--1", "7=1.1.1"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t n = 0;

        assert_int_equal(
            argument_biases(wrong[i], tokens, biases, MOST, &n, &e),
            ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "ID=BIAS or ID=BIAS,"));
    }
}

static void escapes_are_replaced(void **state)
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
    assert_non_null(strstr(e.text, "a backslash must be followed"));
    assert_int_equal(argument_text("end\\", out, &n, &e), ST_INVALID_ARGUMENT);
}

static struct argument_worker given[MOST];

static void workers_are_appended(void **state)
{
    char text[80];
    size_t n = 0;

    (void)state;
    assert_int_equal(argument_workers("a=1GiB", given, MOST, &n, &e), ST_OK);
    assert_int_equal(
        argument_workers("b c=64KiB@2.5,d=7@1e3", given, MOST, &n, &e), ST_OK);
    assert_int_equal(n, 3);
    assert_string_equal(given[0].name, "a");
    assert_int_equal(given[0].bytes, 1 << 30);
    assert_true(given[0].speed == 1);
    assert_string_equal(given[1].name, "b c");
    assert_int_equal(given[1].bytes, 65536);
    assert_true(given[1].speed == 2.5);
    assert_int_equal(given[2].bytes, 7);
    assert_true(given[2].speed == 1000);
    assert_int_equal(argument_workers("d=1", given, MOST, &n, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "two workers have the name \"d\"");
    snprintf(text, sizeof text, "%0*d=1", PEER_NAME_MAX, 0);
    assert_int_equal(argument_workers(text, given, MOST, &n, &e), ST_OK);
    assert_int_equal(argument_workers("e=1", given, MOST, &n, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "too many values; the limit is 4");
    n = 0;
    snprintf(text, sizeof text, "%0*d=1", PEER_NAME_MAX + 1, 0);
    assert_int_equal(argument_workers(text, given, MOST, &n, &e),
                     ST_INVALID_ARGUMENT);
}

static void bad_workers_are_quoted_in_the_error(void **state)
{
    static const char *const wrong[] = {
        "",        "a",       "=1",    "a=",       "a=1,",    ",a=1",
        "a=x",     "a=-1",    "a=1@",  "a=1@0",    "a=1@-1",  "a=1@x",
        "a=1@0x1", "a=1@2@3", "a@1=2", "a=1,,b=1", "a=1@inf", "a=1@nan"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        size_t n = 0;

        assert_int_equal(argument_workers(wrong[i], given, MOST, &n, &e),
                         ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "NAME=SIZE@SPEED,... is required"));
        assert_non_null(strstr(e.text, wrong[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_appended),
        cmocka_unit_test(bad_ids_are_quoted_in_the_error),
        cmocka_unit_test(biases_are_appended),
        cmocka_unit_test(bad_biases_are_quoted_in_the_error),
        cmocka_unit_test(escapes_are_replaced),
        cmocka_unit_test(workers_are_appended),
        cmocka_unit_test(bad_workers_are_quoted_in_the_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
