#include "common/base/log.h"

#include <string.h>

#include "common/wire/request_id.h"
#include "tests/unit/cmocka.h"

static char last[LOG_LINE];
static int n_lines;

static void keep(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    (void)level;
    n_lines++;
    strcpy(last, line);
}

static void escapes_what_a_terminal_would_obey(void **state)
{
    char out[64];

    (void)state;
    assert_int_equal(log_escape(out, sizeof out, "a\x1b[2J\n\\", 7), 16);
    assert_string_equal(out, "a\\x1b[2J\\x0a\\x5c");
    log_escape(out, sizeof out, "\xc3\xa9 \xc2\x9b \xff", 7);
    assert_string_equal(out, "\xc3\xa9 \\xc2\\x9b \\xff");
    log_escape(out, sizeof out, "\0b", 2);
    assert_string_equal(out, "\\x00b");
}

static void cuts_at_a_whole_character(void **state)
{
    char out[6];

    (void)state;
    assert_int_equal(log_escape(out, sizeof out, "abc\xe2\x82\xac", 6), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(log_escape(out, 5, "abc\n", 4), 3);
    assert_int_equal(log_escape(out, 1, "abc", 3), 0);
}

static void writes_only_from_its_level_on(void **state)
{
    enum log_level level;

    (void)state;
    log_setup(LOG_WARN, keep, NULL);
    n_lines = 0;
    log_info("quiet", "a=%d", 1);
    assert_int_equal(n_lines, 0);
    log_warn("worker-lost", "worker=%s silent_ms=%d", "w\n3", 7);
    assert_int_equal(n_lines, 1);
    assert_string_equal(last, "worker-lost worker=w\\x0a3 silent_ms=7");
    assert_true(log_level_parse("error", &level));
    assert_int_equal(level, LOG_ERROR);
    assert_false(log_level_parse("loud", &level));
    log_setup(LOG_WARN, NULL, NULL);
}

static void cuts_a_long_line(void **state)
{
    char big[2 * LOG_LINE];

    (void)state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    log_setup(LOG_WARN, keep, NULL);
    log_warn("big", "%s", big);
    assert_int_equal(strlen(last), LOG_LINE - 1);
    log_setup(LOG_WARN, NULL, NULL);
}

static void names_are_whole_and_forge_no_field(void **state)
{
    char out[LOG_NAME_TEXT], name[2 * LOG_NAME_TEXT];

    (void)state;
    log_name(out, "web-team");
    assert_string_equal(out, "web-team");
    log_name(out, "a\" end=1\n\x7f\\b");
    assert_string_equal(out, "a__end_1___b");
    log_name(out, "gr\xc3\xb6\xc3\x9f"
                  "e/7B:q4");
    assert_string_equal(out, "gr\xc3\xb6\xc3\x9f"
                             "e/7B:q4");
    log_name(out, "\xc2\x85\xff"); /* a control character; no UTF-8 */
    assert_string_equal(out, "___");
    log_name(out, "");
    assert_string_equal(out, "-");
    log_name(out, NULL);
    assert_string_equal(out, "-");
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    log_name(out, name);
    assert_int_equal(strlen(out), LOG_NAME_TEXT - 1);
}

static void reads_request_ids_back(void **state)
{
    uint8_t id[REQUEST_ID_BYTES], again[REQUEST_ID_BYTES];
    char text[REQUEST_ID_TEXT];

    (void)state;
    for (int i = 0; i < REQUEST_ID_BYTES; i++) {
        id[i] = (uint8_t)(i * 17);
    }
    request_id_format(id, text);
    assert_string_equal(text, "00112233445566778899aabbccddeeff");
    assert_true(request_id_parse("00112233445566778899AABBCCDDEEFF", again));
    assert_memory_equal(id, again, sizeof id);
    assert_false(request_id_parse("00112233445566778899aabbccddeef", again));
    assert_false(request_id_parse("00112233445566778899aabbccddeefg", again));
    assert_false(request_id_parse("", again));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes_what_a_terminal_would_obey),
        cmocka_unit_test(cuts_at_a_whole_character),
        cmocka_unit_test(writes_only_from_its_level_on),
        cmocka_unit_test(cuts_a_long_line),
        cmocka_unit_test(names_are_whole_and_forge_no_field),
        cmocka_unit_test(reads_request_ids_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
