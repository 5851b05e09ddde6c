/* Resumed Generate calls: which tokens and text are sent. */
#include "router/requests/resume.h"

#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/have.h"
#include "tests/unit/router/tiny_text.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define STOP   SLUICE__V1__FINISH__FINISH_STOP

typedef Sluice__V1__GenerateRequest generate_message;

/* Calls Generate like tiny_generate(), with the tokens and text that the client
 * has of choice 0. */
static struct record *resume(struct tiny *s, struct have *h,
                             uint32_t max_tokens, const char *const *stop)
{
    ProtobufCBinaryData strings[STOP_STRINGS_MAX];
    uint32_t ids[10] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'};
    generate_message m = have_nothing();
    uint8_t full[16];
    struct record *x;

    memset(full, 1, 16);
    have_put(&m, h);
    while (stop != NULL && stop[m.n_stop] != NULL) {
        strings[m.n_stop] = wire_text(stop[m.n_stop]);
        m.n_stop++;
    }
    m.stop = strings;
    m.model = wire_text("tiny");
    m.request_id = (ProtobufCBinaryData){16, full};
    m.n_tokens = 10;
    m.tokens = ids;
    m.has_max_tokens = max_tokens > 0;
    m.max_tokens = max_tokens;
    x = client_call(s->c, METHOD_INFERENCE_GENERATE, &m.base, 0);
    x->n_tokens = h->count[0];
    rig_run(s->rig);
    return x;
}

/* The default of max_tokens depends on the encoded prompt. */
static void the_default_of_max_tokens_counts(void **state)
{
    static struct have h;
    static uint32_t ids[GENERATE_MAX_TOKENS + 1];
    struct record *x;
    struct tiny s;

    (void)state;
    for (uint32_t i = 0; i <= GENERATE_MAX_TOKENS; i++) {
        ids[i] = 'a';
    }
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, GENERATE_MAX_TOKENS + 1, 0);
    x = resume(&s, &h, 0, NULL);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(
        x->error, "choice 0: have_count is 257, more than max_tokens, 256");
    h = have_one(ids, GENERATE_MAX_TOKENS, 0);
    x = resume(&s, &h, 0, NULL);
    assert_false(x->ended);
    assert_int_equal(worker_sequence_of(s.w, 1)->n_given, GENERATE_MAX_TOKENS);
    tiny_say(s.w, ids, GENERATE_MAX_TOKENS, 0, LENGTH);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->n_tokens, GENERATE_MAX_TOKENS);
    tiny_end(&s);
}

static void it_is_submitted_as_one_that_moved(void **state)
{
    static struct have h;
    static const uint32_t ids[] = {'x', 'y', 'z', 'u', 'v'};
    const struct sequence *q;
    struct router_metrics n;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, 3, 3);
    x = resume(&s, &h, 5, NULL);
    q = worker_sequence_of(s.w, 1);
    assert_int_equal(q->n_prompt, 10);
    assert_int_equal(q->n_given, 3);
    assert_int_equal(q->have_index, 3);
    assert_int_equal(q->n_ids, 13);
    assert_memory_equal(q->ids + 10, ids, 3 * sizeof *ids);
    tiny_say(s.w, ids, 3, 2, LENGTH);
    assert_true(x->ended && x->in_order);
    assert_int_equal(x->n_tokens, 5);
    assert_int_equal(x->figures.n_generated, 5);
    tiny_check_text(x, "uv");
    router_counts(s.rig->router, &n);
    assert_int_equal(n.resumed, 1);
    assert_int_equal(n.tokens, 2);
    tiny_end(&s);
}

/* Every router derives the same seed from an id, also after a restart. */
static void the_seed_follows_from_the_id(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    for (int i = 0; i < 2; i++) {
        tiny_set(&s, tiny_tokenizer);
        x = tiny_generate(&s, 1, 5, NULL, NULL);
        assert_false(x->ended);
        assert_int_equal(worker_sequence_of(s.w, 1)->seed, 0x7e29d5c9e252881au);
        tiny_end(&s);
    }
}

static void ended_choices_are_left_alone(void **state)
{
    static struct have h;
    struct router_metrics n;
    struct record *x;
    struct tiny s;
    uint32_t ids[] = {'a', 'b', 'c', 'd'};

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = (struct have){.n = 3,
                      .count = {1, 2, 1},
                      .ended = {true, false, true},
                      .tokens = {'x', 'a', 'b', 'y'},
                      .n_tokens = 4,
                      .text = {1, 2, 1}};
    x = resume(&s, &h, 4, NULL);
    assert_int_equal(s.w->n_submits, 1);
    assert_non_null(worker_choice_of(s.w, 1, 1));
    tiny_say(s.w, ids, 2, 2, LENGTH);
    assert_int_equal(x->status, ST_OK);
    assert_true(x->ended);
    assert_int_equal(x->n_chunks, 1);
    assert_int_equal(x->chunks[0], 1);
    assert_memory_equal(record_choice(x, 1)->text, "cd", 2);
    router_counts(s.rig->router, &n);
    assert_int_equal(n.had_ended, 2);
    assert_int_equal(n.finished, 1);
    tiny_end(&s);
}

static void all_have_ended(void **state)
{
    static struct have h;
    struct router_metrics n;
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = (struct have){.n = 2,
                      .count = {1, 0},
                      .ended = {true, true},
                      .tokens = {'x'},
                      .n_tokens = 1};
    x = resume(&s, &h, 4, NULL);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(x->n_replies, 0);
    assert_int_equal(s.w->n_submits, 0);
    router_counts(s.rig->router, &n);
    assert_int_equal(n.choices_open, 0);
    tiny_end(&s);
}

/* The prompt is encoded first, so choice 1 has already been found to have
 * ended. */
static void the_refused_are_not_counted(void **state)
{
    static struct have h;
    static uint32_t ids[GENERATE_MAX_TOKENS + 2];
    struct router_metrics n;
    struct record *x;
    struct tiny s;

    (void)state;
    for (uint32_t i = 0; i < GENERATE_MAX_TOKENS + 2; i++) {
        ids[i] = 'a';
    }
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, GENERATE_MAX_TOKENS + 2, 0);
    h.n = 2;
    h.count[0] = GENERATE_MAX_TOKENS + 1;
    h.count[1] = 1;
    h.ended[1] = true;
    x = resume(&s, &h, 0, NULL);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    router_counts(s.rig->router, &n);
    assert_int_equal(n.refused, 1);
    assert_int_equal(n.resumed, 0);
    assert_int_equal(n.had_ended, 0);
    tiny_end(&s);
}

/* The client's own text shows that the choice should have ended earlier. */
static void a_stop_string_that_is_complete_ends_it(void **state)
{
    static struct have h;
    static const char *const stop[] = {"bc", NULL};
    static const uint32_t ids[] = {'a', 'b', 'c', 'd'};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, 4, 0);
    x = resume(&s, &h, 8, stop);
    assert_int_equal(s.w->n_submits, 0);
    tiny_check_stopped(x, 0, 4, "a");
    tiny_end(&s);
}

/* The last token may be the end token: the worker reports that. */
static void a_stop_string_in_the_last_token(void **state)
{
    static struct have h;
    static const char *const stop[] = {"bc", NULL};
    static const uint32_t ids[] = {'a', 'b', 'c', 'd'};

    (void)state;
    for (int ended = 0; ended < 3; ended++) {
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        h = have_one(ids, 3, 1);
        x = resume(&s, &h, ended == 1 ? 3 : 8, stop);
        assert_int_equal(s.w->n_submits, 1);
        if (ended == 2) { /* by that token, which then gives no text */
            tiny_say(s.w, ids, 3, 0, STOP);
            tiny_check_stopped(x, NO_STRING, 3, "b");
        } else {
            tiny_say(s.w, ids, 3, ended ? 0 : 1, ended ? LENGTH : 0);
            tiny_check_stopped(x, 0, 3, "");
        }
        tiny_end(&s);
    }
}

/* ---- cut at any point ---- */

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % below;
}

struct part {
    uint32_t n_tokens, n_text; /* totals after a chunk */
};

struct run {
    uint32_t ids[24], n, finish;
    const char *stop[4];
    struct part parts[64];
    uint32_t n_parts;
    char text[1024];
    uint32_t n_text, n_tokens, string;
};

static struct run now;

static void note(struct fake *f, const Sluice__V1__GenerateChunk *c)
{
    struct part *last = &now.parts[now.n_parts];

    (void)f;
    if (c->text.len > 0) {
        memcpy(now.text + now.n_text, c->text.data, c->text.len);
    }
    now.n_text += (uint32_t)c->text.len;
    now.n_tokens += (uint32_t)c->n_tokens;
    now.string = c->has_stop_string ? c->stop_string : NO_STRING;
    if (!c->has_finish) {
        *last = (struct part){now.n_tokens, now.n_text};
        now.n_parts++;
    }
}

static void draw_run(struct run *k)
{
    static const uint32_t some[] = {'a', 'b',         'c',         256,
                                    257, TINY_BCA,    TINY_C_EURO, 0xAC,
                                    258, TINY_SPECIAL};
    static const char *const strings[] = {
        "abca", "cab", "bcb", "c\xE2\x82\xAC", "\xEF\xBF\xBD", "b a", "acb"};
    uint32_t n_stops = draw(4);

    *k = (struct run){.n = 1 + draw(24), .finish = draw(2) ? STOP : LENGTH};
    for (uint32_t i = 0; i < k->n; i++) {
        k->ids[i] = some[draw(sizeof some / sizeof *some)];
    }
    for (uint32_t i = 0; i < n_stops; i++) {
        k->stop[i] = strings[draw(sizeof strings / sizeof *strings)];
    }
}

static void say(struct tiny *s, const struct record *x, uint32_t at)
{
    while (at < now.n && !x->ended) {
        uint32_t n = 1 + draw(3);

        n = n < now.n - at ? n : now.n - at;
        tiny_say(s->w, now.ids, at, n, at + n == now.n ? now.finish : 0);
        at += n;
    }
    if (!x->ended) {
        tiny_say(s->w, now.ids, now.n, 0, now.finish);
    }
}

/* Resumes with the chunks before `cut`, and asserts the results of an uncut
 * call. */
static void check_cut(const struct run *whole, uint32_t cut)
{
    static struct have h;
    const struct part *p = &whole->parts[cut];
    struct record *x;
    struct tiny s;

    tiny_set(&s, tiny_tokenizer);
    s.c->on_chunk = note;
    now = *whole;
    now.n_parts = 0;
    now.n_text = p->n_text;
    now.n_tokens = p->n_tokens;
    h = have_one(whole->ids, p->n_tokens, p->n_text);
    x = resume(&s, &h, whole->finish == LENGTH ? whole->n : 40, whole->stop);
    say(&s, x, p->n_tokens);
    assert_true(x->ended && x->in_order);
    assert_int_equal(x->status, ST_OK);
    assert_int_equal(now.n_tokens, whole->n_tokens);
    assert_int_equal(now.string, whole->string);
    assert_int_equal(now.n_text, whole->n_text);
    assert_memory_equal(now.text, whole->text, now.n_text);
    tiny_end(&s);
}

static void wherever_it_is_cut(void **state)
{
    uint32_t n_cuts = 0;

    (void)state;
    seed = 3;
    for (int round = 0; round < 150; round++) {
        static struct run whole;
        struct record *x;
        struct tiny s;

        draw_run(&now);
        tiny_set(&s, tiny_tokenizer);
        s.c->on_chunk = note;
        x = tiny_generate(&s, 1, now.finish == LENGTH ? now.n : 40, now.stop,
                          NULL);
        say(&s, x, 0);
        assert_true(x->ended);
        tiny_end(&s);
        whole = now;
        for (uint32_t i = 0; i < whole.n_parts; i++) {
            check_cut(&whole, i);
            n_cuts++;
        }
    }
    assert_true(n_cuts > 300);
}

/* A client that kept the tokens but no text gets all the text, in chunks of a
 * bounded size. */
static void text_that_it_does_not_have(void **state)
{
    static struct have h;
    static uint32_t ids[RIG_TEXT / 3 + 1];
    struct record *x;
    struct tiny s;

    (void)state;
    for (uint32_t i = 0; i < RIG_TEXT / 3; i++) {
        ids[i] = 257; /* abc */
    }
    ids[RIG_TEXT / 3] = TINY_SPECIAL;
    tiny_set(&s, tiny_tokenizer);
    h = have_one(ids, RIG_TEXT / 3, 0);
    x = resume(&s, &h, RIG_TEXT / 3 + 1, NULL);
    tiny_say(s.w, ids, RIG_TEXT / 3, 1, LENGTH);
    assert_true(x->ended);
    assert_int_equal(x->n_text, RIG_TEXT / 3 * 3);
    assert_memory_equal(x->text + x->n_text - 6, "abcabc", 6);
    tiny_end(&s);
}

/* The choice does not run again: text that was held back comes with its end. */
static void half_a_character_is_told_at_the_end(void **state)
{
    static struct have h;
    const uint32_t ids[2] = {'a', TINY_C_EURO};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    for (uint8_t id = 2; tiny_held(&s) == id - 2u;
         id++) { /* until the call has to wait */
        tiny_generate(&s, id, 20, NULL, NULL);
    }
    h = have_one(ids, 2, 2); /* "ac" */
    x = resume(&s, &h, 20, NULL);
    assert_false(x->ended);
    client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_int_equal(x->finish, SLUICE__V1__FINISH__FINISH_CANCELLED);
    tiny_check_text(x, "\xEF\xBF\xBD");
    tiny_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_of_max_tokens_counts),
        cmocka_unit_test(it_is_submitted_as_one_that_moved),
        cmocka_unit_test(the_seed_follows_from_the_id),
        cmocka_unit_test(ended_choices_are_left_alone),
        cmocka_unit_test(all_have_ended),
        cmocka_unit_test(the_refused_are_not_counted),
        cmocka_unit_test(a_stop_string_that_is_complete_ends_it),
        cmocka_unit_test(a_stop_string_in_the_last_token),
        cmocka_unit_test(wherever_it_is_cut),
        cmocka_unit_test(text_that_it_does_not_have),
        cmocka_unit_test(half_a_character_is_told_at_the_end),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}
