/* Pages for Prometheus, families of labelled series, and bounded sets of
 * names. */
#include "common/base/metric_page.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/metric_family.h"
#include "common/base/metric_names.h"
#include "tests/unit/cmocka.h"

#define PLAIN(X)                      \
    X(requests, COUNTER, "asked for") \
    X(waiting, GAUGE, "a\nb\\c")
METRIC_TABLE(plain, PLAIN);
METRIC_SET(plain, "sluice", NULL);

#define CALLS(X)                    \
    X(calls, COUNTER, "calls made") \
    X(rows, SIZES, "rows of a call")
METRIC_TABLE(calls, CALLS);
METRIC_SET(calls, "sluice", "worker,class");

#define TIMED(X) X(step, TIMES, "time of a step")
METRIC_TABLE(timed, TIMED);
METRIC_SET(timed, "sluice", NULL);

#define PRESENT(X) X(cost, TIME, "time of a row")
METRIC_TABLE(present, PRESENT);
METRIC_SET(present, "sluice", NULL);

/* Returns the text of a page with a NUL, owned by the page. */
static const char *text_of(struct metric_page *p, const struct metric_series *s)
{
    metric_page_clear(p);
    metric_page_add(p, s);
    p->text = realloc(p->text, p->size + 1);
    p->text[p->n] = '\0';
    return p->text;
}

static void assert_starts(const char *text, const char *want)
{
    assert_memory_equal(text, want, strlen(want));
}

static void plain_rows_have_help_type_and_sample(void **state)
{
    const struct plain m = {.requests = 3, .waiting = UINT64_MAX};
    const struct metric_series s = {&plain_set, NULL, &m, 1};
    struct metric_page p = {.text = NULL};

    (void)state;
    assert_string_equal(text_of(&p, &s),
                        "# HELP sluice_requests_total asked for\n"
                        "# TYPE sluice_requests_total counter\n"
                        "sluice_requests_total 3\n"
                        "# HELP sluice_waiting a\\nb\\\\c\n"
                        "# TYPE sluice_waiting gauge\n"
                        "sluice_waiting 18446744073709551615\n");
    metric_page_fini(&p);
}

static void a_time_is_a_gauge_of_seconds(void **state)
{
    const struct present m = {.cost = 1000000020};
    const struct metric_series s = {&present_set, NULL, &m, 1};
    struct metric_page p = {.text = NULL};

    (void)state;
    assert_string_equal(text_of(&p, &s),
                        "# HELP sluice_cost_seconds time of a row\n"
                        "# TYPE sluice_cost_seconds gauge\n"
                        "sluice_cost_seconds 1.000000020\n");
    metric_page_fini(&p);
}

static void a_histogram_is_cumulative_and_in_seconds(void **state)
{
    struct timed m = {.step = {.sum = 0}};
    const struct metric_series s = {&timed_set, NULL, &m, 1};
    struct metric_page p = {.text = NULL};
    const char *text;

    (void)state;
    metric_time(&m.step, 90);
    metric_time(&m.step, 240);
    metric_time(&m.step, 2000000000);
    text = text_of(&p, &s);
    assert_starts(text, "# HELP sluice_step_seconds time of a step\n"
                        "# TYPE sluice_step_seconds histogram\n"
                        "sluice_step_seconds_bucket{le=\"0.0001\"} 1\n"
                        "sluice_step_seconds_bucket{le=\"0.00025\"} 2\n"
                        "sluice_step_seconds_bucket{le=\"0.0005\"} 2\n");
    assert_non_null(strstr(text, "sluice_step_seconds_bucket{le=\"100\"} 2\n"
                                 "sluice_step_seconds_bucket{le=\"+Inf\"} 3\n"
                                 "sluice_step_seconds_sum 2000.000330\n"
                                 "sluice_step_seconds_count 3\n"));
    metric_page_fini(&p);
}

/* All samples of a name are together, whatever the number of series. */
static void series_follow_their_type(void **state)
{
    struct metric_family f;
    struct metric_page p = {.text = NULL};
    struct metric_series s;
    struct calls *m;
    const char *text;

    (void)state;
    metric_family_init(&f, &calls_set);
    m = metric_family_add(&f, (const char *[]){"w1", "blocks"});
    m->calls = 1;
    m = metric_family_add(&f, (const char *[]){"a\"b\\c\nd", ""});
    m->calls = 2;
    metric_size(&m->rows, 3);
    text = text_of(&p, metric_family_series(&f, &s));
    assert_starts(
        text, "# HELP sluice_calls_total calls made\n"
              "# TYPE sluice_calls_total counter\n"
              "sluice_calls_total{worker=\"w1\",class=\"blocks\"} 1\n"
              "sluice_calls_total{worker=\"a\\\"b\\\\c\\nd\",class=\"\"} 2\n"
              "# HELP sluice_rows rows of a call\n");
    assert_non_null(strstr(text,
                           "sluice_rows_bucket{worker=\"a\\\"b\\\\c\\nd\","
                           "class=\"\",le=\"4\"} 1\n"));
    assert_non_null(strstr(text, "sluice_rows_sum{worker=\"w1\","
                                 "class=\"blocks\"} 0\n"));
    metric_page_fini(&p);
    metric_family_fini(&f);
}

static void a_family_without_series_has_its_type_only(void **state)
{
    struct metric_family f;
    struct metric_page p = {.text = NULL};
    struct metric_series s;

    (void)state;
    metric_family_init(&f, &calls_set);
    assert_null(strstr(text_of(&p, metric_family_series(&f, &s)), "{"));
    metric_page_fini(&p);
    metric_family_fini(&f);
}

/* A second gathering and a second page reuse the memory of the first. */
static void memory_is_kept_when_cleared(void **state)
{
    struct metric_family f;
    struct metric_page p = {.text = NULL};
    struct metric_series s;
    const void *values, *text, *labels;

    (void)state;
    metric_family_init(&f, &calls_set);
    for (int round = 0; round < 2; round++) {
        metric_family_clear(&f);
        metric_page_clear(&p);
        for (int i = 0; i < 100; i++) {
            struct calls *m =
                metric_family_add(&f, (const char *[]){"worker", "blocks"});

            assert_int_equal(m->calls, 0);
            m->calls = 7;
        }
        metric_page_add(&p, metric_family_series(&f, &s));
        if (round == 0) {
            values = f.values;
            labels = f.labels;
            text = p.text;
        }
    }
    assert_int_equal(f.n, 100);
    assert_ptr_equal(f.values, values);
    assert_ptr_equal(f.labels, labels);
    assert_ptr_equal(p.text, text);
    metric_page_fini(&p);
    metric_family_fini(&f);
}

static void names_past_the_limit_share_a_slot(void **state)
{
    static struct metric_names names;
    char name[METRIC_NAME_MAX + 2];

    (void)state;
    assert_int_equal(metric_slot(&names, "", 0), METRIC_DEFAULT);
    assert_int_equal(metric_slot(&names, "default", 7), METRIC_DEFAULT);
    assert_int_equal(metric_slot(&names, "other", 5), METRIC_OTHER);
    assert_null(metric_slot_name(&names, 1));
    memset(name, 'x', sizeof name);
    assert_int_equal(metric_slot(&names, name, METRIC_NAME_MAX), 1);
    assert_int_equal(metric_slot(&names, name, METRIC_NAME_MAX + 1),
                     METRIC_OTHER);
    for (size_t i = 1; i < METRIC_NAMES_MAX; i++) {
        snprintf(name, sizeof name, "tenant-%zu", i);
        assert_int_equal(metric_slot(&names, name, strlen(name)), 1 + i);
        assert_string_equal(metric_slot_name(&names, 1 + i), name);
    }
    assert_int_equal(metric_slot(&names, "late", 4), METRIC_OTHER);
    assert_int_equal(metric_slot(&names, "tenant-5", 8), 6);
    assert_string_equal(metric_slot_name(&names, METRIC_DEFAULT), "default");
    assert_string_equal(metric_slot_name(&names, METRIC_OTHER), "other");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows_have_help_type_and_sample),
        cmocka_unit_test(a_time_is_a_gauge_of_seconds),
        cmocka_unit_test(a_histogram_is_cumulative_and_in_seconds),
        cmocka_unit_test(series_follow_their_type),
        cmocka_unit_test(a_family_without_series_has_its_type_only),
        cmocka_unit_test(memory_is_kept_when_cleared),
        cmocka_unit_test(names_past_the_limit_share_a_slot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
