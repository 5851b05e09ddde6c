/* Broken and unsupported files: each is refused with the place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "fixture.h"

/* Place in the small tokenizer, the JSON put there, and the result; a NULL
 * value removes the field. */
static const struct row {
    const char *path, *value;
    enum status status;
    const char *place;
} rows[] = {
    /* merges */
    {"model.merges", "[\"a b\",\"ab\"]", ST_INVALID_ARGUMENT,
     "model: merges[1]: expected two tokens"},
    {"model.merges", "[\"a b c\"]", ST_INVALID_ARGUMENT, "model: merges[0]"},
    {"model.merges", "[[\"a\"]]", ST_INVALID_ARGUMENT, "model: merges[0]"},
    {"model.merges", "[[\"a\",1]]", ST_INVALID_ARGUMENT,
     "merges[0]: expected a string, found an integer"},
    {"model.merges", "[7]", ST_INVALID_ARGUMENT, "merges[0]"},
    {"model.merges", "[\"a c\"]", ST_INVALID_ARGUMENT,
     "merges[0]: the result is not in the vocabulary"},
    {"model.merges", "[\"zz a\"]", ST_INVALID_ARGUMENT, "merges[0]: the left"},
    {"model.merges", "[\"a zz\"]", ST_INVALID_ARGUMENT, "merges[0]: the right"},
    {"model.merges", "[\" a\"]", ST_INVALID_ARGUMENT, "merges[0]: the left"},
    {"model.merges", "[\"ab \"]", ST_INVALID_ARGUMENT, "merges[0]: the right"},
    {"model.merges", "[\"a b\",[\"a\",\"b\"]]", ST_INVALID_ARGUMENT,
     "merges[1]: the pair is there twice"},
    {"model.merges", "{}", ST_INVALID_ARGUMENT, "merges: expected an array"},
    {"model.merges", NULL, ST_INVALID_ARGUMENT, "merges: missing"},
    /* vocabulary */
    {"model.vocab.x1", "-1", ST_OUT_OF_RANGE, "vocab[\"x1\"]: id -1"},
    {"model.vocab.x1", "4294967296", ST_OUT_OF_RANGE, "id 4294967296"},
    {"model.vocab.x1", "1.5", ST_INVALID_ARGUMENT, "found a fraction"},
    {"model.vocab.x1", "\"7\"", ST_INVALID_ARGUMENT, "found a string"},
    {"model.vocab.x1", "65", ST_INVALID_ARGUMENT, "id 65 is taken"},
    {"model.vocab.", "300", ST_INVALID_ARGUMENT, "the token is empty"},
    {"model.vocab.<0x-1>", "300", ST_INVALID_ARGUMENT, "two hex digits"},
    {"model.vocab.<0xGG>", "300", ST_INVALID_ARGUMENT, "two hex digits"},
    {"model.vocab.<0x>", "300", ST_INVALID_ARGUMENT, "two hex digits"},
    {"model.vocab.<0x1234>", "300", ST_INVALID_ARGUMENT, "two hex digits"},
    {"model.vocab.a", NULL, ST_INVALID_ARGUMENT, "no token for byte 0x61"},
    {"model.vocab", NULL, ST_INVALID_ARGUMENT, "model: vocab: missing"},
    {"model.vocab", "[]", ST_INVALID_ARGUMENT, "vocab: expected an object"},
    /* model */
    {"model", NULL, ST_INVALID_ARGUMENT, "model: missing"},
    {"model", "3", ST_INVALID_ARGUMENT, "model: expected an object"},
    {"model.type", "\"WordPiece\"", ST_UNIMPLEMENTED,
     "model: type: \"WordPiece\""},
    {"model.type", "\"\\u001b[31m\"", ST_UNIMPLEMENTED, "\\x1b[31m"},
    {"model.dropout", "0.1", ST_UNIMPLEMENTED, "model: dropout"},
    {"model.byte_fallback", "true", ST_UNIMPLEMENTED,
     "ByteLevel beside byte_fallback"},
    {"model.byte_fallback", "1", ST_INVALID_ARGUMENT, "expected a boolean"},
    {"model.continuing_subword_prefix", "\"##\"", ST_UNIMPLEMENTED,
     "continuing_subword_prefix"},
    {"model.end_of_word_suffix", "\"</w>\"", ST_UNIMPLEMENTED,
     "end_of_word_suffix"},
    {"model.end_of_word_suffix", "7", ST_INVALID_ARGUMENT, "expected a string"},
    {"model.ignore_merges", "\"yes\"", ST_INVALID_ARGUMENT, "ignore_merges"},
    /* added tokens */
    {"added_tokens", "{}", ST_INVALID_ARGUMENT,
     "added_tokens: expected an array"},
    {"added_tokens", "[5]", ST_INVALID_ARGUMENT, "added_tokens[0]"},
    {"added_tokens", "[{\"id\":300}]", ST_INVALID_ARGUMENT,
     "added_tokens[0]: content: missing"},
    {"added_tokens", "[{\"content\":\"<x>\"}]", ST_INVALID_ARGUMENT,
     "added_tokens[0]: id: missing"},
    {"added_tokens", "[{\"id\":300,\"content\":\"\"}]", ST_INVALID_ARGUMENT,
     "the token is empty"},
    {"added_tokens", "[{\"id\":-1,\"content\":\"<x>\"}]", ST_OUT_OF_RANGE,
     "added_tokens[0]: id -1"},
    {"added_tokens", "[{\"id\":97,\"content\":\"<x>\"}]", ST_INVALID_ARGUMENT,
     "id 97 is taken"},
    {"added_tokens", "[{\"id\":300,\"content\":\"a\"}]", ST_INVALID_ARGUMENT,
     "the vocabulary has it as 97"},
    {"added_tokens",
     "[{\"id\":300,\"content\":\"<x>\"},{\"id\":300,\"content\":\"<x>\"}]",
     ST_INVALID_ARGUMENT, "added_tokens[1]: the token is there twice"},
    {"added_tokens",
     "[{\"id\":256,\"content\":\"ab\"},{\"id\":256,\"content\":\"ab\"}]",
     ST_INVALID_ARGUMENT, "added_tokens[1]: the token is there twice"},
    {"added_tokens",
     "[{\"id\":300,\"content\":\"<x>\"},{\"id\":300,\"content\":\"<y>\"}]",
     ST_INVALID_ARGUMENT, "added_tokens[1]: id 300 is taken"},
    {"added_tokens", "[{\"id\":300,\"content\":\"<x>\",\"special\":\"no\"}]",
     ST_INVALID_ARGUMENT, "added_tokens[0]: special"},
    {"added_tokens", "[{\"id\":97,\"content\":\"a\",\"special\":true}]",
     ST_INVALID_ARGUMENT, "byte 0x61 is special"},
    /* normalizer */
    {"normalizer", "{\"type\":\"Lowercase\"}", ST_UNIMPLEMENTED,
     "normalizer: type: \"Lowercase\""},
    {"normalizer", "{}", ST_INVALID_ARGUMENT, "normalizer: type: missing"},
    {"normalizer", "\"NFC\"", ST_INVALID_ARGUMENT,
     "normalizer: expected an obj"},
    {"normalizer",
     "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
     "{\"type\":\"Prepend\"}]}",
     ST_UNIMPLEMENTED, "normalizer: normalizers[1]: type: \"Prepend\""},
    /* pre-tokenizer */
    {"pre_tokenizer", "null", ST_UNIMPLEMENTED, "pre_tokenizer: only vocab"},
    {"pre_tokenizer", "{\"type\":\"Metaspace\"}", ST_UNIMPLEMENTED,
     "pre_tokenizer: type: \"Metaspace\""},
    {"pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
     "{\"type\":\"Digits\"}]}",
     ST_UNIMPLEMENTED, "pretokenizers[1]: type: \"Digits\" behind ByteLevel"},
    {"pre_tokenizer", "{\"type\":\"Split\",\"behavior\":\"Isolated\"}",
     ST_INVALID_ARGUMENT, "pre_tokenizer: pattern: missing"},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Odd\"}",
     ST_UNIMPLEMENTED, "behavior: \"Odd\""},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a\"},\"behavior\":\"x\"}",
     ST_INVALID_ARGUMENT, "pattern: missing closing parenthesis"},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\\\\bc\"},"
     "\"behavior\":\"x\"}",
     ST_UNIMPLEMENTED, "pattern: this escape is not supported, at byte 1"},
    {"pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":\"x\"}",
     ST_INVALID_ARGUMENT, "the pattern is empty"},
    {"pre_tokenizer", "{\"type\":\"ByteLevel\",\"use_regex\":3}",
     ST_INVALID_ARGUMENT, "use_regex"},
    /* post-processor */
    {"post_processor", "{\"type\":\"RobertaProcessing\"}", ST_UNIMPLEMENTED,
     "post_processor: type: \"RobertaProcessing\""},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"special_tokens\":{},\"single\":[]}",
     ST_INVALID_ARGUMENT, "post_processor: single: without sequence A"},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"special_tokens\":{},\"single\":["
     "{\"SpecialToken\":{\"id\":\"<s>\"}}]}",
     ST_INVALID_ARGUMENT, "single[0]: special_tokens: <s>: missing"},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"special_tokens\":{\"<s>\":{\"ids\":"
     "[999]}},\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}}]}",
     ST_INVALID_ARGUMENT, "single[0]: ids[0]: id 999 is no token"},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"special_tokens\":{},\"single\":["
     "{\"Sequence\":{\"id\":\"A\"}},{\"Sequence\":{\"id\":\"A\"}}]}",
     ST_INVALID_ARGUMENT, "single[1]: a single template has"},
    {"post_processor",
     "{\"type\":\"TemplateProcessing\",\"special_tokens\":{},\"single\":["
     "{\"Sequence\":{\"id\":\"B\"}}]}",
     ST_INVALID_ARGUMENT, "single[0]: a single template has"},
    /* decoder */
    {"decoder", NULL, ST_INVALID_ARGUMENT, "decoder: missing"},
    {"decoder", "{\"type\":\"WordPiece\"}", ST_UNIMPLEMENTED,
     "decoder: type: \"WordPiece\""},
    {"decoder", "{\"type\":\"Sequence\",\"decoders\":[]}", ST_UNIMPLEMENTED,
     "decoder: ByteLevel is missing"},
    {"decoder",
     "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},"
     "{\"type\":\"Strip\"}]}",
     ST_UNIMPLEMENTED, "decoder: decoders[1]: type: \"Strip\""},
};

static void check_row(const struct row *r)
{
    json_t *root = fixture_small();
    struct error e;
    enum status st;

    if (r->value != NULL) {
        json_t *v = json_loads(r->value, JSON_DECODE_ANY, NULL);
        assert_non_null(v);
        fixture_set(root, r->path, v);
    } else {
        fixture_unset(root, r->path);
    }
    st = fixture_refused(root, &e);
    if (st != r->status || strstr(e.text, r->place) == NULL) {
        fail_msg("%s = %s: %s: \"%s\", want %s: \"%s\"", r->path,
                 r->value == NULL ? "(nothing)" : r->value, status_name(st),
                 e.text, status_name(r->status), r->place);
    }
    json_decref(root);
}

static void broken_fields(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_row(&rows[i]);
    }
}

static void refuse_bytes(const char *bytes, size_t n)
{
    struct tokenizer *t;
    struct error e = {0};

    assert_int_equal(tokenizer_parse(&t, bytes, n, &e), ST_INVALID_ARGUMENT);
    assert_null(t);
    assert_true(e.text[0] != '\0');
    assert_int_equal(tokenizer_parse(&t, bytes, n, NULL), ST_INVALID_ARGUMENT);
}

static void not_json(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "{",
        "[]",
        "null",
        "7",
        "\"x\"",
        "{\"model\":}",
        "{\"a\":1,\"a\":2}",
        "\xFF",
        "{\"\\ud800\":1}",
        "{\"a\\u0000\":1}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        refuse_bytes(texts[i], strlen(texts[i]));
    }
}

/* 8 MiB of opening brackets exceed a limit and do not reach the stack. */
static void nesting(void **state)
{
    const size_t n = 8u << 20;
    char *deep = malloc(n);
    struct tokenizer *t;
    struct error e;

    (void)state;
    assert_non_null(deep);
    memset(deep, '[', n);
    assert_int_equal(tokenizer_parse(&t, deep, n, &e), ST_OUT_OF_RANGE);
    for (size_t i = 0; i + 5 <= n; i += 5) {
        memcpy(deep + i, "{\"a\":", 5);
    }
    assert_int_equal(tokenizer_parse(&t, deep, n, &e), ST_OUT_OF_RANGE);
    assert_null(t);
    free(deep);
}

/* A real file cut anywhere is refused. */
static void truncated(void **state)
{
    size_t n;
    char *text = fixture_file(TINY_HYBRID, &n);

    (void)state;
    for (size_t cut = 0; cut < n - 1; cut += 1 + n / 50) {
        refuse_bytes(text, cut);
    }
    free(text);
}

static void no_file(void **state)
{
    struct tokenizer *t;
    struct error e;

    (void)state;
    assert_int_equal(tokenizer_load(&t, "no/such/file.json", &e), ST_NOT_FOUND);
    assert_non_null(strstr(e.text, "no/such/file.json: "));
    assert_int_equal(tokenizer_load(&t, "tests", &e), ST_INVALID_ARGUMENT);
    assert_int_equal(tokenizer_load(&t, "/dev/zero", &e), ST_INVALID_ARGUMENT);
    assert_null(t);
}

/* The 128 bits as a number, most significant byte first. */
static void hash(void **state)
{
    struct tokenizer *t = fixture_load(TINY_HYBRID);
    char want[33], got[33];
    XXH128_hash_t h;
    size_t n;
    char *text = fixture_file(TINY_HYBRID, &n);

    (void)state;
    h = XXH3_128bits(text, n);
    snprintf(want, sizeof want, "%016llx%016llx", (unsigned long long)h.high64,
             (unsigned long long)h.low64);
    for (int i = 0; i < TOKENIZER_HASH_BYTES; i++) {
        snprintf(got + 2 * i, 3, "%02x", tokenizer_hash(t)[i]);
    }
    assert_string_equal(got, want);
    free(text);
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_fields), cmocka_unit_test(not_json),
        cmocka_unit_test(nesting),       cmocka_unit_test(truncated),
        cmocka_unit_test(no_file),       cmocka_unit_test(hash),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
