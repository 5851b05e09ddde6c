/* Events from bytes that are split anywhere. */
#include "common/base/sse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

struct seen {
    char text[512];
    size_t n, longest;
};

static void on_event(void *arg, const char *data, size_t n)
{
    struct seen *s = arg;
    size_t used = strlen(s->text);

    assert_int_equal(data[n], '\0');
    s->n++;
    s->longest = n > s->longest ? n : s->longest;
    snprintf(s->text + used, sizeof s->text - used, "[%.40s]", data);
}

/* Pushes text in two parts at each place, and byte by byte. */
static void gives(const char *text, const char *want)
{
    size_t n = strlen(text);

    for (size_t cut = 0; cut <= n + 1; cut++) {
        struct sse s = {0};
        struct seen seen = {0};

        if (cut <= n) {
            assert_true(sse_push(&s, text, cut, on_event, &seen));
            assert_true(sse_push(&s, text + cut, n - cut, on_event, &seen));
        }
        for (size_t i = 0; cut > n && i < n; i++) {
            assert_true(sse_push(&s, text + i, 1, on_event, &seen));
        }
        assert_string_equal(seen.text, want);
        sse_fini(&s);
    }
}

static void events_end_at_empty_lines(void **state)
{
    (void)state;
    gives("data: one\n\ndata:two\n\n", "[one][two]");
    gives("data: one\r\n\r\ndata: two\r\n\r\n", "[one][two]");
    gives("data: one\r\rdata: two\r\r", "[one][two]");
    gives("data: one\n\n\n\ndata: two\n\n", "[one][two]");
    gives("data: one\n\ndata: cut", "[one]");
    gives("data: one\n\ndata: cut\n", "[one]");
}

static void data_fields_are_joined_by_newlines(void **state)
{
    (void)state;
    gives("data: one\ndata: two\n\n", "[one\ntwo]");
    gives("data\n\n", "[]");
    gives("data\ndata\n\n", "[\n]");
    gives("data:\n\ndata:  two spaces\n\n", "[][ two spaces]");
}

static void other_fields_and_comments_are_ignored(void **state)
{
    (void)state;
    gives(": keep-alive\n\nevent: x\nid: 7\nretry: 1\ndata: a\nother\n\n",
          "[a]");
    gives("event: x\n\ndata: b\n\n", "[b]");
    gives("database: c\n data: d\n\n", "");
}

static void a_byte_order_mark_is_skipped_once(void **state)
{
    (void)state;
    gives("\xef\xbb\xbf"
          "data: a\n\n\xef\xbb\xbf"
          "data: b\n\n",
          "[a]");
}

static void the_limit_of_an_event_holds(void **state)
{
    size_t n = SSE_EVENT_BYTES_MAX + 16;
    char *text = malloc(n);
    struct sse s = {0};
    struct seen seen = {0};

    (void)state;
    assert_non_null(text);
    memset(text, 'a', n);
    memcpy(text, "data:", 5);
    /* A line at the limit; its data is five bytes shorter. */
    assert_true(sse_push(&s, text, SSE_EVENT_BYTES_MAX, on_event, &seen));
    assert_true(sse_push(&s, "\n\n", 2, on_event, &seen));
    assert_int_equal(seen.longest, SSE_EVENT_BYTES_MAX - 5);
    assert_false(sse_push(&s, text, SSE_EVENT_BYTES_MAX + 1, on_event, &seen));
    assert_false(sse_push(&s, "\n\n", 2, on_event, &seen));
    assert_int_equal(seen.n, 1);
    sse_fini(&s);

    /* Data of several lines: 5 bytes, the newline, and the rest. */
    assert_true(sse_push(&s, "data:12345\n", 11, on_event, &seen));
    memset(text + 5, 'b', n - 5);
    text[SSE_EVENT_BYTES_MAX - 1] = '\n';
    assert_true(sse_push(&s, text, SSE_EVENT_BYTES_MAX, on_event, &seen));
    assert_true(sse_push(&s, "\n", 1, on_event, &seen));
    assert_int_equal(seen.longest, SSE_EVENT_BYTES_MAX);
    assert_true(sse_push(&s, "data:123456\n", 12, on_event, &seen));
    assert_false(sse_push(&s, text, SSE_EVENT_BYTES_MAX, on_event, &seen));
    sse_fini(&s);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_end_at_empty_lines),
        cmocka_unit_test(data_fields_are_joined_by_newlines),
        cmocka_unit_test(other_fields_and_comments_are_ignored),
        cmocka_unit_test(a_byte_order_mark_is_skipped_once),
        cmocka_unit_test(the_limit_of_an_event_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
