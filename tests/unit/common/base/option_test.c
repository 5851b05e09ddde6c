#include "common/base/option.h"

#include <string.h>

#include "common/base/option_value.h"
#include "tests/unit/cmocka.h"

#define TEST_OPTIONS(X)                                               \
    X(model, STRING, "DIR", NULL, "a model", 0, 0)                    \
    X(max_rows, U32, "N", "64", "sequences in a step", 1, 512)        \
    X(tokens, U64, "N", "7", "tokens", 0, 0)                          \
    X(top_p, F64, "P", "1", "nucleus", 0, 1)                          \
    X(memory, BYTES, "BYTES", "1GiB", "the budget", 0, 0)             \
    X(timeout, MS, "TIME", "30s", "how long", 0, 0)                   \
    X(name, LIST, "NAME", NULL, "one more name", 0, 0)                \
    X(pair, LIST, "PAIR", NULL, "one of two", 0, 2)                   \
    X(bias, F64, "B", "0", "of either sign", -2, 2)                   \
    X(gather, MS, "TIME", "1ms", "an interval", 0, 100)               \
    X(grace, MS, "TIME", "30s", "a grace period", 1000, 3600000)      \
    X(body, BYTES, "SIZE", "8MiB", "a body", 1024, 268435456)         \
    X(n, U32, "N", "1", "choices", 1, 64)                             \
    X(long_text, STRING, "TEXT", NULL,                                \
      "a help that is so long that it does not fit on one line of a " \
      "terminal, and not on two lines either, so it takes three",     \
      0, 0)                                                           \
    X(help, FLAG, NULL, NULL, "print this", 0, 0)

OPTION_TABLE(test_options, TEST_OPTIONS);

#define PARSE(...)                                                            \
    do {                                                                      \
        char *argv[] = {(char *)"test", __VA_ARGS__, NULL};                   \
        st = option_parse(test_options_rows, OPTION_COUNT(test_options_rows), \
                          &o, (int)(sizeof argv / sizeof argv[0]) - 1, argv,  \
                          &n_words, &e);                                      \
        first = n_words > 0 ? argv[1] : NULL;                                 \
    } while (0)

static struct test_options o;
static struct error e;
static enum status st;
static int n_words;
static const char *first;

static void takes_what_is_given_and_falls_back(void **state)
{
    (void)state;
    PARSE("--model", "m", "word", "--max-rows=512", "--top_p", "0.5", "--name",
          "a", "--name=b", "--help");
    assert_int_equal(st, ST_OK);
    assert_string_equal(o.model, "m");
    assert_int_equal(o.max_rows, 512);
    assert_int_equal(o.tokens, 7);
    assert_true(o.top_p == 0.5);
    assert_int_equal(o.memory, 1u << 30);
    assert_int_equal(o.timeout, 30000);
    assert_int_equal(o.name.n, 2);
    assert_string_equal(o.name.item[1], "b");
    assert_true(o.help);
    assert_int_equal(n_words, 1);
    assert_string_equal(first, "word");
}

static void refuses_with_a_sentence(void **state)
{
    (void)state;
    PARSE("--max-rows", "513");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "--max-rows 513: must be from 1 to 512");
    PARSE("--max-rows", "0");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    PARSE("--max-rows", "-1");
    assert_string_equal(e.text, "--max-rows -1: a whole number is needed");
    PARSE("--max-rows", "4294967297");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    PARSE("--top-p", "nan");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    PARSE("--max-row", "3");
    assert_string_equal(e.text,
                        "--max-row: unknown option; did you mean --max-rows?");
    PARSE("--zzz", "3");
    assert_string_equal(e.text, "--zzz: unknown option; --help lists all");
    PARSE("--moedl", "3");
    assert_string_equal(e.text,
                        "--moedl: unknown option; did you mean --model?");
    PARSE("--memo", "3");
    assert_string_equal(e.text,
                        "--memo: unknown option; did you mean --memory?");
    PARSE("--name-of-a-worker", "3");
    assert_string_equal(e.text,
                        "--name-of-a-worker: unknown option; --help lists all");
    PARSE("--model");
    assert_string_equal(e.text, "--model: a value is required: DIR");
    PARSE("--help=maybe");
    assert_string_equal(e.text, "--help maybe: yes or no is needed");
    PARSE("--help", "no");
    assert_int_equal(n_words, 1); /* a flag takes no word after it */
}

static void a_flag_can_be_turned_off(void **state)
{
    const char *yes[] = {"--help=yes", "--help=true", "--help=on", "--help=1"};
    const char *no[] = {"--help=no", "--help=false", "--help=off", "--help=0"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        PARSE((char *)yes[i]);
        assert_true(st == ST_OK && o.help);
        PARSE("--help", (char *)no[i]);
        assert_true(st == ST_OK && !o.help);
    }
    PARSE("--help=");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    PARSE("--help=YES");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
}

static void refuses_short_options(void **state)
{
    (void)state;
    PARSE("-n", "5", "hi");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "-n: unknown option; did you mean --n?  Text "
                                "that begins with a dash goes after --");
    PARSE("-model=x");
    assert_string_equal(e.text,
                        "-model: unknown option; did you mean --model?  Text "
                        "that begins with a dash goes after --");
    PARSE("-n5");
    assert_string_equal(e.text, "-n5: unknown option; --help lists all.  Text "
                                "that begins with a dash goes after --");
    PARSE("-5");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    PARSE("--", "-n", "5");
    assert_int_equal(st, ST_OK);
    assert_int_equal(n_words, 2);
    assert_string_equal(first, "-n");
    PARSE("-");
    assert_int_equal(st, ST_OK);
    assert_string_equal(first, "-");
}

static void takes_h_as_help(void **state)
{
    (void)state;
    PARSE("word", "-h");
    assert_int_equal(st, ST_OK);
    assert_true(o.help);
    assert_int_equal(n_words, 1);
}

static void a_program_without_operands_takes_help_alone(void **state)
{
    char *help[] = {(char *)"test", (char *)"help", NULL};
    char *word[] = {(char *)"test", (char *)"word", NULL};
    char *two[] = {(char *)"test", (char *)"help", (char *)"me", NULL};

    (void)state;
    assert_int_equal(option_parse_alone(test_options_rows,
                                        OPTION_COUNT(test_options_rows), &o, 2,
                                        help, &e),
                     ST_OK);
    assert_true(o.help);
    assert_int_equal(option_parse_alone(test_options_rows,
                                        OPTION_COUNT(test_options_rows), &o, 2,
                                        word, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "\"word\": unexpected operand; --help lists the "
                        "options");
    assert_int_equal(option_parse_alone(test_options_rows,
                                        OPTION_COUNT(test_options_rows), &o, 3,
                                        two, &e),
                     ST_INVALID_ARGUMENT);
}

static void states_ranges_with_units(void **state)
{
    (void)state;
    PARSE("--gather", "100ms");
    assert_int_equal(st, ST_OK);
    PARSE("--gather", "101ms");
    assert_string_equal(e.text, "--gather 101ms: must be from 0ms to 100ms");
    PARSE("--gather", "1");
    assert_string_equal(e.text,
                        "--gather 1: must be from 0ms to 100ms; without "
                        "a unit, a time is in seconds");
    PARSE("--grace", "61m");
    assert_string_equal(e.text, "--grace 61m: must be from 1s to 1h");
    PARSE("--body", "1");
    assert_string_equal(e.text, "--body 1: must be from 1KiB to 256MiB");
}

static void stops_at_two_dashes(void **state)
{
    (void)state;
    PARSE("--", "--model");
    assert_int_equal(st, ST_OK);
    assert_int_equal(n_words, 1);
    assert_string_equal(first, "--model");
    assert_null(o.model);
}

static void reads_sizes_and_times(void **state)
{
    uint64_t v;

    (void)state;
    assert_true(option_bytes("4096", &v) && v == 4096);
    assert_true(option_bytes("1.5KiB", &v) && v == 1536);
    assert_true(option_bytes("2GB", &v) && v == 2000000000u);
    assert_false(option_bytes("2XB", &v));
    assert_false(option_bytes("-1", &v));
    assert_false(option_bytes("inf", &v));
    assert_false(option_bytes("0x10", &v));
    assert_false(option_bytes("0X10", &v));
    assert_false(option_bytes("0X1p4KiB", &v));
    assert_false(option_ms("0X10", &v));
    assert_false(option_bytes("9999999999TiB", &v));
    assert_true(option_ms("250ms", &v) && v == 250);
    assert_true(option_ms("2", &v) && v == 2000);
    assert_true(option_ms("1.5m", &v) && v == 90000);
    assert_false(option_ms("soon", &v));
}

static void takes_numbers_below_zero(void **state)
{
    (void)state;
    PARSE("--bias", "-2");
    assert_int_equal(st, ST_OK);
    assert_true(o.bias == -2);
    PARSE("--bias=-.5");
    assert_true(st == ST_OK && o.bias == -0.5);
    PARSE("--bias", "-2.01");
    assert_string_equal(e.text, "--bias -2.01: must be from -2 to 2");
    PARSE("--bias", "--5");
    assert_string_equal(e.text, "--bias --5: a number is needed");
    PARSE("--bias", "0X1");
    assert_string_equal(e.text, "--bias 0X1: a number is needed");
    PARSE("--bias", "-inf");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    PARSE("--timeout", "-1s");
    assert_string_equal(
        e.text, "--timeout -1s: a time such as 250ms, 30s or 5m is needed");
}

/* As llama-server and others have it. */
static void takes_m_for_model(void **state)
{
    (void)state;
    PARSE("-m", "a/dir", "word");
    assert_int_equal(st, ST_OK);
    assert_string_equal(o.model, "a/dir");
    assert_int_equal(n_words, 1);
    PARSE("-m");
    assert_string_equal(e.text, "-m: a value is required: DIR");
    PARSE("--", "-m");
    assert_int_equal(n_words, 1);
}

static void an_operand_may_set_an_option(void **state)
{
    char *words[][4] = {{(char *)"test", (char *)"a/dir"},
                        {(char *)"test", (char *)"help"},
                        {(char *)"test", (char *)"a", (char *)"--model=b"},
                        {(char *)"test", (char *)"a", (char *)"b"}};
    static const char *const texts[] = {
        NULL, NULL, "\"a\": unexpected operand, as there is --model",
        "\"a\": unexpected operand; --help lists the options"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        int argc = i < 2 ? 2 : 3;

        st = option_parse_operand(test_options_rows,
                                  OPTION_COUNT(test_options_rows), "model", &o,
                                  argc, words[i], &e);
        if (texts[i] == NULL) {
            assert_int_equal(st, ST_OK);
            assert_true(i == 0 ? strcmp(o.model, "a/dir") == 0 : o.help);
        } else {
            assert_int_equal(st, ST_INVALID_ARGUMENT);
            assert_string_equal(e.text, texts[i]);
        }
    }
}

/* A number that is too large is a number. */
static void names_the_limit_of_large_numbers(void **state)
{
    (void)state;
    PARSE("--max-rows", "4294967296");
    assert_string_equal(e.text, "--max-rows 4294967296: must be from 1 to 512");
    PARSE("--max-rows", "99999999999999999999");
    assert_string_equal(
        e.text, "--max-rows 99999999999999999999: must be from 1 to 512");
    PARSE("--max-rows", "4294967296x");
    assert_string_equal(e.text,
                        "--max-rows 4294967296x: a whole number is needed");
    PARSE("--tokens", "18446744073709551615");
    assert_int_equal(st, ST_OK);
    PARSE("--tokens", "18446744073709551616");
    assert_string_equal(e.text, "--tokens 18446744073709551616: must be at "
                                "most 18446744073709551615");
    PARSE("--top-p", "1e999");
    assert_string_equal(e.text, "--top-p 1e999: must be from 0 to 1");
    PARSE("--memory", "99999999TiB");
    assert_string_equal(e.text, "--memory 99999999TiB: is too large");
    PARSE("--grace", "1e30h");
    assert_string_equal(e.text, "--grace 1e30h: must be from 1s to 1h");
    PARSE("--grace", "1e30q");
    assert_string_equal(
        e.text, "--grace 1e30q: a time such as 250ms, 30s or 5m is needed");
}

static void bounds_a_list_by_its_row(void **state)
{
    (void)state;
    PARSE("--pair", "a", "--pair=b");
    assert_int_equal(st, ST_OK);
    assert_int_equal(o.pair.n, 2);
    assert_string_equal(o.pair.item[0], "a");
    PARSE("--pair", "a", "--pair=b", "--pair", "c");
    assert_string_equal(e.text, "--pair: given more than 2 times");
}

static void help_says_what_may_be_repeated(void **state)
{
    char text[4096] = {0};
    FILE *f = fmemopen(text, sizeof text, "w");

    (void)state;
    option_print(f, test_options_rows, OPTION_COUNT(test_options_rows));
    fclose(f);
    assert_non_null(strstr(text, "one more name; repeatable\n"));
    assert_non_null(strstr(text, "sequences in a step (default: 64)\n"));
    assert_non_null(strstr(text, "a model\n"));
}

static void help_fits_80_columns(void **state)
{
    char text[4096] = {0};
    FILE *f = fmemopen(text, sizeof text, "w");
    const char *line = text;

    (void)state;
    option_print(f, test_options_rows, OPTION_COUNT(test_options_rows));
    fclose(f);
    while (*line != '\0') {
        size_t n = strcspn(line, "\n");

        assert_in_range(n, 1, 80);
        line += n + 1;
    }
    assert_non_null(strstr(
        text,
        "  --long-text TEXT           a help that is so long that it does "
        "not fit on one\n"
        "                             line of a terminal, and not on two "
        "lines either, so\n"
        "                             it takes three\n"));
}

static void bounds_a_list(void **state)
{
    char *argv[OPTION_LIST_MAX + 3];
    int n = 0;

    (void)state;
    argv[n++] = (char *)"test";
    for (int i = 0; i <= OPTION_LIST_MAX; i++) {
        argv[n++] = (char *)"--name=x";
    }
    argv[n] = NULL;
    assert_int_equal(option_parse(test_options_rows,
                                  OPTION_COUNT(test_options_rows), &o, n - 1,
                                  argv, &n_words, &e),
                     ST_OK);
    assert_int_equal(option_parse(test_options_rows,
                                  OPTION_COUNT(test_options_rows), &o, n, argv,
                                  &n_words, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "more than 64 times"));
}

static void a_number_may_be_absent(void **state)
{
    uint32_t value = 5;
    bool given = true;

    (void)state;
    assert_int_equal(option_u32("max_k", NULL, 8, &given, &value, &e), ST_OK);
    assert_false(given);
    assert_int_equal(value, 0);
    assert_int_equal(option_u32("max_k", "8", 8, &given, &value, &e), ST_OK);
    assert_true(given);
    assert_int_equal(value, 8);
    assert_int_equal(option_u32("max_k", "9", 8, &given, &value, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "--max-k 9: must be from 0 to 8");
    assert_int_equal(option_u32("max_k", "auto", 8, &given, &value, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "--max-k auto: a whole number is needed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_given_and_falls_back),
        cmocka_unit_test(refuses_with_a_sentence),
        cmocka_unit_test(a_flag_can_be_turned_off),
        cmocka_unit_test(refuses_short_options),
        cmocka_unit_test(takes_h_as_help),
        cmocka_unit_test(a_program_without_operands_takes_help_alone),
        cmocka_unit_test(states_ranges_with_units),
        cmocka_unit_test(help_fits_80_columns),
        cmocka_unit_test(stops_at_two_dashes),
        cmocka_unit_test(reads_sizes_and_times),
        cmocka_unit_test(takes_numbers_below_zero),
        cmocka_unit_test(bounds_a_list),
        cmocka_unit_test(names_the_limit_of_large_numbers),
        cmocka_unit_test(takes_m_for_model),
        cmocka_unit_test(an_operand_may_set_an_option),
        cmocka_unit_test(bounds_a_list_by_its_row),
        cmocka_unit_test(help_says_what_may_be_repeated),
        cmocka_unit_test(a_number_may_be_absent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
