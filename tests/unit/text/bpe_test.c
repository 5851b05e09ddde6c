/* Byte-pair encoding compared with its rule, taken literally: random merges,
 * most of which no training would produce, and random words, encoded as a
 * whole and in small windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fixture.h"
#include "text/encoder.h"

#define TOKENS_MAX 64
#define TOKEN_MAX  24
#define WORD_MAX   600
#define NONE       (-1)

/* Tokens 0 to 2 are a, b and c. */
struct table {
    uint64_t random;
    int n_tokens, n_merges;
    char tokens[TOKENS_MAX][TOKEN_MAX + 1];
    int rank[TOKENS_MAX][TOKENS_MAX]; /* of the merge of two, or NONE */
    int made[TOKENS_MAX];             /* token by rank */
};

/* Returns [0, n), from the upper half of a linear congruential generator. */
static int draw(struct table *t, int n)
{
    t->random = t->random * 6364136223846793005u + 1442695040888963407u;
    return (int)((t->random >> 33) % (uint64_t)n);
}

static int token_named(struct table *t, const char *name)
{
    int i = 0;

    while (i < t->n_tokens && strcmp(t->tokens[i], name) != 0) {
        i++;
    }
    if (i == t->n_tokens) {
        strcpy(t->tokens[t->n_tokens++], name);
    }
    return i;
}

static int id_of(const struct table *t, int token)
{
    return token < 3 ? t->tokens[token][0] : 300 + token;
}

/* Any two tokens may merge. */
static void add_merge(struct table *t, json_t *model)
{
    int l = draw(t, t->n_tokens), r = draw(t, t->n_tokens), made;
    char name[2 * TOKEN_MAX + 1];

    strcpy(name, t->tokens[l]);
    strcat(name, t->tokens[r]);
    if (strlen(name) > TOKEN_MAX || t->rank[l][r] != NONE) {
        return;
    }
    made = token_named(t, name);
    t->rank[l][r] = t->n_merges;
    t->made[t->n_merges++] = made;
    json_object_set_new(json_object_get(model, "vocab"), name,
                        json_integer(id_of(t, made)));
    json_array_append_new(json_object_get(model, "merges"),
                          json_pack("[s, s]", t->tokens[l], t->tokens[r]));
}

static struct tokenizer *make(struct table *t, uint64_t seed)
{
    json_t *root = fixture_small();
    json_t *model = json_object_get(root, "model");
    struct tokenizer *made;

    *t = (struct table){
        .random = seed, .n_tokens = 3, .tokens = {"a", "b", "c"}};
    memset(t->rank, 0xff, sizeof t->rank);
    json_array_clear(json_object_get(model, "merges"));
    for (int i = 4 + draw(t, 40); i > 0; i--) {
        add_merge(t, model);
    }
    made = fixture_parse(root);
    json_decref(root);
    return made;
}

/* Joins the neighbours of lowest rank, leftmost among equals, until none
 * merge. */
static int by_the_rule(const struct table *t, const char *word, int n, int *ids)
{
    for (int i = 0; i < n; i++) {
        ids[i] = word[i] - 'a';
    }
    for (;;) {
        int best = NONE, at = 0;

        for (int i = 0; i + 1 < n; i++) {
            int rank = t->rank[ids[i]][ids[i + 1]];

            if (rank != NONE && (best == NONE || rank < best)) {
                best = rank;
                at = i;
            }
        }
        if (best == NONE) {
            break;
        }
        ids[at] = t->made[best];
        n--;
        memmove(&ids[at + 1], &ids[at + 2], (size_t)(n - at - 1) * sizeof *ids);
    }
    for (int i = 0; i < n; i++) {
        ids[i] = id_of(t, ids[i]);
    }
    return n;
}

/* Writes random letters, or a short repeated unit. */
static int write_word(struct table *t, char *word)
{
    int n = 1 + draw(t, WORD_MAX), unit = draw(t, 3) > 0 ? n : 1 + draw(t, 9);

    for (int i = 0; i < n; i++) {
        word[i] = i < unit ? (char)('a' + draw(t, 3)) : word[i - unit];
    }
    return n;
}

static void compare(struct encoder *c, const char *word, int n, const int *want,
                    int n_want)
{
    uint32_t ids[WORD_MAX];
    struct id_sink out = {.ids = ids, .cap = (size_t)n_want};
    struct error e;

    if (encoder_run(c, word, (size_t)n, 0, &out, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(out.n, n_want);
    for (int i = 0; i < n_want; i++) {
        if ((int)ids[i] != want[i]) {
            fail_msg("window %u, \"%.*s\": id %d is %u, want %d", c->bpe.window,
                     n, word, i, ids[i], want[i]);
        }
    }
}

static void keeps_to_the_rule(void **state)
{
    static const uint32_t windows[] = {0, 16, 32, 64, 160};
    uint64_t met = 0, whole = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct table t;
        struct tokenizer *made = make(&t, seed);
        struct encoder c[5];
        char word[WORD_MAX];
        int want[WORD_MAX];

        for (int k = 0; k < 5; k++) {
            assert_int_equal(encoder_init(&c[k], made, NULL), ST_OK);
            c[k].bpe.window = windows[k];
        }
        for (int i = 0; i < 20; i++) {
            int n = write_word(&t, word);
            int n_want = by_the_rule(&t, word, n, want);

            for (int k = 0; k < 5; k++) {
                compare(&c[k], word, n, want, n_want);
            }
        }
        for (int k = 0; k < 5; k++) {
            met += c[k].bpe.n_windows;
            whole += c[k].bpe.n_whole;
            encoder_fini(&c[k]);
        }
        tokenizer_free(&made);
    }
    /* Both paths were taken often. */
    assert_true(met > 10000 && whole > 1000);
}

/* A long word needs a window's memory, and its windows meet. */
static void long_words_meet(void **state)
{
    static const char *const units[] = {"a", "pneumonoultramicroscopic",
                                        "\xF0\x9F\x98\x80", "1", " "};
    const size_t n = 1 << 20;
    struct tokenizer *kinds[] = {fixture_load(QWEN3), fixture_load(GPT2),
                                 fixture_resplit(LLAMA3_SPLIT, true)};
    char *text = malloc(n);
    uint32_t *ids = malloc(n * sizeof *ids);

    (void)state;
    assert_true(text != NULL && ids != NULL);
    for (int k = 0; k < 3; k++) {
        for (int u = 0; u < 5; u++) {
            struct id_sink out = {.ids = ids, .cap = n};
            size_t len = strlen(units[u]);
            struct encoder c;

            for (size_t i = 0; i < n; i++) {
                text[i] = i < n / len * len ? units[u][i % len] : 'x';
            }
            assert_int_equal(encoder_init(&c, kinds[k], NULL), ST_OK);
            assert_int_equal(encoder_run(&c, text, n, 0, &out, NULL), ST_OK);
            assert_int_equal(c.bpe.n_whole, 0);
            assert_true(c.bpe.cap <= BPE_WINDOW);
            encoder_fini(&c);
        }
        tokenizer_free(&kinds[k]);
    }
    free(ids);
    free(text);
}

/* "a" to "a" 4096 times: a token may span the whole overlap of two windows. */
static struct tokenizer *doubling(void)
{
    json_t *root = fixture_small();
    json_t *model = json_object_get(root, "model");
    char half[4097] = "a", whole[4097];
    struct tokenizer *t;

    for (int id = 259; strlen(half) < 4096; id++) {
        snprintf(whole, sizeof whole, "%s%.*s", half, (int)strlen(half), half);
        json_object_set_new(json_object_get(model, "vocab"), whole,
                            json_integer(id));
        json_array_append_new(json_object_get(model, "merges"),
                              json_pack("[s,s]", half, half));
        memcpy(half, whole, sizeof half);
    }
    t = fixture_parse(root);
    json_decref(root);
    return t;
}

/* A word whose windows do not meet is encoded as a whole, up to a limit. */
static void whole_bytes(void **state)
{
    struct tokenizer *t = doubling();
    uint32_t *ids = malloc((TEXT_WHOLE_BYTES + 1) * sizeof *ids);
    char *text = malloc(TEXT_WHOLE_BYTES + 1);

    (void)state;
    assert_true(ids != NULL && text != NULL);
    memset(text, 'a', TEXT_WHOLE_BYTES + 1);
    for (size_t extra = 0; extra < 2; extra++) {
        struct id_sink out = {.ids = ids, .cap = TEXT_WHOLE_BYTES + 1};
        struct encoder c;
        struct error e;

        assert_int_equal(encoder_init(&c, t, &e), ST_OK);
        assert_int_equal(
            encoder_run(&c, text, TEXT_WHOLE_BYTES + extra, 0, &out, &e),
            extra == 0 ? ST_OK : ST_OUT_OF_RANGE);
        assert_int_equal(c.bpe.n_whole, 1 - extra);
        if (extra == 0) {
            assert_int_equal(out.n, TEXT_WHOLE_BYTES / 4096);
        } else {
            assert_non_null(strstr(e.text, "has to be encoded at once"));
        }
        encoder_fini(&c);
    }
    free(ids);
    free(text);
    tokenizer_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_to_the_rule),
        cmocka_unit_test(long_words_meet),
        cmocka_unit_test(whole_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
