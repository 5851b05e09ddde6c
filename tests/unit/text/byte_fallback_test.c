/* Tokenizers with byte_fallback, as Gemma's, against the ids that
 * tests/vectors/tokenizers/byte_fallback.py works out by the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/byte_fallback.h"
#include "text/detokenizer.h"
#include "text/encoder.h"
#include "text/encoding.h"

#define FOLDER "tests/vectors/tokenizers/"

static json_t *load_json(const char *name)
{
    json_error_t error;
    json_t *v = json_load_file(name, JSON_ALLOW_NUL, &error);

    if (v == NULL) {
        fail_msg("%s: %s", name, error.text);
    }
    return v;
}

static enum status parse_json(struct tokenizer **t, const json_t *root,
                              struct error *e)
{
    char *text = json_dumps(root, 0);
    enum status st = tokenizer_parse(t, text, strlen(text), e);

    free(text);
    return st;
}

static struct tokenizer *gemma(void)
{
    struct tokenizer *t;
    struct error e;

    if (tokenizer_load(&t, FOLDER "byte_fallback.json", &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return t;
}

/* Encodes in windows of some bytes; 0: as usual. */
static size_t encode(const struct tokenizer *t, const char *text, size_t len,
                     uint32_t window, uint32_t *ids, size_t cap)
{
    struct id_sink out = {.ids = ids, .cap = cap};
    struct encoder c;
    struct error e;

    assert_int_equal(encoder_init(&c, t, &e), ST_OK);
    c.bpe.window = window;
    if (encoder_run(&c, text, len, TOKENIZE_PARSE_SPECIAL, &out, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    encoder_fini(&c);
    return out.n;
}

static void same_ids(const json_t *row, const uint32_t *ids, size_t n,
                     uint32_t window)
{
    const json_t *want = json_object_get(row, "ids");

    for (size_t i = 0; i < n || i < json_array_size(want); i++) {
        json_int_t id = json_integer_value(json_array_get(want, i));

        if (i >= n || i >= json_array_size(want) || id != ids[i]) {
            fail_msg("\"%s\" in windows of %u: id %zu is %d of %zu, not %d of "
                     "%zu",
                     json_string_value(json_object_get(row, "text")), window, i,
                     i < n ? (int)ids[i] : -1, n, (int)id,
                     json_array_size(want));
        }
    }
}

static void check_decoded(const struct tokenizer *t, const json_t *row,
                          const uint32_t *ids, size_t n)
{
    const json_t *want = json_object_get(row, "decoded");
    size_t most = detokenizer_max(t), w = 0;
    char *text = malloc(json_string_length(want) + most);
    struct detokenizer d;

    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < n; i++) {
        w += detokenizer_push(&d, ids[i], text + w);
        assert_true(w <= json_string_length(want));
    }
    w += detokenizer_finish(&d, text + w);
    assert_int_equal(w, json_string_length(want));
    assert_memory_equal(text, json_string_value(want), w);
    free(text);
}

static void ids_are_those_of_the_definition(void **state)
{
    static const uint32_t windows[] = {0, 16, 17, 23, 64, 256};
    json_t *rows = load_json(FOLDER "byte_fallback.golden.json"), *row;
    struct tokenizer *t = gemma();
    static uint32_t ids[8192];
    size_t i;

    (void)state;
    json_array_foreach(rows, i, row)
    {
        const json_t *text = json_object_get(row, "text");
        const char *s = json_string_value(text);
        size_t len = json_string_length(text), n = 0;

        for (size_t w = 0; w < sizeof windows / sizeof windows[0]; w++) {
            n = encode(t, s, len, windows[w], ids, 8192);
            same_ids(row, ids, n, windows[w]);
        }
        assert_true(n <= tokenizer_bound(t, len));
        assert_true(n >= tokenizer_fewest(t, s, len));
        check_decoded(t, row, ids, n);
    }
    assert_true(i > 250);
    json_decref(rows);
    tokenizer_free(&t);
}

/* Texts of 100 KB made of the golden ones: slices and windows of all sizes
 * give the same ids. */
static void slices_do_not_matter(void **state)
{
    json_t *rows = load_json(FOLDER "byte_fallback.golden.json"), *row;
    size_t len = 0, n, i, cap = 400000;
    char *text = malloc(cap);
    uint32_t *ids = malloc(cap * sizeof *ids), *other;
    struct tokenizer *t = gemma();
    struct encoding *g;
    struct error e;
    bool done = false;

    (void)state;
    for (int k = 0; k < 10; k++) {
        json_array_foreach(rows, i, row)
        {
            const json_t *s = json_object_get(row, "text");

            memcpy(text + len, json_string_value(s), json_string_length(s));
            len += json_string_length(s);
        }
    }
    assert_true(len > 60000);
    n = encode(t, text, len, 0, ids, cap);
    for (size_t step = 7; step < 100000; step = step * 5 + 1) {
        const struct encoding_input in = {
            .text = text, .len = len, .flags = TOKENIZE_PARSE_SPECIAL};

        assert_int_equal(encoding_new(&g, t, &in, &e), ST_OK);
        for (done = false; !done;) {
            assert_int_equal(encoding_step(g, step, &done, &e), ST_OK);
        }
        other = encoding_take(g, &i);
        assert_int_equal(i, n);
        assert_memory_equal(other, ids, n * sizeof *ids);
        free(other);
        encoding_free(&g);
    }
    free(ids);
    free(text);
    json_decref(rows);
    tokenizer_free(&t);
}

/* The queue's steps for n bytes of a repeated unit. */
static uint64_t work(const struct tokenizer *t, const char *unit, size_t n)
{
    size_t len = strlen(unit), cap = n + 16;
    char *text = malloc(n + len);
    uint32_t *ids = malloc(cap * sizeof *ids);
    struct id_sink out = {.ids = ids, .cap = cap};
    struct encoder c;
    struct error e;
    uint64_t steps;

    for (size_t i = 0; i < n; i += len) {
        memcpy(text + i, unit, len);
    }
    assert_int_equal(encoder_init(&c, t, &e), ST_OK);
    if (encoder_run(&c, text, n / len * len, 0, &out, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    steps = c.bpe.queue.steps + c.words.split.matches;
    encoder_fini(&c);
    free(ids);
    free(text);
    return steps;
}

static void work_is_linear(void **state)
{
    static const char *const units[] = {
        "a",     " ",  "the ", "ab", "\n ", "\xF0\x9F\x98\x80", "\xE2\x96\x81",
        "aab a", "baa"};
    const size_t n = 1 << 18;
    struct tokenizer *t = gemma();

    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        uint64_t one = work(t, units[i], n), two = work(t, units[i], 2 * n);

        assert_true(two <= one * 22 / 10 + 64);
        assert_true(two <= 48 * 2 * n);
    }
    tokenizer_free(&t);
}

/* A control token that a user spells stays text. */
static void control_tokens_need_the_flag(void **state)
{
    struct tokenizer *t = gemma();
    const struct text_span user = {0, 5};
    uint32_t ids[64], with[64], bos;
    struct error e;
    size_t n, n_with;

    (void)state;
    assert_true(tokenizer_find(t, "<bos>", 5, &bos));
    assert_int_equal(tokenizer_encode(t, "<bos>", 5, 0, ids, 64, &n, &e),
                     ST_OK);
    for (size_t i = 0; i < n; i++) {
        assert_false(tokenizer_is_special(t, ids[i]));
    }
    assert_int_equal(tokenizer_encode_spans(t, "<bos>", 5, &user, 1, 0, with,
                                            64, &n_with, &e),
                     ST_OK);
    assert_int_equal(n_with, n);
    assert_memory_equal(ids, with, n * sizeof *ids);
    assert_int_equal(
        tokenizer_encode(t, "a", 1, TOKENIZE_ADD_SPECIAL, ids, 64, &n, &e),
        ST_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], bos);
    tokenizer_free(&t);
}

/* Bytes that are no UTF-8 together become replacement characters. */
static void broken_bytes_are_replaced(void **state)
{
    static const char *const spelt[] = {"<0xF0>", "<0x9F>", "a",
                                        "<0x41>", "<0xFF>", "\xE2\x96\x81"};
    static const char want[] = "\xEF\xBF\xBD"
                               "aA"
                               "\xEF\xBF\xBD ";
    struct tokenizer *t = gemma();
    struct detokenizer d;
    char text[256];
    size_t w = 0;

    (void)state;
    detokenizer_init(&d, t, 0);
    for (size_t i = 0; i < sizeof spelt / sizeof spelt[0]; i++) {
        uint32_t id;

        assert_true(tokenizer_find(t, spelt[i], strlen(spelt[i]), &id));
        assert_true(w + detokenizer_max(t) <= sizeof text);
        w += detokenizer_push(&d, id, text + w);
    }
    w += detokenizer_finish(&d, text + w);
    assert_int_equal(w, sizeof want - 1);
    assert_memory_equal(text, want, w);
    tokenizer_free(&t);
}

/* The older form: a space in front, no pre-tokenizer, and Strip. */
static void prepended_spaces(void **state)
{
    json_t *root = load_json(FOLDER "byte_fallback.json");
    json_t *normalizer =
        json_pack("{s:s, s:[{s:s, s:s}, {s:s, s:{s:s}, s:s}]}", "type",
                  "Sequence", "normalizers", "type", "Prepend", "prepend",
                  BYTE_FALLBACK_SPACE, "type", "Replace", "pattern", "String",
                  " ", "content", BYTE_FALLBACK_SPACE);
    json_t *strip = json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                              "content", " ", "start", 1, "stop", 0);
    struct tokenizer *plain = gemma(), *t;
    uint32_t ids[64], want[64], eos;
    struct error e;
    size_t n;

    (void)state;
    json_object_set_new(root, "normalizer", normalizer);
    json_object_set_new(root, "pre_tokenizer", json_null());
    json_array_append_new(
        json_object_get(json_object_get(root, "decoder"), "decoders"), strip);
    if (parse_json(&t, root, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    assert_true(tokenizer_find(t, "<eos>", 5, &eos));
    /* Each piece between control tokens gets one. */
    n = encode(plain, " the", 4, 0, want, 64);
    want[n++] = eos;
    n += encode(plain, "  a b", 5, 0, want + n, 64 - n);
    assert_int_equal(encode(t, "the<eos> a b", 12, 0, ids, 64), n);
    assert_memory_equal(ids, want, n * sizeof *ids);
    assert_int_equal(encode(t, "", 0, 0, ids, 64), 0);
    assert_true(tokenizer_bound(t, 12) >= n);
    json_decref(root);
    tokenizer_free(&plain);
    tokenizer_free(&t);
}

static json_t *part(json_t *root, const char *a, const char *b)
{
    return b == NULL ? json_object_get(root, a)
                     : json_object_get(json_object_get(root, a), b);
}

static void refuses_what_it_cannot_do(void **state)
{
    static const struct {
        const char *a, *b, *key, *value; /* json */
        const char *text;
    } rows[] = {
        {"normalizer", NULL, "content", "\"_\"",
         "normalizer: type: \"Replace\" is supported for a space and U+2581"},
        {"normalizer", NULL, "pattern", "{\"Regex\": \" +\"}",
         "normalizer: type: \"Replace\""},
        {"normalizer", NULL, "type", "\"Prepend\"", "normalizer: type: "},
        {"normalizer", NULL, "type", "\"Lowercase\"", "\"Lowercase\""},
        {"pre_tokenizer", NULL, "type", "\"ByteLevel\"",
         "ByteLevel beside byte_fallback is not supported"},
        {"decoder", NULL, "decoders", "[{\"type\": \"ByteFallback\"}]",
         "decoder: Replace is missing"},
        {"decoder", NULL, "decoders", "[{\"type\": \"ByteLevel\"}]",
         "type: \"ByteLevel\" is not supported here"},
        {"decoder", NULL, "decoders", "[]", "decoder: ByteFallback is missing"},
        {"model", NULL, "byte_fallback", "false", "ByteLevel is missing"},
        {"model", "vocab", "<0xAB>", NULL, "no token for byte 0xAB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *root = load_json(FOLDER "byte_fallback.json");
        json_t *at = part(root, rows[i].a, rows[i].b);
        struct tokenizer *t;
        struct error e;

        if (rows[i].value == NULL) {
            json_object_del(at, rows[i].key);
        } else {
            json_object_set_new(
                at, rows[i].key,
                json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        }
        if (parse_json(&t, root, &e) == ST_OK ||
            strstr(e.text, rows[i].text) == NULL) {
            fail_msg("row %zu: \"%s\" without \"%s\"", i, e.text, rows[i].text);
        }
        json_decref(root);
    }
}

static void spells_bytes(void **state)
{
    char text[BYTE_FALLBACK_LEN];
    uint8_t out[16];

    (void)state;
    for (int i = 0; i < 256; i++) {
        byte_fallback_spell((uint8_t)i, text);
        assert_int_equal(byte_fallback_byte(text, sizeof text), i);
        assert_int_equal(byte_fallback_read(text, sizeof text, out), 1);
        assert_int_equal(out[0], i);
    }
    assert_int_equal(byte_fallback_byte("<0x4g>", 6), -1);
    assert_int_equal(byte_fallback_byte("<0xab>", 6), -1);
    assert_int_equal(byte_fallback_byte("<0x41", 5), -1);
    assert_int_equal(byte_fallback_byte("<0x411", 6), -1);
    assert_int_equal(byte_fallback_read("a\xE2\x96\x81\xE2\x96", 6, out), 4);
    assert_memory_equal(out, "a \xE2\x96", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_those_of_the_definition),
        cmocka_unit_test(slices_do_not_matter),
        cmocka_unit_test(work_is_linear),
        cmocka_unit_test(control_tokens_need_the_flag),
        cmocka_unit_test(broken_bytes_are_replaced),
        cmocka_unit_test(prepended_spaces),
        cmocka_unit_test(refuses_what_it_cannot_do),
        cmocka_unit_test(spells_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
