/* Unknown names are refused when a template is compiled; errors have a line;
 * values behave as documented where Jinja2 has no text to compare with. */
#include "template_fixture.h"

#include <stdlib.h>
#include <string.h>

static void expect_refusal(const char *source, enum status status,
                           const char *part)
{
    struct chat_template *t;
    struct error e = {0};
    enum status st = chat_template_compile(&t, source, strlen(source), &e);

    if (st != status || strstr(e.text, part) == NULL) {
        fail_msg("%s: status %d \"%s\", not \"%s\"", source, (int)st, e.text,
                 part);
    }
    assert_null(t);
}

static void unknown_names_are_refused_when_compiled(void **state)
{
    static const char *const rows[][2] = {
        {"\n{% include 'x' %}", "line 2: the tag \"include\""},
        {"{% import 'x' as y %}", "the tag \"import\""},
        {"{% extends 'x' %}", "the tag \"extends\""},
        {"{% block a %}{% endblock %}", "the tag \"block\""},
        {"{% do x.y() %}", "the tag \"do\""},
        {"{% with a = 1 %}{% endwith %}", "the tag \"with\""},
        {"{% for x in y recursive %}{% endfor %}", "the tag \"recursive\""},
        {"{% if false %}\n\n{{ 1 | wordwrap }}{% endif %}",
         "line 3: the filter \"wordwrap\""},
        {"{{ 1 is escaped }}", "the test \"escaped\""},
        {"{{ s.encode('x') }}", "the method \"encode\""},
        {"{{ lipsum() }}", "the function \"lipsum\""},
        {"{{ x | map('xmlattr') }}", "the filter \"xmlattr\""},
        {"{{ x | select('escaped') }}", "the test \"escaped\""},
        {"{{ x | selectattr('a', 'escaped') }}", "the test \"escaped\""},
        {"{% filter urlize %}{% endfilter %}", "the filter \"urlize\""},
        {"{{ f(*a) }}", "the argument form \"*\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_refusal(rows[i][0], ST_UNIMPLEMENTED, rows[i][1]);
    }
}

static void names_that_the_template_sets_can_be_called(void **state)
{
    (void)state;
    fixture_expect("{% macro f() %}x{% endmacro %}{% set g = f %}{{ g() }}",
                   "{}", "x");
    fixture_expect("{% for f in [] %}{{ f() }}{% endfor %}", "{}", "");
    fixture_refuse("{% set g = 1 %}{{ g() }}", "{}", ST_INVALID_ARGUMENT,
                   "an integer cannot be called");
}

static void broken_templates_are_refused_with_their_line(void **state)
{
    static const char *const rows[][2] = {
        {"a\n{{ 1 +\n }}", "line 3: expected an expression"},
        {"{% if x %}", "expected elif"},
        {"\n\n{{ 'abc }}", "line 3: a string is not closed"},
        {"\n{# x", "line 2: the comment is not closed"},
        {"\n{% raw %}", "the raw block is not closed"},
        {"{{ x", "a tag is not closed"},
        {"{{ 99999999999999999999 }}", "at most 63 bits"},
        {"{{ 0x10 }}", "is not a decimal integer"},
        {"{{ '\\ud800' }}", "no Unicode character"},
        {"{{ '\\xZZ' }}", "too few hexadecimal digits"},
        {"{{ ? }}", "belongs to no expression"},
        {"{% break %}", "expected a loop"},
        {"{% macro f(a=1, b) %}{% endmacro %}", "expected a default"},
        {"{{ f(a=1, 2) }}", "expected an argument with a name"},
        {"\xFF", "not UTF-8 at byte 0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_refusal(rows[i][0], ST_INVALID_ARGUMENT, rows[i][1]);
    }
}

static void a_raised_message_is_the_error(void **state)
{
    char source[1024] = "{{ raise_exception('", long_text[600];
    struct chat_prompt p;
    struct error e;

    (void)state;
    assert_int_equal(fixture_run("\n{{ raise_exception('No ' ~ x) }}",
                                 "{\"x\":\"\\u00e9%s\"}", &p, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "No \xC3\xA9%s");
    /* A long message is cut between two characters. */
    memset(long_text, 'a', sizeof long_text);
    memcpy(long_text + ERROR_TEXT - 2, "\xC3\xA9", 2);
    long_text[sizeof long_text - 1] = '\0';
    strcat(strcat(source, long_text), "') }}");
    assert_int_equal(fixture_run(source, "{}", &p, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(strlen(e.text), ERROR_TEXT - 2);
}

static void values_without_a_text_are_not_printed(void **state)
{
    (void)state;
    fixture_refuse("{{ d.items }}", "{\"d\":{}}", ST_INVALID_ARGUMENT,
                   "a method cannot be printed");
    fixture_refuse("{{ d.items() }}", "{\"d\":{}}", ST_INVALID_ARGUMENT,
                   "a view of a dict cannot be printed");
    fixture_refuse("{{ [1] | reverse }}", "{}", ST_INVALID_ARGUMENT,
                   "an iterator cannot be printed");
    fixture_refuse("{{ namespace() }}", "{}", ST_INVALID_ARGUMENT,
                   "a namespace cannot be printed");
    fixture_refuse("{{ range }}", "{}", ST_INVALID_ARGUMENT,
                   "a function cannot be printed");
}

static void integers_do_not_overflow(void **state)
{
    static const char *const rows[] = {
        "{{ x + 1 }}",   "{{ -x - 2 }}",         "{{ x * 2 }}",
        "{{ 2 ** 63 }}", "{{ -(-x - 1) }}",      "{{ (-x - 1) // -1 }}",
        "{{ 3 ** x }}",  "{{ (-x - 1) | abs }}", "{{ 1e30 | int }}"};

    (void)state;
    fixture_expect("{{ x }} {{ -x - 1 }} {{ (-x - 1) % -1 }} {{ 1 ** x }}",
                   "{\"x\":9223372036854775807}",
                   "9223372036854775807 -9223372036854775808 0 1");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fixture_refuse(rows[i], "{\"x\":9223372036854775807}",
                       ST_INVALID_ARGUMENT, "64 bits");
    }
}

static void odd_arguments_are_refused(void **state)
{
    static const char *const rows[][2] = {
        {"{{ 'a' | replace('x') }}", "the argument \"new\" is missing"},
        {"{{ 'a' | upper(1) }}", "takes at most 0 arguments"},
        {"{{ 'a' | trim(nope=1) }}", "does not take the argument \"nope\""},
        {"{{ '%x' % 5 }}", "is not supported"},
        {"{{ '{a.b}'.format(a=1) }}", "attributes and conversions"},
        {"{{ strftime_now('%Ez') }}", "a conversion of strftime_now"},
        {"{{ strftime_now('%') }}", "a conversion of strftime_now"},
        {"{{ 'a b'.rsplit(none, 1) }}", "needs a separator"},
        {"{{ [1] | batch(0) | list }}", "at least 1"},
        {"{{ 1.5 | round(99) }}", "a precision of 0 to 15"},
        {"{{ x[x] }}", "cannot be a key"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct chat_prompt p;
        struct error e = {0};

        assert_int_not_equal(fixture_run(rows[i][0], "{\"x\":{}}", &p, &e),
                             ST_OK);
        if (strstr(e.text, rows[i][1]) == NULL) {
            fail_msg("%s: \"%s\"", rows[i][0], e.text);
        }
    }
}

/* A list that contains itself is found by its depth. */
static void circles_are_refused(void **state)
{
    static const char *const uses[] = {"{{ l }}", "{{ l | tojson }}",
                                       "{{ l == m }}"};

    (void)state;
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        char source[256] =
            "{% set l = [1] %}{% set m = [1] %}{% set _ = l.append(l) %}"
            "{% set _ = m.append(m) %}";

        fixture_refuse(strcat(source, uses[i]), "{}", ST_OUT_OF_RANGE,
                       "nests deeper than 400");
    }
}

static void the_error_may_be_null(void **state)
{
    struct chat_template *t;

    (void)state;
    assert_int_equal(chat_template_compile(&t, "{{", 2, NULL),
                     ST_INVALID_ARGUMENT);
    assert_null(t);
    chat_template_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_names_are_refused_when_compiled),
        cmocka_unit_test(names_that_the_template_sets_can_be_called),
        cmocka_unit_test(broken_templates_are_refused_with_their_line),
        cmocka_unit_test(a_raised_message_is_the_error),
        cmocka_unit_test(values_without_a_text_are_not_printed),
        cmocka_unit_test(integers_do_not_overflow),
        cmocka_unit_test(odd_arguments_are_refused),
        cmocka_unit_test(circles_are_refused),
        cmocka_unit_test(the_error_may_be_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
