/* The effect of each component of a file on an encode. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/encoder.h"
#include "text/text_limits.h"

static void merges_by_rank(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t = fixture_parse(root);

    (void)state;
    fixture_expect(t, "", 0, -1);
    fixture_expect(t, "ab", 0, 256, -1);
    fixture_expect(t, "abc abcab a", 0, 257, ' ', 257, 256, 258, -1);
    json_decref(root);
    tokenizer_free(&t);
}

/* A pair that overlaps itself: leftmost first. */
static void leftmost_of_equals(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_set(root, "model.vocab.aa", json_integer(259));
    fixture_set(root, "model.vocab.aaaa", json_integer(260));
    fixture_set(root, "model.merges", json_pack("[s,s]", "a a", "aa aa"));
    t = fixture_parse(root);
    fixture_expect(t, "aaa", 0, 259, 'a', -1);
    fixture_expect(t, "aaaaaaa", 0, 260, 259, 'a', -1);
    json_decref(root);
    tokenizer_free(&t);
}

/* A merge made possible by one of a higher rank goes first. */
static void ranks_need_not_grow(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_set(root, "model.merges", json_pack("[s,s]", "ab c", "a b"));
    t = fixture_parse(root);
    fixture_expect(t, "abcabab", 0, 257, 256, 256, -1);
    json_decref(root);
    tokenizer_free(&t);
}

static void ignoring_merges(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_set(root, "model.vocab.xyz", json_integer(259));
    t = fixture_parse(root);
    fixture_expect(t, "xyz", 0, 'x', 'y', 'z', -1);
    tokenizer_free(&t);
    fixture_set(root, "model.ignore_merges", json_true());
    t = fixture_parse(root);
    fixture_expect(t, "xyz", 0, 259, -1);
    fixture_expect(t, "xyzx", 0, 'x', 'y', 'z', 'x', -1);
    json_decref(root);
    tokenizer_free(&t);
}

static void added_token_flags(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_add(root, 300, "<x>", "");
    fixture_add(root, 301, "<w>", "w");
    fixture_add(root, 302, "<l>", "l");
    fixture_add(root, 303, "<r>", "r");
    fixture_add(root, 304, "<x><y>", "");
    t = fixture_parse(root);
    fixture_expect(t, "a<x>b", 0, 'a', 300, 'b', -1);
    fixture_expect(t, "<x><y><x", 0, 304, '<', 'x', -1);
    fixture_expect(t, "-<w>-", 0, '-', 301, '-', -1);
    fixture_expect(t, "a<w>", 0, 'a', '<', 'w', '>', -1);
    fixture_expect(t, "<w>\xC3\xA9", 0, '<', 'w', '>', 0xC3, 0xA9, -1);
    fixture_expect(t, "b \n<l> b", 0, 'b', 302, ' ', 'b', -1);
    fixture_expect(t, "b <r>\xE2\x80\x83 b", 0, 'b', ' ', 303, 'b', -1);
    fixture_expect(t, "<r>  <l>", 0, 303, 302, -1);
    json_decref(root);
    tokenizer_free(&t);
}

/* The raw set is searched first; the other in normal form. */
static void normalized_tokens(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_set(root, "normalizer", json_pack("{s:s}", "type", "NFC"));
    fixture_add(root, 300, "e\xCC\x81", "n");
    fixture_add(root, 301, "o\xCC\x81", "");
    t = fixture_parse(root);
    fixture_expect(t, "\xC3\xA9", 0, 300, -1);
    fixture_expect(t, "e\xCC\x81", 0, 300, -1);
    fixture_expect(t, "o\xCC\x81", 0, 301, -1);
    fixture_expect(t, "\xC3\xB3", 0, 0xC3, 0xB3, -1);
    json_decref(root);
    tokenizer_free(&t);
}

/* No text yields a control token unless requested. */
static void control_tokens(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_add(root, 257, "abc", "s");
    fixture_add(root, 301, "<|e|>", "s");
    fixture_set(root, "model.ignore_merges", json_true());
    t = fixture_parse(root);
    assert_true(tokenizer_is_special(t, 257));
    assert_false(tokenizer_is_special(t, 256));
    assert_false(tokenizer_is_special(t, 100000));
    fixture_expect(t, "abc", 0, 256, 'c', -1);
    fixture_expect(t, "abc", TOKENIZE_PARSE_SPECIAL, 257, -1);
    fixture_expect(t, "<|e|>", 0, '<', '|', 'e', '|', '>', -1);
    fixture_expect(t, "a<|e|>", TOKENIZE_PARSE_SPECIAL, 'a', 301, -1);
    json_decref(root);
    tokenizer_free(&t);
}

/* Every control token of the real files, alone and in company. */
static void control_tokens_of_real_files(void **state)
{
    static const char *const paths[] = {QWEN3, GPT2, TINY_HYBRID};

    (void)state;
    for (size_t p = 0; p < 3; p++) {
        struct tokenizer *t = fixture_load(paths[p]);
        unsigned seen = 0;

        for (uint32_t id = 0; id < tokenizer_vocab(t); id++) {
            char text[300];
            uint32_t ids[300];
            size_t len, n;
            const char *s = tokenizer_token(t, id, &len);

            if (s == NULL || !tokenizer_is_special(t, id)) {
                continue;
            }
            seen++;
            memcpy(text, s, len);
            memcpy(text + len, s, len);
            assert_int_equal(
                tokenizer_encode(t, text, 2 * len, 0, ids, 300, &n, NULL),
                ST_OK);
            for (size_t i = 0; i < n; i++) {
                assert_false(tokenizer_is_special(t, ids[i]));
            }
            assert_int_equal(tokenizer_encode(t, text, 2 * len,
                                              TOKENIZE_PARSE_SPECIAL, ids, 300,
                                              &n, NULL),
                             ST_OK);
            assert_int_equal(n, 2);
            assert_int_equal(ids[0], id);
        }
        assert_true(seen > 0);
        tokenizer_free(&t);
    }
}

static void prefix_space(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_set(root, "pre_tokenizer.add_prefix_space", json_true());
    t = fixture_parse(root);
    fixture_expect(t, "", 0, -1);
    fixture_expect(t, "ax", 0, 258, 'x', -1);
    fixture_expect(t, " ax", 0, 258, 'x', -1);
    tokenizer_free(&t);
    /* after a split, each piece gets one */
    fixture_set(root, "pre_tokenizer",
                json_pack("{s:s,s:[{s:s,s:{s:s},s:s},{s:s,s:b,s:b}]}", "type",
                          "Sequence", "pretokenizers", "type", "Split",
                          "pattern", "String", ",", "behavior", "Removed",
                          "type", "ByteLevel", "add_prefix_space", 1,
                          "use_regex", 0));
    t = fixture_parse(root);
    fixture_expect(t, "a,a", 0, 258, 258, -1);
    json_decref(root);
    tokenizer_free(&t);
}

static json_t *template_of(void)
{
    return json_pack(
        "{s:s,s:[{s:{s:s,s:i}},{s:{s:s,s:i}},{s:{s:s,s:i}}],s:{s:{s:[i]},"
        "s:{s:[i,i]}}}",
        "type", "TemplateProcessing", "single", "SpecialToken", "id", "<s>",
        "type_id", 0, "Sequence", "id", "A", "type_id", 0, "SpecialToken", "id",
        "</s>", "type_id", 0, "special_tokens", "<s>", "ids", 65, "</s>", "ids",
        66, 67);
}

static void template_tokens(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;

    (void)state;
    fixture_set(root, "post_processor", template_of());
    t = fixture_parse(root);
    fixture_expect(t, "x", 0, 'x', -1);
    fixture_expect(t, "x", TOKENIZE_ADD_SPECIAL, 65, 'x', 66, 67, -1);
    fixture_expect(t, "", TOKENIZE_ADD_SPECIAL, 65, 66, 67, -1);
    tokenizer_free(&t);
    fixture_set(root, "post_processor",
                json_pack("{s:s,s:[o,{s:s},o]}", "type", "Sequence",
                          "processors", template_of(), "type", "ByteLevel",
                          template_of()));
    t = fixture_parse(root);
    fixture_expect(t, "x", TOKENIZE_ADD_SPECIAL, 65, 65, 'x', 66, 67, 66, 67,
                   -1);
    json_decref(root);
    tokenizer_free(&t);
}

static void find_and_token(void **state)
{
    json_t *root = fixture_small();
    struct tokenizer *t;
    const char *s;
    uint32_t id;
    size_t n;

    (void)state;
    fixture_add(root, 300, "<|a b|>", "s");
    t = fixture_parse(root);
    assert_true(tokenizer_find(t, "<|a b|>", 7, &id));
    assert_int_equal(id, 300);
    assert_true(tokenizer_find(t,
                               "\xC4\xA0"
                               "a",
                               3, &id));
    assert_int_equal(id, 258);
    assert_false(tokenizer_find(t, "nothing", 7, &id));
    s = tokenizer_token(t, 258, &n);
    assert_int_equal(n, 2);
    assert_memory_equal(s, " a", 2);
    s = tokenizer_token(t, 300, &n);
    assert_int_equal(n, 7);
    assert_memory_equal(s, "<|a b|>", 7);
    assert_null(tokenizer_token(t, 259, &n));
    assert_null(tokenizer_token(t, 301, &n));
    assert_int_equal(tokenizer_vocab(t), 301);
    assert_int_equal(tokenizer_longest(t), 7);
    json_decref(root);
    tokenizer_free(&t);
}

static void refused_texts(void **state)
{
    static const size_t lengths[] = {
        TEXT_ENCODE_BYTES + 1u, 0x7FFFFFFF, 0x80000000u, 0xFFFFFFFFu,
        0x100000000u,           SIZE_MAX};
    json_t *root = fixture_small();
    struct tokenizer *t = fixture_parse(root);
    struct error e;
    uint32_t ids[4];
    size_t n = 9;

    (void)state;
    assert_int_equal(tokenizer_encode(t, "ab\xC3(", 4, 0, ids, 4, &n, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "byte 2"));
    assert_int_equal(n, 0);
    assert_int_equal(tokenizer_encode(t, "\xED\xA0\x80", 3, 0, ids, 4, &n, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(tokenizer_encode(t, "wxyz", 4, 0, ids, 4, &n, &e), ST_OK);
    assert_int_equal(n, 4);
    assert_int_equal(tokenizer_encode(t, "vwxyz", 5, 0, ids, 4, &n, &e),
                     ST_RESOURCE_EXHAUSTED);
    assert_int_equal(n, 0);
    assert_int_equal(tokenizer_encode(t, "a\0b", 3, 0, ids, 4, &n, &e), ST_OK);
    assert_int_equal(n, 3);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        /* refused by its length: the single byte there is not read */
        assert_int_equal(
            tokenizer_encode(t, "a", lengths[i], 0, ids, 4, &n, &e),
            ST_OUT_OF_RANGE);
    }
    json_decref(root);
    tokenizer_free(&t);
}

/* Counts steps, not seconds: twice the text costs twice the work, and few
 * steps per byte. */
static uint64_t work(const struct tokenizer *t, const char *unit, size_t n,
                     bool tail)
{
    size_t len = strlen(unit), cap = tokenizer_bound(t, n);
    char *text = malloc(n);
    uint32_t *ids = malloc(cap * sizeof *ids);
    struct id_sink out = {.ids = ids, .cap = cap};
    struct encoder c;
    struct error e;
    uint64_t steps;

    assert_true(text != NULL && ids != NULL && n % len == 0);
    for (size_t i = 0; i < n; i++) {
        text[i] = unit[i % len];
    }
    text[n - 1] = tail ? 'x' : text[n - 1];
    assert_int_equal(encoder_init(&c, t, &e), ST_OK);
    if (encoder_run(&c, text, n, 0, &out, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    steps = c.bpe.queue.steps + c.words.split.matches;
    encoder_fini(&c);
    free(ids);
    free(text);
    return steps;
}

static void linear_work(void **state)
{
    static const struct {
        const char *unit;
        bool tail;
    } rows[] = {
        {"a", false},
        {" ", false},
        {" ", true},
        {"\n ", true},
        {"\xF0\x9F\x98\x80", false},
        {"pneumono", false},
        {"ab", false},
        {"a ", false},
        {"\xCC\x81\xCC\xA3", false},
        {"12", false},
        {"<|im_sta", false},
    };
    struct tokenizer *kinds[] = {fixture_load(QWEN3), fixture_load(GPT2),
                                 fixture_resplit(LLAMA3_SPLIT, true)};
    const size_t n = 1 << 18;

    (void)state;
    for (size_t p = 0; p < 3; p++) {
        struct tokenizer *t = kinds[p];

        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            uint64_t one = work(t, rows[i].unit, n, rows[i].tail);
            uint64_t two = work(t, rows[i].unit, 2 * n, rows[i].tail);
            assert_true(two <= one * 22 / 10 + 64);
            assert_true(two <= 16 * 2 * n);
        }
        tokenizer_free(&t);
    }
}

struct thread_job {
    const struct tokenizer *t;
    const char *text;
    size_t len;
    uint32_t first[512];
    size_t n;
};

static void *encode_often(void *arg)
{
    struct thread_job *job = arg;

    for (int i = 0; i < 200; i++) {
        uint32_t ids[512];
        size_t n;
        if (tokenizer_encode(job->t, job->text, job->len, 0, ids, 512, &n,
                             NULL) != ST_OK ||
            (i > 0 &&
             (n != job->n || memcmp(ids, job->first, n * sizeof *ids) != 0))) {
            return job;
        }
        memcpy(job->first, ids, n * sizeof *ids);
        job->n = n;
    }
    return NULL;
}

static void several_threads(void **state)
{
    static struct thread_job jobs[4];
    static const char *const texts[4] = {
        "The sluice opens only when there is room downstream.",
        "e\xCC\x81t\xC3\xA9 1234   x\n\n", "<|im_start|> I'LL we'\xC5\xBF",
        "                         a"};
    struct tokenizer *t = fixture_load(TINY_HYBRID);
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        jobs[i].t = t;
        jobs[i].text = texts[i];
        jobs[i].len = strlen(texts[i]);
        assert_int_equal(
            pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_by_rank),
        cmocka_unit_test(leftmost_of_equals),
        cmocka_unit_test(ranks_need_not_grow),
        cmocka_unit_test(ignoring_merges),
        cmocka_unit_test(added_token_flags),
        cmocka_unit_test(normalized_tokens),
        cmocka_unit_test(control_tokens),
        cmocka_unit_test(control_tokens_of_real_files),
        cmocka_unit_test(prefix_space),
        cmocka_unit_test(template_tokens),
        cmocka_unit_test(find_and_token),
        cmocka_unit_test(refused_texts),
        cmocka_unit_test(linear_work),
        cmocka_unit_test(several_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
