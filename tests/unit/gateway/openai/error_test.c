/* Errors of the router in OpenAI's shape. */
#include <string.h>

#include "gateway/openai/error.h"
#include "tests/unit/cmocka.h"

static struct openai_error of(enum status st, const char *text)
{
    struct openai_error e;
    struct error from;

    (void)error_set(&from, st, "%s", text);
    openai_error_of_status(&e, st, &from);
    return e;
}

static void fields_of_the_protocol_get_the_names_of_the_api(void **state)
{
    struct openai_error e =
        of(ST_INVALID_ARGUMENT, "bias_tokens: id 9 is not below 4");

    (void)state;
    assert_int_equal(e.http, 400);
    assert_string_equal(e.param, "logit_bias");
    assert_string_equal(e.message, "logit_bias: id 9 is not below 4");
    e = of(ST_INVALID_ARGUMENT, "stop_tokens: id 9 is not below 4");
    assert_string_equal(e.param, "stop_token_ids");
    assert_string_equal(e.message, "stop_token_ids: id 9 is not below 4");
    e = of(ST_INVALID_ARGUMENT, "prompt: token 0 is 9");
    assert_string_equal(e.param, "prompt");
    e = of(ST_INVALID_ARGUMENT, "prompt (5000) and max_tokens (1)");
    assert_string_equal(e.param, "");
}

static void other_sentences_stay(void **state)
{
    struct openai_error e = of(ST_UNAVAILABLE, "bias_tokensx: no");

    (void)state;
    assert_int_equal(e.http, 503);
    assert_string_equal(e.param, "");
    assert_string_equal(e.message, "bias_tokensx: no");
    openai_error_of_status(&e, ST_UNAVAILABLE, NULL);
    assert_string_not_equal(e.message, "");
}

static void lack_of_memory_is_no_quota(void **state)
{
    struct openai_error e =
        of(ST_RESOURCE_EXHAUSTED, "memory: this needs 9.0 MiB");

    (void)state;
    assert_int_equal(e.http, 503);
    assert_string_equal(e.type, "server_error");
    assert_null(e.code);
    assert_string_equal(e.message, "memory: this needs 9.0 MiB");
    e = of(ST_RESOURCE_EXHAUSTED, "64 choices wait");
    assert_int_equal(e.http, 429);
    assert_string_equal(e.code, "rate_limit_exceeded");
    e = of(ST_INVALID_ARGUMENT, "memory: no field of this name");
    assert_int_equal(e.http, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_the_protocol_get_the_names_of_the_api),
        cmocka_unit_test(other_sentences_stay),
        cmocka_unit_test(lack_of_memory_is_no_quota),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
