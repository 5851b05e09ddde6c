/* Options of a daemon: which source wins, and what --print-config prints. */
#include "common/base/option_sources.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#define TEST_OPTIONS(X)                                                 \
    X(rows, U32, "N", "64", "rows", 1, 512)                             \
    X(at, STRING, "ENDPOINT", NULL, "port (default: a free one)", 0, 0) \
    X(model, LIST, "NAME=DIR", NULL, "a model", 0, 3)                   \
    X(pin, FLAG, NULL, NULL, "pinned", 0, 0)                            \
    X(log, STRING, "FILE", "\"quoted\"", "log", 0, 0)                   \
    CONFIG_OPTIONS(X, "test")                                           \
    X(check, STRING, "DIR", NULL, "check DIR and exit", 0, 0)           \
    X(version, FLAG, NULL, NULL, "version", 0, 0)                       \
    X(help, FLAG, NULL, NULL, "help", 0, 0)

OPTION_TABLE(test_options, TEST_OPTIONS);

static const struct option_program program = {
    .name = "sluice-test",
    .role = "test",
    .rows = test_options_rows,
    .n_rows = OPTION_COUNT(test_options_rows)};

static struct test_options o;
static struct option_sources s;
static struct error e;
static enum status st;
static char path[] = "/tmp/option_sources.XXXXXX";

#define LOAD(...)                                                              \
    do {                                                                       \
        char *argv[] = {(char *)"test", __VA_ARGS__};                          \
        option_sources_fini(&s);                                               \
        st = option_sources_load(&s, &program, &o,                             \
                                 (int)(sizeof argv / sizeof *argv), argv, &e); \
    } while (0)

/* LOAD(), which must succeed. */
#define TAKES(...)                  \
    do {                            \
        LOAD(__VA_ARGS__);          \
        if (st != ST_OK) {          \
            fail_msg("%s", e.text); \
        }                           \
    } while (0)

static void write_file(const char *text)
{
    FILE *to = fopen(path, "w");

    assert_non_null(to);
    fputs(text, to);
    fclose(to);
}

/* Expects the sentence, in which %s is the path. */
static void refused(const char *file, const char *sentence)
{
    char want[512];

    write_file(file);
    LOAD("--config", path);
    snprintf(want, sizeof want, "%s:%s", path, sentence);
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, want);
}

static void later_sources_win(void **state)
{
    (void)state;
    TAKES("--config", "none");
    assert_int_equal(o.rows, 64);
    assert_null(o.at);
    write_file("rows = 1\nat = file\npin = yes\n");
    TAKES("--config", path);
    assert_int_equal(o.rows, 1);
    assert_string_equal(o.at, "file");
    assert_true(o.pin);
    setenv("SLUICE_TEST_ROWS", "2", 1);
    setenv("SLUICE_TEST_PIN", "no", 1);
    TAKES("--config", path);
    assert_int_equal(o.rows, 2);
    assert_string_equal(o.at, "file");
    assert_false(o.pin);
    TAKES("--config", path, "--rows=3", "--pin");
    assert_int_equal(o.rows, 3);
    assert_true(o.pin);
    unsetenv("SLUICE_TEST_PIN");
    TAKES("--config", path, "--pin=no", "--at", "");
    assert_false(o.pin);
    assert_string_equal(o.at, "");
    /* An empty variable is unset. */
    setenv("SLUICE_TEST_ROWS", "", 1);
    TAKES("--config", path);
    assert_int_equal(o.rows, 1);
    unsetenv("SLUICE_TEST_ROWS");
}

static void lists_are_replaced_not_joined(void **state)
{
    (void)state;
    write_file("model = a=1\nmodel = \"b=2\"\n");
    TAKES("--config", path);
    assert_int_equal(o.model.n, 2);
    assert_string_equal(o.model.item[1], "b=2");
    setenv("SLUICE_TEST_MODEL", " c=3 ;; d=4;", 1);
    TAKES("--config", path);
    assert_int_equal(o.model.n, 2);
    assert_string_equal(o.model.item[0], "c=3");
    assert_string_equal(o.model.item[1], "d=4");
    TAKES("--model", "e=5", "--config", path);
    assert_int_equal(o.model.n, 1);
    assert_string_equal(o.model.item[0], "e=5");
    setenv("SLUICE_TEST_MODEL", "1;2;3;4", 1);
    LOAD("--config", path);
    assert_string_equal(e.text, "SLUICE_TEST_MODEL: given more than 3 times");
    unsetenv("SLUICE_TEST_MODEL");
    refused("model=1\nmodel=2\nmodel=3\nmodel=4\n",
            "4: model: given more than 3 times");
}

/* execve() passes a name twice, and getenv() returns the first. */
static void of_two_variables_of_one_name_the_first_wins(void **state)
{
    char rows[] = "SLUICE_TEST_ROWS=7", other_rows[] = "SLUICE_TEST_ROWS=8";
    char model[] = "SLUICE_TEST_MODEL=a=1", same[] = "SLUICE_TEST_MODEL=b=2";
    char *twice[] = {rows, model, other_rows, same, NULL}, **old = environ;

    (void)state;
    environ = twice;
    TAKES("--config", "none");
    environ = old;
    assert_int_equal(o.rows, 7);
    assert_int_equal(o.model.n, 1);
    assert_string_equal(o.model.item[0], "a=1");
}

static void names_the_file(void **state)
{
    (void)state;
    /* The default file is missing here. */
    TAKES("--rows", "5");
    assert_string_equal(s.path, SLUICE_CONFIG_DIR "/test.conf");
    LOAD("--config", "/none/such");
    assert_int_equal(st, ST_NOT_FOUND);
    assert_string_equal(e.text, "--config: cannot read /none/such: No such "
                                "file or directory");
    setenv("SLUICE_TEST_CONFIG", "/none/such", 1);
    LOAD("--rows", "5");
    assert_int_equal(st, ST_NOT_FOUND);
    assert_string_equal(e.text, "SLUICE_TEST_CONFIG: cannot read /none/such: "
                                "No such file or directory");
    TAKES("--config", "none");
    setenv("SLUICE_TEST_CONFIG", "none", 1);
    TAKES("--rows", "5");
    assert_string_equal(s.path, "none");
    setenv("SLUICE_TEST_CONFIG", path, 1);
    write_file("rows = 9\n");
    TAKES("--pin");
    assert_int_equal(o.rows, 9);
    unsetenv("SLUICE_TEST_CONFIG");
}

static void files_are_refused_with_their_line(void **state)
{
    (void)state;
    refused("\nrwos = 3\n", "2: rwos: unknown option; did you mean rows?");
    refused("zzzzzz = 3\n",
            "1: zzzzzz: unknown option; sluice-test --help lists all");
    refused("rows = 513\n", "1: rows = 513: must be from 1 to 512");
    refused("rows = many\n", "1: rows = many: a whole number is needed");
    refused("pin = maybe\n", "1: pin = maybe: yes or no is needed");
    refused("at = a\n\nat = b\n",
            "3: at: set before, in line 1; remove one of the lines");
    refused("rows\n", "1: \"rows\": no \"=\"; write NAME = VALUE");
    refused("config = none\n", "1: config: only the command line may have "
                               "this option; remove it");
    refused("print-config = yes\n", "1: print-config: only the command line "
                                    "may have this option; remove it");
    refused("check = /x\n", "1: check: only the command line may have this "
                            "option; remove it");
}

static void variables_are_refused_with_their_name(void **state)
{
    (void)state;
    setenv("SLUICE_TEST_ROWS", "0", 1);
    LOAD("--config", "none");
    assert_string_equal(e.text, "SLUICE_TEST_ROWS=0: must be from 1 to 512");
    unsetenv("SLUICE_TEST_ROWS");
    setenv("SLUICE_TEST_RWOS", "1", 1);
    LOAD("--config", "none");
    assert_string_equal(e.text,
                        "environment variable SLUICE_TEST_RWOS: unknown "
                        "option; did you mean SLUICE_TEST_ROWS?");
    unsetenv("SLUICE_TEST_RWOS");
    setenv("SLUICE_TEST_WEATHER", "fine", 1);
    TAKES("--config", "none");
    assert_int_equal(s.n_unknown, 1);
    unsetenv("SLUICE_TEST_WEATHER");
}

/* SLUICE_ROUTER_VERSION may be the tag of an image: it must stop no router. */
static void variables_named_as_commands_are_unknown(void **state)
{
    (void)state;
    setenv("SLUICE_TEST_VERSION", "1.2.3", 1);
    TAKES("--config", "none");
    assert_false(o.version);
    assert_int_equal(s.n_unknown, 1);
    assert_memory_equal(s.unknown[0], "SLUICE_TEST_VERSION=", 20);
    unsetenv("SLUICE_TEST_VERSION");
    setenv("SLUICE_TEST_VERSIO", "1.2.3", 1);
    TAKES("--config", "none");
    assert_int_equal(s.n_unknown, 1);
    unsetenv("SLUICE_TEST_VERSIO");
}

static void help_needs_no_file(void **state)
{
    (void)state;
    write_file("nonsense\n");
    TAKES("--help", "--config", path);
    assert_true(o.help);
    TAKES("--config", path, "--version");
    assert_true(o.version);
    TAKES((char *)"help");
    assert_true(o.help);
    /* A check uses the values of the file. */
    LOAD("--config", path, "--check", "x");
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    write_file("rows = 7\n");
    TAKES("--config", path, "--check", "x");
    assert_int_equal(o.rows, 7);
    LOAD("--config", path, "word");
    assert_string_equal(e.text, "\"word\": unexpected operand; --help lists "
                                "the options");
}

/* Prints the sources to text. */
static void print(char *text, size_t size)
{
    FILE *to = fmemopen(text, size, "w");

    assert_non_null(to);
    option_sources_print(to, &s);
    fclose(to);
}

static void prints_values_and_sources(void **state)
{
    char text[4096], want[4096];

    (void)state;
    write_file("pin = yes\nmodel = b=1\nmodel = \"c=2 3\"\n");
    setenv("SLUICE_TEST_ROWS", "8", 1);
    setenv("SLUICE_TEST_WEATHER", "fine", 1);
    TAKES("--config", path, "--at", "x#y");
    unsetenv("SLUICE_TEST_ROWS");
    unsetenv("SLUICE_TEST_WEATHER");
    print(text, sizeof text);
    snprintf(want, sizeof want,
             "# sluice-test " SLUICE_VERSION
             ": options and their sources.  Later sources win:\n"
             "# default, file %s, environment SLUICE_TEST_*, command line.\n"
             "rows    = 8             # environment SLUICE_TEST_ROWS\n"
             "at      = x#y           # command line\n"
             "model   = b=1           # %s:2\n"
             "model   = \"c=2 3\"       # %s:3\n"
             "pin     = yes           # %s:1\n"
             "log     = \"\\\"quoted\\\"\"  # default\n"
             "# environment \"SLUICE_TEST_WEATHER\" sets no option\n",
             path, path, path, path);
    assert_string_equal(text, want);
    TAKES("--config", "none");
    print(text, sizeof text);
    assert_non_null(strstr(text, "# at    = ENDPOINT      # not set; "
                                 "default: a free one\n"));
    assert_non_null(strstr(text, "# model = NAME=DIR      # not set\n"));
    TAKES("--config", "none", "--at", "\xFF");
    print(text, sizeof text);
    assert_non_null(strstr(text, "# at cannot be written to a file: "
                                 "\"\\xff\"  # command line\n"));
}

static void printed_options_are_a_file(void **state)
{
    char text[4096], again[4096], *at;

    (void)state;
    TAKES("--config", "none", "--rows", "3", "--model", "a= \\\"#", "--pin",
          "--model", "b", "--at", "");
    print(text, sizeof text);
    write_file(text);
    TAKES("--config", path);
    assert_int_equal(o.rows, 3);
    assert_int_equal(o.model.n, 2);
    assert_string_equal(o.model.item[0], "a= \\\"#");
    assert_true(o.pin);
    assert_string_equal(o.at, "");
    print(again, sizeof again);
    /* Only sources differ. */
    at = strstr(again, "rows");
    assert_memory_equal(at, strstr(text, "rows"), strlen("rows    = 3  "));
}

static int set_up(void **state)
{
    (void)state;
    return close(mkstemp(path));
}

static int tear_down(void **state)
{
    (void)state;
    option_sources_fini(&s);
    return remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_sources_win),
        cmocka_unit_test(lists_are_replaced_not_joined),
        cmocka_unit_test(of_two_variables_of_one_name_the_first_wins),
        cmocka_unit_test(names_the_file),
        cmocka_unit_test(files_are_refused_with_their_line),
        cmocka_unit_test(variables_are_refused_with_their_name),
        cmocka_unit_test(variables_named_as_commands_are_unknown),
        cmocka_unit_test(help_needs_no_file),
        cmocka_unit_test(prints_values_and_sources),
        cmocka_unit_test(printed_options_are_a_file),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
