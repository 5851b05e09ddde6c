/* Split behaviours, and expressions as Oniguruma reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "text/pattern_split.h"
#include "text/text_limits.h"

/* Appends all pieces, in brackets. */
static enum status cut(const struct pattern_split *s,
                       struct pattern_split_work *w, const char *text, size_t n,
                       char out[400], struct error *e)
{
    struct pattern_cursor c;
    enum status st = ST_OK;
    const char *piece = "";
    size_t len;

    pattern_cursor_init(&c, s, text, n);
    while (st == ST_OK && piece != NULL) {
        st = pattern_cursor_next(&c, w, &piece, &len, e);
        if (st == ST_OK && piece != NULL && len > 0) {
            size_t at = strlen(out);

            snprintf(out + at, 400 - at, "[%.*s]", (int)len, piece);
        }
    }
    return st;
}

static void expect_as(const char *pattern, bool literal,
                      enum pattern_split_behaviour behaviour, bool invert,
                      const char *text, const char *want)
{
    char got[400] = "";
    struct pattern_split_work w;
    struct error e;
    struct pattern_split s;

    if (pattern_split_init(&s, pattern, strlen(pattern), literal, &e) !=
        ST_OK) {
        fail_msg("%s: %s", pattern, e.text);
    }
    s.behaviour = behaviour;
    s.invert = invert;
    assert_int_equal(pattern_split_work_init(&w, &e), ST_OK);
    if (cut(&s, &w, text, strlen(text), got, &e) != ST_OK) {
        fail_msg("%s: %s", pattern, e.text);
    }
    assert_string_equal(got, want);
    pattern_split_work_fini(&w);
    pattern_split_fini(&s);
}

static void expect(const char *pattern, const char *text, const char *want)
{
    expect_as(pattern, false, PATTERN_SPLIT_ISOLATED, false, text, want);
}

static void behaviours(void **state)
{
    static const struct {
        enum pattern_split_behaviour behaviour;
        bool invert;
        const char *want;
    } rows[] = {
        /* The reference's own example. */
        {PATTERN_SPLIT_REMOVED, false, "[the][final][countdown]"},
        {PATTERN_SPLIT_ISOLATED, false, "[the][-][final][-][-][countdown]"},
        {PATTERN_SPLIT_MERGED_WITH_PREVIOUS, false,
         "[the-][final-][-][countdown]"},
        {PATTERN_SPLIT_MERGED_WITH_NEXT, false, "[the][-final][-][-countdown]"},
        {PATTERN_SPLIT_CONTIGUOUS, false, "[the][-][final][--][countdown]"},
        {PATTERN_SPLIT_REMOVED, true, "[-][-][-]"},
        {PATTERN_SPLIT_ISOLATED, true, "[the][-][final][-][-][countdown]"},
        {PATTERN_SPLIT_MERGED_WITH_PREVIOUS, true,
         "[the][-final][-][-countdown]"},
        {PATTERN_SPLIT_MERGED_WITH_NEXT, true, "[the-][final-][-][countdown]"},
        {PATTERN_SPLIT_CONTIGUOUS, true, "[the][-][final][--][countdown]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        expect_as("-", false, rows[i].behaviour, rows[i].invert,
                  "the-final--countdown", rows[i].want);
        expect_as("-", true, rows[i].behaviour, rows[i].invert,
                  "the-final--countdown", rows[i].want);
    }
    expect_as("-", false, PATTERN_SPLIT_MERGED_WITH_NEXT, false, "-a-",
              "[-a][-]");
    expect_as("-", false, PATTERN_SPLIT_MERGED_WITH_PREVIOUS, false, "-a-",
              "[-][a-]");
    expect_as("-", false, PATTERN_SPLIT_REMOVED, false, "--", "");
    expect_as("-", false, PATTERN_SPLIT_REMOVED, false, "", "");
    expect_as(".*[", true, PATTERN_SPLIT_ISOLATED, false, "a.*[b",
              "[a][.*[][b]");
}

static void names(void **state)
{
    enum pattern_split_behaviour b;

    (void)state;
    assert_true(pattern_split_behaviour_named("MergedWithNext", &b));
    assert_int_equal(b, PATTERN_SPLIT_MERGED_WITH_NEXT);
    assert_true(pattern_split_behaviour_named("Contiguous", &b));
    assert_int_equal(b, PATTERN_SPLIT_CONTIGUOUS);
    assert_false(pattern_split_behaviour_named("isolated", &b));
}

static void empty_matches(void **state)
{
    (void)state;
    expect("(?=b)", "abab", "[a][ba][b]");
    expect("x*", "axxb", "[a][xx][b]");
    expect("$", "a\nb", "[a][\nb]");
    expect("^", "a\nb", "[a\n][b]");
    expect("(?=\xC3\xA9)", "\xC3\xA9\xC3\xA9", "[\xC3\xA9][\xC3\xA9]");
}

/* Syntax that PCRE2 would read differently. */
static void dialect(void **state)
{
    (void)state;
    /* U+180E is no white space; U+0085, U+00A0 and U+3000 are */
    expect("\\s",
           "a\xE1\xA0\x8E"
           "b",
           "[a\xE1\xA0\x8E"
           "b]");
    expect("\\s+",
           "a\xC2\x85\xC2\xA0\xE3\x80\x80"
           "b",
           "[a][\xC2\x85\xC2\xA0\xE3\x80\x80][b]");
    expect("[\\s]+|[^\\s]", "a b", "[a][ ][b]");
    expect("\\S", "a ", "[a][ ]");
    /* marks and connectors belong to words */
    expect("\\w+", "-e\xCC\x81\xE2\x80\xBF-", "[-][e\xCC\x81\xE2\x80\xBF][-]");
    expect("[\\w]+", "-e\xCC\x81-", "[-][e\xCC\x81][-]");
    expect("\\W", "e\xCC\x81-", "[e\xCC\x81][-]");
    /* U+30FC is of both kana by Script_Extensions, Common by Script */
    expect("\\p{Hiragana}+", "\xE3\x81\x82\xE3\x83\xBC",
           "[\xE3\x81\x82][\xE3\x83\xBC]");
    expect("\\p{^L}", "a1", "[a][1]");
    expect("\\P{L}", "a1", "[a][1]");
    expect("[\\u3040-\\u309F]+", "a\xE3\x81\x82\xE3\x81\x82",
           "[a][\xE3\x81\x82\xE3\x81\x82]");
    /* U+017F is an s, U+212A a k, if case is ignored */
    expect("(?i:'s|'k)", "x'\xC5\xBFy'\xE2\x84\xAA'S",
           "[x]['\xC5\xBF][y]['\xE2\x84\xAA]['S]");
    expect("a(?i)b", "aBAB", "[aB][AB]");
    /* at the start of a branch, or without a later branch in its group, an
     * option applies to the same text in both dialects */
    expect("(?i)a|b", "AxB", "[A][x][B]");
    expect("(?i)(?-i)a|b", "AabB", "[A][a][b][B]");
    expect("a|(?i)b|c", "AabBC", "[A][a][b][B][C]");
    expect("(?:(?i)a|b)c|d", "BcbCD", "[Bc][bCD]");
    expect("a|b(?i)c", "AbCBc", "[A][bC][Bc]");
    expect("(a(?i)b)|c", "aBC", "[aB][C]");
    expect("a(?i)[|]\\|(?:b|c)", "a||B", "[a||B]");
    expect("\\d+", "a1\xD9\xA1", "[a][1\xD9\xA1]");
    expect(".", "\n\r", "[\n][\r]");
}

static void refuse(const char *pattern)
{
    struct error e = {.text = ""};
    struct pattern_split s;
    enum status st =
        pattern_split_init(&s, pattern, strlen(pattern), false, &e);

    if (st != ST_UNIMPLEMENTED && st != ST_INVALID_ARGUMENT) {
        fail_msg("%s: %s", pattern, status_name(st));
    }
    assert_true(e.text[0] != '\0');
    pattern_split_fini(&s);
}

static void refused(void **state)
{
    static const char *const patterns[] = {
        "[a[b]]",  "[a&&b]", "[[:alpha:]]",   "\\bx",    "\\h",   "(a)\\1",
        "(?<n>a)", "(?R)",   "(*UTF)a",       "(?m:.)",  "(?s)a", "a{1,2}+",
        "[\\W]",   "\\X",    "\\K",           "\\C",     "\\pL",  "[]a]",
        "(?#x)",   "(?C1)",  "\\u12",         "\\uZZZZ", "\\p{L", "a\\",
        "(",       "[a",     "\\p{Nonsense}", "a**+*",   "\\Qa",  "\\v",
        "a{,2}",   "a{2}?",  "a{1,2}?",       "[^]a]",
    };

    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        refuse(patterns[i]);
    }
}

/* In the middle of a branch with another one after it. */
static void options_refused(void **state)
{
    static const char *const patterns[] = {
        "a(?i)|b",          "a(?i)b|c",      "(?:a(?-i)b|c)d",
        "x|a(?i)b|c",       "(?i)a(?-i)b|c", "[|](?i)b|c",
        "a(?i)(b)[)]\\)|c", "\\((?i)b|c",    "(a)(?i)b|c"};

    (void)state;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        refuse(patterns[i]);
    }
}

/* Endless backtracking and endless recursion end soon in an error. */
static void catastrophe(void **state)
{
    static const char *const patterns[] = {"(a+)+$", "(?:a|aa)*[cd]",
                                           "(.+)+[xy]"};
    size_t n = 1 << 16;
    char *text = malloc(n);
    char got[400] = "";
    struct pattern_split_work w;
    struct error e;
    struct pattern_split s;

    (void)state;
    assert_non_null(text);
    memset(text, 'a', n);
    text[n - 1] = '!';
    assert_int_equal(pattern_split_work_init(&w, &e), ST_OK);
    /* no pattern needs one certain letter, which PCRE2 would search first */
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        assert_int_equal(
            pattern_split_init(&s, patterns[i], strlen(patterns[i]), false, &e),
            ST_OK);
        assert_int_equal(cut(&s, &w, text, n, got, &e), ST_OUT_OF_RANGE);
        assert_non_null(strstr(e.text, "too much work"));
        pattern_split_fini(&s);
    }
    pattern_split_work_fini(&w);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(behaviours),    cmocka_unit_test(names),
        cmocka_unit_test(empty_matches), cmocka_unit_test(dialect),
        cmocka_unit_test(refused),       cmocka_unit_test(options_refused),
        cmocka_unit_test(catastrophe),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
