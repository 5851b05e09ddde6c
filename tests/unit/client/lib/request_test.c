/* Conversion of a struct client_request to its message, and of its lists to
 * the order that the router requires. */
#include "client/lib/request.h"

#include <string.h>

#include "common/sampling/sampling_message.h"
#include "tests/unit/cmocka.h"

static const uint8_t id[16] = {1};
static struct request_message out;
static struct error e;

static enum status message(const struct client_request *r)
{
    e = (struct error){0};
    return request_message(&out, r, id, &e);
}

static void the_default_is_plain(void **state)
{
    struct client_request r = client_request_default();
    struct sampling s, plain = sampling_default();

    (void)state;
    assert_int_equal(message(&r), ST_OK);
    assert_int_equal(sampling_check(&out.sampling, 4096, &e), ST_OK);
    sampling_read(&s, &out.sampling);
    assert_true(sampling_same(&s, &plain));
    assert_false(out.sampling.has_seed);
    assert_int_equal(out.m.n, 1);
    assert_int_equal(out.m.n_stop, 0);
    assert_true(out.m.want_text);
    assert_false(out.m.special_text);
    assert_false(out.m.has_tenant);
    assert_false(out.m.has_cache || out.m.has_cache_salt || out.m.has_drafts);
    assert_true(out.m.cache);
    assert_null(out.m.continue_from);
}

static void every_field_is_sent(void **state)
{
    static const struct client_stop stops[] = {{"a", 1}, {"b\0c", 3}};
    struct client_request r = client_request_default();

    (void)state;
    r.sampling.temperature = 0.5f;
    r.sampling.top_k = 7;
    r.sampling.top_p = 0.25f;
    r.sampling.min_p = 0.125f;
    r.sampling.repetition_penalty = 1.5f;
    r.sampling.presence_penalty = -1;
    r.sampling.frequency_penalty = 2;
    r.has_seed = true;
    r.sampling.seed = UINT64_MAX;
    r.sampling.n_top_logprobs = 3;
    r.stops = stops;
    r.n_stops = 2;
    r.n = CHOICES_MAX;
    r.special_text = true;
    r.tenant = "acme";
    r.cache_salt = "blue";
    r.no_cache = true;
    r.drafts.given = true;
    r.has_continue = true;
    memset(r.continue_id, 7, sizeof r.continue_id);
    r.continue_choice = 2;
    assert_int_equal(message(&r), ST_OK);
    assert_int_equal(sampling_check(&out.sampling, 4096, &e), ST_OK);
    assert_true(out.sampling.temperature == 0.5f);
    assert_int_equal(out.sampling.top_k, 7);
    assert_true(out.sampling.top_p == 0.25f);
    assert_true(out.sampling.min_p == 0.125f);
    assert_true(out.sampling.repetition_penalty == 1.5f);
    assert_true(out.sampling.presence_penalty == -1);
    assert_true(out.sampling.frequency_penalty == 2);
    assert_true(out.sampling.has_seed && out.sampling.seed == UINT64_MAX);
    assert_true(out.sampling.logprobs && out.sampling.top_logprobs == 3);
    assert_int_equal(out.m.n_stop, 2);
    assert_int_equal(out.m.stop[1].len, 3);
    assert_memory_equal(out.m.stop[1].data, "b\0c", 3);
    assert_true(out.m.has_n && out.m.n == CHOICES_MAX);
    assert_true(out.m.has_special_text && out.m.special_text);
    assert_true(out.m.has_tenant && out.m.tenant.len == 4);
    assert_memory_equal(out.m.tenant.data, "acme", 4);
    assert_true(out.m.has_cache && !out.m.cache);
    assert_true(out.m.has_cache_salt && out.m.cache_salt.len == 4);
    assert_memory_equal(out.m.cache_salt.data, "blue", 4);
    assert_true(out.m.has_drafts);
    assert_int_equal(out.m.drafts, 0);
    assert_int_equal(out.m.continue_from->choice, 2);
    assert_memory_equal(out.m.continue_from->request_id.data, r.continue_id,
                        16);
}

static void lists_are_sorted(void **state)
{
    static const uint32_t bias_tokens[] = {4000, 7, 300};
    static const float biases[] = {-100, 2.5f, 0};
    static const uint32_t stop_tokens[] = {9, 4095, 0};
    struct client_request r = client_request_default();

    (void)state;
    r.sampling.bias_tokens = bias_tokens;
    r.sampling.biases = biases;
    r.sampling.n_biases = 3;
    r.sampling.stop_tokens = stop_tokens;
    r.sampling.n_stop_tokens = 3;
    assert_int_equal(message(&r), ST_OK);
    assert_int_equal(sampling_check(&out.sampling, 4096, &e), ST_OK);
    assert_int_equal(out.sampling.bias_tokens[0], 7);
    assert_true(out.sampling.biases[0] == 2.5f);
    assert_int_equal(out.sampling.bias_tokens[2], 4000);
    assert_true(out.sampling.biases[2] == -100);
    assert_int_equal(out.sampling.stop_tokens[0], 0);
    assert_int_equal(out.sampling.stop_tokens[2], 4095);
    assert_int_equal(bias_tokens[0],
                     4000); /* the caller's array is unchanged */
}

static void a_repeated_token_is_refused(void **state)
{
    static const uint32_t bias_tokens[] = {7, 300, 7};
    static const float biases[] = {1, 0, 1};
    static const uint32_t stop_tokens[] = {9, 5, 9};
    struct client_request r = client_request_default();

    (void)state;
    r.sampling.bias_tokens = bias_tokens;
    r.sampling.biases = biases;
    r.sampling.n_biases = 3;
    assert_int_equal(message(&r), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "token 7 has two logit biases");
    r.sampling.n_biases = 0;
    r.sampling.stop_tokens = stop_tokens;
    r.sampling.n_stop_tokens = 3;
    assert_int_equal(message(&r), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "stop token 9 occurs twice");
}

static void lists_are_bounded(void **state)
{
    static uint32_t bias_tokens[LOGIT_BIASES_MAX + 1];
    static float biases[LOGIT_BIASES_MAX + 1];
    static uint32_t stop_tokens[STOP_TOKENS_MAX + 1];
    static struct client_stop stops[STOP_STRINGS_MAX + 1];
    struct client_request r = client_request_default();

    (void)state;
    for (uint32_t i = 0; i <= LOGIT_BIASES_MAX; i++) {
        bias_tokens[i] = LOGIT_BIASES_MAX - i;
    }
    for (uint32_t i = 0; i <= STOP_TOKENS_MAX; i++) {
        stop_tokens[i] = i;
    }
    r.sampling.bias_tokens = bias_tokens;
    r.sampling.biases = biases;
    r.sampling.stop_tokens = stop_tokens;
    r.stops = stops;
    r.sampling.n_biases = LOGIT_BIASES_MAX;
    r.sampling.n_stop_tokens = STOP_TOKENS_MAX;
    r.n_stops = STOP_STRINGS_MAX;
    assert_int_equal(message(&r), ST_OK);
    assert_int_equal(sampling_check(&out.sampling, 4096, &e), ST_OK);
    r.sampling.n_biases++;
    assert_int_equal(message(&r), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "1025 logit biases exceed the limit of 1024");
    r.sampling.n_biases--;
    r.sampling.n_stop_tokens++;
    assert_int_equal(message(&r), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "65 stop tokens exceed the limit of 64");
    r.sampling.n_stop_tokens--;
    r.n_stops++;
    assert_int_equal(message(&r), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "17 stop strings exceed the limit of 16");
    r.n_stops--;
    r.n = CHOICES_MAX + 1;
    assert_int_equal(message(&r), ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "65 choices exceed the limit of 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_is_plain),
        cmocka_unit_test(every_field_is_sent),
        cmocka_unit_test(lists_are_sorted),
        cmocka_unit_test(a_repeated_token_is_refused),
        cmocka_unit_test(lists_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
