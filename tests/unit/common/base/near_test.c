#include "common/base/near.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static const char *nearest(const char *word)
{
    static const char *const names[] = {"max_tokens", "max_rows", "generate",
                                        "n", "status"};
    struct near s = near_to(word, strlen(word));

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        near_offer(&s, names[i]);
    }
    return s.best;
}

static void finds_one_mistake_of_each_kind(void **state)
{
    (void)state;
    assert_string_equal(nearest("max-token"), "max_tokens");
    assert_string_equal(nearest("max-tokenss"), "max_tokens");
    assert_string_equal(nearest("max-tokans"), "max_tokens");
    assert_string_equal(nearest("genreate"), "generate");
    assert_string_equal(nearest("sttaus"), "status");
}

static void bounds_the_distance_by_the_length(void **state)
{
    (void)state;
    assert_string_equal(nearest("genarete"), "generate"); /* 2 of 8 */
    assert_null(nearest("ganarate0x"));                   /* 4 of 10 */
    assert_null(nearest("x"));
    assert_null(nearest(""));
}

static void takes_a_word_cut_short(void **state)
{
    (void)state;
    assert_string_equal(nearest("gen"), "generate");
    assert_string_equal(nearest("max-r"), "max_rows");
    assert_null(nearest("ge"));
}

static void bounds_the_word(void **state)
{
    char word[NEAR_WORD_MAX + 2], name[NEAR_WORD_MAX + 2];
    struct near s;

    (void)state;
    memset(word, 'a', sizeof word);
    memset(name, 'a', sizeof name);
    name[NEAR_WORD_MAX] = '\0';
    s = near_to(word, NEAR_WORD_MAX);
    near_offer(&s, name);
    assert_ptr_equal(s.best, name);
    s = near_to(word, NEAR_WORD_MAX + 1);
    near_offer(&s, name);
    assert_null(s.best);
    name[NEAR_WORD_MAX] = 'a';
    name[NEAR_WORD_MAX + 1] = '\0';
    s = near_to(word, NEAR_WORD_MAX);
    near_offer(&s, name);
    assert_null(s.best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_one_mistake_of_each_kind),
        cmocka_unit_test(bounds_the_distance_by_the_length),
        cmocka_unit_test(takes_a_word_cut_short),
        cmocka_unit_test(bounds_the_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
