/* Commands at given times: what is accepted, when they start, how they end. */
#include "client/load/drive/hooks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/load/figures/result.h"
#include "tests/unit/cmocka.h"

#define EVENTS_MAX 16

struct events {
    struct load_event event[EVENTS_MAX]; /* [n] */
    unsigned n;
};

static void on_event(void *arg, const struct load_event *e)
{
    struct events *to = arg;

    assert_true(to->n < EVENTS_MAX);
    to->event[to->n++] = *e;
}

/* Turns until n events have come. */
static void turn_until(struct hooks *h, const struct events *events, unsigned n)
{
    while (events->n < n) {
        hooks_turn(h, 10000000);
        usleep(1000);
    }
}

static void times_and_commands_are_accepted(void **state)
{
    static const char *const good[] = {"10s kill -9 1234", "0 true",
                                       "250ms  echo a b", "1h\ttrue"};
    static const char *const bad[] = {
        "",     "10s",      "10s ", "kill -9 1",
        " 10s", "-1s true", "10 ",  "0000000000000000000000000000000000s x"};
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(hooks_check(good[i], &e), ST_OK);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(hooks_check(bad[i], &e), ST_INVALID_ARGUMENT);
        assert_non_null(strstr(e.text, "10s kill -9 1234"));
    }
}

static void commands_start_at_their_time(void **state)
{
    static const char *const texts[] = {"2s exit 3", "1s true",
                                        "3s kill -9 $$"};
    struct events got = {.n = 0};
    struct hooks *h = hooks_new(texts, 3, on_event, &got);

    (void)state;
    assert_int_equal(hooks_turn(h, 999999), 1000000);
    assert_int_equal(got.n, 0);
    assert_int_equal(hooks_turn(h, 1000000), 2000000);
    assert_int_equal(got.n, 1);
    assert_string_equal(got.event[0].text, "true");
    assert_int_equal(got.event[0].at_us, 1000000);
    assert_int_equal(got.event[0].exit_code, -1);
    while (got.n < 2) {
        assert_int_equal(hooks_turn(h, 1500000), 2000000);
        usleep(1000);
    }
    assert_int_equal(got.event[1].exit_code, 0);
    assert_int_equal(got.event[1].at_us, 1000000);
    turn_until(h, &got, 6);
    assert_int_equal(hooks_turn(h, 10000000), INT64_MAX);
    for (unsigned i = 2; i < 6; i++) {
        const struct load_event *e = &got.event[i];

        assert_true(e->exit_code == -1 ||
                    e->exit_code ==
                        (strcmp(e->text, "exit 3") == 0 ? 3 : 128 + 9));
    }
    hooks_free(&h);
    assert_null(h);
    assert_int_equal(got.n, 6);
}

/* A pipe in place of standard error ends when its last writer has died. */
static void free_kills_what_a_command_left_running(void **state)
{
    static const char *const texts[] = {"0s sleep 100000 & echo up; exit 4",
                                        "0s echo up; exec sleep 100000"};
    struct events got = {.n = 0};
    int saved = dup(STDERR_FILENO), fds[2];
    struct hooks *h;
    char bytes[6];
    size_t n = 0;

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_true(dup2(fds[1], STDERR_FILENO) >= 0);
    close(fds[1]);
    h = hooks_new(texts, 2, on_event, &got);
    turn_until(h, &got, 3); /* two starts and one exit */
    while (n < sizeof bytes) {
        ssize_t part = read(fds[0], bytes + n, sizeof bytes - n);

        assert_true(part > 0);
        n += (size_t)part;
    }
    hooks_free(&h);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(read(fds[0], bytes, 1), 0);
    close(fds[0]);
    assert_int_equal(got.n, 4);
    assert_int_equal(got.event[2].exit_code, 4);
    assert_int_equal(got.event[3].exit_code, HOOKS_SIGNALLED + 9);
}

static void exit_replaces_the_start_in_a_run(void **state)
{
    struct load_event a = {.at_us = 5, .text = "a", .exit_code = -1};
    struct load_event b = {.at_us = 5, .text = "b", .exit_code = -1};
    struct run *r = calloc(1, sizeof *r);

    (void)state;
    assert_non_null(r);
    run_event(r, &a);
    run_event(r, &a); /* given twice */
    run_event(r, &b);
    b.exit_code = 3;
    run_event(r, &b);
    a.exit_code = 0;
    run_event(r, &a);
    a.exit_code = 1;
    run_event(r, &a);
    assert_int_equal(r->n_events, 3);
    assert_int_equal(r->events[0].exit_code, 0);
    assert_int_equal(r->events[1].exit_code, 1);
    assert_int_equal(r->events[2].exit_code, 3);
    a.at_us = 6;
    run_event(r, &a);
    assert_int_equal(r->n_events, 4);
    free(r);
}

static void malformed_hooks_and_none_never_run(void **state)
{
    static const char *const texts[] = {"true"};
    struct events got = {.n = 0};
    struct hooks *h = hooks_new(texts, 1, on_event, &got);

    (void)state;
    assert_int_equal(hooks_turn(h, 1000000), INT64_MAX);
    hooks_free(&h);
    h = hooks_new(NULL, 0, on_event, &got);
    assert_int_equal(hooks_turn(h, 1000000), INT64_MAX);
    hooks_free(&h);
    hooks_free(&h);
    assert_int_equal(got.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_and_commands_are_accepted),
        cmocka_unit_test(commands_start_at_their_time),
        cmocka_unit_test(free_kills_what_a_command_left_running),
        cmocka_unit_test(exit_replaces_the_start_in_a_run),
        cmocka_unit_test(malformed_hooks_and_none_never_run),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
