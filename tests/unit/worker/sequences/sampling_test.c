/* Sampling parameters from a Submit to the rows of plans: their limits,
 * their memory, the endings, and the comparison of sequences. */
#include <math.h>
#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

#define STOP      SLUICE__V1__FINISH__FINISH_STOP
#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define FAILED    SLUICE__V1__FINISH__FINISH_FAILED
#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define VOCAB     4096u /* beyond every limit of a list */

/* ---- limits ---- */

static uint32_t ids[VOCAB]; /* ascending */
static float values[VOCAB]; /* all 1 */
static uint32_t twice[] = {5, 5}, falling[] = {6, 5}, wild[] = {5, VOCAB};
static float high[] = {1, 100}, low[] = {1, -100}, no_number[] = {1, NAN};
static float too_high[] = {1, 100.01f}, too_low[] = {1, -100.01f};

static void biases(Sluice__V1__Sampling *s, uint32_t *tokens, float *bias,
                   size_t n)
{
    s->bias_tokens = tokens;
    s->biases = bias;
    s->n_bias_tokens = s->n_biases = n;
}

static void stops(Sluice__V1__Sampling *s, uint32_t *tokens, size_t n)
{
    s->stop_tokens = tokens;
    s->n_stop_tokens = n;
}

#define CHANGE(name, ...)                     \
    static void name(Sluice__V1__Sampling *s) \
    {                                         \
        __VA_ARGS__;                          \
    }
#define SET(field, value) s->has_##field = true, s->field = (value)

CHANGE(min_p_zero, SET(min_p, 0.0f))
CHANGE(min_p_one, SET(min_p, 1.0f))
CHANGE(min_p_over, SET(min_p, 1.001f))
CHANGE(min_p_under, SET(min_p, -0.001f))
CHANGE(min_p_nan, SET(min_p, NAN))
CHANGE(repetition_least, SET(repetition_penalty, 0.01f))
CHANGE(repetition_under, SET(repetition_penalty, 0.0099f))
CHANGE(repetition_most, SET(repetition_penalty, 100.0f))
CHANGE(repetition_over, SET(repetition_penalty, 100.1f))
CHANGE(presence_most, SET(presence_penalty, 2.0f))
CHANGE(presence_over, SET(presence_penalty, 2.001f))
CHANGE(presence_least, SET(presence_penalty, -2.0f))
CHANGE(presence_under, SET(presence_penalty, -2.001f))
CHANGE(frequency_most, SET(frequency_penalty, 2.0f))
CHANGE(frequency_over, SET(frequency_penalty, 2.001f))
CHANGE(frequency_least, SET(frequency_penalty, -2.0f))
CHANGE(frequency_under, SET(frequency_penalty, -2.001f))
CHANGE(frequency_inf, SET(frequency_penalty, INFINITY))
CHANGE(top_most, SET(top_logprobs, 20))
CHANGE(top_over, SET(top_logprobs, 21))
CHANGE(biases_most, biases(s, ids, values, 1024))
CHANGE(biases_over, biases(s, ids, values, 1025))
CHANGE(biases_unequal, biases(s, ids, values, 9); s->n_biases = 8)
CHANGE(biases_alone, biases(s, ids, values, 9); s->n_bias_tokens = 0)
CHANGE(biases_twice, biases(s, twice, values, 2))
CHANGE(biases_falling, biases(s, falling, values, 2))
CHANGE(biases_wild, biases(s, wild, values, 2))
CHANGE(biases_last, biases(s, &ids[VOCAB - 2], values, 2))
CHANGE(bias_high, biases(s, ids, high, 2))
CHANGE(bias_low, biases(s, ids, low, 2))
CHANGE(bias_too_high, biases(s, ids, too_high, 2))
CHANGE(bias_too_low, biases(s, ids, too_low, 2))
CHANGE(bias_nan, biases(s, ids, no_number, 2))
CHANGE(stops_most, stops(s, &ids[2000], 64))
CHANGE(stops_over, stops(s, ids, 65))
CHANGE(stops_twice, stops(s, twice, 2))
CHANGE(stops_falling, stops(s, falling, 2))
CHANGE(stops_wild, stops(s, wild, 2))

static const struct {
    void (*change)(Sluice__V1__Sampling *s);
    const char *says; /* NULL: it is accepted */
} limits[] = {
    {min_p_zero, NULL},
    {min_p_one, NULL},
    {min_p_over, "min_p is 1.001, it must be 0 to 1"},
    {min_p_under, "min_p is -0.001"},
    {min_p_nan, "min_p is nan"},
    {repetition_least, NULL},
    {repetition_under, "repetition_penalty is 0.0099, it must be 0.01 to 100"},
    {repetition_most, NULL},
    {repetition_over, "repetition_penalty is 100.1"},
    {presence_most, NULL},
    {presence_over, "presence_penalty is 2.001, it must be -2 to 2"},
    {presence_least, NULL},
    {presence_under, "presence_penalty is -2.001"},
    {frequency_most, NULL},
    {frequency_over, "frequency_penalty is 2.001, it must be -2 to 2"},
    {frequency_least, NULL},
    {frequency_under, "frequency_penalty is -2.001"},
    {frequency_inf, "frequency_penalty is inf"},
    {top_most, NULL},
    {top_over, "top_logprobs is 21, it must be 0 to 20"},
    {biases_most, NULL},
    {biases_over, "bias_tokens has 1025 ids, it may have at most 1024"},
    {biases_unequal, "bias_tokens has 9 ids and biases 8 values"},
    {biases_alone, "bias_tokens has 0 ids and biases 9 values"},
    {biases_twice, "id 5 comes after 5"},
    {biases_falling, "bias_tokens: id 5 comes after 6"},
    {biases_wild, "id 4096 is not below the vocabulary, 4096"},
    {biases_last, NULL},
    {bias_high, NULL},
    {bias_low, NULL},
    {bias_too_high, "the bias of token 1 is 100.01, it must be -100 to 100"},
    {bias_too_low, "the bias of token 1 is -100.01"},
    {bias_nan, "the bias of token 1 is nan"},
    {stops_most, NULL},
    {stops_over, "stop_tokens has 65 ids, it may have at most 64"},
    {stops_twice, "id 5 comes after 5"},
    {stops_falling, "stop_tokens: id 5 comes after 6"},
    {stops_wild, "id 4096 is not below the vocabulary, 4096"},
};

static struct rig *with_vocab(uint32_t vocab)
{
    struct worker_options o;

    rig_defaults(&o);
    o.vocab = vocab;
    return rig_new(&o);
}

static void refuses_what_is_over_a_limit(void **state)
{
    struct rig *r = with_vocab(VOCAB);

    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rig_submit s = {
            .id = 100 + (uint32_t)i, .n_prompt = 20, .max_tokens = 3};
        struct rig_message m;
        const struct rig_end *end;

        rig_message(r, &s, &m);
        limits[i].change(&m.sampling);
        end = &r->ends[rig_send_submit(r, &m)];
        rig_turn(r);
        if (limits[i].says == NULL) {
            assert_string_equal(end->text, "");
            assert_int_equal(end->status, ST_OK);
            rig_run(r);
            rig_check_tokens(r, i + 1, s.id, 20, 3);
            rig_advance(r, 20000);
        } else if (end->status != ST_INVALID_ARGUMENT ||
                   strstr(end->text, limits[i].says) == NULL) {
            fail_msg("%zu: %s: %s", i, status_name(end->status), end->text);
        }
        rig_check_empty(r);
    }
    assert_int_equal(r->n_goodbyes, 0);
    rig_free(&r);
}

/* There are at most as many best tokens as tokens. */
static void bounds_top_logprobs_by_the_vocabulary(void **state)
{
    struct rig *r = with_vocab(10);

    (void)state;
    for (uint32_t n_top = 10; n_top <= 11; n_top++) {
        struct rig_submit s = {
            .id = n_top, .n_prompt = 1, .max_tokens = 3, .n_top = n_top};
        const struct rig_end *end = &r->ends[rig_submit(r, &s)];

        rig_turn(r);
        assert_int_equal(end->status, ST_INVALID_ARGUMENT);
        assert_non_null(strstr(end->text, n_top == 11
                                              ? "top_logprobs is 11, it must "
                                                "be 0 to 10"
                                              : "at position 0 is not below"));
    }
    rig_free(&r);
}

/* As many ids as the router puts into a Submit, with the largest values and
 * the longest lists: one message, which is accepted. */
static void takes_a_submit_at_its_largest(void **state)
{
    enum { IDS = 12288, BIG = 1 << 24 };
    static uint32_t prompt[IDS], tokens[LOGIT_BIASES_MAX];
    struct worker_options o;
    struct rig_submit s = {.id = 1, .n_prompt = IDS, .max_tokens = 4};
    struct rig_message m;
    struct rig *r;
    uint64_t tag;

    (void)state;
    for (uint32_t i = 0; i < IDS; i++) {
        prompt[i] = BIG - 1;
    }
    for (uint32_t i = 0; i < LOGIT_BIASES_MAX; i++) {
        tokens[i] = BIG - LOGIT_BIASES_MAX + i;
    }
    rig_defaults(&o);
    o.vocab = BIG;
    o.context = 16384;
    o.pool.n_pages = 2048;
    r = rig_new(&o);
    rig_message(r, &s, &m);
    m.m.tokens = prompt;
    m.m.n_tokens = IDS;
    biases(&m.sampling, tokens, values, LOGIT_BIASES_MAX);
    stops(&m.sampling, tokens, STOP_TOKENS_MAX);
    repetition_most(&m.sampling);
    presence_most(&m.sampling);
    frequency_most(&m.sampling);
    min_p_one(&m.sampling);
    top_most(&m.sampling);
    assert_in_range(sluice__v1__submit_request__get_packed_size(&m.m), 57000,
                    method_find(METHOD_WORKER_SUBMIT)->request_cap);
    r->refuse_plans = true; /* the engine's vocabulary is smaller */
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    rig_check_ok(r, tag);
    rig_advance(r, 300000);
    assert_int_equal(r->heard[1].finish, FAILED);
    rig_free(&r);
}

/* ---- lists ---- */

/* When the plan runs, the message is freed and its memory reused. */
static void owns_the_lists_of_its_sequences(void **state)
{
    struct rig *r = with_vocab(VOCAB);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 30};
    const struct sampling *seen;
    struct rig_message m;

    (void)state;
    rig_message(r, &s, &m);
    biases(&m.sampling, &ids[100], values, LOGIT_BIASES_MAX);
    stops(&m.sampling, &ids[2000], STOP_TOKENS_MAX);
    rig_send_submit(r, &m);
    rig_turn(r);
    for (s.id = 2; s.id < 6; s.id++) {
        struct rig_message other;

        rig_message(r, &s, &other);
        biases(&other.sampling, &ids[1500], values, s.id * 200);
        rig_send_submit(r, &other);
        rig_turn(r);
    }
    seen = rig_plan(r, 0)->rows[0].sampling;
    assert_int_equal(seen->n_biases, LOGIT_BIASES_MAX);
    assert_int_equal(seen->n_stop_tokens, STOP_TOKENS_MAX);
    assert_memory_equal(seen->bias_tokens, &ids[100], 4 * LOGIT_BIASES_MAX);
    assert_memory_equal(seen->biases, values, 4 * LOGIT_BIASES_MAX);
    assert_memory_equal(seen->stop_tokens, &ids[2000], 4 * STOP_TOKENS_MAX);
    rig_run(r);
    rig_advance(r, 20000);
    rig_check_empty(r);
    rig_free(&r);
}

/* ---- endings ---- */

static void stops_at_a_token_of_its_own(void **state)
{
    uint32_t expect[10];

    rig_expect(3, 9, 10, expect);
    for (uint32_t at = 0; at < 10; at++) {
        for (uint32_t how = 0; how < 4; how++) {
            struct rig *r = rig_with_depth(1 + how % 2);
            struct rig_submit s = {.id = 3,
                                   .n_prompt = 9,
                                   .max_tokens = 10,
                                   .ignore_eos = how >= 2};
            uint32_t stop[] = {3, expect[at]}; /* 3 is never sampled */
            struct rig_message m;

            rig_message(r, &s, &m);
            stops(&m.sampling, stop, 2);
            rig_send_submit(r, &m);
            rig_turn(r);
            rig_run(r);
            rig_check_tokens(r, 1, 3, 9, at + 1);
            assert_int_equal(r->heard[1].finish, STOP);
            rig_advance(r, 20000);
            rig_check_empty(r);
            rig_free(&r);
        }
    }
    (void)state;
}

static void ends_at_once_what_had_stopped_elsewhere(void **state)
{
    struct rig *r = rig_new(NULL);
    uint32_t made[3] = {20, 30, 40};
    struct rig_submit s = {.id = 4,
                           .n_prompt = 20,
                           .max_tokens = 12,
                           .n_generated = 3,
                           .generated = made,
                           .ignore_eos = true};
    struct rig_message m;

    (void)state;
    rig_message(r, &s, &m);
    stops(&m.sampling, &made[2], 1);
    r->heard[1].n = 3;
    rig_send_submit(r, &m);
    rig_advance(r, 20000);
    assert_int_equal(r->heard[1].finish, STOP);
    assert_int_equal(r->n_steps, 0);
    rig_advance(r, 600000);
    rig_check_empty(r);
    rig_free(&r);
}

/* ---- equal sequences ---- */

static float twos[] = {2, 2, 2};

CHANGE(nothing, (void)s)
CHANGE(cooler, SET(temperature, 0.5f))
CHANGE(fewer, SET(top_k, 5))
CHANGE(narrower, SET(top_p, 0.5f))
CHANGE(with_min_p, SET(min_p, 0.5f))
CHANGE(other_seed, s->seed++)
CHANGE(past_the_end, SET(ignore_eos, true))
CHANGE(repetition, SET(repetition_penalty, 1.5f))
CHANGE(presence, SET(presence_penalty, 1.5f))
CHANGE(frequency, SET(frequency_penalty, 1.5f))
CHANGE(told, SET(logprobs, true))
CHANGE(told_more, SET(top_logprobs, 1))
CHANGE(other_biases, biases(s, ids, twos, 3))
CHANGE(biases_elsewhere, biases(s, &ids[1], values, 3))
CHANGE(fewer_biases, biases(s, ids, values, 2))
CHANGE(other_stops, stops(s, &ids[1], 3))
CHANGE(fewer_stops, stops(s, ids, 2))

static void (*const changes[])(Sluice__V1__Sampling *) = {
    nothing,     cooler,       fewer,        narrower,         with_min_p,
    other_seed,  past_the_end, repetition,   presence,         frequency,
    told,        told_more,    other_biases, biases_elsewhere, fewer_biases,
    other_stops, fewer_stops};

/* A different parameter makes it another sequence. */
static void adopts_only_what_is_the_same(void **state)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct rig *r = rig_new(NULL);
        struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 9};
        struct rig_message m;
        uint64_t tag;

        rig_message(r, &s, &m);
        biases(&m.sampling, ids, values, 3);
        stops(&m.sampling, ids, 3);
        rig_send_submit(r, &m);
        rig_turn(r);
        rig_step(r);
        m.m.grant++;
        changes[i](&m.sampling);
        tag = rig_send_submit(r, &m);
        rig_turn(r);
        if (i > 0) {
            assert_int_equal(r->ends[tag].status, ST_ALREADY_EXISTS);
            assert_non_null(strstr(r->ends[tag].text, "other sampling"));
        } else {
            rig_check_ok(r, tag);
        }
        rig_run(r);
        rig_check_tokens(r, i > 0 ? 1 : 2, 1, 20, 9);
        rig_advance(r, 20000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* ---- histories: the rig's engine compares each with what it was given ---- */

static void gives_penalties_their_history(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct worker_options o;
        struct rig *r;
        uint32_t made[30], chained = 0;

        rig_defaults(&o);
        o.engine_depth = depth;
        o.chunk_tokens = 64;
        r = rig_new(&o);
        for (uint32_t i = 1; i <= 4; i++) {
            struct rig_submit s = {.id = i,
                                   .n_prompt = 5 + 60 * i,
                                   .max_tokens = 30,
                                   .n_generated = 7 * (i - 1),
                                   .generated = made,
                                   .has_have = true,
                                   .penalise = i != 3};

            rig_expect(i, s.n_prompt, 30, made);
            rig_submit(r, &s);
        }
        rig_turn(r);
        do {
            const struct plan *p = rig_plan(r, 0);

            for (uint32_t i = 0; i < p->n_rows; i++) {
                const struct plan_row *row = &p->rows[i];

                assert_int_equal(row->history.n > 0,
                                 row->sample && row->sequence != 3);
                chained += row->chained && row->history.n > 0;
                if (row->history.n > 0) {
                    assert_int_equal(row->history.n_prompt,
                                     5 + 60 * row->sequence);
                }
            }
        } while (rig_step(r) && rig_inflight(r) > 0);
        assert_int_equal(chained > 0, depth == 2);
        for (uint32_t i = 1; i <= 4; i++) {
            rig_check_tokens(r, i, i, 5 + 60 * i, 30);
        }
        rig_free(&r);
    }
    (void)state;
}

enum ending { BY_CANCEL, BY_STOP, BY_FORGETTING, BY_LOSS, ENDINGS };

static void end_it(struct rig *r, enum ending how)
{
    switch (how) {
    case BY_CANCEL:
        rig_cancel(r, 1);
        break;
    case BY_STOP: /* the first of two plans ends it */
        r->eos_at = 2;
        rig_step(r);
        r->eos_at = UINT32_MAX;
        assert_int_equal(r->heard[1].finish, STOP);
        break;
    case BY_FORGETTING:
        rig_ack(r, 1, UINT32_MAX);
        break;
    default:
        rig_lose(r);
        rig_reconnect(r);
    }
    rig_turn(r);
}

/* However a sequence ends, its ids stay until the plans that name it return:
 * sequences that come meanwhile take none of its pages. */
static void leaves_alone_what_a_plan_looks_at(void **state)
{
    for (int how = 0; how < ENDINGS; how++) {
        struct worker_options o;
        struct rig_submit s = {.id = 1, .n_prompt = 200, .max_tokens = 30};
        struct rig *r;
        uint32_t n;

        rig_defaults(&o);
        o.engine_depth = 2;
        o.pool.n_pages = 256;
        r = rig_new(&o);
        s.penalise = true;
        s.n_top = 2;
        rig_submit(r, &s);
        rig_turn(r);
        for (int i = 0; i < 4; i++) {
            rig_step(r);
            if (r->heard[1].n == 2) {
                break;
            }
        }
        assert_int_equal(rig_inflight(r), 2);
        end_it(r, (enum ending)how);
        n = rig_inflight(r);
        assert_in_range(n, 1, 2);
        for (s.id = 2; s.id < 6; s.id++) {
            rig_submit(r, &s);
        }
        rig_turn(r);
        rig_run(r);
        for (uint32_t i = 1; i <= 4; i++) {
            rig_check_tokens(r, how == BY_LOSS ? i : i + 1, i + 1, 200, 30);
        }
        rig_free(&r);
    }
    (void)state;
}

/* ---- choices ---- */

static void keeps_choices_apart(void **state)
{
    for (uint32_t depth = 1; depth <= 2; depth++) {
        struct rig *r = rig_with_depth(depth);
        uint32_t expect[3][40];
        uint64_t tag;

        for (uint32_t c = 0; c < 3; c++) {
            struct rig_submit s = {
                .id = 1, .choice = c, .n_prompt = 20, .max_tokens = 40};

            rig_expect_choice(1, c, 20, 40, expect[c]);
            rig_submit(r, &s);
        }
        rig_turn(r);
        for (int i = 0; i < 5; i++) {
            rig_step(r);
        }
        tag = rig_cancel_choice(r, 1, 1);
        rig_turn(r);
        assert_int_equal(rig_choice_state(r, 1, 0), 3);
        assert_int_equal(rig_choice_state(r, 1, 2), 3);
        rig_run(r);
        assert_int_equal(r->ends[tag].receipt.n_generated, r->heard[2].n);
        assert_int_equal(r->heard[2].finish, CANCELLED);
        for (uint32_t c = 0; c < 3; c++) {
            assert_memory_equal(r->heard[1 + c].tokens, expect[c],
                                4 * r->heard[1 + c].n);
            assert_int_equal(r->heard[1 + c].finish,
                             c == 1 ? CANCELLED : LENGTH);
        }
        assert_int_equal(r->heard[1].n, 40);
        assert_int_equal(r->heard[3].n, 40);
        assert_memory_not_equal(expect[0], expect[1], sizeof expect[0]);
        assert_memory_not_equal(expect[0], expect[2], sizeof expect[0]);
        rig_advance(r, 600000);
        rig_check_empty(r);
        rig_free(&r);
    }
    (void)state;
}

/* A Cancel that comes first hits only the choice that it names. */
static void strikes_the_choice_that_was_cancelled(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 1, .n_prompt = 20, .max_tokens = 4};
    uint64_t tags[3];

    (void)state;
    rig_cancel_choice(r, 1, 1);
    rig_turn(r);
    for (s.choice = 0; s.choice < 3; s.choice++) {
        tags[s.choice] = rig_submit(r, &s);
    }
    rig_turn(r);
    rig_check_ok(r, tags[0]);
    rig_check_ok(r, tags[2]);
    assert_int_equal(r->ends[tags[1]].status, ST_CANCELLED);
    s.choice = 1; /* once */
    tags[1] = rig_submit(r, &s);
    rig_turn(r);
    rig_check_ok(r, tags[1]);
    rig_run(r);
    rig_advance(r, 20000);
    rig_check_empty(r);
    rig_free(&r);
}

static int fill(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < VOCAB; i++) {
        ids[i] = i;
        values[i] = 1;
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_what_is_over_a_limit),
        cmocka_unit_test(bounds_top_logprobs_by_the_vocabulary),
        cmocka_unit_test(takes_a_submit_at_its_largest),
        cmocka_unit_test(owns_the_lists_of_its_sequences),
        cmocka_unit_test(stops_at_a_token_of_its_own),
        cmocka_unit_test(ends_at_once_what_had_stopped_elsewhere),
        cmocka_unit_test(adopts_only_what_is_the_same),
        cmocka_unit_test(gives_penalties_their_history),
        cmocka_unit_test(leaves_alone_what_a_plan_looks_at),
        cmocka_unit_test(keeps_choices_apart),
        cmocka_unit_test(strikes_the_choice_that_was_cancelled),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, fill, NULL);
}
