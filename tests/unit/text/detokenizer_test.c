/* Streaming compared with a decode of the whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/utf8.h"
#include "fixture.h"
#include "text/detokenizer.h"

/* errors='replace' by its definition: at each place the longest prefix of any
 * well-formed character. */
static size_t prefix_len(const uint8_t *s, size_t n, bool *whole)
{
    static const uint8_t table[][5] = {
        /* lead first..last, second first..last, length */
        {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2},
        {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
        {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4},
        {0xF4, 0xF4, 0x80, 0x8F, 4},
    };

    *whole = false;
    for (size_t r = 0; r < sizeof table / sizeof *table; r++) {
        size_t i = 1;
        if (s[0] < table[r][0] || s[0] > table[r][1]) {
            continue;
        }
        if (i < n && i < table[r][4] && s[1] >= table[r][2] &&
            s[1] <= table[r][3]) {
            for (i = 2; i < n && i < table[r][4] && (s[i] & 0xC0) == 0x80;) {
                i++;
            }
        }
        *whole = i == table[r][4];
        return i;
    }
    return 1;
}

static size_t replace_all(const uint8_t *s, size_t n, char *out)
{
    size_t w = 0;
    bool whole;

    for (size_t at = 0, len; at < n; at += len) {
        len = prefix_len(s + at, n - at, &whole);
        memcpy(out + w, whole ? (const char *)s + at : "\xEF\xBF\xBD",
               whole ? len : 3);
        w += whole ? len : 3;
    }
    return w;
}

/* Pushes ids = bytes one at a time; each chunk is UTF-8, and so is their
 * sum. */
static void stream(const struct tokenizer *t, const uint8_t *bytes, size_t n)
{
    char want[64], got[64 + 64];
    struct detokenizer d;
    size_t w = 0, bad, n_want = replace_all(bytes, n, want);

    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i <= n; i++) {
        size_t len = i < n ? detokenizer_push(&d, bytes[i], got + w)
                           : detokenizer_finish(&d, got + w);
        assert_true(len <= detokenizer_max(t));
        assert_true(utf8_valid(got + w, len, &bad));
        assert_true(d.n_held <= DETOK_HELD_MAX);
        w += len;
    }
    assert_int_equal(w, n_want);
    assert_memory_equal(got, want, w);
}

/* Every sequence of 1 and 2 bytes, and of 3 and 4 relevant bytes. */
static void all_byte_sequences(void **state)
{
    static const uint8_t edges[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F,
                                    0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0,
                                    0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1,
                                    0xF3, 0xF4, 0xF5, 0xFF};
    const size_t k = sizeof edges;
    json_t *root = fixture_small();
    struct tokenizer *t = fixture_parse(root);

    (void)state;
    for (unsigned i = 0; i < 256 * 256; i++) {
        uint8_t s[2] = {(uint8_t)(i >> 8), (uint8_t)i};
        stream(t, s, 2);
        stream(t, s + 1, 1);
    }
    for (size_t i = 0; i < k * k * k * k * k; i++) {
        uint8_t s[5] = {edges[i % k], edges[i / k % k], edges[i / k / k % k],
                        edges[i / k / k / k % k], edges[i / k / k / k / k]};
        stream(t, s, i % 2 == 0 ? 5 : 4);
    }
    json_decref(root);
    tokenizer_free(&t);
}

/* Tokens cut anywhere: pieces of random bytes compared with the whole. */
static void tokens_of_many_bytes(void **state)
{
    struct tokenizer *t = fixture_load(QWEN3);
    char *out = malloc(detokenizer_max(t));
    struct detokenizer d;
    uint32_t seed = 1;

    (void)state;
    assert_non_null(out);
    for (int round = 0; round < 2000; round++) {
        static uint8_t whole[1 << 16];
        static char want[3 << 16], got[3 << 16];
        size_t n = 0, w = 0, bad;

        detokenizer_init(&d, t, 0);
        for (int i = 0; i < 20; i++) {
            uint32_t id;
            const char *s;
            size_t len, out_len;

            seed = seed * 1664525u + 1013904223u;
            id = (seed >> 8) % (i % 2 == 0 ? 256 : tokenizer_vocab(t));
            s = tokenizer_token(t, id, &len);
            assert_non_null(s);
            memcpy(whole + n, s, len);
            n += len;
            out_len = detokenizer_push(&d, id, out);
            assert_true(out_len <= detokenizer_max(t));
            assert_true(utf8_valid(out, out_len, &bad));
            memcpy(got + w, out, out_len);
            w += out_len;
        }
        w += detokenizer_finish(&d, got + w);
        assert_int_equal(w, replace_all(whole, n, want));
        assert_memory_equal(got, want, w);
    }
    free(out);
    tokenizer_free(&t);
}

static void special_and_unknown_ids(void **state)
{
    struct tokenizer *t = fixture_load(TINY_HYBRID);
    struct detokenizer d;
    char out[256];
    uint32_t end;

    (void)state;
    assert_true(tokenizer_find(t, "<|im_end|>", 10, &end));
    detokenizer_init(&d, t, 0);
    assert_int_equal(detokenizer_push(&d, end, out), 10);
    assert_memory_equal(out, "<|im_end|>", 10);
    assert_int_equal(detokenizer_push(&d, 4096, out), 0);
    assert_int_equal(detokenizer_push(&d, UINT32_MAX, out), 0);
    detokenizer_init(&d, t, DETOK_SKIP_SPECIAL);
    assert_int_equal(detokenizer_push(&d, end, out), 0);
    tokenizer_free(&t);
}

/* A skipped token does not separate the bytes of a character around it. */
static void skipped_inside_a_character(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;
    struct detokenizer d;
    char out[256];

    (void)state;
    fixture_add(root, 300, "<s>", "s");
    t = fixture_parse(root);
    detokenizer_init(&d, t, DETOK_SKIP_SPECIAL);
    assert_int_equal(detokenizer_push(&d, 0xC3, out), 0);
    assert_int_equal(detokenizer_push(&d, 300, out), 0);
    assert_int_equal(detokenizer_push(&d, 0xA9, out), 2);
    assert_memory_equal(out, "\xC3\xA9", 2);
    assert_int_equal(detokenizer_finish(&d, out), 0);
    json_decref(root);
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_byte_sequences),
        cmocka_unit_test(tokens_of_many_bytes),
        cmocka_unit_test(special_and_unknown_ids),
        cmocka_unit_test(skipped_inside_a_character),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
