/* Each row of text/grammar/grammar_limits.h: at the limit, and one past it. */
#include <stdio.h>

#include "grammar_fixture.h"
#include "text/grammar/grammar_limits.h"
#include "text/grammar/machine.h"
#include "text/grammar/number_range.h"

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

/* Compiles text[0..n), frees it, and compares the status; a refusal names the
 * limit. */
static void expect(enum grammar_kind kind, char *text, size_t n,
                   enum status want, const char *limit)
{
    struct grammar *g;
    struct error e = {0};
    enum status st =
        grammar_compile(&g, vocab, kind, text, n, &fixture_free, &e);

    if (st != want || (want != ST_OK && strstr(e.text, limit) == NULL)) {
        fail_msg("%s: %s \"%s\"", limit, status_name(st), e.text);
    }
    grammar_free(&g);
    free(text);
}

/* Returns head, n copies of part, and tail. */
static char *repeat(const char *head, const char *part, size_t n,
                    const char *tail)
{
    size_t len = strlen(part);
    char *text = malloc(strlen(head) + n * len + strlen(tail) + 1), *to = text;

    assert_non_null(text);
    to = stpcpy(to, head);
    for (size_t i = 0; i < n; i++) {
        to = stpcpy(to, part);
    }
    stpcpy(to, tail);
    return text;
}

static void source_bytes(void **state)
{
    size_t n = GRAMMAR_SOURCE_MAX;

    (void)state;
    expect(GRAMMAR_SCHEMA, repeat("true", " ", n - 4, ""), n, ST_OK, "");
    expect(GRAMMAR_SCHEMA, repeat("true", " ", n - 3, ""), n + 1,
           ST_RESOURCE_EXHAUSTED, "GRAMMAR_SOURCE_MAX");
}

static void pattern_bytes(void **state)
{
    size_t n = GRAMMAR_PATTERN_MAX;

    (void)state;
    expect(GRAMMAR_REGEX, repeat("", "a", n, ""), n, ST_OK, "");
    expect(GRAMMAR_REGEX, repeat("", "a", n + 1, ""), n + 1,
           ST_RESOURCE_EXHAUSTED, "GRAMMAR_PATTERN_MAX");
}

static void repetitions(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        enum status want = i == 0 ? ST_OK : ST_RESOURCE_EXHAUSTED;
        char text[100];
        int n = snprintf(text, sizeof text,
                         "{\"type\":\"string\",\"maxLength\":%u}",
                         GRAMMAR_REPEAT_MAX + i);

        expect(GRAMMAR_SCHEMA, strdup(text), (size_t)n, want,
               "GRAMMAR_REPEAT_MAX");
        n = snprintf(text, sizeof text, "a{1,%u}", GRAMMAR_REPEAT_MAX + i);
        expect(GRAMMAR_REGEX, strdup(text), (size_t)n, want,
               "GRAMMAR_REPEAT_MAX");
    }
}

static void nested_groups(void **state)
{
    (void)state;
    for (size_t n = GRAMMAR_NESTING_MAX; n <= GRAMMAR_NESTING_MAX + 1; n++) {
        char *open = repeat("", "(", n, "a");
        char *text = repeat(open, ")", n, "");

        free(open);
        expect(GRAMMAR_REGEX, text, strlen(text),
               n == GRAMMAR_NESTING_MAX ? ST_OK : ST_RESOURCE_EXHAUSTED,
               "GRAMMAR_NESTING_MAX");
    }
}

static void patterns_of_names(void **state)
{
    (void)state;
    for (unsigned n = GRAMMAR_SPLITS_MAX; n <= GRAMMAR_SPLITS_MAX + 1; n++) {
        char text[1000];
        char *at = stpcpy(text, "{\"type\":\"object\",\"patternProperties\":{");

        for (unsigned i = 0; i < n; i++) {
            at += sprintf(at, "%s\"^%c\":{}", i > 0 ? "," : "", 'a' + (int)i);
        }
        strcpy(at, "}}");
        expect(GRAMMAR_SCHEMA, strdup(text), strlen(text),
               n == GRAMMAR_SPLITS_MAX ? ST_OK : ST_RESOURCE_EXHAUSTED,
               "GRAMMAR_SPLITS_MAX");
    }
}

/* Branches of one type exclude one another by their constants, and all pairs
 * are compared, once from each side. */
static void pairs_of_branches(void **state)
{
    (void)state;
    for (unsigned n = 63; n <= 64; n++) { /* 63 * 62 <= 4000 < 64 * 63 */
        char *text = malloc(64 + n * 32), *at = stpcpy(text, "{\"oneOf\":[");

        assert_true(63 * 62 <= GRAMMAR_PAIRS_MAX &&
                    64 * 63 > GRAMMAR_PAIRS_MAX);
        for (unsigned i = 0; i < n; i++) {
            at += sprintf(at, "%s{\"const\":\"k%u\"}", i > 0 ? "," : "", i);
        }
        strcpy(at, "]}");
        expect(GRAMMAR_SCHEMA, text, strlen(text),
               n == 63 ? ST_OK : ST_RESOURCE_EXHAUSTED, "GRAMMAR_PAIRS_MAX");
    }
}

/* Members that need a rule each. */
static void rules(void **state)
{
    struct machine m;
    struct error e;

    (void)state;
    assert_int_equal(machine_init(&m, &fixture_strict, 64u << 20, &e), ST_OK);
    for (uint32_t i = 0; i < GRAMMAR_RULES_MAX; i++) {
        assert_int_equal(machine_rule(&m), i);
    }
    assert_int_equal(machine_rule(&m), UINT32_MAX);
    machine_fini(&m);
}

/* A budget of the least bytes with which a machine starts, and one byte less.
 */
static void bytes(void **state)
{
    struct machine m;
    struct error e;
    size_t least;

    (void)state;
    assert_int_equal(machine_init(&m, &fixture_strict, GRAMMAR_BYTES_MAX, &e),
                     ST_OK);
    least = m.pool.budget.bytes;
    machine_fini(&m);
    for (size_t max = 0; max < least; max += 997) {
        assert_int_equal(machine_init(&m, &fixture_strict, max, &e),
                         ST_RESOURCE_EXHAUSTED);
    }
}

static void multiples(void **state)
{
    static const char yes[] = "{\"type\":\"integer\",\"multipleOf\":100000}";
    static const char no[] = "{\"type\":\"integer\",\"multipleOf\":100001}";

    (void)state;
    assert_int_equal(NUMBER_MULTIPLE_MAX, 100000);
    expect(GRAMMAR_SCHEMA, strdup(yes), strlen(yes), ST_OK, "");
    expect(GRAMMAR_SCHEMA, strdup(no), strlen(no), ST_UNIMPLEMENTED,
           "multipleOf");
}

static void indentation(void **state)
{
    struct grammar *g =
        fixture_grammar(vocab, GRAMMAR_OBJECT, "", &fixture_free);

    (void)state;
    for (size_t n = WHITE_SPACE_MAX; n <= WHITE_SPACE_MAX + 1; n++) {
        char *text = repeat("{\n", " ", n, "}");

        assert_int_equal(fixture_matches(g, text), n == WHITE_SPACE_MAX);
        free(text);
    }
    grammar_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_bytes),
        cmocka_unit_test(pattern_bytes),
        cmocka_unit_test(repetitions),
        cmocka_unit_test(nested_groups),
        cmocka_unit_test(patterns_of_names),
        cmocka_unit_test(pairs_of_branches),
        cmocka_unit_test(rules),
        cmocka_unit_test(bytes),
        cmocka_unit_test(multiples),
        cmocka_unit_test(indentation),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
