/* Traces: both forms, their order, and what is refused with its line. */
#include "client/load/plan/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/load/plan/trace_time.h"
#include "tests/unit/cmocka.h"

static struct trace *parsed_bytes(const char *text, size_t n)
{
    struct trace *t;
    struct error e = {0};

    if (trace_parse(&t, text, n, &trace_limits, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return t;
}

static struct trace *parsed(const char *text)
{
    return parsed_bytes(text, strlen(text));
}

static void refused_bytes(const char *text, size_t n, const char *has)
{
    struct trace *t;
    struct error e = {0};

    if (trace_parse(&t, text, n, &trace_limits, &e) == ST_OK) {
        fail_msg("%.60s was accepted", text);
    }
    assert_null(t);
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

static void refused(const char *text, const char *has)
{
    refused_bytes(text, strlen(text), has);
}

static void row_is(const struct trace *t, size_t i, int64_t at_us,
                   uint32_t n_prompt, uint32_t n_output)
{
    assert_true(i < t->n_rows);
    assert_int_equal(t->rows[i].at_us, at_us);
    assert_int_equal(t->rows[i].n_prompt, n_prompt);
    assert_int_equal(t->rows[i].n_output, n_output);
}

/* ---- CSV ---- */

static void azure_rows_are_read_with_fractions_of_seconds(void **state)
{
    struct trace *t = parsed("TIMESTAMP,ContextTokens,GeneratedTokens\n"
                             "2023-11-16 18:15:46.6805900,374,44\n"
                             "2023-11-16 18:15:50.9951690,396,109\n"
                             "2023-11-16 18:16:00,5,0\n");

    (void)state;
    assert_int_equal(t->n_rows, 3);
    row_is(t, 0, 0, 374, 44);
    row_is(t, 1, 4314579, 396, 109);
    row_is(t, 2, 13319410, 5, 1); /* an output of 0 becomes 1 */
    assert_int_equal(t->total_max, 505);
    trace_free(&t);
}

static void a_header_is_not_needed(void **state)
{
    struct trace *t = parsed("2024-05-10 00:00:00.009930+00:00,2162,5\n"
                             "2024-05-10 00:00:01.009930+00:00,2399,6");

    (void)state;
    assert_int_equal(t->n_rows, 2);
    row_is(t, 1, 1000000, 2399, 6);
    trace_free(&t);
}

static void columns_are_found_by_their_names(void **state)
{
    struct trace *t =
        parsed("Timestamp,Model,Request tokens,Response tokens,Total tokens\n"
               "5,ChatGPT,472,18,490\n"
               "45.25,GPT-4,1087,230,1317\n");

    (void)state;
    row_is(t, 0, 0, 472, 18);
    row_is(t, 1, 40250000, 1087, 230);
    trace_free(&t);
}

static void line_ends_blanks_and_marks_do_not_matter(void **state)
{
    struct trace *t = parsed("\xef\xbb\xbf\"TIMESTAMP\", ContextTokens ,"
                             "GeneratedTokens\r\n\r\n"
                             "1.5 , 10,20\r\n"
                             "   \r\n"
                             "\"2.5\",30,\"40\"\r\n\n");

    (void)state;
    assert_int_equal(t->n_rows, 2);
    row_is(t, 0, 0, 10, 20);
    row_is(t, 1, 1000000, 30, 40);
    trace_free(&t);
}

static void rows_are_sorted_and_equal_times_keep_their_order(void **state)
{
    struct trace *t = parsed("9,1,1\n3,2,1\n3,3,1\n1,4,1\n3,5,1\n2,6,1\n"
                             "9,7,1\n");
    static const uint32_t order[] = {4, 6, 2, 3, 5, 1, 7};

    (void)state;
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(t->rows[i].n_prompt, order[i]);
    }
    row_is(t, 0, 0, 4, 1);
    row_is(t, 6, 8000000, 7, 1);
    trace_free(&t);
}

static void bad_rows_are_refused_with_their_line(void **state)
{
    (void)state;
    refused("", "line 1: there are no rows");
    refused("\n\r\n", "no rows");
    refused("TIMESTAMP,ContextTokens,GeneratedTokens\n", "no rows");
    refused("when,how,what\n1,2,3\n", "line 1");
    refused("1,2,3\n1,2\n", "line 2: 2 columns");
    refused("1,2,3\n\n-1,2,3\n", "line 3: \"-1\" is no time");
    refused("1,2,3\n1,-2,3\n", "line 2: prompt \"-2\"");
    refused("1,2,3\n1,2,3.5\n", "line 2: output \"3.5\"");
    refused("1,2,3\n1,,3\n", "line 2: prompt \"\"");
    refused("1,2,3\n1,0x10,3\n", "line 2");
    refused("1,2,3\nTIMESTAMP,ContextTokens,GeneratedTokens\n", "line 2");
    refused("1,2,3\n2023-02-29 00:00:00,1,1\n", "line 2");
    refused("1,99999999999999999999999999,3\n", "line 1: prompt");
    refused_bytes("1,2,3\n1,2\0,3\n", 13, "line 2: prompt \"2\\x00\"");
    refused_bytes("\0", 1, "line 1");
}

static void tokens_of_a_row_have_a_limit(void **state)
{
    struct trace *t = parsed("1,2097152,2097152\n");

    (void)state;
    row_is(t, 0, 0, TRACE_TOKENS_MAX, TRACE_TOKENS_MAX);
    trace_free(&t);
    refused("1,2097153,1\n", "0..2097152");
    refused("1,1,2097153\n", "0..2097152");
    refused("{\"timestamp\":1,\"input_length\":2097153,\"output_length\":1}",
            "0..2097152");
}

static void rows_have_a_limit(void **state)
{
    static const char text[] = "1,1,1\n2,1,1\n3,1,1\n";
    struct trace_limits three = {.rows = 3}, two = {.rows = 2};
    struct trace *t;
    struct error e = {0};

    (void)state;
    assert_int_equal(trace_parse(&t, text, sizeof text - 1, &three, &e), ST_OK);
    trace_free(&t);
    assert_int_equal(trace_parse(&t, text, sizeof text - 1, &two, &e),
                     ST_OUT_OF_RANGE);
    assert_string_equal(e.text, "line 3: more than 2 rows; cut the trace");
}

static void blocks_have_a_limit(void **state)
{
    static const char text[] = "{\"timestamp\":1,\"input_length\":2000,"
                               "\"output_length\":1,\"hash_ids\":[1,2]}\n"
                               "{\"timestamp\":1,\"input_length\":1,"
                               "\"output_length\":1,\"hash_ids\":[1]}\n";
    struct trace_limits three = {3, 3}, two = {3, 2};
    struct trace *t;
    struct error e = {0};

    (void)state;
    assert_int_equal(trace_parse(&t, text, sizeof text - 1, &three, &e), ST_OK);
    trace_free(&t);
    assert_int_equal(trace_parse(&t, text, sizeof text - 1, &two, &e),
                     ST_OUT_OF_RANGE);
    assert_string_equal(e.text, "line 2: more than 2 hash_ids; cut the trace");
}

static void a_line_has_a_limit(void **state)
{
    size_t n = TRACE_LINE_MAX + 1;
    char *text = malloc(n);
    struct trace *t;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', n);
    memcpy(text, "1,1,1", 5);
    t = parsed_bytes(text, n - 1);
    trace_free(&t);
    refused_bytes(text, n, "1048577 bytes, at most 1048576");
    free(text);
}

/* ---- times ---- */

static void times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"0", 0},
        {"12.5", 12500000},
        {"1.0000019", 1000001},
        {"1970-01-01 00:00:00", 0},
        {"1970-01-01T00:00:01.25Z", 1250000},
        {"2000-02-29 12:00:00", INT64_C(951825600000000)},
        {"2023-11-16 18:17:03.9799600", INT64_C(1700158623979960)},
        {"2023-11-16T19:17:03+01:00", INT64_C(1700158623000000)},
        {"2023-11-16T12:47:03-0530", INT64_C(1700158623000000)},
        {"9999-12-31 23:59:60", INT64_C(253402300800000000)},
    };
    static const char *const bad[] = {
        "",
        ".5",
        "1.",
        "1e3",
        "-1",
        "1 ",
        "100000000000",
        "1969-12-31 00:00:00",
        "2023-13-01 00:00:00",
        "2023-00-01 00:00:00",
        "2023-04-31 00:00:00",
        "2023-04-00 00:00:00",
        "1900-02-29 00:00:00",
        "2023-04-01",
        "2023-04-01 24:00:00",
        "2023-04-01 00:60:00",
        "2023-04-01 00:00:61",
        "2023-04-01 00:00:00.",
        "2023-04-01 00:00:00 ",
        "2023-04-01 00:00:00+1",
        "2023-04-01 00:00:00+24:00",
    };
    int64_t us;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(trace_time(rows[i].text, strlen(rows[i].text), &us));
        assert_int_equal(us, rows[i].us);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (trace_time(bad[i], strlen(bad[i]), &us)) {
            fail_msg("\"%s\" is a time", bad[i]);
        }
    }
}

/* ---- JSON ---- */

static void mooncake_rows_are_read_with_their_blocks(void **state)
{
    struct trace *t = parsed(
        "{\"timestamp\": 27482, \"input_length\": 1030, \"output_length\": 52,"
        " \"hash_ids\": [46, 47, 48]}\r\n"
        "\n"
        "{\"timestamp\": 30535, \"input_length\": 1000, \"output_length\": 26,"
        " \"hash_ids\": [46, -1]}\n"
        "{\"timestamp\": 30535.5, \"input_length\": 5, \"output_length\": 0}");

    (void)state;
    assert_int_equal(t->n_rows, 3);
    row_is(t, 0, 0, 1030, 52);
    row_is(t, 1, 3053000, 1000, 26);
    row_is(t, 2, 3053500, 5, 1);
    assert_int_equal(t->rows[0].n_blocks, 3);
    assert_int_equal(t->rows[1].n_blocks, 2);
    assert_int_equal(t->rows[2].n_blocks, 0);
    assert_true(t->blocks[t->rows[0].first_block + 2] == 48);
    assert_true(t->blocks[t->rows[1].first_block] == 46);
    assert_true(t->blocks[t->rows[1].first_block + 1] == UINT64_MAX);
    trace_free(&t);
}

static void blocks_stay_with_their_row_when_rows_are_sorted(void **state)
{
    struct trace *t = parsed("{\"timestamp\":9,\"input_length\":9,"
                             "\"output_length\":9,\"hash_ids\":[9]}\n"
                             "{\"timestamp\":1,\"input_length\":1,"
                             "\"output_length\":1,\"hash_ids\":[1]}\n");

    (void)state;
    assert_true(t->blocks[t->rows[0].first_block] == 1);
    assert_true(t->blocks[t->rows[1].first_block] == 9);
    trace_free(&t);
}

static void blocks_past_the_prompt_are_dropped(void **state)
{
    struct trace *t =
        parsed("{\"timestamp\":1,\"input_length\":512,\"output_length\":1,"
               "\"hash_ids\":[1,2,3]}");

    (void)state;
    assert_int_equal(t->rows[0].n_blocks, 1);
    trace_free(&t);
}

static void bad_objects_are_refused_with_their_line(void **state)
{
#define GOOD "{\"timestamp\":1,\"input_length\":2,\"output_length\":3}\n"
    (void)state;
    refused(GOOD "{\"timestamp\":1", "line 2: no JSON object");
    refused(GOOD "[1]", "line 2: no JSON object");
    refused(GOOD "1,2,3", "line 2: no JSON object");
    refused(GOOD "{\"input_length\":2,\"output_length\":3}",
            "line 2: \"timestamp\"");
    refused("{\"timestamp\":-1,\"input_length\":2,\"output_length\":3}",
            "line 1: \"timestamp\"");
    refused("{\"timestamp\":1e15,\"input_length\":2,\"output_length\":3}",
            "line 1: \"timestamp\"");
    refused("{\"timestamp\":1,\"input_length\":\"2\",\"output_length\":3}",
            "line 1: \"input_length\"");
    refused("{\"timestamp\":1,\"input_length\":2,\"output_length\":-3}",
            "line 1: output_length");
    refused("{\"timestamp\":1,\"input_length\":2.5,\"output_length\":3}",
            "line 1: input_length 2.5");
    refused("{\"timestamp\":1,\"input_length\":2,\"output_length\":3,"
            "\"hash_ids\":7}",
            "line 1: \"hash_ids\" is no array");
    refused("{\"timestamp\":1,\"input_length\":2,\"output_length\":3,"
            "\"hash_ids\":[\"a\"]}",
            "line 1: \"hash_ids\"[0]");
#undef GOOD
}

static void deep_objects_are_refused(void **state)
{
    char text[200] = "{\"a\":";

    (void)state;
    memset(text + 5, '[', 100);
    refused(text, "line 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(azure_rows_are_read_with_fractions_of_seconds),
        cmocka_unit_test(a_header_is_not_needed),
        cmocka_unit_test(columns_are_found_by_their_names),
        cmocka_unit_test(line_ends_blanks_and_marks_do_not_matter),
        cmocka_unit_test(rows_are_sorted_and_equal_times_keep_their_order),
        cmocka_unit_test(bad_rows_are_refused_with_their_line),
        cmocka_unit_test(tokens_of_a_row_have_a_limit),
        cmocka_unit_test(rows_have_a_limit),
        cmocka_unit_test(blocks_have_a_limit),
        cmocka_unit_test(a_line_has_a_limit),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(mooncake_rows_are_read_with_their_blocks),
        cmocka_unit_test(blocks_stay_with_their_row_when_rows_are_sorted),
        cmocka_unit_test(blocks_past_the_prompt_are_dropped),
        cmocka_unit_test(bad_objects_are_refused_with_their_line),
        cmocka_unit_test(deep_objects_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
