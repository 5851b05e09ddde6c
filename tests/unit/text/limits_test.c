/* Each row of text/text_limits.h: at the limit, and one past it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/file.h"
#include "text/normalizer.h"
#include "text/pattern_split.h"
#include "text/text_limits.h"

/* n letters and a NUL, to free() */
static char *letters(size_t n, char c)
{
    char *s = malloc(n + 1);

    assert_non_null(s);
    memset(s, c, n);
    s[n] = '\0';
    return s;
}

static void refuse(const json_t *root, const char *place)
{
    struct error e;

    assert_int_equal(fixture_refused(root, &e), ST_OUT_OF_RANGE);
    if (strstr(e.text, place) == NULL) {
        fail_msg("\"%s\", want \"%s\"", e.text, place);
    }
}

static void accept(const json_t *root)
{
    struct tokenizer *t = fixture_parse(root);

    tokenizer_free(&t);
}

static void file_bytes(void **state)
{
    const size_t n = TEXT_FILE_BYTES;
    struct tokenizer *t;
    struct error e;
    char *text = letters(n + 1, ' ');
    char *small;
    json_t *root = fixture_small();

    (void)state;
    small = json_dumps(root, JSON_COMPACT);
    memcpy(text, small, strlen(small));
    assert_int_equal(tokenizer_parse(&t, text, n, &e), ST_OK);
    tokenizer_free(&t);
    assert_int_equal(tokenizer_parse(&t, text, n + 1, &e), ST_OUT_OF_RANGE);
    free(small);
    free(text);
    json_decref(root);
}

static void file_length(void **state)
{
    char path[] = "/tmp/sluice-text-XXXXXX";
    int fd = mkstemp(path);
    struct error e;
    char *data;
    size_t n;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(file_read(path, 100, &data, &n, &e), ST_OK);
    assert_int_equal(n, 100);
    free(data);
    assert_int_equal(file_read(path, 99, &data, &n, &e), ST_OUT_OF_RANGE);
    assert_null(data);
    close(fd);
    unlink(path);
}

/* Parses {"x": [unit, unit, ..]}, which lacks the other parts of the file. */
static void json_of(const char *unit, size_t n, enum status code,
                    const char *text)
{
    size_t len = strlen(unit), at;
    char *s = malloc(n * (len + 1) + 16);
    struct tokenizer *t;
    struct error e;

    assert_non_null(s);
    at = (size_t)sprintf(s, "{\"x\":[");
    for (size_t i = 0; i < n; i++) {
        memcpy(s + at, unit, len);
        s[at + len] = ',';
        at += len + 1;
    }
    memcpy(s + at - 1, "]}", 2);
    assert_int_equal(tokenizer_parse(&t, s, at + 1, &e), code);
    assert_non_null(strstr(e.text, text));
    free(s);
}

static void json_tree(void **state)
{
    static const char deep[] = "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                               "[[[[[[[[[[[[[[[["
                               "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"
                               "]]]]]]]]]]]]]]]]";

    (void)state;
    /* two of the values are the object and the array */
    json_of("1", TEXT_JSON_VALUES - 1, ST_UNIMPLEMENTED, "pre_tokenizer");
    json_of("1", TEXT_JSON_VALUES, ST_OUT_OF_RANGE, "more than 5242880 values");
    json_of("[]", TEXT_JSON_LISTS - 2, ST_UNIMPLEMENTED, "pre_tokenizer");
    json_of("[]", TEXT_JSON_LISTS - 1, ST_OUT_OF_RANGE,
            "more than 1310720 arrays");
    assert_int_equal(strlen(deep), 2 * (TEXT_JSON_DEPTH - 2));
    json_of(deep, 1, ST_UNIMPLEMENTED, "pre_tokenizer");
    json_of("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
            1, ST_OUT_OF_RANGE, "nested more than 64 deep");
}

static void token_ids(void **state)
{
    json_t *root = fixture_small();

    (void)state;
    fixture_set(root, "model.vocab.last", json_integer(MODEL_VOCAB_MAX - 1));
    accept(root);
    fixture_set(root, "model.vocab.last", json_integer(MODEL_VOCAB_MAX));
    refuse(root, "vocab[\"last\"]: id 1048576");
    json_decref(root);
}

static void token_bytes(void **state)
{
    static const size_t past[] = {TEXT_TOKEN_BYTES + 1, 1 << 20};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        json_t *root = fixture_small();
        char *s = letters(i == 0 ? TEXT_TOKEN_BYTES : past[i - 1], 'z');

        json_object_set_new(
            json_object_get(json_object_get(root, "model"), "vocab"), s,
            json_integer(300));
        if (i == 0) {
            struct tokenizer *t = fixture_parse(root);
            assert_int_equal(tokenizer_longest(t), TEXT_TOKEN_BYTES);
            tokenizer_free(&t);
        } else {
            refuse(root, "model: vocab[\"zzz");
        }
        free(s);
        json_decref(root);
    }
}

/* The list is counted before it is read, so its members may be anything. */
static json_t *list_of(size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(list, json_null());
    }
    return list;
}

static void counts(void **state)
{
    json_t *root = fixture_small();
    struct error e;

    (void)state;
    fixture_set(root, "model.merges", list_of(TEXT_MERGES));
    assert_int_equal(fixture_refused(root, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "merges[0]"));
    fixture_set(root, "model.merges", list_of(TEXT_MERGES + 1));
    refuse(root, "merges: 1048577");
    fixture_set(root, "added_tokens", list_of(TEXT_ADDED_TOKENS));
    assert_int_equal(fixture_refused(root, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "added_tokens[0]"));
    fixture_set(root, "added_tokens", list_of(TEXT_ADDED_TOKENS + 1));
    refuse(root, "added_tokens: 65537");
    json_decref(root);
}

static void added_bytes(void **state)
{
    (void)state;
    for (size_t past = 0; past < 2; past++) {
        json_t *root = fixture_small();
        char *s = letters(TEXT_ADDED_BYTES + past, 'z');

        fixture_add(root, 300, s, "");
        if (past == 0) {
            struct tokenizer *t = fixture_parse(root);
            fixture_expect(t, s, 0, 300, -1);
            tokenizer_free(&t);
        } else {
            refuse(root, "added_tokens[0]: content: 257 bytes");
        }
        free(s);
        json_decref(root);
    }
}

/* n members, nested or in a row, and ByteLevel last. */
static json_t *chain(const char *list, const json_t *member, size_t n,
                     const json_t *last)
{
    json_t *members = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(members, json_deep_copy(member));
    }
    if (last != NULL) {
        json_array_append_new(members, json_deep_copy(last));
    }
    return json_pack("{s:s,s:o}", "type", "Sequence", list, members);
}

static json_t *nest(const char *list, const json_t *inner, size_t depth)
{
    json_t *v = json_deep_copy(inner);

    while (depth-- > 0) {
        v = json_pack("{s:s,s:[o]}", "type", "Sequence", list, v);
    }
    return v;
}

static void stages(void **state)
{
    json_t *bytes = json_pack("{s:s,s:b,s:b}", "type", "ByteLevel",
                              "add_prefix_space", 0, "use_regex", 0);
    json_t *digits = json_pack("{s:s}", "type", "Digits");
    json_t *nfc = json_pack("{s:s}", "type", "NFC");
    json_t *root = fixture_small();

    (void)state;
    fixture_set(root, "pre_tokenizer",
                chain("pretokenizers", digits, TEXT_STAGES, bytes));
    accept(root);
    fixture_set(root, "pre_tokenizer",
                chain("pretokenizers", digits, TEXT_STAGES + 1, bytes));
    refuse(root, "pre_tokenizer: pretokenizers[16]: more than 16 steps");
    json_decref(root);
    root = fixture_small();
    fixture_set(root, "normalizer",
                chain("normalizers", nfc, TEXT_STAGES, NULL));
    accept(root);
    fixture_set(root, "normalizer",
                chain("normalizers", nfc, TEXT_STAGES + 1, NULL));
    refuse(root, "normalizer: normalizers[16]: more than 16 steps");
    json_decref(root);
    json_decref(bytes);
    json_decref(digits);
    json_decref(nfc);
}

static void nesting(void **state)
{
    const struct {
        const char *field, *list;
        json_t *inner;
    } rows[] = {
        {"normalizer", "normalizers", json_pack("{s:s}", "type", "NFC")},
        {"pre_tokenizer", "pretokenizers",
         json_pack("{s:s}", "type", "ByteLevel")},
        {"post_processor", "processors",
         json_pack("{s:s}", "type", "ByteLevel")},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *root = fixture_small();

        fixture_set(root, rows[i].field,
                    nest(rows[i].list, rows[i].inner, TEXT_NESTING));
        accept(root);
        fixture_set(root, rows[i].field,
                    nest(rows[i].list, rows[i].inner, TEXT_NESTING + 1));
        refuse(root, "more than 8 sequences");
        json_decref(root);
        json_decref(rows[i].inner);
    }
}

static void pattern_bytes(void **state)
{
    static const char *const kinds[] = {"Regex", "String"};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        json_t *root = fixture_small();
        char *s = letters(TEXT_PATTERN_BYTES + i / 2, 'z');

        fixture_set(root, "pre_tokenizer",
                    json_pack("{s:s,s:[{s:s,s:{s:s},s:s},{s:s}]}", "type",
                              "Sequence", "pretokenizers", "type", "Split",
                              "pattern", kinds[i % 2], s, "behavior",
                              "Isolated", "type", "ByteLevel"));
        if (i / 2 == 0) {
            accept(root);
        } else {
            refuse(root, "pretokenizers[0]: pattern: 8193 bytes");
        }
        free(s);
        json_decref(root);
    }
}

static void template_ids(void **state)
{
    (void)state;
    for (size_t past = 0; past < 2; past++) {
        json_t *root = fixture_small();
        json_t *ids = json_array();
        struct error e;

        for (size_t i = 0; i < TEXT_TEMPLATE_IDS + past; i++) {
            json_array_append_new(ids, json_integer(65));
        }
        fixture_set(root, "post_processor",
                    json_pack("{s:s,s:[{s:{s:s}},{s:{s:s}}],s:{s:{s:o}}}",
                              "type", "TemplateProcessing", "single",
                              "Sequence", "id", "A", "SpecialToken", "id",
                              "</s>", "special_tokens", "</s>", "ids", ids));
        assert_int_equal(fixture_refused(root, &e),
                         past == 0 ? ST_OK : ST_OUT_OF_RANGE);
        json_decref(root);
    }
}

static void encode_bytes(void **state)
{
    const size_t n = TEXT_ENCODE_BYTES;
    json_t *root = fixture_small();
    struct tokenizer *t = fixture_parse(root);
    char *text = letters(n + 1, 'z');
    uint32_t *ids = malloc((n + 1) * sizeof *ids);
    struct error e;
    size_t n_ids;

    (void)state;
    assert_non_null(ids);
    assert_int_equal(tokenizer_encode(t, text, n, 0, ids, n, &n_ids, &e),
                     ST_OK);
    assert_int_equal(n_ids, n);
    assert_int_equal(
        tokenizer_encode(t, text, n + 1, 0, ids, n + 1, &n_ids, &e),
        ST_OUT_OF_RANGE);
    free(ids);
    free(text);
    tokenizer_free(&t);
    json_decref(root);
}

/* U+0958 becomes two characters: twice as many bytes. */
static void encode_bytes_normalised(void **state)
{
    const size_t n = TEXT_ENCODE_BYTES / 2;
    json_t *v = json_pack("{s:s}", "type", "NFC");
    struct normalizer z;
    struct error e;
    const char *out;
    char *text = letters(n + 3, ' '), *owned;
    size_t n_out;

    (void)state;
    assert_int_equal(normalizer_parse(&z, v, &e), ST_OK);
    for (size_t i = 0; i + 3 <= n; i += 3) {
        memcpy(text + i, "\xE0\xA5\x98", 3);
    }
    assert_int_equal(normalizer_run(&z, text, n, &out, &n_out, &owned, &e),
                     ST_OK);
    assert_in_range(n_out, TEXT_ENCODE_BYTES - 3, TEXT_ENCODE_BYTES);
    free(owned);
    memcpy(text + n / 3 * 3, "\xE0\xA5\x98", 3);
    assert_int_equal(
        normalizer_run(&z, text, n / 3 * 3 + 3, &out, &n_out, &owned, &e),
        ST_OUT_OF_RANGE);
    assert_null(owned);
    free(text);
    json_decref(v);
}

/* Cuts a text and drops the pieces. */
static enum status cut(const struct pattern_split *s,
                       struct pattern_split_work *w, const char *text, size_t n,
                       struct error *e)
{
    struct pattern_cursor c;
    enum status st = ST_OK;
    const char *piece = "";
    size_t len;

    pattern_cursor_init(&c, s, text, n);
    while (st == ST_OK && piece != NULL) {
        st = pattern_cursor_next(&c, w, &piece, &len, e);
    }
    return st;
}

/* Finds the fewest steps with which the first match is decided. */
static uint32_t steps_needed(const struct pattern_split *s,
                             const struct pattern_split_work *w,
                             const char *text, size_t n)
{
    uint32_t low = 0, high = 1u << 30;

    while (low < high) {
        uint32_t limit = low + (high - low) / 2;

        pcre2_set_match_limit(w->context, limit);
        if (pcre2_match(s->code, (PCRE2_SPTR)text, n, 0, PCRE2_NO_UTF_CHECK,
                        w->data, w->context) == PCRE2_ERROR_MATCHLIMIT) {
            low = limit + 1;
        } else {
            high = limit;
        }
    }
    return low;
}

/* Steps grow by a factor of 1.6 with each of 23 a, by one with each b, and
 * not with z.  A text of n bytes can thus need its limit, or one step more. */
static void split_steps_exactly(void **state)
{
    static const char pattern[] = "\\A(?:a|aa)*[cd]|\\Aa*(?:b|e)*[cd]";
    const size_t n_a = 23;
    uint32_t has_jit = 0, seen[2] = {0, 0};
    char *text;
    struct pattern_split_work w;
    struct pattern_split s;
    struct error e;

    (void)state;
    pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
    if (!has_jit) {
        skip(); /* an interpreter counts in twos */
    }
    assert_int_equal(
        pattern_split_init(&s, pattern, sizeof pattern - 1, false, &e), ST_OK);
    assert_int_equal(pattern_split_work_init(&w, &e), ST_OK);
    text = letters(512, 'z');
    memset(text, 'a', n_a);
    for (size_t n_b = 0; n_b < 64; n_b++) {
        uint32_t need;

        memset(text + n_a, 'b', n_b);
        need = steps_needed(&s, &w, text, 512);
        for (size_t n = n_a + n_b; n <= 512; n++) {
            bool fits = need <= pattern_split_steps(n);

            if (fits && need < pattern_split_steps(n)) {
                break;
            }
            if (need <= pattern_split_steps(n) + 1) {
                seen[!fits]++;
                assert_int_equal(cut(&s, &w, text, n, &e),
                                 fits ? ST_OK : ST_OUT_OF_RANGE);
            }
        }
    }
    assert_true(seen[0] > 0 && seen[1] > 0);
    assert_int_equal(pattern_split_steps(0), TEXT_SPLIT_FLOOR);
    assert_int_equal(pattern_split_steps(1000),
                     TEXT_SPLIT_FLOOR + 1000 * TEXT_SPLIT_STEPS);
    free(text);
    pattern_split_work_fini(&w);
    pattern_split_fini(&s);
}

/* The printed table is what the code uses. */
static void table(void **state)
{
    (void)state;
    assert_int_equal(text_limits_n, 18);
    assert_string_equal(text_limits[0].name, "TEXT_FILE_BYTES");
    assert_int_equal(text_limits[0].value, TEXT_FILE_BYTES);
    assert_string_equal(text_limits[17].name, "TEXT_CHAT_BYTES");
    assert_int_equal(text_limits[17].value, TEXT_CHAT_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(table),
        cmocka_unit_test(file_bytes),
        cmocka_unit_test(file_length),
        cmocka_unit_test(json_tree),
        cmocka_unit_test(token_ids),
        cmocka_unit_test(token_bytes),
        cmocka_unit_test(counts),
        cmocka_unit_test(added_bytes),
        cmocka_unit_test(stages),
        cmocka_unit_test(nesting),
        cmocka_unit_test(pattern_bytes),
        cmocka_unit_test(template_ids),
        cmocka_unit_test(encode_bytes),
        cmocka_unit_test(encode_bytes_normalised),
        cmocka_unit_test(split_steps_exactly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
