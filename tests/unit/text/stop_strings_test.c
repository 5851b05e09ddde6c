/* The automaton compared with a search for every string at every place. */
#include "text/stop_strings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define TEXT_MAX 64

/* The expected result for text[0..n), by the definition. */
struct found {
    bool found;
    size_t begin, end, string;
};

static bool is_at(const struct stop_string *s, const char *text, size_t begin,
                  size_t end)
{
    return begin + s->n == end && memcmp(text + begin, s->text, s->n) == 0;
}

static struct found search(const struct stop_string *s, size_t n_strings,
                           const char *text, size_t n)
{
    for (size_t end = 1; end <= n; end++) {
        for (size_t begin = 0; begin < end; begin++) {
            for (size_t i = 0; i < n_strings; i++) {
                if (is_at(&s[i], text, begin, end)) {
                    return (struct found){true, begin, end, i};
                }
            }
        }
    }
    return (struct found){0};
}

/* Returns the first place of text[0..n) from which the rest may be the start
 * of a string; text contains no string. */
static size_t certain(const struct stop_string *s, size_t n_strings,
                      const char *text, size_t n)
{
    for (size_t begin = 0; begin < n; begin++) {
        for (size_t i = 0; i < n_strings; i++) {
            if (n - begin <= s[i].n &&
                memcmp(text + begin, s[i].text, n - begin) == 0) {
                return begin;
            }
        }
    }
    return n;
}

static struct stop_strings *made(const struct stop_string *s, size_t n)
{
    struct stop_strings *m;
    struct error e;

    assert_int_equal(stop_strings_new(&m, s, n, &e), ST_OK);
    return m;
}

/* cuts: bit i set, a chunk ends after byte i. */
static void check_cut(const struct stop_strings *m, const struct stop_string *s,
                      size_t n_strings, const char *text, size_t n,
                      uint64_t cuts)
{
    struct found want = search(s, n_strings, text, n);
    struct stop_scan scan = {0};
    size_t begin = 0;

    for (size_t i = 0; i < n; i++) {
        bool past = want.found && i + 1 >= want.end;
        if (i + 1 < n && (cuts >> i & 1) == 0) {
            continue;
        }
        assert_int_equal(stop_scan_push(m, &scan, text + begin, i + 1 - begin),
                         past);
        begin = i + 1;
        assert_int_equal(scan.found, past);
        assert_int_equal(scan.n, past ? want.end : i + 1);
        assert_int_equal(stop_scan_certain(m, &scan),
                         past ? want.begin
                              : certain(s, n_strings, text, i + 1));
        if (past) {
            assert_int_equal(scan.begin, want.begin);
            assert_int_equal(scan.string, want.string);
        }
    }
}

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

static void fill(char *text, size_t n, uint32_t letters)
{
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('a' + draw(letters));
    }
}

/* Texts of 2 and 3 letters are full of overlaps, borders and repetitions. */
static void random_texts(void **state)
{
    char bytes[STOP_STRINGS_MAX][8], text[TEXT_MAX];
    struct stop_string s[STOP_STRINGS_MAX];

    (void)state;
    seed = 1;
    for (int round = 0; round < 60000; round++) {
        uint32_t letters = 2 + draw(2), longest = 1 + draw(8);
        size_t n_strings = 1 + draw(round % 3 == 0 ? STOP_STRINGS_MAX : 3);
        size_t n = 1 + draw(TEXT_MAX);
        struct stop_strings *m;

        for (size_t i = 0; i < n_strings; i++) {
            s[i] = (struct stop_string){bytes[i], 1 + draw(longest)};
            fill(bytes[i], s[i].n, letters);
        }
        fill(text, n, letters);
        m = made(s, n_strings);
        check_cut(m, s, n_strings, text, n, UINT64_MAX);
        check_cut(m, s, n_strings, text, n, seed);
        stop_strings_free(&m);
    }
}

/* Every text of up to 9 letters, cut in every way. */
static void all_cuts(void **state)
{
    static const struct stop_string sets[][3] = {
        {{"abab", 4}, {"babb", 4}, {"aaa", 3}},
        {{"abb", 3}, {"ab", 2}, {"b", 1}},    /* a prefix, a suffix */
        {{"aabb", 4}, {"ab", 2}, {"aab", 3}}, /* infixes */
        {{"ab", 2}, {"ab", 2}, {"bab", 3}},   /* one string twice */
    };

    (void)state;
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        struct stop_strings *m = made(sets[k], 3);
        for (size_t n = 1; n <= 9; n++) {
            for (uint32_t word = 0; word < 1u << n; word++) {
                char text[9];
                for (size_t i = 0; i < n; i++) {
                    text[i] = (word >> i & 1) != 0 ? 'b' : 'a';
                }
                for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
                    check_cut(m, sets[k], 3, text, n, cuts);
                }
            }
        }
        stop_strings_free(&m);
    }
}

struct by_hand {
    const char *strings[4], *text;
    size_t string, begin, end;
};

static void by_hand(void **state)
{
    static const struct by_hand cases[] = {
        {{"\n\n"}, "one\n\ntwo", 0, 3, 5},
        {{"bc", "abcd"}, "xabcd", 0, 2, 4},       /* ends first */
        {{"bcd", "abcd"}, "xabcd", 1, 1, 5},      /* begins first */
        {{"abcd", "abcd", "d"}, "abcd", 0, 0, 4}, /* given first */
        {{"aab"}, "aaab", 0, 1, 4},
        {{"aabaaa", "baab"},
         "aabaab",
         1,
         2,
         6}, /* falls back inside the match */
        {{"\xe2\x80\x94"}, "a\xe2\x80\x93\xe2\x80\x94", 0, 4, 7},
        {{"User:", "###"}, "## ###", 1, 3, 6},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct by_hand *c = &cases[i];
        struct stop_scan scan = {0};
        struct stop_string s[4];
        struct stop_strings *m;
        size_t n = 0;

        for (; n < 4 && c->strings[n] != NULL; n++) {
            s[n] = (struct stop_string){c->strings[n], strlen(c->strings[n])};
        }
        m = made(s, n);
        assert_true(stop_scan_push(m, &scan, c->text, strlen(c->text)));
        assert_int_equal(scan.string, c->string);
        assert_int_equal(scan.begin, c->begin);
        assert_int_equal(scan.n, c->end);
        assert_true(stop_scan_push(m, &scan, "more", 4)); /* not scanned */
        assert_int_equal(scan.n, c->end);
        stop_strings_free(&m);
    }
}

/* A NUL is an ordinary character. */
static void nul(void **state)
{
    struct stop_string s = {"a\0b", 3};
    struct stop_strings *m = made(&s, 1);
    struct stop_scan scan = {0};

    (void)state;
    assert_false(stop_scan_push(m, &scan, "xa\0a", 4));
    assert_int_equal(stop_scan_certain(m, &scan), 3);
    assert_true(stop_scan_push(m, &scan, "\0b", 2));
    assert_int_equal(scan.begin, 3);
    stop_strings_free(&m);
}

static void refuse(const struct stop_string *s, size_t n, const char *why)
{
    struct stop_strings *m;
    struct error e;

    assert_int_equal(stop_strings_new(&m, s, n, &e), ST_INVALID_ARGUMENT);
    assert_null(m);
    assert_string_equal(e.text, why);
}

/* The most and the longest strings, all different in the last byte, and a
 * text that falls back from nearly all of each. */
static void at_the_limits(void **state)
{
    static char bytes[STOP_STRINGS_MAX][STOP_STRING_BYTES_MAX];
    static char text[20 * STOP_STRING_BYTES_MAX];
    struct stop_string s[STOP_STRINGS_MAX];
    struct stop_scan scan = {0};
    struct stop_strings *m;
    uint64_t held_most = 0;

    (void)state;
    for (size_t i = 0; i < STOP_STRINGS_MAX; i++) {
        memset(bytes[i], 'a', STOP_STRING_BYTES_MAX);
        bytes[i][i] = 'c';
        bytes[i][STOP_STRING_BYTES_MAX - 1] = 'b';
        s[i] = (struct stop_string){bytes[i], STOP_STRING_BYTES_MAX};
    }
    m = made(s, STOP_STRINGS_MAX);
    memset(text, 'a', sizeof text);
    for (size_t i = 300; i < sizeof text; i += 257 + i % 5) {
        text[i] = 'c'; /* a string without its end, repeated */
    }
    for (size_t i = 0; i < sizeof text; i++) {
        uint64_t held;
        assert_false(stop_scan_push(m, &scan, text + i, 1));
        held = scan.n - stop_scan_certain(m, &scan);
        held_most = held > held_most ? held : held_most;
    }
    assert_int_equal(held_most, STOP_STRING_BYTES_MAX - 1);
    assert_true(stop_scan_push(m, &scan, bytes[15], STOP_STRING_BYTES_MAX));
    assert_int_equal(scan.n - scan.begin, STOP_STRING_BYTES_MAX);
    stop_strings_free(&m);
}

static void past_the_limits(void **state)
{
    static char longest[STOP_STRING_BYTES_MAX + 1];
    struct stop_string s[STOP_STRINGS_MAX + 1];

    (void)state;
    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i <= STOP_STRINGS_MAX; i++) {
        s[i] = (struct stop_string){"x", 1};
    }
    refuse(s, STOP_STRINGS_MAX + 1, "17 stop strings, 1 to 16 are allowed");
    refuse(s, 0, "0 stop strings, 1 to 16 are allowed");
    s[2] = (struct stop_string){longest, STOP_STRING_BYTES_MAX + 1};
    refuse(s, 3, "stop string 2 has 257 bytes, 1 to 256 are allowed");
    s[2].n = 0;
    refuse(s, 3, "stop string 2 has 0 bytes, 1 to 256 are allowed");
    s[1] = (struct stop_string){"ab\xe2\x80", 4};
    refuse(s, 3, "stop string 1 is not UTF-8 at byte 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_texts),  cmocka_unit_test(all_cuts),
        cmocka_unit_test(by_hand),       cmocka_unit_test(nul),
        cmocka_unit_test(at_the_limits), cmocka_unit_test(past_the_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
