/* Stop strings: where a text ends, when text is sent, and the messages to the
 * worker. */
#include "router/requests/stops.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/tiny_text.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP
#define FORGET UINT32_MAX

/* ---- against a plain search ---- */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

struct want {
    uint32_t n_tokens, string;
    size_t n_text;
    char text[2048];
};

/* Finds the string in text[0, n) that ends first; among equals, the one that
 * begins first. */
static bool find(const struct want *w, size_t n, const char *const *stop,
                 size_t from, size_t *begin, uint32_t *string)
{
    for (size_t end = from + 1; end <= n; end++) {
        for (*begin = 0; *begin < end; ++*begin) {
            for (*string = 0; stop[*string] != NULL; ++*string) {
                size_t len = strlen(stop[*string]);
                if (*begin + len == end &&
                    memcmp(w->text + *begin, stop[*string], len) == 0) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Computes the expected result: the text grows by one token and is searched
 * again. */
static void expect(struct want *w, const uint32_t *ids, uint32_t n,
                   const char *const *stop, bool special)
{
    struct detokenizer d;

    *w = (struct want){.string = NO_STRING};
    detokenizer_init(&d, tiny_tokenizer, special ? 0 : DETOK_SKIP_SPECIAL);
    for (uint32_t i = 0; i <= n; i++) {
        size_t old = w->n_text, begin;
        uint32_t string;

        w->n_text += i < n ? detokenizer_push(&d, ids[i], w->text + old)
                           : detokenizer_finish(&d, w->text + old);
        w->n_tokens = i < n ? i + 1 : n;
        if (find(w, w->n_text, stop, old, &begin, &string)) {
            w->n_text = begin;
            w->string = string;
            return;
        }
    }
}

/* Sends rows of random length, some of them repeated from further back, at
 * times with a deaf client. */
static void say_in_rows(struct tiny *s, struct record *x, const uint32_t *ids,
                        uint32_t n)
{
    uint32_t at = 0, back;

    while (at < n && !(x->ended && !s->c->deaf)) {
        uint32_t k = 1 + draw(4);
        bool ended;

        k = k < n - at ? k : n - at;
        s->c->deaf = draw(3) == 0;
        back = draw(at + 1);
        back = draw(2) == 0 ? at : back;
        ended = at + k == n;
        tiny_say(s->w, ids, back, at + k - back, ended ? LENGTH : 0);
        at += k;
    }
    tiny_let_read(s);
}

static void random_ids(uint32_t *ids, uint32_t n)
{
    static const uint32_t some[] = {'a', 'b',         'c',         256,
                                    257, TINY_BCA,    TINY_C_EURO, 0xAC,
                                    258, TINY_SPECIAL};

    for (uint32_t i = 0; i < n; i++) {
        ids[i] = some[draw(sizeof some / sizeof *some)];
    }
}

static void any_tokens_in_any_rows(void **state)
{
    static const char *const strings[] = {
        "abca",          "cab",          "bcb", "aa",
        "c\xE2\x82\xAC", "\xEF\xBF\xBD", "b a", "acb",
        "bcabca",        "\xE2\x82\xAC", "cc",  "<s>a"};
    uint32_t found = 0;

    (void)state;
    seed = 1;
    for (int round = 0; round < 600; round++) {
        const char *stop[5] = {NULL};
        uint32_t ids[40], n = 1 + draw(40), n_strings = 1 + draw(4);
        Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
        struct record *x;
        struct want want;
        struct tiny s;

        for (uint32_t i = 0; i < n_strings; i++) {
            stop[i] = strings[draw(sizeof strings / sizeof *strings)];
        }
        random_ids(ids, n);
        m.has_special_text = m.special_text = draw(2) == 0;
        expect(&want, ids, n, stop, m.special_text);
        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, n, stop, &m);
        say_in_rows(&s, x, ids, n);
        assert_true(x->ended);
        assert_int_equal(x->finish, want.string == NO_STRING ? LENGTH : STOP);
        assert_int_equal(tiny_seen.stop_string, want.string);
        assert_int_equal(x->n_tokens, want.n_tokens);
        assert_memory_equal(x->tokens, ids, want.n_tokens * sizeof *ids);
        assert_int_equal(x->n_text, want.n_text);
        assert_memory_equal(x->text, want.text, want.n_text);
        assert_int_equal(tiny_held(&s), 0);
        found += want.string != NO_STRING;
        tiny_end(&s);
    }
    assert_true(found > 200 && found < 590);
}

/* ---- text sent, and when ---- */

static const char *const abcab[] = {"abcab", NULL};

/* Text that may begin a stop string waits; its tokens do not. */
static void a_beginning_is_held_back(void **state)
{
    static const uint32_t ids[] = {'x', 257, 'a', 'c', 'a', 'b'};
    static const char *const text[] = {"x",      "x",      "x",
                                       "xabcac", "xabcac", "xabcacab"};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = tiny_generate(&s, 1, 6, abcab, NULL);
    for (uint32_t i = 0; i < 6; i++) {
        tiny_say(s.w, ids, i, 1, i == 5 ? LENGTH : 0);
        assert_int_equal(x->n_tokens, i + 1);
        tiny_check_text(x, text[i]);
    }
    assert_true(x->ended);
    assert_int_equal(x->finish, LENGTH);
    assert_int_equal(s.w->n_cancels, 0);
    tiny_end(&s);
}

/* The longest string allowed is held back up to its last byte. */
static void the_longest_is_held_back(void **state)
{
    static char longest[STOP_STRING_BYTES_MAX + 1];
    const char *stop[] = {longest, NULL};
    uint32_t ids[STOP_STRING_BYTES_MAX + 1];
    struct record *x;
    struct tiny s;

    (void)state;
    memset(longest, 'x', STOP_STRING_BYTES_MAX);
    for (int end = 0; end < 2; end++) {
        uint32_t n = STOP_STRING_BYTES_MAX + 1;
        for (uint32_t i = 0; i < n; i++) {
            ids[i] = 'x';
        }
        ids[0] = 'y';
        ids[n - 1] = end == 0 ? 'x' : 'z';
        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, n, stop, NULL);
        tiny_say(s.w, ids, 0, n - 1, 0);
        assert_int_equal(x->n_tokens, n - 1);
        tiny_check_text(x, "y");
        tiny_say(s.w, ids, n - 1, 1, LENGTH);
        assert_int_equal(x->finish, end == 0 ? STOP : LENGTH);
        assert_int_equal(x->n_text, end == 0 ? 1 : n);
        tiny_end(&s);
    }
}

/* The client gets the end before the worker has answered.  The grant is held
 * until then, and rows in flight are dropped. */
static void the_end_waits_for_nobody(void **state)
{
    static const uint32_t ids[] = {'x', 257, 256, 'c', 'c', 'd'};
    struct router_worker_view v;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    s.w->hold_receipts = true;
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    tiny_say(s.w, ids, 0, 4, 0); /* one token past the string */
    tiny_check_stopped(x, 0, 3, "x");
    assert_int_equal(s.w->n_cancels, 1);
    assert_int_equal(s.w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_STOP_STRING);
    assert_int_equal(s.w->last_ack_index, FORGET);
    assert_true(router_worker_view(s.rig->router, 0, &v));
    assert_int_equal(v.n_sequences, 1);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_ENDED);
    tiny_say(s.w, ids, 3, 3, 0);
    assert_int_equal(s.w->last_ack_index, FORGET);
    tiny_say(s.w, ids, 1, 5, 0); /* also for tokens that the client has */
    assert_int_equal(s.w->last_ack_index, FORGET);
    assert_int_equal(s.w->n_cancels, 1);
    assert_int_equal(tiny_generate(&s, 1, 60, NULL, NULL)->status,
                     ST_ALREADY_EXISTS);
    worker_receipt(s.w);
    rig_run(s.rig);
    assert_int_equal(tiny_held(&s), 0);
    x = tiny_generate(&s, 1, 60, NULL, NULL);
    assert_false(x->ended);
    tiny_end(&s);
}

/* A client that does not read gets the end late; the worker gets the Cancel at
 * once. */
static void a_slow_reader_does_not_delay_it(void **state)
{
    static const uint32_t ids[] = {'x', 257, 256, 'c', 'c'};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    s.c->deaf = true;
    for (uint32_t i = 0; i < 3; i++) {
        tiny_say(s.w, ids, i, 1, 0);
        assert_int_equal(s.w->n_cancels, i == 2);
    }
    assert_int_equal(tiny_held(&s), 0);
    assert_int_equal(x->n_tokens, 0);
    tiny_let_read(&s);
    tiny_check_stopped(x, 0, 3, "x");
    tiny_end(&s);
}

static void ids_alone_stop_too(void **state)
{
    static const uint32_t ids[] = {'x', 257, 256};
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    m.has_want_text = true;
    m.want_text = false;
    x = tiny_generate(&s, 1, 60, abcab, &m);
    tiny_say(s.w, ids, 0, 3, 0);
    tiny_check_stopped(x, 0, 3, "");
    assert_int_equal(s.w->n_cancels, 1);
    tiny_end(&s);
}

/* The end token gives no text, so no string ends in it. */
static void the_end_token_is_not_looked_at(void **state)
{
    static const uint32_t ids[] = {'x', 'a', 'b', 'c', 256};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = tiny_generate(&s, 1, 60, abcab, NULL);
    tiny_say(s.w, ids, 0, 3, 0);
    tiny_say(s.w, ids, 3, 2, STOP);
    tiny_check_stopped(x, NO_STRING, 5, "xabc");
    assert_int_equal(s.w->n_cancels, 0);
    assert_int_equal(tiny_held(&s), 0);
    tiny_end(&s);
}

/* The rest of a character at the end becomes U+FFFD, which may be a stop
 * string; the worker has ended by itself. */
static void the_last_character_is_looked_at(void **state)
{
    static const char *const stop[] = {"ab", "c\xEF\xBF\xBD", NULL};
    static const uint32_t ids[] = {'x', TINY_C_EURO, 'y'};

    (void)state;
    for (int end = 0; end < 2; end++) {
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, 2, stop, NULL);
        tiny_say(s.w, ids, 0, 1, 0);
        if (end == 0) {
            tiny_say(s.w, ids, 1, 1, LENGTH);
        } else {
            tiny_say(s.w, ids, 1, 1, 0);
            client_cancel(s.c, 1);
            rig_run(s.rig);
        }
        tiny_check_stopped(x, 1, 2, "x");
        assert_int_equal(tiny_held(&s), 0);
        tiny_end(&s);
    }
}

/* A character of two tokens, and a token with parts of two characters. */
static void strings_across_characters(void **state)
{
    static const char *const stop[] = {"\xE2\x82\xAC"
                                       "b",
                                       NULL};
    static const uint32_t ids[] = {'x', TINY_C_EURO, TINY_SPECIAL, 0xAC,
                                   TINY_BCA};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = tiny_generate(&s, 1, 60, stop, NULL);
    for (uint32_t i = 0; i < 5; i++) {
        tiny_say(s.w, ids, i, 1, 0);
    }
    tiny_check_stopped(x, 0, 5, "xc");
    tiny_end(&s);
}

/* ---- limits ---- */

static struct record *generate_n(struct tiny *s, size_t n, const char *text,
                                 size_t bytes)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    ProtobufCBinaryData strings[STOP_STRINGS_MAX + 1];

    for (size_t i = 0; i < n; i++) {
        strings[i] = (ProtobufCBinaryData){bytes, (uint8_t *)(uintptr_t)text};
    }
    m.n_stop = n;
    m.stop = strings;
    return tiny_generate(s, 1, 5, NULL, &m);
}

static void refuse(size_t n, const char *text, size_t bytes, const char *why)
{
    struct record *x;
    struct tiny s;

    tiny_set(&s, tiny_tokenizer);
    x = generate_n(&s, n, text, bytes);
    if (why == NULL) {
        assert_false(x->ended);
    } else {
        assert_true(x->ended);
        assert_int_equal(x->status, ST_INVALID_ARGUMENT);
        assert_string_equal(x->error, why);
        assert_int_equal(s.w->n_submits, 0);
    }
    tiny_end(&s);
}

static void limits(void **state)
{
    static char text[STOP_STRING_BYTES_MAX + 1];

    (void)state;
    memset(text, 'x', sizeof text);
    refuse(STOP_STRINGS_MAX, text, STOP_STRING_BYTES_MAX, NULL);
    refuse(STOP_STRINGS_MAX + 1, "x", 1,
           "17 stop strings, 1 to 16 are allowed");
    refuse(1, text, sizeof text,
           "stop string 0 has 257 bytes, 1 to 256 are allowed");
    refuse(2, "", 0, "stop string 0 has 0 bytes, 1 to 256 are allowed");
    refuse(1, "a\xC3", 2, "stop string 0 is not UTF-8 at byte 1");
    refuse(1, "\0", 1, NULL);
}

static void they_need_a_tokenizer(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny_set(&s, NULL);
        s.text.no_model = i == 1;
        if (i == 1) { /* checked when a worker comes */
            tiny_end(&s);
            memset(&s, 0, sizeof s);
            s.rig = rig_new(NULL);
            s.w = tiny_worker(&s, "w1");
            s.c = rig_client(s.rig, "c1");
        }
        x = tiny_generate(&s, 1, 5, abcab, NULL);
        assert_true(x->ended);
        assert_int_equal(x->status, ST_FAILED_PRECONDITION);
        assert_string_equal(x->error,
                            "this router has no tokenizer for model tiny: it "
                            "cannot look for stop strings");
        tiny_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_tokens_in_any_rows),
        cmocka_unit_test(a_beginning_is_held_back),
        cmocka_unit_test(the_longest_is_held_back),
        cmocka_unit_test(the_end_waits_for_nobody),
        cmocka_unit_test(a_slow_reader_does_not_delay_it),
        cmocka_unit_test(ids_alone_stop_too),
        cmocka_unit_test(the_end_token_is_not_looked_at),
        cmocka_unit_test(the_last_character_is_looked_at),
        cmocka_unit_test(strings_across_characters),
        cmocka_unit_test(limits),
        cmocka_unit_test(they_need_a_tokenizer),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}
