/* Lines from bytes that are split anywhere. */
#include "client/front/lines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

struct seen {
    char text[256];
    size_t longest;
};

static void on_line(void *arg, const char *line, size_t n)
{
    struct seen *s = arg;
    size_t used = strlen(s->text);

    assert_int_equal(strlen(line), n);
    s->longest = n > s->longest ? n : s->longest;
    snprintf(s->text + used, sizeof s->text - used, "[%.40s]", line);
}

static void any_split_gives_the_same_lines(void **state)
{
    static const char text[] = "one\n\ntwo\r\nthree";

    (void)state;
    for (size_t cut = 0; cut <= sizeof text - 1; cut++) {
        struct lines *l = calloc(1, sizeof *l);
        struct seen s = {0};

        assert_non_null(l);
        lines_push(l, text, cut, on_line, &s);
        lines_push(l, text + cut, sizeof text - 1 - cut, on_line, &s);
        assert_string_equal(s.text, "[one][][two]");
        lines_finish(l, on_line, &s);
        lines_finish(l, on_line, &s);
        assert_string_equal(s.text, "[one][][two][three]");
        free(l);
    }
}

static void a_long_line_is_cut_and_the_next_is_whole(void **state)
{
    struct lines *l = calloc(1, sizeof *l);
    struct seen s = {0};
    char text[LINES_BYTES_MAX + 1];

    (void)state;
    assert_non_null(l);
    memset(text, 'a', sizeof text);
    lines_push(l, text, LINES_BYTES_MAX, on_line, &s);
    lines_push(l, "\n", 1, on_line, &s);
    assert_int_equal(s.longest, LINES_BYTES_MAX);
    lines_push(l, text, sizeof text, on_line, &s);
    lines_push(l, text, sizeof text, on_line, &s);
    lines_push(l, "\nnext\n", 6, on_line, &s);
    assert_int_equal(s.longest, LINES_BYTES_MAX);
    assert_non_null(strstr(s.text, "][next]"));
    free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_split_gives_the_same_lines),
        cmocka_unit_test(a_long_line_is_cut_and_the_next_is_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
