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

METRIC_SET(test_metrics, "sluice", NULL);

#define LABELLED(X)                 \
    X(calls, COUNTER, "calls made") \
    X(time, TIMES, "time of calls")

METRIC_TABLE(labelled, LABELLED);
METRIC_SET(labelled, "sluice", "worker,class");
static const struct metric_set tenants_set = {
    "sluice", labelled_rows, METRIC_COUNT(labelled_rows), "tenant"};

static void list_has_name_kind_help_and_labels(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);

    (void)state;
    metric_list(to, &test_metrics_set);
    metric_list(to, &labelled_set);
    fclose(to);
    assert_string_equal(
        text, "sluice_requests_total\tcounter\tasked for\n"
              "sluice_waiting\tgauge\twaiting for room\n"
              "sluice_calls_total\tcounter\tcalls made\tworker,class\n"
              "sluice_time_seconds\thistogram\ttime of calls\tworker,class\n");
    free(text);
}

static void a_bound_belongs_to_its_bucket(void **state)
{
    struct metric_histogram h = {.sum = 0};

    (void)state;
    metric_time(&h, -5); /* a clock that went back */
    metric_time(&h, 100);
    metric_time(&h, 101);
    metric_time(&h, 100000000);
    metric_time(&h, 100000001);
    assert_int_equal(h.count[0], 2);
    assert_int_equal(h.count[1], 1);
    assert_int_equal(h.count[METRIC_BUCKETS - 2], 1);
    assert_int_equal(h.count[METRIC_BUCKETS - 1], 1);
    assert_int_equal(h.sum, 200000202);
    assert_int_equal(metric_observed(&h), 5);
    h = (struct metric_histogram){.sum = 0};
    metric_size(&h, 0);
    metric_size(&h, 1);
    metric_size(&h, 2);
    metric_size(&h, 262144);
    metric_size(&h, 262145);
    assert_int_equal(h.count[0], 2);
    assert_int_equal(h.count[1], 1);
    assert_int_equal(h.count[METRIC_BUCKETS - 2], 1);
    assert_int_equal(h.count[METRIC_BUCKETS - 1], 1);
}

/* The bounds as text are the bounds that observations are compared with. */
static void bounds_are_printed_as_they_are(void **state)
{
    (void)state;
    for (size_t i = 0; i + 1 < METRIC_BUCKETS; i++) {
        double s = strtod(metric_bound(METRIC_TIMES, i), NULL);
        double n = strtod(metric_bound(METRIC_SIZES, i), NULL);
        struct metric_histogram h = {.sum = 0};

        metric_time(&h, (int64_t)(s * 1e6 + 0.5));
        metric_size(&h, (uint64_t)n);
        assert_int_equal(h.count[i], 2);
        metric_time(&h, (int64_t)(s * 1e6 + 0.5) + 1);
        metric_size(&h, (uint64_t)n + 1);
        assert_int_equal(h.count[i + 1], 2);
    }
    assert_string_equal(metric_bound(METRIC_TIMES, METRIC_BUCKETS - 1), "+Inf");
    assert_string_equal(metric_bound(METRIC_SIZES, METRIC_BUCKETS - 1), "+Inf");
}

static void widths_are_those_of_the_structs(void **state)
{
    (void)state;
    assert_int_equal(metric_width(&test_metrics_set) * sizeof(uint64_t),
                     sizeof(struct test_metrics));
    assert_int_equal(metric_width(&labelled_set) * sizeof(uint64_t),
                     sizeof(struct labelled));
    assert_int_equal(metric_n_labels(&test_metrics_set), 0);
    assert_int_equal(metric_n_labels(&labelled_set), 2);
}

static void text_of_a_histogram_is_its_count_and_sum(void **state)
{
    struct labelled m = {.calls = 2};
    char text[64];

    (void)state;
    metric_time(&m.time, 7);
    metric_time(&m.time, 8);
    assert_int_equal(metric_text(text, sizeof text, labelled_rows, 2, &m), 2);
    assert_string_equal(text, "calls=2 time_n=2 time_us=15");
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
    const struct metric_set set = {"sluice", rows, MANY, NULL};
    const struct metric_series series = {&set, NULL, values, 1};
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
    metric_log("counted", &series);
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

static void log_of_zeros_is_no_line(void **state)
{
    static struct lines lines;
    struct test_metrics m = {0};
    const struct metric_series s = {&test_metrics_set, NULL, &m, 1};

    (void)state;
    log_setup(LOG_INFO, keep_line, &lines);
    metric_log("counted", &s);
    log_setup(LOG_WARN, NULL, NULL);
    assert_int_equal(lines.n, 0);
}

static void log_names_the_labels_of_a_series(void **state)
{
    static struct lines lines;
    struct labelled m[3] = {{.calls = 1}, {.calls = 0}, {.calls = 3}};
    const struct metric_series s = {
        &labelled_set, "w1\0blocks\0w1\0slots\0w \"2\0blocks", m, 3};

    (void)state;
    log_setup(LOG_INFO, keep_line, &lines);
    metric_log("counted", &s);
    log_setup(LOG_WARN, NULL, NULL);
    assert_int_equal(lines.n, 2); /* the series of zeros has none */
    assert_string_equal(lines.text[0],
                        "counted worker=\"w1\" class=\"blocks\" calls=1");
    assert_non_null(strstr(lines.text[1], "calls=3"));
    assert_null(strstr(lines.text[1], "w \"2")); /* quoted */
}

static void log_names_tenants_as_metrics_do(void **state)
{
    static struct lines lines;
    struct labelled m[3] = {{.calls = 1}, {.calls = 2}, {.calls = 3}};
    const struct metric_series s = {&tenants_set, "a\0web\0research-team", m,
                                    3};

    (void)state;
    log_setup(LOG_INFO, keep_line, &lines);
    metric_log("counted", &s);
    log_setup(LOG_WARN, NULL, NULL);
    assert_int_equal(lines.n, 3);
    assert_string_equal(lines.text[0], "counted tenant=\"a\" calls=1");
    assert_string_equal(lines.text[1], "counted tenant=\"web\" calls=2");
    assert_string_equal(lines.text[2],
                        "counted tenant=\"research-team\" calls=3");
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
        cmocka_unit_test(list_has_name_kind_help_and_labels),
        cmocka_unit_test(a_bound_belongs_to_its_bucket),
        cmocka_unit_test(bounds_are_printed_as_they_are),
        cmocka_unit_test(widths_are_those_of_the_structs),
        cmocka_unit_test(text_of_a_histogram_is_its_count_and_sum),
        cmocka_unit_test(text_leaves_out_what_is_zero),
        cmocka_unit_test(text_stops_at_an_entry_that_does_not_fit),
        cmocka_unit_test(log_takes_as_many_lines_as_the_rows_need),
        cmocka_unit_test(log_of_zeros_is_no_line),
        cmocka_unit_test(log_names_the_labels_of_a_series),
        cmocka_unit_test(log_names_tenants_as_metrics_do),
        cmocka_unit_test(prints_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
