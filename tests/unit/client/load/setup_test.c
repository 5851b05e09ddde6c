#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/load/load_setup.h"

/* Parses a command line, ended by NULL, and makes the setup of it. */
static enum status make(struct load_setup *s, struct error *e, char **words)
{
    int n = 0, n_words;

    while (words[n]) {
        n++;
    }
    memset(s, 0, sizeof *s);
    if (option_parse(load_options_rows, OPTION_COUNT(load_options_rows), &s->o,
                     n, words, &n_words, e) != ST_OK) {
        return ST_INVALID_ARGUMENT;
    }
    return load_setup_make(s, e);
}

#define MAKE(s, e, ...) make(s, e, (char *[]){"sluice-load", __VA_ARGS__, NULL})

static void refuses(const char *part, enum status st, const struct error *e)
{
    assert_int_equal(st, ST_INVALID_ARGUMENT);
    if (!strstr(e->text, part)) {
        fail_msg("\"%s\" lacks \"%s\"", e->text, part);
    }
}

static void no_load_is_one_request_at_a_time(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    assert_int_equal(make(&s, &e, (char *[]){"sluice-load", NULL}), ST_OK);
    assert_int_equal(s.plan.concurrency, 1);
    assert_int_equal(s.plan.duration_us, 30000000);
    assert_true(s.native);
    assert_int_equal(s.n_repeats, 1);
}

static void drafts_are_absent_or_bounded(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    assert_int_equal(MAKE(&s, &e, "--profile", "chat"), ST_OK);
    assert_false(s.target.has_drafts);
    assert_int_equal(MAKE(&s, &e, "--drafts", "0"), ST_OK);
    assert_true(s.target.has_drafts);
    assert_int_equal(s.target.drafts, 0);
    assert_int_equal(MAKE(&s, &e, "--drafts", "8"), ST_OK);
    assert_int_equal(s.target.drafts, 8);
    refuses("--drafts 9: must be from 0 to 8", MAKE(&s, &e, "--drafts", "9"),
            &e);
}

static void command_line_wins_over_profile(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    assert_int_equal(MAKE(&s, &e, "--profile", "chat"), ST_OK);
    assert_string_equal(s.plan.prompt, "1024");
    assert_string_equal(s.plan.output, "256");
    assert_int_equal(
        MAKE(&s, &e, "--profile", "chat", "--output", "7", "--rate", "3"),
        ST_OK);
    assert_string_equal(s.plan.prompt, "1024");
    assert_string_equal(s.plan.output, "7");
    assert_string_equal(s.plan.rate, "3");
    assert_int_equal(s.plan.concurrency, 0);
}

static void profile_names_a_trace(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    assert_int_equal(MAKE(&s, &e, "--profile", "trace:a.csv"), ST_OK);
    assert_string_equal(s.plan.trace, "a.csv");
    assert_int_equal(s.plan.duration_us, 0);
}

static void api_follows_the_kind_of_prompt(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    assert_int_equal(MAKE(&s, &e, "--target", "http://127.0.0.1:1"), ST_OK);
    assert_true(s.target.chat);
    assert_int_equal(
        MAKE(&s, &e, "--target", "http://127.0.0.1:1", "--vocab", "100"),
        ST_OK);
    assert_false(s.target.chat);
    refuses("--vocab makes ids",
            MAKE(&s, &e, "--target", "http://127.0.0.1:1", "--vocab", "100",
                 "--api", "chat"),
            &e);
}

static void sweep_takes_its_limit_and_not_one_more(void **state)
{
    char list[4 * (LOAD_SWEEP_MAX + 1)] = "1";
    struct load_setup s;
    struct error e;

    (void)state;
    for (int i = 1; i < LOAD_SWEEP_MAX; i++) {
        strcat(list, ",2");
    }
    assert_int_equal(MAKE(&s, &e, "--sweep", list), ST_OK);
    assert_int_equal(s.n_sweep, LOAD_SWEEP_MAX);
    strcat(list, ",3");
    refuses("more than 32 loads", MAKE(&s, &e, "--sweep", list), &e);
}

static void wrong_options_have_sentences(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    refuses("--target ftp://x", MAKE(&s, &e, "--target", "ftp://x"), &e);
    refuses("--api x", MAKE(&s, &e, "--api", "x"), &e);
    refuses("--profile \"x\" is unknown", MAKE(&s, &e, "--profile", "x"), &e);
    refuses("rate or concurrency",
            MAKE(&s, &e, "--search", "x", "--slo", "ttft=1s"), &e);
    refuses("needs objectives", MAKE(&s, &e, "--search", "rate"), &e);
    refuses("exclude one another",
            MAKE(&s, &e, "--rate", "1", "--concurrency", "1"), &e);
    refuses("exceed 1 together",
            MAKE(&s, &e, "--cancel", "0.6", "--disconnect", "0.5"), &e);
    refuses("greedy",
            MAKE(&s, &e, "--check-outputs", "2", "--temperature", "1"), &e);
    refuses("loads such as", MAKE(&s, &e, "--sweep", "1,,2"), &e);
    refuses("loads such as", MAKE(&s, &e, "--sweep", "0"), &e);
    refuses("its own rate", MAKE(&s, &e, "--trace", "a", "--sweep", "1,2"), &e);
    refuses(
        "exclude one another",
        MAKE(&s, &e, "--sweep", "1", "--search", "rate", "--slo", "ttft=1s"),
        &e);
}

static void search_begins_at_the_given_load(void **state)
{
    struct load_setup s;
    struct error e;

    (void)state;
    assert_int_equal(
        MAKE(&s, &e, "--search", "rate", "--rate", "8", "--slo", "ttft=500ms"),
        ST_OK);
    assert_true(s.search.first == 8 && !s.search.whole);
    assert_int_equal(s.n_repeats, 3);
    assert_int_equal(MAKE(&s, &e, "--search", "concurrency", "--slo",
                          "itl=50ms", "--repeats", "1"),
                     ST_OK);
    assert_true(s.search.first == 1 && s.search.whole);
    assert_int_equal(s.n_repeats, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_load_is_one_request_at_a_time),
        cmocka_unit_test(drafts_are_absent_or_bounded),
        cmocka_unit_test(command_line_wins_over_profile),
        cmocka_unit_test(profile_names_a_trace),
        cmocka_unit_test(api_follows_the_kind_of_prompt),
        cmocka_unit_test(sweep_takes_its_limit_and_not_one_more),
        cmocka_unit_test(wrong_options_have_sentences),
        cmocka_unit_test(search_begins_at_the_given_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
