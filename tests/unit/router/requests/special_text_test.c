/* Text with special tokens: in the chunks, for stop strings, and after a
 * resumption. */
#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/have.h"
#include "tests/unit/router/tiny_text.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

static const uint32_t ids[] = {'x', TINY_SPECIAL, 'a', TINY_SPECIAL};

/* Generates ids[0, 4), which end with finish, and checks the text. */
static void check_text(bool special, uint32_t finish, const char *text)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;
    struct tiny s;

    m.has_special_text = m.special_text = special;
    tiny_set(&s, tiny_tokenizer);
    x = tiny_generate(&s, 1, 4, NULL, &m);
    tiny_say(s.w, ids, 0, 2, 0);
    tiny_say(s.w, ids, 2, 2, finish);
    assert_true(x->ended);
    assert_int_equal(x->n_tokens, 4);
    tiny_check_text(x, text);
    tiny_end(&s);
}

static void special_tokens_have_text_if_requested(void **state)
{
    (void)state;
    check_text(false, LENGTH, "xa");
    check_text(true, LENGTH, "x<s>a<s>");
}

static void the_end_token_never_has_text(void **state)
{
    (void)state;
    check_text(false, STOP, "xa");
    check_text(true, STOP, "x<s>a");
}

static void stop_strings_see_the_same_text(void **state)
{
    static const char *const stop[] = {"s>a", NULL};

    (void)state;
    for (int special = 0; special < 2; special++) {
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct record *x;
        struct tiny s;

        m.has_special_text = m.special_text = special;
        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, 4, stop, &m);
        tiny_say(s.w, ids, 0, 4, LENGTH);
        if (special) {
            tiny_check_stopped(x, 0, 3, "x<");
        } else {
            assert_int_equal(x->finish, LENGTH);
            tiny_check_text(x, "xa");
        }
        tiny_end(&s);
    }
}

/* The text that the client has is skipped in bytes of the same text. */
static void a_resumed_text_continues(void **state)
{
    static const char *const stop[] = {"a<s", NULL};
    static struct have h;

    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        Sluice__V1__GenerateRequest m = have_nothing();
        struct record *x;
        struct tiny s;

        h = have_one(ids, 2, 2);
        have_put(&m, &h);
        m.has_special_text = m.special_text = true;
        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, 4, stops ? stop : NULL, &m);
        x->n_tokens = 2;
        tiny_say(s.w, ids, 2, 2, LENGTH);
        assert_true(x->ended);
        assert_int_equal(x->finish, stops ? STOP : LENGTH);
        tiny_check_text(x, stops ? "s>" : "s>a<s>");
        tiny_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_tokens_have_text_if_requested),
        cmocka_unit_test(the_end_token_never_has_text),
        cmocka_unit_test(stop_strings_see_the_same_text),
        cmocka_unit_test(a_resumed_text_continues),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}
