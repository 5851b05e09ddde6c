/* Encodes in slices, and the lower bound on the ids of a text. */
#include "text/encoding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/text_limits.h"

/* A sanitizer takes one random text in three, of all lengths. */
#ifdef __SANITIZE_ADDRESS__
#define EVERY 3
#else
#define EVERY 1
#endif

#define KINDS 6

static struct tokenizer *kinds[KINDS];

/* An added token in front of text, of each set, and a prefix space. */
static struct tokenizer *small_with_everything(void)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    fixture_set(root, "normalizer", json_pack("{s:s}", "type", "NFKC"));
    fixture_set(root, "pre_tokenizer",
                json_pack("{s:s,s:[{s:s,s:b},{s:s,s:b,s:b}]}", "type",
                          "Sequence", "pretokenizers", "type", "Digits",
                          "individual_digits", 0, "type", "ByteLevel",
                          "add_prefix_space", 1, "use_regex", 1));
    fixture_add(root, 259, "<|a|>", "s");
    fixture_add(root, 260, "caf\xC3\xA9", "n");
    fixture_add(root, 261, "one", "w");
    t = fixture_parse(root);
    json_decref(root);
    return t;
}

static int load(void **state)
{
    (void)state;
    kinds[0] = fixture_load(QWEN3);
    kinds[1] = fixture_load(GPT2);
    kinds[2] = fixture_resplit(LLAMA3_SPLIT, true);
    kinds[3] = fixture_resplit(QWEN35_SPLIT, false);
    kinds[4] = fixture_load(TINY_HYBRID);
    kinds[5] = small_with_everything();
    return 0;
}

static int unload(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        tokenizer_free(&kinds[k]);
    }
    return 0;
}

struct result {
    uint32_t *ids;
    size_t n, n_steps;
};

static struct result in_slices(const struct tokenizer *t,
                               const struct encoding_input *in, size_t bytes)
{
    struct result r = {.ids = NULL};
    struct encoding *g;
    struct error e;
    bool done = false;

    if (encoding_new(&g, t, in, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    for (; !done; r.n_steps++) {
        if (encoding_step(g, bytes, &done, &e) != ST_OK) {
            fail_msg("%s", e.text);
        }
    }
    r.ids = encoding_take(g, &r.n);
    encoding_free(&g);
    assert_null(g);
    return r;
}

/* Encodes at once, and in slices of several sizes; all ids must be equal, and
 * as many as the lower bound or more. */
static void check(const struct tokenizer *t, const struct encoding_input *in)
{
    static const size_t sizes[] = {1, 2, 7, 64, 1000, TEXT_SLICE_BYTES};
    size_t cap = tokenizer_bound(t, in->len), n;
    uint32_t *ids = malloc((cap + 1) * sizeof *ids);
    struct error e;
    enum status st;

    assert_non_null(ids);
    st = in->n_spans > 0
             ? tokenizer_encode_spans(
                   t, in->text, in->len, in->untrusted, in->n_spans,
                   in->flags & TOKENIZE_ADD_SPECIAL, ids, cap, &n, &e)
             : tokenizer_encode(t, in->text, in->len, in->flags, ids, cap, &n,
                                &e);
    assert_int_equal(st, ST_OK);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct result r = in_slices(t, in, sizes[i]);

        assert_int_equal(r.n, n);
        assert_true(n == 0 || memcmp(r.ids, ids, n * sizeof *ids) == 0);
        free(r.ids);
    }
    assert_true(tokenizer_fewest(t, in->text, in->len) <= n);
    free(ids);
}

static void check_text(const char *text, size_t len)
{
    for (int k = 0; k < KINDS; k++) {
        for (unsigned flags = 0; flags < 4; flags++) {
            struct encoding_input in = {
                .text = text, .len = len, .flags = flags};

            check(kinds[k], &in);
        }
    }
}

static void hard_texts_in_slices(void **state)
{
    static const char *const texts[] = {
        "",
        "a",
        "Once upon a time, in 1234 places.",
        "<|im_start|>user\nI'LL go<|im_end|><|im_start|>",
        "<|im_start<|im_start|>|><|a|> one one, caf\xC3\xA9 cafe\xCC\x81 12x",
        "e\xCC\x81\xCC\xA3t\xC3\xA9 \xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8",
        "\xE2\x84\xAA\xE2\x84\xA6 \xF0\x9D\x9F\x8E\xEF\xB7\xBA",
        "            \n\n\t   x  \r\n   ",
        "\xCE\xB9\xCC\x88\xCC\x81\xCE\xB9\xCD\x84\xE1\xBE\xBE\xCC\x88\xCD\x81",
        "\xE4\xB8\xAD\xE6\x96\x87\xE3\x81\x8B\xE3\x82\x99 \xF0\x9F\x98\x80",
    };
    size_t n;
    char *file = fixture_file("tests/vectors/qwen35.inp", &n);

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        check_text(texts[i], strlen(texts[i]));
    }
    check_text(file, n);
    free(file);
}

static uint32_t draw(uint32_t *seed, uint32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 10) % n;
}

static void random_texts_in_slices(void **state)
{
    static const char *const words[] = {"the ",
                                        "a",
                                        " ",
                                        "\n",
                                        "1",
                                        "12345",
                                        "<|im_start|>",
                                        "<|im_",
                                        "<|a|>",
                                        "e\xCC\x81",
                                        "\xCC\x81\xCC\xA3",
                                        "caf\xC3\xA9",
                                        "cafe\xCC\x81",
                                        "one",
                                        "\xE2\x84\xAA",
                                        "\xF0\x9D\x9F\x8E",
                                        "\xEF\xB7\xBA",
                                        "\xE4\xB8\xAD",
                                        "\xE1\x84\x80\xE1\x85\xA1",
                                        "\xF0\x9F\x98\x80",
                                        "'ll",
                                        "pneumono",
                                        "  "};
    const uint32_t n_words = sizeof words / sizeof *words;
    uint32_t seed = 1;
    char text[2048];

    (void)state;
    for (int run = 0; run < 60; run += EVERY) {
        uint32_t kind = draw(&seed, n_words);
        size_t n = 0;

        while (n < 40 + 16 * (size_t)run) {
            /* Half of the texts repeat one word, for long words. */
            const char *w =
                words[run % 2 && draw(&seed, 50) ? kind : draw(&seed, n_words)];

            memcpy(text + n, w, strlen(w));
            n += strlen(w);
        }
        check_text(text, n);
    }
}

static void spans_in_slices(void **state)
{
    static const char text[] =
        "<|im_start|>user\n<|im_end|> e\xCC\x81 <|im_end|>\n";
    static const struct text_span spans[] = {{17, 27}, {28, 31}};

    (void)state;
    for (int k = 0; k < KINDS; k++) {
        struct encoding_input in = {.text = text,
                                    .len = sizeof text - 1,
                                    .untrusted = spans,
                                    .n_spans = 2,
                                    .flags = TOKENIZE_PARSE_SPECIAL};

        check(kinds[k], &in);
    }
}

/* A megabyte takes about as many steps as it has slices: a word of windows, a
 * text of words, white space, and a text that the normalizer changes. */
static void a_step_is_a_slice(void **state)
{
    static const char *const units[] = {"a", "once ", " ",
                                        "cafe\xCC\x81 creme "};
    const size_t len = 1 << 20;
    char *text = malloc(len + 16);

    (void)state;
    assert_non_null(text);
    for (int u = 0; u < 4; u++) {
        size_t n = strlen(units[u]) * (len / strlen(units[u]));
        struct encoding_input in = {.text = text, .len = n};
        struct result r;

        for (size_t i = 0; i < n; i++) {
            text[i] = units[u][i % strlen(units[u])];
        }
        r = in_slices(kinds[0], &in, TEXT_SLICE_BYTES);
        assert_in_range(r.n_steps, len / TEXT_SLICE_BYTES,
                        5 * len / TEXT_SLICE_BYTES);
        free(r.ids);
    }
    free(text);
}

static void ends_past_its_ids(void **state)
{
    static const char text[] = "a b c d e f g h";
    struct encoding_input in = {.text = text, .len = sizeof text - 1};
    struct encoding *g;
    struct error e;
    struct result r;
    bool done;

    (void)state;
    in.max_ids = 8;
    r = in_slices(kinds[0], &in, 1);
    assert_int_equal(r.n, 8);
    free(r.ids);
    in.max_ids = 7;
    assert_int_equal(encoding_new(&g, kinds[0], &in, &e), ST_OK);
    assert_int_equal(encoding_step(g, SIZE_MAX, &done, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_true(encoding_is_over(g));
    encoding_free(&g);
    encoding_free(&g);
}

/* A text of the longest token alone has exactly the bound. */
static void fewest_is_reached(void **state)
{
    const struct tokenizer *t = kinds[0];
    size_t longest = tokenizer_longest(t), len = 0, n;
    const char *token = NULL;
    uint32_t ids[64];
    char text[8192] = "";

    (void)state;
    for (uint32_t id = 0; id < tokenizer_vocab(t) && len != longest; id++) {
        token = tokenizer_token(t, id, &len);
    }
    assert_int_equal(len, longest);
    memcpy(text, token, len);
    assert_int_equal(tokenizer_fewest(t, text, len), 1);
    assert_int_equal(tokenizer_encode(t, text, len, 0, ids, 64, &n, NULL),
                     ST_OK);
    assert_int_equal(n, 1);
    assert_int_equal(tokenizer_fewest(t, text, 0), 0);
    assert_int_equal(tokenizer_fewest(t, text, len + 1), 2);
}

/* Ids that stand for any number of bytes leave no bound. */
static void fewest_is_0_without_a_bound(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_add(root, 259, "<|a|>", "sr");
    t = fixture_parse(root);
    assert_int_equal(tokenizer_fewest(t, "aaaa", 4), 0);
    tokenizer_free(&t);
    json_decref(root);
    root = fixture_small();
    fixture_set(root, "pre_tokenizer",
                json_pack("{s:s,s:[{s:s,s:{s:s},s:s,s:b},{s:s,s:b,s:b}]}",
                          "type", "Sequence", "pretokenizers", "type", "Split",
                          "pattern", "String", "b", "behavior", "Removed",
                          "invert", 0, "type", "ByteLevel", "add_prefix_space",
                          0, "use_regex", 0));
    t = fixture_parse(root);
    assert_int_equal(tokenizer_fewest(t, "bbbb", 4), 0);
    tokenizer_free(&t);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hard_texts_in_slices),
        cmocka_unit_test(random_texts_in_slices),
        cmocka_unit_test(spans_in_slices),
        cmocka_unit_test(a_step_is_a_slice),
        cmocka_unit_test(ends_past_its_ids),
        cmocka_unit_test(fewest_is_reached),
        cmocka_unit_test(fewest_is_0_without_a_bound),
    };

    return cmocka_run_group_tests(tests, load, unload);
}
