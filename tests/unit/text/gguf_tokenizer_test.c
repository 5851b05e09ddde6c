/* Tokenizers in GGUF metadata: the real ones, written as llama.cpp's conversion
 * writes them, give the ids of their tokenizer.json; SentencePiece's those that
 * tests/vectors/tokenizers/byte_fallback.py works out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fixture.h"
#include "tests/unit/common/model/gguf_writer.h"
#include "tests/unit/text/gguf_tokens.h"
#include "text/assets.h"
#include "text/gguf_tokenizer.h"
#include "text/model_tokenizer.h"

#define IDS_MAX 4096
#define SPM     "tests/vectors/tokenizers/byte_fallback.spm.json"
#define MARK    "\n__ggml_vocab_test__\n"

static char root[] = "/tmp/sluice-gguf-text-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(root) == NULL;
}

static int teardown(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char paths[4][256];
    static int at;

    at = (at + 1) % 4;
    snprintf(paths[at], sizeof paths[at], "%s/%s", root, name);
    return paths[at];
}

static void put_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void save(const struct gguf_file *f, const char *path)
{
    size_t len;
    unsigned char *bytes = gguf_bytes(f, &len);

    put_file(path, bytes, len);
    free(bytes);
}

/* ---- byte-level tokenizers ---- */

/* Makes a GGUF file of metadata alone from a tokenizer.json. */
static struct gguf_file *convert(const char *name, const char *pre)
{
    struct gguf_file *f = gguf_file_new(3, 0);
    json_t *file = json_load_file(name, JSON_ALLOW_NUL, NULL);

    assert_non_null(file);
    gguf_put_tokenizer(f, file, pre);
    json_decref(file);
    return f;
}

static struct tokenizer *load(const char *path)
{
    struct tokenizer *t;
    struct error e;

    if (model_tokenizer_load(&t, path, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return t;
}

static struct tokenizer *converted(const char *name, const char *pre)
{
    struct gguf_file *f = convert(name, pre);
    const char *path = path_of("converted.gguf");
    struct tokenizer *t;

    gguf_put_bool(f, "tokenizer.ggml.add_bos_token", 0);
    save(f, path);
    gguf_file_free(&f);
    t = load(path);
    return t;
}

static void same_text(const struct tokenizer *a, const struct tokenizer *b,
                      const char *s, size_t n, unsigned flags)
{
    static uint32_t x[IDS_MAX], y[IDS_MAX];
    size_t n_x, n_y;
    struct error e;

    assert_int_equal(tokenizer_encode(a, s, n, flags, x, IDS_MAX, &n_x, &e),
                     ST_OK);
    assert_int_equal(tokenizer_encode(b, s, n, flags, y, IDS_MAX, &n_y, &e),
                     ST_OK);
    if (n_x != n_y || memcmp(x, y, n_x * sizeof x[0]) != 0) {
        fail_msg("\"%.*s\" has other ids", (int)n, s);
    }
}

/* All texts of llama.cpp's tests, with and without control tokens. */
static void same_texts(const struct tokenizer *a, const struct tokenizer *b)
{
    static const char chat[] = "<|im_start|>user\nHi<|im_end|>\n<think>"
                               "<|endoftext|><tool_call>";
    size_t n;
    char *in = fixture_file("tests/vectors/qwen35.inp", &n), *text, *end;

    for (text = in; text != NULL;
         text = end == NULL ? NULL : end + strlen(MARK)) {
        end = strstr(text, MARK);
        same_text(a, b, text, end == NULL ? strlen(text) : (size_t)(end - text),
                  0);
    }
    same_text(a, b, chat, sizeof chat - 1, 0);
    same_text(a, b, chat, sizeof chat - 1, TOKENIZE_PARSE_SPECIAL);
    free(in);
}

static void real_tokenizers_keep_their_ids(void **state)
{
    struct tokenizer *want, *have;
    uint32_t id;

    (void)state;
    want = fixture_load(QWEN3);
    have = converted(QWEN3, "qwen2");
    same_texts(want, have);
    assert_true(tokenizer_find(have, "<|im_end|>", 10, &id));
    assert_true(tokenizer_is_special(have, id));
    assert_true(tokenizer_find(have, "<think>", 7, &id));
    assert_false(tokenizer_is_special(have, id));
    tokenizer_free(&want);
    tokenizer_free(&have);
    want = fixture_load(GPT2);
    have = converted(GPT2, "gpt-2");
    same_texts(want, have);
    tokenizer_free(&want);
    tokenizer_free(&have);
}

static void merges_whose_result_is_no_token_are_left_out(void **state)
{
    json_t *file = json_load_file(GPT2, JSON_ALLOW_NUL, NULL);
    json_t *model = json_object_get(file, "model");
    json_t *merges = json_object_get(model, "merges");
    struct tokenizer *want = fixture_load(GPT2), *have;
    struct gguf_file *f = gguf_file_new(3, 0);
    struct error e;

    (void)state;
    assert_non_null(json_object_get(json_object_get(model, "vocab"), "q"));
    assert_null(json_object_get(json_object_get(model, "vocab"), "qZ"));
    json_array_insert_new(merges, 0, json_string("q Z"));
    gguf_put_tokenizer(f, file, "gpt-2");
    save(f, path_of("no_token.gguf"));
    gguf_file_free(&f);
    have = load(path_of("no_token.gguf"));
    same_texts(want, have);
    same_text(want, have, "qZ qZq", 6, 0);
    tokenizer_free(&have);
    tokenizer_free(&want);
    /* A side that is no token is an error in any case. */
    json_array_set_new(merges, 0, json_string("qZ q"));
    json_object_set_new(json_object_get(model, "vocab"), "qZq",
                        json_integer((json_int_t)json_object_size(
                            json_object_get(model, "vocab"))));
    f = gguf_file_new(3, 0);
    gguf_put_tokenizer(f, file, "gpt-2");
    save(f, path_of("no_token.gguf"));
    gguf_file_free(&f);
    assert_int_equal(model_tokenizer_load(&have, path_of("no_token.gguf"), &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "the left side is not in the vocabulary"));
    json_decref(file);
}

/* GPT-2's vocabulary, cut as Llama 3 does. */
static struct tokenizer *gpt2_as_llama3(void)
{
    json_t *file = json_load_file(GPT2, JSON_ALLOW_NUL, NULL);
    struct tokenizer *t;

    fixture_set(file, "pre_tokenizer",
                json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, "
                          "{s:s, s:b, s:b, s:b}]}",
                          "type", "Sequence", "pretokenizers", "type", "Split",
                          "pattern", "Regex", LLAMA3_SPLIT, "behavior",
                          "Isolated", "invert", 0, "type", "ByteLevel",
                          "add_prefix_space", 0, "trim_offsets", 0, "use_regex",
                          0));
    fixture_set(file, "model.ignore_merges", json_true());
    t = fixture_parse(file);
    json_decref(file);
    return t;
}

static void splits_have_names(void **state)
{
    struct tokenizer *want = gpt2_as_llama3();
    struct tokenizer *have = converted(GPT2, "llama-bpe");
    static uint32_t ids[64], part[64];
    struct error e;
    size_t n, n_part;

    (void)state;
    same_texts(want, have);
    tokenizer_free(&want);
    tokenizer_free(&have);
    /* A word ends before a capital letter. */
    have = converted(GPT2, "gpt-4o");
    assert_int_equal(
        tokenizer_encode(have, "HelloWorld123456", 16, 0, ids, 64, &n, &e),
        ST_OK);
    n_part = 0;
    for (size_t i = 0; i < 4; i++) {
        static const char *const words[] = {"Hello", "World", "123", "456"};
        size_t k;

        assert_int_equal(tokenizer_encode(have, words[i], strlen(words[i]), 0,
                                          part + n_part, 64 - n_part, &k, &e),
                         ST_OK);
        n_part += k;
    }
    assert_int_equal(n, n_part);
    assert_memory_equal(ids, part, n * sizeof ids[0]);
    tokenizer_free(&have);
}

/* ---- SentencePiece ---- */

static struct gguf_file *sentencepiece(const json_t *v)
{
    const json_t *tokens = json_object_get(v, "tokens");
    size_t n = json_array_size(tokens);
    struct gguf_file *f = gguf_file_new(3, 0);
    const char **spelt = calloc(n, sizeof *spelt);
    int32_t *types = calloc(n, sizeof *types);
    float *scores = calloc(n, sizeof *scores);

    for (size_t i = 0; i < n; i++) {
        spelt[i] = json_string_value(json_array_get(tokens, i));
        types[i] = (int32_t)json_integer_value(
            json_array_get(json_object_get(v, "types"), i));
        scores[i] = (float)json_number_value(
            json_array_get(json_object_get(v, "scores"), i));
    }
    gguf_put_text(f, "tokenizer.ggml.model", "llama");
    gguf_put_texts(f, "tokenizer.ggml.tokens", n, spelt);
    gguf_put_i32s(f, "tokenizer.ggml.token_type", n, types);
    gguf_put_f32s(f, "tokenizer.ggml.scores", n, scores);
    gguf_put_u32(f, "tokenizer.ggml.bos_token_id", 2);
    gguf_put_u32(f, "tokenizer.ggml.eos_token_id", 1);
    free((void *)(uintptr_t)spelt);
    free(types);
    free(scores);
    return f;
}

static void merges_follow_from_scores(void **state)
{
    const char *path = path_of("spm.gguf");
    json_t *v = json_load_file(SPM, JSON_ALLOW_NUL, NULL), *row;
    struct gguf_file *f = sentencepiece(v);
    static uint32_t ids[IDS_MAX];
    struct tokenizer *t;
    struct error e;
    size_t i, n;

    (void)state;
    gguf_put_bool(f, "tokenizer.ggml.add_space_prefix", 0);
    save(f, path);
    gguf_file_free(&f);
    t = load(path);
    json_array_foreach(json_object_get(v, "rows"), i, row)
    {
        const json_t *text = json_object_get(row, "text");
        const json_t *want = json_object_get(row, "ids");

        assert_int_equal(tokenizer_encode(t, json_string_value(text),
                                          json_string_length(text),
                                          TOKENIZE_PARSE_SPECIAL, ids, IDS_MAX,
                                          &n, &e),
                         ST_OK);
        for (size_t k = 0; k < n && k < json_array_size(want); k++) {
            json_int_t id = json_integer_value(json_array_get(want, k));

            if (ids[k] != id) {
                fail_msg("\"%s\": id %zu is %u, not %d",
                         json_string_value(text), k, ids[k], (int)id);
            }
        }
        assert_int_equal(n, json_array_size(want));
    }
    assert_true(i > 250);
    /* bos by default */
    assert_int_equal(
        tokenizer_encode(t, "a", 1, TOKENIZE_ADD_SPECIAL, ids, 8, &n, &e),
        ST_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], 2);
    json_decref(v);
    tokenizer_free(&t);
}

static void a_space_goes_in_front_by_default(void **state)
{
    const char *path = path_of("prefix.gguf");
    json_t *v = json_load_file(SPM, JSON_ALLOW_NUL, NULL);
    struct gguf_file *f = sentencepiece(v);
    uint32_t with[8], without[8];
    struct tokenizer *t;
    struct error e;
    size_t n, m;

    (void)state;
    gguf_put_bool(f, "tokenizer.ggml.add_bos_token", 0);
    gguf_put_bool(f, "tokenizer.ggml.add_eos_token", 1);
    save(f, path);
    gguf_file_free(&f);
    t = load(path);
    assert_int_equal(
        tokenizer_encode(t, "the", 3, TOKENIZE_ADD_SPECIAL, with, 8, &n, &e),
        ST_OK);
    assert_int_equal(with[n - 1], 1);
    json_decref(v);
    tokenizer_free(&t);
    v = json_load_file(SPM, JSON_ALLOW_NUL, NULL);
    f = sentencepiece(v);
    gguf_put_bool(f, "tokenizer.ggml.add_space_prefix", 0);
    save(f, path);
    gguf_file_free(&f);
    t = load(path);
    assert_int_equal(tokenizer_encode(t, " the", 4, 0, without, 8, &m, &e),
                     ST_OK);
    assert_int_equal(n - 1, m);
    assert_memory_equal(with, without, m * sizeof with[0]);
    json_decref(v);
    tokenizer_free(&t);
}

/* ---- assets ---- */

static void assets_come_from_metadata(void **state)
{
    const char *path = path_of("assets.gguf");
    json_t *v = json_load_file(SPM, JSON_ALLOW_NUL, NULL);
    struct gguf_file *f = sentencepiece(v);
    struct text_assets *a;
    const uint32_t *eos;
    const char *text;
    struct error e;
    size_t n;

    (void)state;
    gguf_put_u32(f, "tokenizer.ggml.padding_token_id", 0);
    gguf_put_f32(f, "general.sampling.temp", 0.5F);
    gguf_put_u32(f, "general.sampling.top_k", 20);
    gguf_put_text(f, "tokenizer.chat_template", "{{ messages }}");
    gguf_put_text(f, "tokenizer.chat_template.tool_use", "{{ tools }}");
    save(f, path);
    gguf_file_free(&f);
    if (text_assets_load(&a, path, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    assert_non_null(text_assets_tokenizer(a));
    eos = text_assets_eos(a, &n);
    assert_int_equal(n, 2); /* and <end_of_turn> */
    assert_int_equal(eos[0], 1);
    assert_int_equal(eos[1], 5);
    text = text_assets_chat_template(a, &n);
    assert_int_equal(n, 14);
    assert_memory_equal(text, "{{ messages }}", n);
    text = text_assets_named_template(a, "tool_use", &n);
    assert_int_equal(n, 11);
    assert_memory_equal(text, "{{ tools }}", n);
    assert_string_equal(text_assets_bos_token(a), "<bos>");
    assert_string_equal(text_assets_eos_token(a), "<eos>");
    assert_string_equal(text_assets_pad_token(a), "<pad>");
    assert_null(text_assets_unk_token(a));
    assert_true(text_assets_defaults(a)->has_temperature);
    assert_true(text_assets_defaults(a)->temperature == 0.5);
    assert_int_equal(text_assets_defaults(a)->top_k, 20);
    assert_false(text_assets_defaults(a)->has_top_p);
    text_assets_free(&a);
    json_decref(v);
}

/* A value of a wrong type is not an absent one. */
static void refuses_values_of_wrong_types(void **state)
{
    static const struct {
        const char *key, *text;
    } rows[] = {
        {"general.sampling.temp", "general.sampling.temp is a string"},
        {"general.sampling.top_k", "general.sampling.top_k is a string"},
        {"tokenizer.ggml.padding_token_id", "padding_token_id is a string"},
        {"tokenizer.ggml.add_space_prefix", "add_space_prefix is a string"},
        {"tokenizer.ggml.add_eos_token", "add_eos_token is a string"},
    };
    const char *path = path_of("wrong.gguf");
    json_t *v = json_load_file(SPM, JSON_ALLOW_NUL, NULL);
    struct text_assets *a;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct gguf_file *f = sentencepiece(v);

        gguf_put_text(f, rows[i].key, "1");
        save(f, path);
        gguf_file_free(&f);
        assert_int_equal(text_assets_load(&a, path, &e), ST_INVALID_ARGUMENT);
        if (strstr(e.text, rows[i].text) == NULL) {
            fail_msg("%s: %s", rows[i].key, e.text);
        }
    }
    json_decref(v);
}

/* In a directory, tokenizer.json goes before the metadata. */
static void a_file_beside_goes_first(void **state)
{
    struct gguf_file *f = gguf_file_new(3, 0);
    struct tokenizer *t;
    struct text_assets *a;
    struct error e;
    char *text;
    size_t n;

    (void)state;
    assert_int_equal(mkdir(path_of("beside"), 0700), 0);
    gguf_put_text(f, "general.architecture", "llama");
    save(f, path_of("beside/x.gguf"));
    gguf_file_free(&f);
    assert_int_equal(model_tokenizer_load(&t, path_of("beside"), &e),
                     ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "x.gguf: the file has no tokenizer"));
    assert_int_equal(text_assets_load(&a, path_of("beside"), &e), ST_OK);
    assert_null(text_assets_tokenizer(a));
    text_assets_free(&a);
    text = fixture_file("tests/vectors/tokenizers/byte_fallback.json", &n);
    put_file(path_of("beside/tokenizer.json"), text, n);
    free(text);
    t = load(path_of("beside"));
    assert_true(tokenizer_vocab(t) > 300);
    tokenizer_free(&t);
}

/* ---- refusals ---- */

static void refuses_by_name(void **state)
{
    static const char *const same[] = {"a", "a"};
    static const char *const broken[] = {"a\xff"};
    static const struct {
        const char *model, *pre;
        const char *const *tokens;
        size_t n;
        const char *text;
    } rows[] = {
        {"t5", "x", same, 1, "model \"t5\" is not supported; gpt2 and llama"},
        {"gpt2", "tekken", same, 1, "pre \"tekken\" is not supported; qwen2"},
        {"gpt2", "qwen2", same, 2, "token 1, \"a\", is there twice"},
        {"gpt2", "qwen2", broken, 1, "is not UTF-8"},
        {"gpt2", "qwen2", same, 1, "merges is no list of strings"},
        {"llama", "x", same, 1, "token 0 has no score"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *path = path_of("refused.gguf");
        struct gguf_file *f = gguf_file_new(3, 0);
        struct tokenizer *t;
        struct error e = {.text = ""};

        gguf_put_text(f, "tokenizer.ggml.model", rows[i].model);
        gguf_put_text(f, "tokenizer.ggml.pre", rows[i].pre);
        gguf_put_texts(f, "tokenizer.ggml.tokens", rows[i].n, rows[i].tokens);
        save(f, path);
        gguf_file_free(&f);
        if (model_tokenizer_load(&t, path, &e) == ST_OK ||
            strstr(e.text, rows[i].text) == NULL) {
            fail_msg("row %zu: \"%s\" without \"%s\"", i, e.text, rows[i].text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_tokenizers_keep_their_ids),
        cmocka_unit_test(merges_whose_result_is_no_token_are_left_out),
        cmocka_unit_test(splits_have_names),
        cmocka_unit_test(merges_follow_from_scores),
        cmocka_unit_test(a_space_goes_in_front_by_default),
        cmocka_unit_test(assets_come_from_metadata),
        cmocka_unit_test(a_file_beside_goes_first),
        cmocka_unit_test(refuses_values_of_wrong_types),
        cmocka_unit_test(refuses_by_name),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
