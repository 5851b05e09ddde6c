#include "common/base/log_gate.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define SECOND LOG_GATE_US

static char last[LOG_LINE];
static unsigned n_lines;

static void keep(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    n_lines++;
    snprintf(last, sizeof last, "%s", line);
}

static int start(void **state)
{
    (void)state;
    log_setup(LOG_WARN, keep, NULL);
    n_lines = 0;
    last[0] = '\0';
    return 0;
}

static int stop(void **state)
{
    (void)state;
    log_setup(LOG_WARN, NULL, NULL);
    return 0;
}

static void a_flood_is_one_line_and_a_count(void **state)
{
    struct log_gate g;

    (void)state;
    log_gate_init(&g, LOG_WARN, "refused", 1);
    for (int i = 0; i < 49469; i++) {
        log_gate_write(&g, 5 + i, "peer=%d", i);
    }
    assert_int_equal(n_lines, 1);
    assert_string_equal(last, "refused peer=0");
    assert_int_equal(log_gate_tick(&g, 5 + SECOND - 1), 5 + SECOND);
    assert_int_equal(n_lines, 1);
    assert_true(log_gate_tick(&g, 5 + SECOND) == INT64_MAX);
    assert_int_equal(n_lines, 2);
    assert_string_equal(last, "refused more=49468");
}

/* In each second of a flood that lasts, one line and one count are written. */
static void a_flood_of_a_minute_is_bounded(void **state)
{
    struct log_gate g;

    (void)state;
    log_gate_init(&g, LOG_WARN, "refused", 1);
    for (int64_t us = 0; us < 60 * SECOND; us += 1000) {
        log_gate_write(&g, us, "us=%d", (int)us);
    }
    assert_in_range(n_lines, 60, 120);
}

static void lone_lines_are_never_held_back(void **state)
{
    struct log_gate g;

    (void)state;
    log_gate_init(&g, LOG_WARN, "refused", 1);
    for (unsigned i = 1; i <= 5; i++) {
        log_gate_write(&g, i * SECOND, "i=%u", i);
        assert_int_equal(n_lines, i);
    }
    assert_string_equal(last, "refused i=5");
    assert_true(log_gate_tick(&g, 6 * SECOND) == INT64_MAX);
    assert_int_equal(n_lines, 5);
}

static void a_burst_is_written_up_to_its_limit(void **state)
{
    struct log_gate g;

    (void)state;
    log_gate_init(&g, LOG_WARN, "lost", 3);
    for (int i = 0; i < 3; i++) {
        log_gate_write(&g, 7, "i=%d", i);
    }
    assert_int_equal(n_lines, 3);
    assert_true(log_gate_tick(&g, 7) == INT64_MAX);
    log_gate_write(&g, 7, "i=3");
    assert_int_equal(n_lines, 3);
    log_gate_end(&g);
    assert_int_equal(n_lines, 4);
    assert_string_equal(last, "lost more=1");
    log_gate_end(&g);
    assert_int_equal(n_lines, 4);
}

static void a_level_that_is_off_writes_nothing_at_the_same_times(void **state)
{
    struct log_gate g;

    (void)state;
    log_gate_init(&g, LOG_INFO, "came", 1);
    log_gate_write(&g, 1, "i=1");
    log_gate_write(&g, 1, "i=2");
    assert_true(log_gate_tick(&g, 2) == 1 + SECOND);
    assert_true(log_gate_tick(&g, 2 * SECOND) == INT64_MAX);
    assert_int_equal(n_lines, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_flood_is_one_line_and_a_count, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_flood_of_a_minute_is_bounded, start,
                                        stop),
        cmocka_unit_test_setup_teardown(lone_lines_are_never_held_back, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_burst_is_written_up_to_its_limit,
                                        start, stop),
        cmocka_unit_test_setup_teardown(
            a_level_that_is_off_writes_nothing_at_the_same_times, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
