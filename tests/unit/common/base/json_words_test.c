#include "common/base/json_words.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/unit/cmocka.h"

/* `want` NULL: the text has no word. */
static void becomes(const char *text, const char *want)
{
    char *copy;
    size_t n;
    struct error e;

    assert_int_equal(json_words(&copy, &n, text, strlen(text), &e), ST_OK);
    if (want == NULL) {
        assert_null(copy);
        return;
    }
    assert_non_null(copy);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(copy, want, n);
    free(copy);
}

static void quotes_words(void **state)
{
    (void)state;
    becomes("{\"a\": [0.0, Infinity]}", "{\"a\": [0.0, \"Infinity\"]}");
    becomes("{\"a\":-Infinity,\"b\":NaN}",
            "{\"a\":\"-Infinity\",\"b\":\"NaN\"}");
    becomes("NaN", "\"NaN\"");
    becomes("[NaN,NaN]", "[\"NaN\",\"NaN\"]");
}

static void leaves_everything_else(void **state)
{
    (void)state;
    becomes("", NULL);
    becomes("{\"NaN\": \"Infinity\"}", NULL);
    becomes("{\"a\\\"NaN\": 1}", NULL);
    becomes("[\"\\\\\", NaN]", "[\"\\\\\", \"NaN\"]");
    becomes("[XNaN, NaNs, +Infinity, --Infinity, Infinity1]", NULL);
    becomes("[\"NaN", NULL);
    becomes("[\"\\", NULL);
    becomes("[nan, infinity, null, true]", NULL);
}

/* Marks a text, parses and writes it, and takes the marks off. */
static void survives(const char *text)
{
    char *copy, *written;
    struct error e;
    json_t *j;
    size_t n;

    assert_int_equal(json_words_mark(&copy, &n, text, strlen(text), &e), ST_OK);
    j = json_loadb(copy != NULL ? copy : text, n, JSON_DECODE_ANY, NULL);
    assert_non_null(j);
    written = json_dumps(j, JSON_ENCODE_ANY);
    assert_non_null(written);
    json_words_unmark(written);
    assert_string_equal(written, text);
    free(written);
    json_decref(j);
    free(copy);
}

static void marked_words_come_back(void **state)
{
    (void)state;
    survives("{\"a\": [0.5, Infinity], \"b\": NaN, \"c\": {\"d\": -Infinity}}");
    survives("{\"NaN\": \"Infinity\", \"b\": \"a \\\"NaN\", \"c\": NaN}");
    survives("[\"\\u0007x\", \"\\\\\", NaN, \"\"]");
    survives("NaN");
    survives("[]");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotes_words),
        cmocka_unit_test(leaves_everything_else),
        cmocka_unit_test(marked_words_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
