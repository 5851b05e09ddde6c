/* Every sampling parameter of a Generate at its limit, and one past it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "common/sampling/sampling.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

#define VOCAB 4000

typedef Sluice__V1__Sampling message;

static uint32_t ids[LOGIT_BIASES_MAX + 1], stops[STOP_TOKENS_MAX + 1];
static float biases[LOGIT_BIASES_MAX + 1];

/* Returns the next float further from zero. */
static float past(float limit)
{
    return nextafterf(limit, limit < 0 ? -INFINITY : INFINITY);
}

#define VALUE(field)                           \
    static void field(message *m, float value) \
    {                                          \
        m->has_##field = true;                 \
        m->field = value;                      \
    }
#define NUMBER(field)                          \
    static void field(message *m, float value) \
    {                                          \
        m->has_##field = true;                 \
        m->field = (uint32_t)value;            \
    }

VALUE(temperature)
VALUE(top_p)
VALUE(min_p)
VALUE(repetition_penalty)
VALUE(presence_penalty)
VALUE(frequency_penalty)
NUMBER(top_k)
NUMBER(top_logprobs)

/* Sets the largest number of biases, ascending, up to the last id. */
static void n_biases(message *m, float value)
{
    m->n_bias_tokens = m->n_biases = (size_t)value;
    for (size_t i = 0; i < m->n_biases; i++) {
        ids[i] = (uint32_t)(VOCAB - m->n_biases + i);
        biases[i] = 1;
    }
}

static void a_bias(message *m, float value)
{
    n_biases(m, 3);
    biases[1] = value;
}

static void a_biased_token(message *m, float value)
{
    n_biases(m, 3);
    ids[2] = (uint32_t)value;
}

static void n_bias_tokens(message *m, float value)
{
    n_biases(m, 3);
    m->n_bias_tokens = (size_t)value;
}

static void n_stop_tokens(message *m, float value)
{
    m->n_stop_tokens = (size_t)value;
    for (size_t i = 0; i < m->n_stop_tokens; i++) {
        stops[i] = (uint32_t)(VOCAB - m->n_stop_tokens + i);
    }
}

static void a_stop_token(message *m, float value)
{
    n_stop_tokens(m, 3);
    stops[2] = (uint32_t)value;
}

struct limit {
    void (*set)(message *m, float value);
    float within, beyond;
    const char *why; /* the error for a value past the limit */
};

/* beyond 0: past(within), which is not a constant expression. */
static const struct limit limits[] = {
    {temperature, 0, -1e-30f, "temperature is -1e-30, it must be 0 to 100"},
    {temperature, TEMPERATURE_MAX, 0, "it must be 0 to 100"},
    {temperature, 1, NAN, "temperature is"},
    {top_p, 1, 0, "top_p is 1, it must be above 0 and at most 1"},
    {top_p, 1e-30f, -0.0f, "top_p is -0, it must be above 0"},
    {top_p, 0.5f, NAN, "top_p is"},
    {min_p, 0, -1e-30f, "min_p is -1e-30, it must be 0 to 1"},
    {min_p, 1, 0, "it must be 0 to 1"},
    {min_p, 0.5f, NAN, "min_p is"},
    {repetition_penalty, REPETITION_PENALTY_MIN, 0.00999f,
     "repetition_penalty is 0.00999, it must be 0.01 to 100"},
    {repetition_penalty, REPETITION_PENALTY_MAX, 0, "it must be 0.01 to 100"},
    {repetition_penalty, 1, NAN, "repetition_penalty is"},
    {presence_penalty, PENALTY_MAX, 0, "presence_penalty is 2, it must be"},
    {presence_penalty, -PENALTY_MAX, 0, "presence_penalty is -2, it must be"},
    {presence_penalty, 0, NAN, "presence_penalty is"},
    {frequency_penalty, PENALTY_MAX, 0, "frequency_penalty is 2, it must be"},
    {frequency_penalty, -PENALTY_MAX, 0, "frequency_penalty is -2, it must"},
    {frequency_penalty, 0, NAN, "frequency_penalty is"},
    {top_k, VOCAB, VOCAB + 1, "top_k is 4001, it must be 0 (all) to"},
    {top_logprobs, TOP_LOGPROBS_MAX, TOP_LOGPROBS_MAX + 1,
     "top_logprobs is 21, it must be 0 to 20"},
    {n_biases, LOGIT_BIASES_MAX, LOGIT_BIASES_MAX + 1,
     "bias_tokens has 1025 ids, it may have at most 1024"},
    {a_bias, LOGIT_BIAS_MAX, 0, "the bias of token 3998 is 100, it must be"},
    {a_bias, -LOGIT_BIAS_MAX, 0, "the bias of token 3998 is -100, it must be"},
    {a_bias, 0, NAN, "the bias of token 3998 is"},
    {a_biased_token, VOCAB - 1, VOCAB, "id 4000 is not below the vocabulary"},
    {a_biased_token, VOCAB - 1, VOCAB - 2, "id 3998 comes after 3998"},
    {n_bias_tokens, 3, 2, "bias_tokens has 2 ids and biases 3 values"},
    {n_stop_tokens, STOP_TOKENS_MAX, STOP_TOKENS_MAX + 1,
     "stop_tokens has 65 ids, it may have at most 64"},
    {a_stop_token, VOCAB - 1, VOCAB, "stop_tokens: id 4000 is not below"},
    {a_stop_token, VOCAB - 1, VOCAB - 3, "stop_tokens: id 3997 comes after"},
};

static struct record *generate(struct rig *rig, struct fake *c, uint8_t id,
                               const struct limit *l, float value)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    message s = SLUICE__V1__SAMPLING__INIT;
    struct record *x;

    s.bias_tokens = ids;
    s.biases = biases;
    s.stop_tokens = stops;
    l->set(&s, value);
    m.model = wire_text("tiny");
    m.sampling = &s;
    x = client_generate_with(c, id, 10, 5, &m, 0);
    rig_run(rig);
    return x;
}

static void at_the_limit_and_past_it(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w1", 1024, 200);
    struct fake *c;
    uint8_t id = 0;

    (void)state;
    w->shard.vocab = VOCAB;
    fake_hello(w);
    c = rig_client(rig, "c1");
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct limit *l = &limits[i];
        struct record *x = generate(rig, c, ++id, l, l->within);

        if (x->ended) {
            fail_msg("limit %zu: %s", i, x->error);
        }
        assert_int_equal(w->n_submits, i + 1);
        x = generate(rig, c, ++id, l,
                     l->beyond == 0 && !signbit(l->beyond) ? past(l->within)
                                                           : l->beyond);
        assert_true(x->ended);
        assert_int_equal(x->status, ST_INVALID_ARGUMENT);
        if (strstr(x->error, l->why) == NULL) {
            fail_msg("limit %zu: %s", i, x->error);
        }
        assert_int_equal(w->n_submits, i + 1);
    }
    rig_free(&rig);
}

/* 0 is outside (0, 1]. */
static void top_p_of_zero(void **state)
{
    static const struct limit l = {top_p, 1, 0, NULL};
    struct rig *rig = rig_new(NULL);
    struct record *x;

    (void)state;
    (void)rig_worker(rig, "w1", 64, 4);
    x = generate(rig, rig_client(rig, "c1"), 1, &l, 0);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_string_equal(x->error,
                        "top_p is 0, it must be above 0 and at most 1");
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_limit_and_past_it),
        cmocka_unit_test(top_p_of_zero),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
