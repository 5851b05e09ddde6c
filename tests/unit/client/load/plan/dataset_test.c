/* Datasets: the forms of a row, and what is refused with its line. */
#include "client/load/plan/dataset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct dataset *parsed(const char *text)
{
    struct dataset *d;
    struct error e = {0};

    if (dataset_parse(&d, text, strlen(text), DATASET_ROWS_MAX, &e) != ST_OK) {
        fail_msg("%s", e.text);
    }
    return d;
}

static void refused_bytes(const char *text, size_t n, const char *has)
{
    struct dataset *d;
    struct error e = {0};

    if (dataset_parse(&d, text, n, DATASET_ROWS_MAX, &e) == ST_OK) {
        fail_msg("%.60s was accepted", text);
    }
    assert_null(d);
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

static void refused(const char *text, const char *has)
{
    refused_bytes(text, strlen(text), has);
}

static const struct plan_entry *entry(const struct dataset *d, size_t row)
{
    assert_true(row < d->n_rows);
    return &d->entries[d->rows[row].first];
}

static void texts_are_read(void **state)
{
    struct dataset *d = parsed("\xef\xbb\xbf{\"prompt\": \"Hello\"}\r\n\r\n"
                               "{\"prompt\": \"a\\nb\", \"max_tokens\": 7}\n"
                               "{\"prompt\": \"c\", \"output_tokens\": 9}");

    (void)state;
    assert_int_equal(d->n_rows, 3);
    assert_string_equal(entry(d, 0)->text, "Hello");
    assert_int_equal(entry(d, 0)->n_text, 5);
    assert_int_equal(d->rows[0].max_tokens, 0);
    assert_string_equal(entry(d, 1)->text, "a\nb");
    assert_int_equal(d->rows[1].max_tokens, 7);
    assert_int_equal(d->rows[2].max_tokens, 9);
    dataset_free(&d);
}

static void a_nul_in_a_text_is_kept(void **state)
{
    struct dataset *d = parsed("{\"prompt\": \"a\\u0000b\"}");

    (void)state;
    assert_int_equal(entry(d, 0)->n_text, 3);
    assert_memory_equal(entry(d, 0)->text, "a\0b", 3);
    dataset_free(&d);
}

static void ids_are_read(void **state)
{
    struct dataset *d = parsed("{\"token_ids\": [1, 2, 4294967295]}\n"
                               "{\"prompt\": [5]}\n");

    (void)state;
    assert_int_equal(entry(d, 0)->n_ids, 3);
    assert_true(entry(d, 0)->ids[2] == UINT32_MAX);
    assert_null(entry(d, 0)->text);
    assert_int_equal(entry(d, 1)->ids[0], 5);
    dataset_free(&d);
}

static void messages_are_kept_as_json(void **state)
{
    struct dataset *d = parsed(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi \\\"x\\\"\"},"
        " {\"role\": \"assistant\", \"content\": null}]}");

    (void)state;
    assert_string_equal(entry(d, 0)->messages,
                        "[{\"role\":\"user\",\"content\":\"Hi \\\"x\\\"\"},"
                        "{\"role\":\"assistant\",\"content\":null}]");
    assert_int_equal(entry(d, 0)->n_messages, strlen(entry(d, 0)->messages));
    dataset_free(&d);
}

static void human_texts_of_a_conversation_are_turns(void **state)
{
    struct dataset *d =
        parsed("[{\"id\": \"x{\\\"\", \"conversations\": ["
               "{\"from\": \"human\", \"value\": \"one\"},"
               "{\"from\": \"gpt\", \"value\": \"ignored\"},"
               "{\"from\": \"human\", \"value\": \"\"},"
               "{\"from\": \"human\", \"value\": \"two\"}]},\n"
               "{\"conversations\": []}, {\"conversations\": "
               "[{\"from\": \"user\", \"value\": \"three\"}]}]\n");

    (void)state;
    assert_int_equal(d->n_rows, 2);
    assert_int_equal(d->rows[0].n, 2);
    assert_string_equal(entry(d, 0)[0].text, "one");
    assert_string_equal(entry(d, 0)[1].text, "two");
    assert_string_equal(entry(d, 1)->text, "three");
    dataset_free(&d);
}

static void a_conversation_ends_at_the_most_turns(void **state)
{
    char text[16384] = "{\"conversations\":[";
    struct dataset *d;

    (void)state;
    for (int i = 0; i <= PLAN_TURNS_MAX; i++) {
        strcat(text, i > 0 ? ",{\"from\":\"human\",\"value\":\"x\"}"
                           : "{\"from\":\"human\",\"value\":\"x\"}");
    }
    strcat(text, "]}");
    d = parsed(text);
    assert_int_equal(d->rows[0].n, PLAN_TURNS_MAX);
    dataset_free(&d);
}

static void bad_rows_are_refused_with_their_line(void **state)
{
    (void)state;
    refused("", "line 1: there are no rows");
    refused(" \r\n ", "line 1: there are no rows");
    refused("{\"conversations\": []}", "there are no rows");
    refused("{\"prompt\":\"a\"}\n\n{\"prompt\":", "line 3: no JSON");
    refused("{\"prompt\":\"a\"}\n5\n", "line 2: no JSON");
    refused("{\"prompt\":\"a\"}\n{\"prompt\":\"\"}", "line 2: \"prompt\"");
    refused("{\"prompt\":5}", "line 1: \"prompt\" is no text");
    refused("{\"text\":\"a\"}", "line 1: no \"prompt\"");
    refused("{\"token_ids\":[]}", "line 1: \"token_ids\" has no ids");
    refused("{\"token_ids\":[1,-1]}", "\"token_ids\"[1]");
    refused("{\"token_ids\":[4294967296]}", "\"token_ids\"[0]");
    refused("{\"prompt\":[1.5]}", "\"prompt\"[0]");
    refused("{\"messages\":[]}", "\"messages\"");
    refused("{\"messages\":[{\"content\":\"x\"}]}", "\"messages\"[0]");
    refused("{\"messages\":{}}", "\"messages\"");
    refused("{\"conversations\":5}", "\"conversations\" is no array");
    refused("{\"prompt\":\"a\",\"max_tokens\":0}", "\"max_tokens\"");
    refused("{\"prompt\":\"a\",\"max_tokens\":\"5\"}", "\"max_tokens\"");
    refused("{\"prompt\":\"\xff\"}", "line 1: no JSON");
    refused_bytes("{\"prompt\":\"a\"}\n\0\n", 17, "line 2");
}

static void bad_arrays_are_refused_with_their_line(void **state)
{
    (void)state;
    refused("[", "line 1: no JSON object");
    refused("[]", "line 1: no JSON object");
    refused("[{\"prompt\":\"a\"}", "line 1: the array has no end");
    refused("[{\"prompt\":\"a\"},", "line 1: no JSON object");
    refused("[{\"prompt\":\"a\"},\n{\"prompt\":\"a\"", "line 2: the object");
    refused("[{\"prompt\":\"a\"},\n\n{\"prompt\":7}]", "line 3: \"prompt\"");
    refused("[{\"prompt\":\"a\"}]\n{}", "line 2: text after the array");
    refused("[{\"prompt\":\"a\"}}", "the array has no end");
    refused("[{]]}", "line 1");
}

static void output_tokens_have_a_limit(void **state)
{
    struct dataset *d = parsed("{\"prompt\":\"a\",\"max_tokens\":16777216}");

    (void)state;
    assert_int_equal(d->rows[0].max_tokens, DATASET_TOKENS_MAX);
    dataset_free(&d);
    refused("{\"prompt\":\"a\",\"max_tokens\":16777217}", "1..16777216");
}

static void rows_have_a_limit(void **state)
{
    static const char text[] = "{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n";
    struct dataset *d;
    struct error e = {0};

    (void)state;
    assert_int_equal(dataset_parse(&d, text, sizeof text - 1, 2, &e), ST_OK);
    dataset_free(&d);
    assert_int_equal(dataset_parse(&d, text, sizeof text - 1, 1, &e),
                     ST_OUT_OF_RANGE);
    assert_string_equal(e.text, "line 2: more than 1 rows; cut the dataset");
}

static void a_row_has_a_limit(void **state)
{
    size_t n = DATASET_ROW_BYTES_MAX + 1;
    char *text = malloc(n);
    struct dataset *d;
    struct error e = {0};

    (void)state;
    assert_non_null(text);
    memset(text, 'x', n);
    memcpy(text, "{\"prompt\":\"", 11);
    memcpy(text + n - 3, "\"} ", 3);
    assert_int_equal(dataset_parse(&d, text, n - 1, 1, &e), ST_OK);
    assert_int_equal(d->entries[0].n_text, n - 14);
    dataset_free(&d);
    refused_bytes(text, n, "16777217 bytes, at most 16777216");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read),
        cmocka_unit_test(a_nul_in_a_text_is_kept),
        cmocka_unit_test(ids_are_read),
        cmocka_unit_test(messages_are_kept_as_json),
        cmocka_unit_test(human_texts_of_a_conversation_are_turns),
        cmocka_unit_test(a_conversation_ends_at_the_most_turns),
        cmocka_unit_test(bad_rows_are_refused_with_their_line),
        cmocka_unit_test(bad_arrays_are_refused_with_their_line),
        cmocka_unit_test(output_tokens_have_a_limit),
        cmocka_unit_test(rows_have_a_limit),
        cmocka_unit_test(a_row_has_a_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
