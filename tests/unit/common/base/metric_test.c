#include "common/base/metric.h"

#include <stdlib.h>
#include <string.h>

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

/* Zero values are left out; a text without room is cut and still ends in
 * NUL. */
static void says_what_is_not_zero(void **state)
{
    struct test_metrics m = {.requests = 3, .waiting = 0};
    char text[32];

    (void)state;
    metric_text(text, sizeof text, test_metrics_rows,
                METRIC_COUNT(test_metrics_rows), &m);
    assert_string_equal(text, "requests=3");
    m.waiting = UINT64_MAX;
    metric_text(text, sizeof text, test_metrics_rows,
                METRIC_COUNT(test_metrics_rows), &m);
    assert_string_equal(text, "requests=3 waiting=184467440737");
    m = (struct test_metrics){0};
    metric_text(text, sizeof text, test_metrics_rows,
                METRIC_COUNT(test_metrics_rows), &m);
    assert_string_equal(text, "");
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
        cmocka_unit_test(says_what_is_not_zero),
        cmocka_unit_test(prints_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
