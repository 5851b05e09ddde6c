#include "common/sampling/sampling_message.h"

#include "tests/unit/cmocka.h"

#define VOCAB 4096

static void the_default_travels(void **state)
{
    struct sampling s = sampling_default(), back;
    Sluice__V1__Sampling m;

    (void)state;
    sampling_write(&s, &m);
    assert_true(m.has_temperature && m.has_top_k && m.has_top_p && m.has_seed);
    assert_false(m.has_min_p || m.has_repetition_penalty || m.has_ignore_eos);
    sampling_read(&back, &m);
    assert_true(sampling_same(&s, &back));
}

/* Half the range, so that no value is its default or its limit. */
#define MIDDLE_FLOAT(least, most) (((least) + (most)) / 2 + 0.25f)
#define MIDDLE_SHARE(least, most) (((least) + (most)) / 2.0f)
#define MIDDLE_COUNT(least, most) 7
#define MIDDLE_FLAG(least, most)  true

static void every_value_travels(void **state)
{
    (void)state;
#define X(field, kind, unset, least, most)                      \
    {                                                           \
        struct sampling s = sampling_default(), back;           \
        struct sampling plain = s;                              \
        Sluice__V1__Sampling m;                                 \
        struct error e;                                         \
                                                                \
        s.field = MIDDLE_##kind(least, most);                   \
        sampling_write(&s, &m);                                 \
        assert_true(m.has_##field);                             \
        assert_int_equal(sampling_check(&m, VOCAB, &e), ST_OK); \
        sampling_read(&back, &m);                               \
        assert_true(sampling_same(&s, &back));                  \
        assert_false(sampling_same(&plain, &back));             \
    }
    SAMPLING_VALUES(X)
#undef X
}

static void lists_and_logprobs_travel(void **state)
{
    static const uint32_t tokens[] = {3, 9};
    static const float biases[] = {-1, 2};
    struct sampling s = sampling_default(), back;
    Sluice__V1__Sampling m;
    struct error e;

    (void)state;
    s.bias_tokens = s.stop_tokens = tokens;
    s.biases = biases;
    s.n_biases = s.n_stop_tokens = 2;
    s.logprobs = true;
    s.n_top_logprobs = TOP_LOGPROBS_MAX;
    s.seed = UINT64_MAX;
    sampling_write(&s, &m);
    assert_int_equal(sampling_check(&m, VOCAB, &e), ST_OK);
    sampling_read(&back, &m);
    assert_true(sampling_same(&s, &back));
    m.top_logprobs++;
    assert_int_equal(sampling_check(&m, VOCAB, &e), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "top_logprobs is 21, it must be 0 to 20");
}

static void top_logprobs_imply_logprobs(void **state)
{
    Sluice__V1__Sampling m;
    struct sampling s;

    (void)state;
    sluice__v1__sampling__init(&m);
    m.has_top_logprobs = true;
    m.top_logprobs = 1;
    sampling_read(&s, &m);
    assert_true(s.logprobs);
    assert_int_equal(sampling_width(&s), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_travels),
        cmocka_unit_test(every_value_travels),
        cmocka_unit_test(lists_and_logprobs_travel),
        cmocka_unit_test(top_logprobs_imply_logprobs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
