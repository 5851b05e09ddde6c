/* The form of configuration files. */
#include "common/base/option_file.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct option_file f;
static struct error e;

static enum status parse(const char *text)
{
    return option_file_parse(&f, "x.conf", text, strlen(text), &e);
}

/* Expects one entry, then frees the file. */
static void gives(const char *text, const char *name, const char *value)
{
    if (parse(text) != ST_OK) {
        fail_msg("%s: %s", text, e.text);
    }
    assert_int_equal(f.n, 1);
    assert_string_equal(f.entries[0].name, name);
    assert_string_equal(f.entries[0].value, value);
    option_file_fini(&f);
}

static void refused(const char *text, const char *sentence)
{
    assert_int_equal(parse(text), ST_INVALID_ARGUMENT);
    assert_null(f.text);
    assert_int_equal(f.n, 0);
    assert_string_equal(e.text, sentence);
}

static void reads_lines_in_order(void **state)
{
    (void)state;
    assert_int_equal(parse("# first\n\na = 1\n  b-c=2\r\n\t# last\na = 3"),
                     ST_OK);
    assert_int_equal(f.n, 3);
    assert_string_equal(f.entries[1].name, "b-c");
    assert_string_equal(f.entries[1].value, "2");
    assert_int_equal(f.entries[1].line, 4);
    assert_string_equal(f.entries[2].value, "3");
    assert_int_equal(f.entries[2].line, 6);
    option_file_fini(&f);
    assert_int_equal(parse(""), ST_OK);
    assert_int_equal(f.n, 0);
    option_file_fini(&f);
    gives("\xEF\xBB\xBF"
          "a = b\n",
          "a", "b");
}

static void reads_values(void **state)
{
    (void)state;
    gives("a=b=c", "a", "b=c");
    gives("a = two words \t", "a", "two words");
    gives("a = b # comment", "a", "b");
    gives("a = b#c", "a", "b#c");
    gives("a = b\"c\\", "a", "b\"c\\");
    gives("a = \"b # c \" # comment", "a", "b # c ");
    gives("a = \"\"", "a", "");
    gives("a = \"\\\"\\\\\\n\\t\"", "a", "\"\\\n\t");
    gives("a = \xC3\xA4", "a", "\xC3\xA4");
}

static void refuses_other_forms(void **state)
{
    (void)state;
    refused("a = 1\nb", "x.conf:2: \"b\": no \"=\"; write NAME = VALUE");
    refused("= 1", "x.conf:1: \"= 1\": a name has letters, digits and - only; "
                   "write NAME = VALUE");
    refused("a b = 1", "x.conf:1: \"a b = 1\": a name has letters, digits and "
                       "- only; write NAME = VALUE");
    refused("[router]", "x.conf:1: \"[router]\": there are no sections; remove "
                        "the line");
    refused("--a = 1", "x.conf:1: --a: write the name without dashes in front");
    refused("a =", "x.conf:1: a: no value; write \"\" for an empty text, or "
                   "remove the line");
    refused("a = # b", "x.conf:1: a: no value; write \"\" for an empty text, "
                       "or remove the line");
}

static void refuses_wrong_quotes(void **state)
{
    (void)state;
    refused("a = \"b", "x.conf:1: a: the quote is not closed; end the value "
                       "with \"");
    refused("a = \"b\\", "x.conf:1: a: the quote is not closed; end the value "
                         "with \"");
    refused("a = \"b\\\"", "x.conf:1: a: the quote is not closed; end the "
                           "value with \"");
    refused("a = \"b\" c", "x.conf:1: a: \"c\" after the closing quote; write "
                           "\\\" for a quote in the value, or remove the text");
    refused("a = \"\\x\"", "x.conf:1: a: \\ in quotes; only \\\", \\\\, \\n "
                           "and \\t are known, so write \\\\ for a backslash");
}

static void refuses_bytes_that_are_no_text(void **state)
{
    (void)state;
    refused("a = \xFF", "x.conf:1: byte 5 of the line is not UTF-8; store the "
                        "file as UTF-8");
    refused("a = \033[1m", "x.conf:1: byte 5 of the line is the control "
                           "character 0x1b; remove it");
    assert_int_equal(option_file_parse(&f, "x.conf", "a = b\0c", 7, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "x.conf:1: byte 6 of the line is the control "
                                "character 0x00; remove it");
    refused("a = b\rc", "x.conf:1: byte 6 of the line is the control "
                        "character 0x0d; remove it");
}

static void limits_lines_and_files(void **state)
{
    char *text = malloc(OPTION_FILE_BYTES_MAX + 1);

    (void)state;
    memset(text, 'x', OPTION_FILE_BYTES_MAX + 1);
    memcpy(text, "a=", 2);
    assert_int_equal(
        option_file_parse(&f, "x.conf", text, OPTION_LINE_BYTES_MAX, &e),
        ST_OK);
    option_file_fini(&f);
    assert_int_equal(
        option_file_parse(&f, "x.conf", text, OPTION_LINE_BYTES_MAX + 1, &e),
        ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "x.conf:1: 8193 bytes in the line; at most "
                                "8192 are allowed");
    memset(text, '\n', OPTION_FILE_BYTES_MAX + 1);
    assert_int_equal(
        option_file_parse(&f, "x.conf", text, OPTION_FILE_BYTES_MAX, &e),
        ST_OK);
    option_file_fini(&f);
    assert_int_equal(
        option_file_parse(&f, "x.conf", text, OPTION_FILE_BYTES_MAX + 1, &e),
        ST_INVALID_ARGUMENT);
    assert_string_equal(e.text,
                        "x.conf: larger than the limit of 262144 bytes");
    free(text);
}

static void reads_files(void **state)
{
    char path[] = "/tmp/option_file.XXXXXX";
    int fd = mkstemp(path);
    FILE *to = fdopen(fd, "w");

    (void)state;
    fputs("a = b\n", to);
    fclose(to);
    assert_int_equal(option_file_read(&f, path, &e), ST_OK);
    assert_int_equal(f.n, 1);
    option_file_fini(&f);
    remove(path);
    assert_int_equal(option_file_read(&f, path, &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, path));
    assert_int_equal(option_file_read(&f, "/", &e), ST_UNAVAILABLE);
    assert_string_equal(e.text, "cannot read /: Is a directory");
}

/* Prints a value and reads it again. */
static void survives(const char *value, const char *printed)
{
    char line[256] = "a = ";
    FILE *to = fmemopen(line + 4, sizeof line - 4, "w");

    assert_true(option_file_print_value(to, value));
    fclose(to);
    assert_string_equal(line + 4, printed);
    gives(line, "a", value);
}

static void printed_values_are_read_back(void **state)
{
    FILE *to = fopen("/dev/null", "w");

    (void)state;
    survives("plain", "plain");
    survives("a#b\\c", "a#b\\c");
    survives("", "\"\"");
    survives("a b", "\"a b\"");
    survives("#a", "\"#a\"");
    survives("\"a", "\"\\\"a\"");
    survives("a\\ \n\t\"", "\"a\\\\ \\n\\t\\\"\"");
    assert_false(option_file_print_value(to, "\xFF"));
    assert_false(option_file_print_value(to, "\033"));
    fclose(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_lines_in_order),
        cmocka_unit_test(reads_values),
        cmocka_unit_test(refuses_other_forms),
        cmocka_unit_test(refuses_wrong_quotes),
        cmocka_unit_test(refuses_bytes_that_are_no_text),
        cmocka_unit_test(limits_lines_and_files),
        cmocka_unit_test(reads_files),
        cmocka_unit_test(printed_values_are_read_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
