/* Logprobs: each with its token, once, in chunks within the limits; and workers
 * that send invalid logprobs. */
#include "router/requests/logprob_columns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/method.h"
#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/tiny_text.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* ---- values: each one encodes its place ---- */

static uint32_t token_at(uint32_t index)
{
    return 1 + (index * 7 + 3) % (TINY_VOCAB - 1); /* no NUL */
}

static float own_at(uint32_t index)
{
    return -(float)index - 0.5f;
}

static float best_at(uint32_t index, uint32_t k)
{
    return -(float)(index % 1000) - (float)k * 0.015625f;
}

static uint32_t best_token_at(uint32_t index, uint32_t k)
{
    return (index * 11 + k * 5) % TINY_VOCAB;
}

struct said {
    Sluice__V1__StepOutputMessage m;
    uint64_t grant;
    uint32_t first, count, finish, state, width;
    uint32_t tokens[STEP_TOKENS_MAX];
    float logprobs[STEP_LOGPROBS_MAX + 64];
    uint32_t top_tokens[STEP_LOGPROBS_MAX + 64];
};

static struct said said;

/* Prepares a row of tokens [first, first + count) with the n_top best of each.
 */
static void prepare(uint64_t grant, uint32_t first, uint32_t count,
                    uint32_t n_top, uint32_t finish)
{
    Sluice__V1__StepOutputMessage *m = &said.m;

    sluice__v1__step_output_message__init(m);
    said.grant = grant;
    said.first = first;
    said.count = count;
    said.finish = finish;
    said.state = SLUICE__V1__SEQUENCE_STATE__SEQUENCE_DECODE;
    said.width = 1 + n_top;
    m->n_grant = m->n_first_index = m->n_count = m->n_finish = 1;
    m->n_state = m->n_width = 1;
    m->grant = &said.grant;
    m->first_index = &said.first;
    m->count = &said.count;
    m->finish = &said.finish;
    m->state = &said.state;
    m->width = &said.width;
    m->tokens = said.tokens;
    m->logprobs = said.logprobs;
    m->top_tokens = said.top_tokens;
    for (uint32_t i = first; i < first + count; i++) {
        m->tokens[m->n_tokens++] = token_at(i);
        m->logprobs[m->n_logprobs++] = own_at(i);
        for (uint32_t k = 0; k < n_top; k++) {
            m->logprobs[m->n_logprobs++] = best_at(i, k);
            m->top_tokens[m->n_top_tokens++] = best_token_at(i, k);
        }
    }
}

static void say(struct fake *w, uint32_t first, uint32_t count, uint32_t n_top,
                uint32_t finish)
{
    prepare(w->last_grant, first, count, n_top, finish);
    worker_say(w, &said.m);
    rig_run(w->rig);
}

/* ---- chunks received ---- */

static uint32_t n_top_wanted, n_seen, largest;

static void see(struct fake *f, const Sluice__V1__GenerateChunk *c)
{
    (void)f;
    assert_int_equal(c->first_index, n_seen);
    assert_int_equal(c->n_logprobs, c->n_tokens);
    assert_int_equal(c->n_top_tokens, c->n_tokens * n_top_wanted);
    assert_int_equal(c->n_top_logprobs, c->n_tokens * n_top_wanted);
    for (uint32_t i = 0; i < c->n_tokens; i++, n_seen++) {
        assert_int_equal(c->tokens[i], token_at(n_seen));
        assert_true(c->logprobs[i] == own_at(n_seen));
        for (uint32_t k = 0; k < n_top_wanted; k++) {
            size_t at = (size_t)i * n_top_wanted + k;
            assert_int_equal(c->top_tokens[at], best_token_at(n_seen, k));
            assert_true(c->top_logprobs[at] == best_at(n_seen, k));
        }
    }
    largest = c->n_tokens > largest ? (uint32_t)c->n_tokens : largest;
    assert_true(protobuf_c_message_get_packed_size(&c->base) <=
                method_find(METHOD_INFERENCE_GENERATE)->reply_cap);
}

static struct record *generate(struct tiny *s, uint32_t max_tokens,
                               uint32_t n_top, const char *const *stop)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    Sluice__V1__Sampling sampling = SLUICE__V1__SAMPLING__INIT;

    sampling.has_logprobs = sampling.logprobs = n_top == 0;
    sampling.has_top_logprobs = n_top > 0;
    sampling.top_logprobs = n_top;
    m.sampling = &sampling;
    s->c->on_chunk = see;
    n_top_wanted = n_top;
    n_seen = largest = 0;
    return tiny_generate(s, 1, max_tokens, stop, &m);
}

static void each_with_its_token(void **state)
{
    static const uint32_t tops[] = {0, 1, 5, TOP_LOGPROBS_MAX};

    (void)state;
    for (int t = 0; t < 4; t++) {
        for (uint32_t step = 1; step <= 40; step += 13) {
            struct record *x;
            struct tiny s;
            uint32_t at = 0, n = 100;

            tiny_set(&s, tiny_tokenizer);
            x = generate(&s, n, tops[t], NULL);
            while (at < n) { /* each row but the first repeats some tokens */
                uint32_t back = at < 3 ? 0 : at - 3;
                uint32_t end = at + step < n ? at + step : n;
                s.c->deaf = step == 14 && at % 4 != 0;
                say(s.w, back, end - back, tops[t], end == n ? LENGTH : 0);
                at = end;
            }
            tiny_let_read(&s);
            assert_true(x->ended);
            assert_int_equal(n_seen, n);
            tiny_end(&s);
        }
    }
}

/* A client that reads again receives everything, in chunks of the largest size.
 */
static void a_slow_readers_chunks(void **state)
{
    static const uint32_t tops[] = {0, 1, TOP_LOGPROBS_MAX};

    (void)state;
    for (int t = 0; t < 3; t++) {
        uint32_t n = t == 0 ? 4096 : 4000, at = 0;
        uint32_t row = STEP_LOGPROBS_MAX / (1 + tops[t]);
        struct record *x;
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        x = generate(&s, n, tops[t], NULL);
        s.c->deaf = true;
        /* until 64 frames are unacknowledged, the most allowed */
        for (; at < 70; at++) {
            say(s.w, at, 1, tops[t], 0);
        }
        row = row < n - at ? row : n - at;
        for (; at < n; at += row) {
            row = row < n - at ? row : n - at;
            say(s.w, at, row, tops[t], at + row == n ? LENGTH : 0);
        }
        tiny_let_read(&s);
        assert_true(x->ended);
        assert_int_equal(n_seen, n);
        if (t > 0) { /* with width 1 there are fewer values */
            assert_int_equal(largest, CHUNK_LOGPROBS_MAX / (1 + tops[t]));
        }
        tiny_end(&s);
    }
}

static void they_go_on_elsewhere(void **state)
{
    struct record *x;
    struct fake *w2;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = generate(&s, 20, 3, NULL);
    say(s.w, 0, 7, 3, 0);
    w2 = tiny_worker(&s, "w2");
    fake_lost(s.w);
    rig_run(s.rig);
    assert_int_equal(w2->n_submits, 1);
    say(w2, 5, 15, 3, LENGTH);
    assert_true(x->ended);
    assert_int_equal(n_seen, 20);
    tiny_end(&s);
}

/* A stop string cuts the row, and its logprobs with it. */
static void a_stop_string_cuts_them(void **state)
{
    char text[] = {(char)token_at(12), '\0'};
    const char *stop[] = {text, NULL};
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = generate(&s, 40, 2, stop);
    say(s.w, 0, 5, 2, 0);
    say(s.w, 3, 20, 2, 0);
    assert_true(x->ended);
    assert_int_equal(n_seen, 13);
    tiny_end(&s);
}

/* The values of a step: at the limit, and one past it. */
static void values_of_a_step(void **state)
{
    struct record *x;
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    x = generate(&s, 4096, 3, NULL);
    say(s.w, 0, STEP_LOGPROBS_MAX / 4, 3, LENGTH);
    assert_true(x->ended);
    assert_int_equal(n_seen, 4096);
    assert_false(s.w->gone);
    tiny_end(&s);
    tiny_set(&s, tiny_tokenizer);
    (void)generate(&s, 4096, 4, NULL);
    say(s.w, 0, STEP_LOGPROBS_MAX / 5 + 1, 4, 0); /* 5 divides the limit + 1 */
    assert_true(s.w->gone);
    assert_int_equal(n_seen, 0);
    tiny_end(&s);
}

/* ---- violations ---- */

static char logged[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "worker-protocol-violation") != NULL) {
        snprintf(logged, sizeof logged, "%s", line);
    }
}

#define LIE(name) static void name(Sluice__V1__StepOutputMessage *m)

LIE(the_truth)
{
    m->logprobs[0] = 0;
    m->logprobs[3] =
        -INFINITY; /* the second token: its own, and the best two */
    m->logprobs[4] = m->logprobs[5];
    m->top_tokens[3] = TINY_VOCAB - 1;
}
LIE(no_columns)
{
    m->n_width = m->n_logprobs = m->n_top_tokens = 0;
}
LIE(width_short)
{
    m->n_width = 0;
}
LIE(width_long)
{
    static uint32_t widths[2] = {3, 0};
    m->width = widths;
    m->n_width = 2;
}
LIE(width_less)
{
    m->width[0] = 2;
    m->n_logprobs = 4;
    m->n_top_tokens = 2;
}
LIE(width_none)
{
    m->width[0] = 0;
    m->n_logprobs = m->n_top_tokens = 0;
}
LIE(width_past_the_limit)
{
    m->width[0] = 2 + TOP_LOGPROBS_MAX;
}
LIE(width_max)
{
    m->width[0] = UINT32_MAX;
}
LIE(a_value_too_few)
{
    m->n_logprobs--;
}
LIE(a_value_too_many)
{
    m->n_logprobs++;
}
LIE(a_best_token_too_few)
{
    m->n_top_tokens--;
}
LIE(a_best_token_too_many)
{
    m->n_top_tokens++;
}
LIE(not_a_number)
{
    m->logprobs[3] = NAN;
}
LIE(best_not_a_number)
{
    m->logprobs[4] = NAN;
}
LIE(above_zero)
{
    m->logprobs[0] = 1e-30f;
}
LIE(infinite)
{
    m->logprobs[4] = INFINITY;
}
LIE(not_in_order)
{
    m->logprobs[4] = m->logprobs[5] - 0.25f;
}
LIE(best_past_vocab)
{
    m->top_tokens[3] = TINY_VOCAB;
}
LIE(best_max)
{
    m->top_tokens[0] = UINT32_MAX;
}

static const struct lie {
    void (*tell)(Sluice__V1__StepOutputMessage *m);
    const char *why;
} lies[] = {
    {no_columns, "0 logprobs per token, 3 were requested"},
    {width_short,
     "add up to 0 logprobs and 0 top tokens, but it holds 6 and 4"},
    {width_long, "differ in length"},
    {width_less, "2 logprobs per token, 3 were requested"},
    {width_none, "0 logprobs per token, 3 were requested"},
    {width_past_the_limit, "22 logprobs per token exceed the limit of 21"},
    {width_max, "4294967295 logprobs per token"},
    {a_value_too_few,
     "add up to 6 logprobs and 4 top tokens, but it holds 5 and 4"},
    {a_value_too_many, "it holds 7 and 4"},
    {a_best_token_too_few, "it holds 6 and 3"},
    {a_best_token_too_many, "it holds 6 and 5"},
    {not_a_number, "logprob"},
    {best_not_a_number, "logprob"},
    {above_zero, "logprob 1e-30"},
    {infinite, "logprob inf"},
    {not_in_order, "follows"},
    {best_past_vocab, "top token 262 is outside the vocabulary of 262"},
    {best_max, "top token 4294967295"},
};

/* One row of two tokens with the two best of each. */
static void no_lie_is_believed(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        (void)generate(&s, 10, 2, NULL);
        prepare(1, 0, 2, 2, 0);
        lies[i].tell(&said.m);
        logged[0] = '\0';
        worker_say(s.w, &said.m);
        rig_run(s.rig);
        if (!s.w->gone || strstr(logged, lies[i].why) == NULL) {
            fail_msg("lie %zu (%s) is logged as: %s", i, lies[i].why, logged);
        }
        assert_int_equal(n_seen, 0);
        tiny_end(&s);
    }
}

static void see_nothing(struct fake *f, const Sluice__V1__GenerateChunk *c)
{
    (void)f;
    n_seen += (uint32_t)c->n_tokens;
    assert_int_equal(c->n_logprobs + c->n_top_logprobs + c->n_top_tokens, 0);
}

static void the_truth_is_believed(void **state)
{
    struct tiny s;

    (void)state;
    tiny_set(&s, tiny_tokenizer);
    (void)generate(&s, 10, 2, NULL);
    prepare(1, 0, 2, 2, 0);
    the_truth(&said.m);
    s.c->on_chunk = NULL;
    worker_say(s.w, &said.m);
    rig_run(s.rig);
    assert_false(s.w->gone);
    tiny_end(&s);
}

/* A sequence that requested no logprobs gets none.  A row without tokens needs
 * none, but the columns may be present. */
static void none_were_asked_for(void **state)
{
    (void)state;
    for (int lie = 0; lie < 2; lie++) {
        struct tiny s;

        tiny_set(&s, tiny_tokenizer);
        (void)tiny_generate(&s, 1, 10, NULL, NULL);
        s.c->on_chunk = see_nothing;
        n_seen = 0;
        prepare(1, 0, 2, 0, 0);
        said.width = lie == 0 ? 0 : 1;
        said.m.n_logprobs = lie == 0 ? 0 : 2;
        worker_say(s.w, &said.m);
        rig_run(s.rig);
        assert_int_equal(s.w->gone, lie != 0);
        assert_int_equal(n_seen, lie == 0 ? 2 : 0);
        tiny_end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_with_its_token),
        cmocka_unit_test(a_slow_readers_chunks),
        cmocka_unit_test(they_go_on_elsewhere),
        cmocka_unit_test(a_stop_string_cuts_them),
        cmocka_unit_test(values_of_a_step),
        cmocka_unit_test(no_lie_is_believed),
        cmocka_unit_test(the_truth_is_believed),
        cmocka_unit_test(none_were_asked_for),
    };

    log_setup(LOG_WARN, sink, NULL);
    return cmocka_run_group_tests(tests, tiny_load, tiny_unload);
}
