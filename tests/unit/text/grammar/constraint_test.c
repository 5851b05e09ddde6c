/* Masks against acceptance token by token, and the life of a constraint. */
#include <pthread.h>

#include "grammar_fixture.h"

#define BITS_MAX 16

static struct grammar_vocab *vocab;

static int setup(void **state)
{
    (void)state;
    vocab = fixture_vocab();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    grammar_vocab_free(&vocab);
    return 0;
}

static bool has(const uint64_t *bits, uint32_t id)
{
    return bits[id / 64] >> (id % 64) & 1;
}

static const char *const schemas[] = {
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"
    "\"date\":{\"type\":\"integer\",\"minimum\":3,\"maximum\":120}},"
    "\"required\":[\"name\"]}",
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":2,"
    "\"maxLength\":17},\"minItems\":1,\"maxItems\":3}",
    "{\"type\":\"string\",\"maxLength\":3}",
    "{\"type\":\"string\",\"pattern\":\"^[a-e]{1,20}$\"}",
    "{\"anyOf\":[{\"type\":\"object\",\"properties\":{\"name\":{\"const\":"
    "1}}},{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"abc\"}},"
    "\"required\":[\"name\"],\"additionalProperties\":false}]}",
    "{\"type\":\"object\",\"additionalProperties\":{\"$ref\":\"#\"},"
    "\"maxProperties\":2}",
    "{\"type\":\"string\",\"not\":{\"enum\":[\"abc\",\"ab\"]}}",
    "{\"enum\":[\"\\n\",\"\\u00e9\",1.5,true,null]}",
};

/* Returns whether g takes a token after the accepted text of c, by way of
 * accept and rollback alone. */
static bool takes(struct constraint *c, uint32_t id)
{
    bool is = constraint_accept(c, id, NULL) == ST_OK;

    if (is) {
        constraint_rollback(c, 1);
    }
    return is;
}

/* Walks at random; every mask equals acceptance, is never empty, and
 * the end is allowed exactly where the text is complete. */
static void walk(struct grammar *g, unsigned seed)
{
    struct constraint *c;
    struct error e;

    assert_int_equal(constraint_new(&c, g, &e), ST_OK);
    for (int step = 0; step < 40; step++) {
        uint64_t bits[BITS_MAX] = {0};
        uint32_t allowed[1024], n = 0;

        assert_true(grammar_vocab_words(vocab) <= BITS_MAX);
        assert_int_equal(constraint_mask(c, bits, &e), ST_OK);
        for (uint32_t id = 0; id < fixture_n_vocab(); id++) {
            if (takes(c, id) != has(bits, id)) {
                size_t len;
                const char *text = constraint_text(c, &len);

                fail_msg("token %u after %.*s: %d", id, (int)len, text,
                         has(bits, id));
            }
            if (has(bits, id)) {
                allowed[n++] = id;
            }
        }
        assert_true(n > 0);
        assert_int_equal(has(bits, FIXTURE_END), constraint_complete(c));
        seed = seed * 1103515245u + 12345u;
        assert_int_equal(constraint_accept(c, allowed[seed / 65536 % n], &e),
                         ST_OK);
        if (allowed[seed / 65536 % n] == FIXTURE_END) {
            break;
        }
    }
    constraint_free(&c);
}

static void masks_equal_acceptance(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++) {
        for (int style = 0; style < 2; style++) {
            struct grammar *g =
                fixture_grammar(vocab, GRAMMAR_SCHEMA, schemas[i],
                                style == 0 ? &fixture_strict : &fixture_free);

            for (unsigned seed = 0; seed < 12; seed++) {
                walk(g, seed * 977 + 1);
            }
            grammar_free(&g);
        }
    }
}

static uint32_t word(const char *s)
{
    for (uint32_t id = 257; id < fixture_n_vocab(); id++) {
        const char *bytes;

        if (fixture_token(NULL, id, &bytes) == strlen(s) &&
            memcmp(bytes, s, strlen(s)) == 0) {
            return id;
        }
    }
    fail_msg("no token %s", s);
    return 0;
}

static void state_is_a_function_of_the_text(void **state)
{
    struct grammar *g =
        fixture_grammar(vocab, GRAMMAR_SCHEMA, schemas[0], &fixture_strict);
    struct constraint *a, *b;
    uint64_t x[BITS_MAX] = {0}, y[BITS_MAX] = {0};
    struct error e;
    size_t n, taken;
    const char *text;

    (void)state;
    assert_int_equal(constraint_new(&a, g, &e), ST_OK);
    assert_int_equal(constraint_new(&b, g, &e), ST_OK);
    assert_int_equal(constraint_accept(a, word("{\""), &e), ST_OK);
    assert_int_equal(constraint_accept(a, word("name"), &e), ST_OK);
    assert_int_equal(constraint_accept(a, word("\":"), &e), ST_OK);
    assert_int_equal(constraint_accept(a, word("12"), &e), ST_INVALID_ARGUMENT);
    text = constraint_text(a, &n);
    assert_int_equal(n, 8);
    assert_int_equal(constraint_accept_text(b, text, n, &taken, &e), ST_OK);
    assert_int_equal(constraint_mask(a, x, &e), ST_OK);
    assert_int_equal(constraint_mask(b, y, &e), ST_OK);
    assert_memory_equal(x, y, sizeof x);
    constraint_rollback(a, 2);
    text = constraint_text(a, &n);
    assert_int_equal(n, 2);
    assert_memory_equal(text, "{\"", 2);
    assert_int_equal(constraint_accept(a, word("date"), &e), ST_OK);
    constraint_rollback(a, 99);
    constraint_text(a, &n);
    assert_int_equal(n, 0);
    constraint_free(&a);
    constraint_free(&b);
    grammar_free(&g);
}

static void nothing_follows_an_end(void **state)
{
    struct grammar *g = fixture_grammar(
        vocab, GRAMMAR_SCHEMA, "{\"type\":\"integer\"}", &fixture_strict);
    struct constraint *c;
    uint64_t bits[BITS_MAX] = {0};
    struct error e;
    size_t taken;

    (void)state;
    assert_int_equal(constraint_new(&c, g, &e), ST_OK);
    assert_int_equal(constraint_accept(c, FIXTURE_END, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(constraint_accept(c, word("12"), &e), ST_OK);
    assert_int_equal(constraint_accept(c, FIXTURE_END, &e), ST_OK);
    assert_int_equal(constraint_mask(c, bits, &e), ST_OK);
    for (size_t i = 0; i < BITS_MAX; i++) {
        assert_int_equal(bits[i], 0);
    }
    assert_int_equal(constraint_accept(c, FIXTURE_END, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(constraint_accept_text(c, "3", 1, &taken, &e),
                     ST_INVALID_ARGUMENT);
    constraint_rollback(c, 1);
    assert_int_equal(constraint_accept(c, word("12"), &e), ST_OK);
    assert_int_equal(constraint_accept(c, 1 << 20, &e), ST_INVALID_ARGUMENT);
    constraint_free(&c);
    grammar_free(&g);
}

static void the_place_where_a_text_leaves(void **state)
{
    struct grammar *g =
        fixture_grammar(vocab, GRAMMAR_SCHEMA, schemas[1], &fixture_strict);
    struct constraint *c;
    struct error e;
    size_t taken;

    (void)state;
    assert_int_equal(constraint_new(&c, g, &e), ST_OK);
    assert_int_equal(constraint_accept_text(c, "[\"a\"]", 5, &taken, &e),
                     ST_INVALID_ARGUMENT);
    assert_int_equal(taken, 3);
    assert_non_null(strstr(e.text, "byte 3"));
    constraint_free(&c);
    grammar_free(&g);
}

static void *walk_thread(void *arg)
{
    for (unsigned seed = 0; seed < 8; seed++) {
        walk(arg, seed);
    }
    return NULL;
}

static void threads_share_a_grammar(void **state)
{
    struct grammar *g =
        fixture_grammar(vocab, GRAMMAR_SCHEMA, schemas[0], &fixture_free);
    struct grammar_sizes sizes;
    pthread_t threads[4];

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, walk_thread, g), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    grammar_sizes(g, &sizes);
    assert_true(sizes.bytes > 0 && sizes.mask_bytes > 0);
    assert_true(sizes.rules > 2 && sizes.states > 10);
    grammar_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_equal_acceptance),
        cmocka_unit_test(state_is_a_function_of_the_text),
        cmocka_unit_test(nothing_follows_an_end),
        cmocka_unit_test(the_place_where_a_text_leaves),
        cmocka_unit_test(threads_share_a_grammar),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
