#include "common/base/metric.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/wire/wire_limits.h"
#include "tests/unit/cmocka.h"

#define TEST_METRICS(X)               \
    X(requests, COUNTER, "asked for") \
    X(waiting, GAUGE, "waiting for room")

METRIC_TABLE(test_metrics, TEST_METRICS);

static void prints_name_kind_and_value(void **state)
{
    struct test_metrics m = {.requests = 3, .waiting = 5};
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    metric_print(to, "sluice", test_metrics_rows,
                 METRIC_COUNT(test_metrics_rows), &m);
    metric_list(to, "sluice", test_metrics_rows,
                METRIC_COUNT(test_metrics_rows));
    fclose(to);
    assert_non_null(strstr(text, "# TYPE sluice_requests_total counter\n"
                                 "sluice_requests_total 3\n"));
    assert_non_null(strstr(text, "\nsluice_waiting 5\n"));
    assert_non_null(strstr(text, "sluice_waiting\tgauge\twaiting for room\n"));
    free(text);
}

static void escapes_help_that_would_break_the_format(void **state)
{
    const struct metric_row row = {"odd", METRIC_GAUGE, "a\nb\\c"};
    uint64_t value = UINT64_MAX;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    metric_print(to, "sluice", &row, 1, &value);
    fclose(to);
    assert_string_equal(text, "# HELP sluice_odd a\\nb\\\\c\n"
                              "# TYPE sluice_odd gauge\n"
                              "sluice_odd 18446744073709551615\n");
    free(text);
}

#define N_TEST METRIC_COUNT(test_metrics_rows)

static void text_leaves_out_what_is_zero(void **state)
{
    struct test_metrics m = {.requests = 3, .waiting = 0};
    char text[64];

    (void)state;
    assert_int_equal(
        metric_text(text, sizeof text, test_metrics_rows, N_TEST, &m), 2);
    assert_string_equal(text, "requests=3");
    m = (struct test_metrics){.waiting = 4};
    assert_int_equal(
        metric_text(text, sizeof text, test_metrics_rows, N_TEST, &m), 2);
    assert_string_equal(text, "waiting=4");
    m = (struct test_metrics){0};
    assert_int_equal(
        metric_text(text, sizeof text, test_metrics_rows, N_TEST, &m), 2);
    assert_string_equal(text, "");
}

static void text_stops_at_an_entry_that_does_not_fit(void **state)
{
    struct test_metrics m = {.requests = 3, .waiting = 12345};
    char text[sizeof "requests=3 waiting=12345"];

    (void)state;
    assert_int_equal(
        metric_text(text, sizeof text, test_metrics_rows, N_TEST, &m), 2);
    assert_string_equal(text, "requests=3 waiting=12345");
    assert_int_equal(
        metric_text(text, sizeof text - 1, test_metrics_rows, N_TEST, &m), 1);
    assert_string_equal(text, "requests=3");
}

struct lines {
    char text[16][LOG_LINE];
    unsigned n;
};

static void keep_line(void *arg, enum log_level level, const char *line)
{
    struct lines *l = arg;

    assert_int_equal(level, LOG_INFO);
    assert_true(l->n < 16);
    snprintf(l->text[l->n++], LOG_LINE, "%s", line);
}

#define MANY 200

static void log_takes_as_many_lines_as_the_rows_need(void **state)
{
    static struct lines lines;
    struct metric_row rows[MANY];
    uint64_t values[MANY];
    char names[MANY][16], want[64];
    unsigned line = 0;
    const char *at;

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "row_%zu", i);
        rows[i] = (struct metric_row){names[i], METRIC_COUNTER, "a row"};
        values[i] = i % 7 == 0 ? 0 : UINT64_MAX - i;
    }
    log_setup(LOG_INFO, keep_line, &lines);
    metric_log("counted", rows, MANY, values);
    log_setup(LOG_WARN, NULL, NULL);
    assert_true(lines.n > 1);
    at = lines.text[0];
    for (size_t i = 0; i < MANY; i++) {
        snprintf(want, sizeof want, " row_%zu=%" PRIu64, i, values[i]);
        if (values[i] == 0) {
            continue;
        }
        if (line == 0 || *at == '\0') {
            at = lines.text[line++];
            assert_memory_equal(at, "counted ", 8);
            at += 7;
        }
        assert_memory_equal(at, want, strlen(want));
        at += strlen(want);
    }
    assert_int_equal(*at, '\0');
    assert_int_equal(line, lines.n);
}

static void log_of_zeros_is_one_line(void **state)
{
    static struct lines lines;
    struct test_metrics m = {0};

    (void)state;
    log_setup(LOG_INFO, keep_line, &lines);
    metric_log("counted", test_metrics_rows, N_TEST, &m);
    log_setup(LOG_WARN, NULL, NULL);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.text[0], "counted ");
}

static void prints_limits(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    limits_print(to, wire_limits, wire_limits_n);
    fclose(to);
    assert_non_null(strstr(text, "FRAME_BYTES_MAX"));
    assert_non_null(strstr(text, "2097152 bytes"));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_name_kind_and_value),
        cmocka_unit_test(escapes_help_that_would_break_the_format),
        cmocka_unit_test(text_leaves_out_what_is_zero),
        cmocka_unit_test(text_stops_at_an_entry_that_does_not_fit),
        cmocka_unit_test(log_takes_as_many_lines_as_the_rows_need),
        cmocka_unit_test(log_of_zeros_is_one_line),
        cmocka_unit_test(prints_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
