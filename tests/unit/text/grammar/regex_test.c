/* Regular expressions: what matches, and what is refused by name. */
#include "grammar_fixture.h"

static struct grammar_vocab *vocab;

static int setup(void **state)
{
    (void)state;
    vocab = fixture_vocab();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    grammar_vocab_free(&vocab);
    return 0;
}

static void whole_texts(void **state)
{
    static const struct {
        const char *pattern, *yes, *no;
    } rows[] = {
        {"a+b?", "aab", "aabb"},
        {"(a|bc){2,3}", "abca", "abcabca"},
        {"[a-c\\-x]+", "ab-x", "d"},
        {"[^a-c]", "d", "b"},
        {"\\d{3}", "042", "04"},
        {"\\w\\W\\s\\S", "_- x", "_-xx"},
        {".", "\xC3\xA9", "\n"},
        {"[\\u00e0-\\u00ff]", "\xC3\xA9", "e"},
        {"\\u{1F600}", "\xF0\x9F\x98\x80", "\xF0\x9F\x98\x81"},
        {"\\uD83D\\uDE00", "\xF0\x9F\x98\x80", "x"},
        {"\\p{Lu}+", "\xC3\x89X", "\xC3\xA9"},
        {"\\P{L}", "1", "x"},
        {"a{,2}", "a{,2}", "aa"},
        {"(?:x|)y", "y", "xx"},
        {"(?<n>a)b", "ab", "b"},
        {"a*?b", "aab", "a"},
        {"(?=.*1)[a-z0-9]+", "a1b", "ab"},
        {"(?!ab)[a-z]+", "ac", "abc"},
        {"x(?!y)[a-z]*", "xz", "xyz"},
        {"\\x41\\cA\\t", "A\x01\t", "A"},
        {"[\\d.]+", "1.5", "1-5"},
        {"(a|)+b()", "aab", "aa"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar *g = fixture_grammar(vocab, GRAMMAR_REGEX,
                                            rows[i].pattern, &fixture_strict);

        if (!fixture_matches(g, rows[i].yes) ||
            fixture_matches(g, rows[i].no)) {
            fail_msg("%s", rows[i].pattern);
        }
        grammar_free(&g);
    }
}

/* As "pattern" of JSON Schema: the text is inside a JSON string, and matches in
 * part. */
static void patterns_search(void **state)
{
    static const struct {
        const char *pattern, *yes, *no;
    } rows[] = {
        {"b", "\"abc\"", "\"ac\""},
        {"^b", "\"bc\"", "\"ab\""},
        {"b$", "\"ab\"", "\"bc\""},
        {"^a|b$", "\"xb\"", "\"xa\""},
        {"^(a|b$)", "\"b\"", "\"bx\""},
        {"(^x|y)z", "\"ayz\"", "\"axz\""},
        {"^$", "\"\"", "\"a\""},
        {"a^", "\"^\"", "\"a\""},
        {"^(?!.*x).*$", "\"abc\"", "\"abxc\""},
        {"^(?=.*\\d)(?=.*[a-z]).{4,}$", "\"ab12\"", "\"abcd\""},
        {"^\\\"$", "\"\\\"\"", "\"\\u0022\""},
        {"^\\n$", "\"\\n\"", "\"n\""},
        {"^\\u0001$", "\"\\u0001\"", "\"\\u0002\""},
        {"^[^\\\\]$", "\"/\"", "\"\\\\\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char schema[200];
        char *at = stpcpy(schema, "{\"type\":\"string\",\"pattern\":\"");
        struct grammar *g;

        for (const char *s = rows[i].pattern; *s != '\0'; s++) {
            if (*s == '"' || *s == '\\') {
                *at++ = '\\';
            }
            *at++ = *s;
        }
        strcpy(at, "\"}");
        if (strcmp(rows[i].pattern, "a^") == 0) { /* nothing matches */
            struct error e;

            assert_int_equal(grammar_compile(&g, vocab, GRAMMAR_SCHEMA, schema,
                                             strlen(schema), &fixture_strict,
                                             &e),
                             ST_INVALID_ARGUMENT);
            continue;
        }
        g = fixture_grammar(vocab, GRAMMAR_SCHEMA, schema, &fixture_strict);
        if (!fixture_matches(g, rows[i].yes) ||
            fixture_matches(g, rows[i].no)) {
            fail_msg("%s", rows[i].pattern);
        }
        grammar_free(&g);
    }
}

static void refusals_name_the_construct(void **state)
{
    static const struct {
        const char *pattern;
        enum status st;
        const char *part;
    } rows[] = {
        {"(a)\\1", ST_UNIMPLEMENTED, "back references"},
        {"(?<=a)b", ST_UNIMPLEMENTED, "lookbehind"},
        {"\\bword", ST_UNIMPLEMENTED, "word boundaries"},
        {"(^a)*b", ST_UNIMPLEMENTED, "inside a repetition"},
        {"\\p{Script=Greek}", ST_UNIMPLEMENTED, "general categories"},
        {"(?i)a", ST_UNIMPLEMENTED, "kind of group"},
        {"\\q", ST_UNIMPLEMENTED, "this escape"},
        {"(a", ST_INVALID_ARGUMENT, "( has no )"},
        {"a)", ST_INVALID_ARGUMENT, ") has no ("},
        {"[a", ST_INVALID_ARGUMENT, "[ has no ]"},
        {"[b-a]", ST_INVALID_ARGUMENT, "ends before"},
        {"*a", ST_INVALID_ARGUMENT, "nothing to repeat"},
        {"a{3,2}", ST_INVALID_ARGUMENT, "ends before"},
        {"\\u12", ST_INVALID_ARGUMENT, "hex digits"},
        {"\xFF", ST_INVALID_ARGUMENT, "not UTF-8"},
        {"a*", ST_INVALID_ARGUMENT, "empty text matches"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct grammar *g;
        struct error e = {0};
        enum status st =
            grammar_compile(&g, vocab, GRAMMAR_REGEX, rows[i].pattern,
                            strlen(rows[i].pattern), &fixture_strict, &e);

        assert_null(g);
        if (st != rows[i].st || strstr(e.text, rows[i].part) == NULL) {
            fail_msg("%s: %s %s", rows[i].pattern, status_name(st), e.text);
        }
    }
}

static void choices(void **state)
{
    struct grammar *g = fixture_grammar(
        vocab, GRAMMAR_CHOICE, "[\"yes\", \"no\", \"non\"]", &fixture_strict);
    struct error e;

    (void)state;
    assert_true(fixture_matches(g, "yes"));
    assert_true(fixture_matches(g, "no"));
    assert_true(fixture_matches(g, "non"));
    assert_false(fixture_matches(g, "ye"));
    assert_false(fixture_matches(g, "yesno"));
    grammar_free(&g);
    assert_int_equal(grammar_compile(&g, vocab, GRAMMAR_CHOICE, "[]", 2,
                                     &fixture_strict, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(grammar_compile(&g, vocab, GRAMMAR_CHOICE, "[1]", 3,
                                     &fixture_strict, &e),
                     ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_texts),
        cmocka_unit_test(patterns_search),
        cmocka_unit_test(refusals_name_the_construct),
        cmocka_unit_test(choices),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
