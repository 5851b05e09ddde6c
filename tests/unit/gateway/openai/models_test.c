/* Bodies of models and tokens, errors, and the JSON writer below them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/openai/error.h"
#include "gateway/openai/models.h"
#include "tests/unit/cmocka.h"

static void is(struct json_out *o, const char *expected)
{
    json_out_raw(o, "", 1);
    assert_string_equal(o->data, expected);
    json_out_fini(o);
}

static void models_are_listed(void **state)
{
    static const struct openai_model models[] = {
        {"a\"b", 9, 4096, true, true, "hermes"},
        {"c", 10, 0, false, false, NULL}};
    struct json_out o = {0};

    (void)state;
    openai_models_body(&o, models, 2);
    is(&o, "{\"object\":\"list\",\"data\":[{\"id\":\"a\\\"b\",\"object\":"
           "\"model\",\"created\":9,\"owned_by\":\"sluice\","
           "\"max_model_len\":4096,\"capabilities\":{\"completion_chat\":true,"
           "\"function_calling\":true,\"reasoning\":true},"
           "\"tool_format\":\"hermes\"},{\"id\":\"c\",\"object\":\"model\","
           "\"created\":10,\"owned_by\":\"sluice\",\"capabilities\":{"
           "\"completion_chat\":false,\"function_calling\":false,"
           "\"reasoning\":false},\"tool_format\":null}]}");
    openai_models_body(&o, NULL, 0);
    is(&o, "{\"object\":\"list\",\"data\":[]}");
}

static size_t token_bytes(void *arg, uint32_t token, const char **bytes)
{
    (void)arg;
    *bytes = token == 1 ? "\xe2\x82" : "a";
    return token == 1 ? 2 : 1;
}

static void tokens_have_texts_on_request(void **state)
{
    static const uint32_t ids[] = {1, 7};
    const struct openai_vocab vocab = {.bytes = token_bytes};
    struct json_out o = {0};

    (void)state;
    openai_tokenize_body(&o, ids, 2, 99, NULL);
    is(&o, "{\"count\":2,\"max_model_len\":99,\"tokens\":[1,7],"
           "\"token_strs\":null}");
    openai_tokenize_body(&o, ids, 2, 99, &vocab);
    is(&o, "{\"count\":2,\"max_model_len\":99,\"tokens\":[1,7],"
           "\"token_strs\":[\"\xef\xbf\xbd\",\"a\"]}");
    openai_detokenize_body(&o, "a\n", 2);
    is(&o, "{\"prompt\":\"a\\n\",\"content\":\"a\\n\"}");
    openai_prompt_body(&o, "a\n", 2);
    is(&o, "{\"prompt\":\"a\\n\"}");
    openai_pieces_body(&o, ids, 2, &vocab);
    is(&o, "{\"tokens\":[{\"id\":1,\"piece\":[226,130]},{\"id\":7,"
           "\"piece\":\"a\"}]}");
}

static void unknown_models_are_404(void **state)
{
    struct openai_error e;
    struct json_out o = {0};

    (void)state;
    openai_error_no_model(&e, "x\xff");
    assert_int_equal(e.http, 404);
    openai_error_body(&o, &e);
    is(&o, "{\"error\":{\"message\":\"no worker serves a model \\\"x\\\\xff\\\""
           "; GET /v1/models lists those that are served\",\"type\":"
           "\"invalid_request_error\",\"param\":\"model\",\"code\":"
           "\"model_not_found\"}}");
}

static void each_status_has_a_status_of_http(void **state)
{
    (void)state;
    for (int st = ST_CANCELLED; st < ST_NR; st++) {
        struct openai_error e;

        openai_error_of_status(&e, (enum status)st, NULL);
        assert_in_range(e.http, 400, 599);
        assert_true(e.message[0] != '\0' && e.type != NULL);
        assert_string_equal(e.param, "");
    }
    assert_int_equal(openai_error_http(ST_INVALID_ARGUMENT), 400);
    assert_int_equal(openai_error_http(ST_RESOURCE_EXHAUSTED), 429);
    assert_int_equal(openai_error_http(ST_UNAVAILABLE), 503);
    assert_int_equal(openai_error_http(ST_INTERNAL), 500);
}

/* ---- the writer ---- */

/* Each byte at each place of a run of eight, as the search takes eight at a
 * time, compared with the library's own escapes. */
static void escapes_are_those_of_json(void **state)
{
    (void)state;
    for (int byte = 0; byte < 0x80; byte++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20];
            struct json_out o = {0};
            json_t *back;

            memset(text, 'x', sizeof text);
            text[at] = (char)byte;
            text[(at * 7) % sizeof text] = '"';
            json_out_string(&o, text, sizeof text);
            back =
                json_loadb(o.data, o.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
            assert_non_null(back);
            assert_int_equal(json_string_length(back), sizeof text);
            assert_memory_equal(json_string_value(back), text, sizeof text);
            json_decref(back);
            json_out_fini(&o);
        }
    }
}

static void wrong_bytes_become_replacement_characters(void **state)
{
    struct json_out o = {0};

    (void)state;
    json_out_string(&o, "a\xffz\xe2\x82", 5);
    is(&o, "\"a\xef\xbf\xbdz\xef\xbf\xbd\"");
}

static void floats_read_back_as_they_are(void **state)
{
    static const float values[] = {
        0,        -0.5f, 1e-30f,   -1.17549e-38f, 3.4e38f, 0.1f, -12.3456789f,
        1.0f / 3, -100,  16777215, 1e10f};
    struct json_out o = {0};

    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        json_out_float(&o, values[i]);
        json_out_raw(&o, "", 1);
        assert_true(strtof(o.data, NULL) == values[i]);
        json_out_fini(&o);
    }
    json_out_float(&o, -INFINITY);
    is(&o, "-9999");
}

static void integers_have_all_digits(void **state)
{
    struct json_out o = {0};

    (void)state;
    json_out_i64(&o, INT64_MIN);
    json_out_put(&o, " ");
    json_out_u64(&o, UINT64_MAX);
    json_out_put(&o, " ");
    json_out_u64(&o, 0);
    is(&o, "-9223372036854775808 18446744073709551615 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_are_listed),
        cmocka_unit_test(tokens_have_texts_on_request),
        cmocka_unit_test(unknown_models_are_404),
        cmocka_unit_test(each_status_has_a_status_of_http),
        cmocka_unit_test(escapes_are_those_of_json),
        cmocka_unit_test(wrong_bytes_become_replacement_characters),
        cmocka_unit_test(floats_read_back_as_they_are),
        cmocka_unit_test(integers_have_all_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
