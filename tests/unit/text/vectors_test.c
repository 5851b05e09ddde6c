/* Real tokenizers compared with llama.cpp and the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/detokenizer.h"

#define MARK    "\n__ggml_vocab_test__\n"
#define IDS_MAX 4096

static void compare(const struct tokenizer *t, const char *s, size_t n,
                    unsigned flags, const uint32_t *want, size_t n_want)
{
    static uint32_t ids[IDS_MAX];
    struct error e;
    size_t n_ids;

    if (tokenizer_encode(t, s, n, flags, ids, IDS_MAX, &n_ids, &e) != ST_OK) {
        fail_msg("%.*s: %s", (int)n, s, e.text);
    }
    for (size_t i = 0; i < n_ids && i < n_want; i++) {
        if (ids[i] != want[i]) {
            fail_msg("\"%.*s\": id %zu is %u, want %u", (int)n, s, i, ids[i],
                     want[i]);
        }
    }
    assert_int_equal(n_ids, n_want);
}

/* Reads the ids on one line of an .out file; moves *line to the next line. */
static size_t read_ids(char **line, uint32_t *ids)
{
    char *p = *line;
    size_t n = 0;

    while (*p != '\n' && *p != '\0') {
        char *end;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p) {
            p++;
            continue;
        }
        assert_true(n < IDS_MAX);
        ids[n++] = (uint32_t)v;
        p = end;
    }
    *line = *p == '\0' ? p : p + 1;
    return n;
}

static size_t check_vectors(const struct tokenizer *t, const char *name)
{
    static uint32_t want[IDS_MAX];
    char path[128];
    size_t n, records = 0;
    char *in, *out, *line, *text, *end;

    snprintf(path, sizeof path, "tests/vectors/%s.inp", name);
    in = fixture_file(path, &n);
    snprintf(path, sizeof path, "tests/vectors/%s.out", name);
    out = fixture_file(path, &n);
    line = out;
    for (text = in; text != NULL;
         text = end == NULL ? NULL : end + strlen(MARK)) {
        size_t n_want = read_ids(&line, want);
        end = strstr(text, MARK);
        compare(t, text, end == NULL ? strlen(text) : (size_t)(end - text), 0,
                want, n_want);
        records++;
    }
    assert_string_equal(line, "");
    free(in);
    free(out);
    return records;
}

static void qwen2_vectors(void **state)
{
    struct tokenizer *t = fixture_load(QWEN3);

    (void)state;
    assert_int_equal(check_vectors(t, "qwen2"), 47);
    tokenizer_free(&t);
}

static void gpt2_vectors(void **state)
{
    struct tokenizer *t = fixture_load(GPT2);

    (void)state;
    assert_int_equal(check_vectors(t, "gpt-2"), 47);
    tokenizer_free(&t);
}

static void qwen35_vectors(void **state)
{
    struct tokenizer *t = fixture_resplit(QWEN35_SPLIT, false);

    (void)state;
    assert_int_equal(check_vectors(t, "qwen35"), 51);
    tokenizer_free(&t);
}

/* Decodes ids all at once, pushed in one of several ways. */
static size_t decode(const struct tokenizer *t, const json_t *ids,
                     unsigned flags, char *out)
{
    struct detokenizer d;
    size_t w = 0;

    detokenizer_init(&d, t, flags);
    for (size_t i = 0; i < json_array_size(ids); i++) {
        uint32_t id = (uint32_t)json_integer_value(json_array_get(ids, i));
        w += detokenizer_push(&d, id, out + w);
    }
    return w + detokenizer_finish(&d, out + w);
}

static void check_text(const struct tokenizer *t, const json_t *row,
                       const char *text_key)
{
    static uint32_t want[IDS_MAX];
    static char out[1 << 20];
    const json_t *text = json_object_get(row, text_key);
    const json_t *ids = json_object_get(row, "ids");
    const char *key[2] = {"decoded", "decoded_skip_special"};

    for (size_t i = 0; i < json_array_size(ids); i++) {
        want[i] = (uint32_t)json_integer_value(json_array_get(ids, i));
    }
    compare(t, json_string_value(text), json_string_length(text),
            TOKENIZE_PARSE_SPECIAL, want, json_array_size(ids));
    for (unsigned k = 0; k < 2; k++) {
        const json_t *v = json_object_get(row, key[k]);
        size_t n = decode(t, ids, k == 0 ? 0 : DETOK_SKIP_SPECIAL, out);
        if (v != NULL) {
            assert_int_equal(n, json_string_length(v));
            assert_memory_equal(out, json_string_value(v), n);
        }
    }
}

static void tiny_hybrid_golden(void **state)
{
    json_t *golden =
        json_load_file("models/tiny-hybrid/tokenizer_golden.json", 0, NULL);
    struct tokenizer *t = fixture_load(TINY_HYBRID);
    const json_t *strings = json_object_get(golden, "strings");
    const json_t *chat = json_object_get(golden, "chat");

    (void)state;
    assert_true(json_array_size(strings) >= 40);
    for (size_t i = 0; i < json_array_size(strings); i++) {
        check_text(t, json_array_get(strings, i), "text");
    }
    assert_true(json_array_size(chat) >= 5);
    for (size_t i = 0; i < json_array_size(chat); i++) {
        check_text(t, json_array_get(chat, i), "rendered");
    }
    assert_int_equal(tokenizer_vocab(t), 4096);
    json_decref(golden);
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qwen2_vectors),
        cmocka_unit_test(gpt2_vectors),
        cmocka_unit_test(qwen35_vectors),
        cmocka_unit_test(tiny_hybrid_golden),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
