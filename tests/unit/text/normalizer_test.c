/* Normal forms, and their cost in a run of marks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <utf8proc.h>

#include "common/base/quote.h"
#include "text/normalizer.h"
#include "text/unicode.h"

static struct normalizer form(const char *name)
{
    json_t *v = json_pack("{s:s}", "type", name);
    struct normalizer z;
    struct error e;

    assert_int_equal(normalizer_parse(&z, v, &e), ST_OK);
    json_decref(v);
    return z;
}

static void expect(const char *name, const char *text, const char *want)
{
    struct normalizer z = form(name);
    struct error e;
    const char *out;
    char *owned;
    size_t n;

    assert_int_equal(
        normalizer_run(&z, text, strlen(text), &out, &n, &owned, &e), ST_OK);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(out, want, n);
    free(owned);
}

static void forms(void **state)
{
    (void)state;
    expect("NFC", "e\xCC\x81", "\xC3\xA9");
    expect("NFD", "\xC3\xA9", "e\xCC\x81");
    expect("NFC", "\xEF\xAC\x81", "\xEF\xAC\x81");
    expect("NFKC", "\xEF\xAC\x81", "fi");
    expect("NFKD", "\xEF\xAC\x81\xC3\xA9", "fie\xCC\x81");
    expect("NFC", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81");
    expect("NFD", "\xEA\xB0\x81", "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8");
    /* order by class: 230 and 220 are exchanged, two of 230 are not */
    expect("NFC", "x\xCC\x81\xCC\xA3", "x\xCC\xA3\xCC\x81");
    expect("NFC", "x\xCC\x81\xCC\x80", "x\xCC\x81\xCC\x80");
    /* excluded from composition; a singleton */
    expect("NFC", "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC");
    expect("NFC", "\xE2\x84\xAA", "K");
    expect("NFC", "", "");
}

static void plain_text_is_not_copied(void **state)
{
    static const char text[] = "na\xC3\xAFve, \xCB\xBF";
    struct normalizer z = form("NFC");
    struct error e;
    const char *out;
    char *owned;
    size_t n;

    (void)state;
    assert_int_equal(
        normalizer_run(&z, text, sizeof text - 1, &out, &n, &owned, &e), ST_OK);
    assert_ptr_equal(out, text);
    assert_null(owned);
}

/* Random strings of characters that compose and reorder, compared with
 * utf8proc's own normalisation, for runs sorted by insertion and by
 * counting. */
static void same_as_utf8proc(void **state)
{
    static const int32_t pool[] = {
        'a',    'e',  0x0301, 0x0323, 0x0327, 0x0345, 0x05B0, 0x0F71,  0x0F72,
        0x3099, 0xE9, 0x1100, 0x1161, 0x11A8, 0xAC00, 0x0958, 0x1D15E, 0x212B};
    struct normalizer z[4] = {form("NFC"), form("NFD"), form("NFKC"),
                              form("NFKD")};
    uint32_t seed = 7;

    (void)state;
    for (int round = 0; round < 4000; round++) {
        char text[1024];
        size_t n = 0, len = round % 10 == 0 ? 100 : 12;
        const struct normalizer *f = &z[round % 4];
        const char *out;
        char *owned;
        utf8proc_uint8_t *want;
        utf8proc_ssize_t n_want;
        size_t n_out;
        struct error e;

        for (size_t i = 0; i < len; i++) {
            seed = seed * 1664525u + 1013904223u;
            n += (size_t)utf8proc_encode_char(
                pool[(seed >> 10) % (len == 12 ? 18 : 10)],
                (utf8proc_uint8_t *)text + n);
        }
        n_want =
            utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n,
                         &want, (utf8proc_option_t)f->forms[0]);
        assert_true(n_want >= 0);
        assert_int_equal(normalizer_run(f, text, n, &out, &n_out, &owned, &e),
                         ST_OK);
        assert_int_equal(n_out, n_want);
        assert_memory_equal(out, want, n_out);
        free(owned);
        free(want);
    }
}

/* Exchanging neighbours would take 10^11 steps. */
static void a_megabyte_of_marks(void **state)
{
    const size_t n = 1 << 20;
    struct normalizer z = form("NFC");
    char *text = malloc(n);
    struct error e;
    const char *out;
    char *owned;
    size_t n_out;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 4) {
        memcpy(text + i, "\xCC\x81\xCC\xA3", 4);
    }
    assert_int_equal(normalizer_run(&z, text, n, &out, &n_out, &owned, &e),
                     ST_OK);
    assert_int_equal(n_out, n);
    for (size_t i = 0; i < n; i += 2) {
        assert_memory_equal(out + i, i < n / 2 ? "\xCC\xA3" : "\xCC\x81", 2);
    }
    free(owned);
    free(text);
}

#define CODE_POINTS 0x110000

/* Returns the code points of the whole decomposition of c. */
static utf8proc_ssize_t decompose(utf8proc_int32_t c, int form,
                                  utf8proc_int32_t out[64])
{
    int boundary = 0;

    return utf8proc_decompose_char(
        c, out, 64,
        (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                            (form & UTF8PROC_COMPAT)),
        &boundary);
}

static double bytes_of(utf8proc_int32_t c)
{
    utf8proc_uint8_t out[4];

    return (double)utf8proc_encode_char(c, out);
}

static bool is_stable(const struct normalizer *z, utf8proc_int32_t c)
{
    char text[4], *owned;
    const char *out;
    size_t n,
        n_text = (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)text);
    struct error e;
    bool same;

    assert_int_equal(normalizer_run(z, text, n_text, &out, &n, &owned, &e),
                     ST_OK);
    same = n == n_text && memcmp(out, text, n) == 0;
    free(owned);
    return same;
}

/* Proves NORMALIZER_SHRINK.  A text and its normal form have the same whole
 * decomposition.  weight[x] is the most bytes that a character of a text
 * brings for each x in its decomposition; the weights of a decomposition are
 * thus a bound on the bytes before, those of the form's characters on each
 * byte behind. */
static void no_form_shrinks_more(void **state)
{
    static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
    double *weight = malloc(CODE_POINTS * sizeof *weight);
    utf8proc_int32_t parts[64];

    (void)state;
    assert_non_null(weight);
    for (size_t f = 0; f < 4; f++) {
        struct normalizer z = form(names[f]);
        double most = 0;

        memset(weight, 0, CODE_POINTS * sizeof *weight);
        for (utf8proc_int32_t c = 0; c < CODE_POINTS; c++) {
            utf8proc_ssize_t n = decompose(c, z.forms[0], parts);

            for (utf8proc_ssize_t i = 0; i < n; i++) {
                double w = bytes_of(c) / (double)n;

                weight[parts[i]] = w > weight[parts[i]] ? w : weight[parts[i]];
            }
        }
        for (utf8proc_int32_t c = 0; c < CODE_POINTS; c++) {
            utf8proc_ssize_t n = decompose(c, z.forms[0], parts);
            double sum = 0;

            for (utf8proc_ssize_t i = 0; i < n; i++) {
                sum += weight[parts[i]];
            }
            if (sum > NORMALIZER_SHRINK * bytes_of(c)) {
                assert_false(utf8proc_codepoint_valid(c) && is_stable(&z, c));
            } else if (sum / bytes_of(c) > most) {
                most = sum / bytes_of(c);
            }
        }
        assert_true(most > 3); /* the bound is not far off */
    }
    free(weight);
}

static void fewest_bytes(void **state)
{
    static const struct {
        const char *form, *text;
        size_t want;
    } rows[] = {
        {"NFC", "plain", 5},
        {"NFC", "", 0},
        {"NFC", "abe\xCC\x81", 2}, /* e joins what follows: 3 / 4 */
        {"NFC",
         "abe\xCC\x81\xCC\xA3"
         "c",
         4},                             /* 5 / 4 */
        {"NFKC", "\xF0\x9D\x9F\x8E", 1}, /* "0" */
        {"NFC", "\xCE\xB9\xCC\x88\xCC\x81", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct normalizer z = form(rows[i].form);
        size_t n = strlen(rows[i].text), n_out;
        struct error e;
        const char *out;
        char *owned;

        assert_int_equal(normalizer_fewest(&z, rows[i].text, n), rows[i].want);
        assert_int_equal(
            normalizer_run(&z, rows[i].text, n, &out, &n_out, &owned, &e),
            ST_OK);
        assert_true(rows[i].want <= n_out);
        free(owned);
    }
}

static void classes(void **state)
{
    (void)state;
    assert_true(unicode_is_space(' ') && unicode_is_space('\n') &&
                unicode_is_space(0x85) && unicode_is_space(0xA0) &&
                unicode_is_space(0x2028) && unicode_is_space(0x3000));
    assert_false(unicode_is_space(0x180E) || unicode_is_space(0x200B) ||
                 unicode_is_space('a') || unicode_is_space(0x1C));
    assert_true(unicode_is_word('a') && unicode_is_word('_') &&
                unicode_is_word('0') && unicode_is_word(0xE9) &&
                unicode_is_word(0x301) && unicode_is_word(0x200D));
    assert_false(unicode_is_word('-') || unicode_is_word(' ') ||
                 unicode_is_word(0xBD));
}

static void quoting(void **state)
{
    char longer[100];

    (void)state;
    memset(longer, '\x1b', sizeof longer);
    assert_string_equal(quote_bytes("a\"\n\0", 4).text, "\"a\\\"\\x0a\\x00\"");
    assert_true(strlen(quote_bytes(longer, sizeof longer).text) < QUOTE_TEXT);
    memset(longer, 'a', sizeof longer);
    assert_true(strlen(quote_bytes(longer, sizeof longer).text) < QUOTE_TEXT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(plain_text_is_not_copied),
        cmocka_unit_test(same_as_utf8proc),
        cmocka_unit_test(a_megabyte_of_marks),
        cmocka_unit_test(no_form_shrinks_more),
        cmocka_unit_test(fewest_bytes),
        cmocka_unit_test(classes),
        cmocka_unit_test(quoting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
