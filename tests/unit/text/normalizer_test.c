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
        cmocka_unit_test(classes),
        cmocka_unit_test(quoting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
