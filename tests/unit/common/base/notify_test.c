/* A service manager's socket, and what a daemon sends to it. */
#include "common/base/notify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#define S 1000000 /* microseconds */

struct manager {
    int fd;
    char dir[32], path[64];
    char text[NOTIFY_TEXT_MAX]; /* the newest message */
    struct notify notify;
};

static int setup(void **state)
{
    struct manager *m = calloc(1, sizeof *m);
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    strcpy(m->dir, "/tmp/notify.XXXXXX");
    assert_non_null(mkdtemp(m->dir));
    snprintf(m->path, sizeof m->path, "%s/socket", m->dir);
    strcpy(a.sun_path, m->path);
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(m->fd, (struct sockaddr *)&a, sizeof a), 0);
    setenv("NOTIFY_SOCKET", m->path, 1);
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    *state = m;
    return 0;
}

static int teardown(void **state)
{
    struct manager *m = *state;

    notify_close(&m->notify);
    close(m->fd);
    unlink(m->path);
    rmdir(m->dir);
    free(m);
    return 0;
}

static void open_ok(struct manager *m)
{
    struct error e;

    assert_int_equal(notify_open(&m->notify, &e), ST_OK);
}

/* Returns the next message, "" if there is none. */
static const char *next(struct manager *m)
{
    ssize_t n = recv(m->fd, m->text, sizeof m->text - 1, 0);

    m->text[n > 0 ? n : 0] = '\0';
    return m->text;
}

static void without_a_manager_nothing_is_sent(void **state)
{
    struct manager *m = *state;

    unsetenv("NOTIFY_SOCKET");
    open_ok(m);
    notify_ready(&m->notify);
    notify_turn(&m->notify, 0);
    notify_stopping(&m->notify);
    assert_string_equal(next(m), "");
    assert_true(notify_wait_us(&m->notify, 0) == INT64_MAX);
}

static void the_environment_is_not_inherited(void **state)
{
    struct manager *m = *state;

    setenv("WATCHDOG_USEC", "1000000", 1);
    open_ok(m);
    assert_null(getenv("NOTIFY_SOCKET"));
    assert_null(getenv("WATCHDOG_USEC"));
    assert_null(getenv("WATCHDOG_PID"));
}

static void a_bad_socket_name_is_refused(void **state)
{
    struct manager *m = *state;
    struct sockaddr_un a;
    char name[sizeof a.sun_path + 1];
    struct error e;

    for (size_t n = sizeof a.sun_path - 1; n <= sizeof a.sun_path; n++) {
        memset(name, 'x', n);
        name[0] = '/';
        name[n] = '\0';
        setenv("NOTIFY_SOCKET", name, 1);
        /* At the limit, and one past it. */
        assert_int_equal(notify_open(&m->notify, &e),
                         n < sizeof a.sun_path ? ST_OK : ST_INVALID_ARGUMENT);
        notify_close(&m->notify);
    }
    setenv("NOTIFY_SOCKET", "vsock:2:1", 1);
    assert_int_equal(notify_open(&m->notify, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "vsock:2:1"));
    notify_ready(&m->notify); /* is without effect */
}

static void an_abstract_socket_is_reached(void **state)
{
    struct manager *m = *state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char name[64];
    int n = snprintf(name, sizeof name, "@sluice-notify-%d", (int)getpid());

    memcpy(a.sun_path, name, (size_t)n);
    a.sun_path[0] = '\0';
    close(m->fd);
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(
        bind(m->fd, (struct sockaddr *)&a,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
        0);
    setenv("NOTIFY_SOCKET", name, 1);
    open_ok(m);
    notify_ready(&m->notify);
    assert_string_equal(next(m), "READY=1");
}

static void a_start_is_extended_while_turns_are_made(void **state)
{
    struct manager *m = *state;

    open_ok(m);
    notify_turn(&m->notify, 0);
    assert_string_equal(next(m), "EXTEND_TIMEOUT_USEC=120000000\n");
    notify_turn(&m->notify, 29 * S);
    assert_string_equal(next(m), "");
    assert_true(notify_wait_us(&m->notify, 29 * S) == S);
    notify_turn(&m->notify, 30 * S);
    assert_string_equal(next(m), "EXTEND_TIMEOUT_USEC=120000000\n");
}

static void states_are_sent_once_and_in_order(void **state)
{
    struct manager *m = *state;

    open_ok(m);
    notify_reloading(&m->notify, 5); /* too early */
    notify_ready(&m->notify);
    notify_ready(&m->notify);
    notify_turn(&m->notify, 0);
    notify_reloading(&m->notify, 123456789);
    notify_reloaded(&m->notify);
    notify_stopping(&m->notify);
    notify_stopping(&m->notify);
    notify_ready(&m->notify);
    notify_reloading(&m->notify, 7);
    assert_string_equal(next(m), "READY=1");
    assert_string_equal(next(m), "RELOADING=1\nMONOTONIC_USEC=123456789");
    assert_string_equal(next(m), "READY=1");
    assert_string_equal(next(m), "STOPPING=1");
    assert_string_equal(next(m), "");
    notify_turn(&m->notify, S);
    assert_string_equal(next(m), "EXTEND_TIMEOUT_USEC=20000000\n");
}

static void the_watchdog_is_fed_at_half_its_period(void **state)
{
    struct manager *m = *state;

    setenv("WATCHDOG_USEC", "3000000", 1);
    open_ok(m);
    notify_ready(&m->notify);
    assert_string_equal(next(m), "READY=1");
    notify_turn(&m->notify, 0);
    assert_string_equal(next(m), "WATCHDOG=1\n");
    assert_true(notify_wait_us(&m->notify, 0) == 3 * S / 2);
    notify_turn(&m->notify, 3 * S / 2 - 1);
    assert_string_equal(next(m), "");
    notify_turn(&m->notify, 3 * S / 2);
    assert_string_equal(next(m), "WATCHDOG=1\n");
}

static void a_watchdog_of_another_process_or_value_is_none(void **state)
{
    static const char *const bad[] = {"", "x", "-5", "0", "1s"};
    struct manager *m = *state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("NOTIFY_SOCKET", m->path, 1);
        setenv("WATCHDOG_USEC", bad[i], 1);
        open_ok(m);
        assert_true(m->notify.watchdog_us == 0);
        notify_close(&m->notify);
    }
    setenv("NOTIFY_SOCKET", m->path, 1);
    setenv("WATCHDOG_USEC", "1000000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    open_ok(m);
    notify_ready(&m->notify);
    notify_turn(&m->notify, 0);
    assert_string_equal(next(m), "READY=1");
    assert_string_equal(next(m), "");
    /* A period too short for any loop is not taken at its word. */
    notify_close(&m->notify);
    setenv("NOTIFY_SOCKET", m->path, 1);
    setenv("WATCHDOG_USEC", "1", 1);
    unsetenv("WATCHDOG_PID");
    open_ok(m);
    assert_true(m->notify.watchdog_us == NOTIFY_WATCHDOG_LEAST);
}

static void write_count(void *arg, char *text, size_t cap)
{
    snprintf(text, cap, "%d workers", *(int *)arg);
}

static void a_status_is_sent_once_a_second_if_it_is_new(void **state)
{
    struct manager *m = *state;
    int workers = 1;

    open_ok(m);
    notify_ready(&m->notify);
    notify_status(&m->notify, write_count, &workers);
    next(m);
    notify_turn(&m->notify, 0);
    assert_string_equal(next(m), "STATUS=1 workers");
    workers = 2;
    notify_turn(&m->notify, S - 1);
    assert_string_equal(next(m), "");
    notify_turn(&m->notify, S);
    assert_string_equal(next(m), "STATUS=2 workers");
    notify_turn(&m->notify, 2 * S);
    assert_string_equal(next(m), "");
}

static void write_lines(void *arg, char *text, size_t cap)
{
    (void)arg;
    snprintf(text, cap, "model\nMAINPID=1\tb");
}

/* A line feed would begin another variable. */
static void a_status_is_one_line(void **state)
{
    struct manager *m = *state;

    open_ok(m);
    notify_ready(&m->notify);
    next(m);
    notify_status(&m->notify, write_lines, NULL);
    notify_turn(&m->notify, 0);
    assert_string_equal(next(m), "STATUS=model MAINPID=1 b");
}

static void write_long(void *arg, char *text, size_t cap)
{
    (void)arg;
    memset(text, 'x', cap - 1);
    text[cap - 1] = '\0';
}

static void the_longest_status_arrives_whole(void **state)
{
    struct manager *m = *state;

    open_ok(m);
    notify_ready(&m->notify);
    next(m);
    notify_status(&m->notify, write_long, NULL);
    notify_turn(&m->notify, 0);
    assert_int_equal(strlen(next(m)),
                     strlen("STATUS=") + NOTIFY_STATUS_MAX - 1);
}

/* Fills the manager's queue with messages of others. */
static void fill(struct manager *m)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    strcpy(a.sun_path, m->path);
    while (sendto(fd, "other", 5, 0, (struct sockaddr *)&a, sizeof a) == 5) {
    }
    assert_int_equal(errno, EAGAIN);
    close(fd);
}

static void drain(struct manager *m)
{
    while (strcmp(next(m), "other") == 0) {
    }
}

static void a_full_manager_delays_states_and_blocks_nothing(void **state)
{
    struct manager *m = *state;

    open_ok(m);
    fill(m);
    notify_ready(&m->notify);
    notify_turn(&m->notify, 0);
    notify_stopping(&m->notify);
    /* Waits for a retry, rather than not at all. */
    notify_turn(&m->notify, NOTIFY_RETRY_US);
    assert_true(notify_wait_us(&m->notify, NOTIFY_RETRY_US) == NOTIFY_RETRY_US);
    drain(m);
    assert_string_equal(m->text, "");
    notify_turn(&m->notify, 2 * NOTIFY_RETRY_US);
    assert_string_equal(next(m), "READY=1");
    assert_string_equal(next(m), "STOPPING=1");
}

static void a_full_manager_is_fed_later(void **state)
{
    struct manager *m = *state;

    setenv("WATCHDOG_USEC", "2000000", 1);
    open_ok(m);
    notify_ready(&m->notify);
    fill(m);
    notify_turn(&m->notify, 0);
    assert_true(notify_wait_us(&m->notify, 0) == NOTIFY_RETRY_US);
    assert_string_equal(next(m), "READY=1");
    drain(m);
    notify_turn(&m->notify, NOTIFY_RETRY_US);
    assert_string_equal(next(m), "WATCHDOG=1\n");
}

static void of_many_states_that_wait_the_newest_is_kept(void **state)
{
    struct manager *m = *state;

    open_ok(m);
    fill(m);
    notify_ready(&m->notify);
    for (int i = 0; i < NOTIFY_PENDING; i++) {
        notify_reloading(&m->notify, i);
        notify_reloaded(&m->notify);
    }
    notify_stopping(&m->notify);
    drain(m);
    notify_turn(&m->notify, 0);
    assert_string_equal(next(m), "READY=1");
    for (int i = 1; i < NOTIFY_PENDING - 1; i++) {
        assert_string_not_equal(next(m), "");
    }
    assert_string_equal(next(m), "STOPPING=1");
}

static void a_manager_that_is_gone_does_no_harm(void **state)
{
    struct manager *m = *state;

    setenv("WATCHDOG_USEC", "2000000", 1);
    open_ok(m);
    unlink(m->path);
    notify_ready(&m->notify);
    notify_turn(&m->notify, 0);
    assert_true(notify_wait_us(&m->notify, 0) == S);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(without_a_manager_nothing_is_sent),
        T(the_environment_is_not_inherited),
        T(a_bad_socket_name_is_refused),
        T(an_abstract_socket_is_reached),
        T(a_start_is_extended_while_turns_are_made),
        T(states_are_sent_once_and_in_order),
        T(the_watchdog_is_fed_at_half_its_period),
        T(a_watchdog_of_another_process_or_value_is_none),
        T(a_status_is_sent_once_a_second_if_it_is_new),
        T(a_status_is_one_line),
        T(the_longest_status_arrives_whole),
        T(a_full_manager_delays_states_and_blocks_nothing),
        T(a_full_manager_is_fed_later),
        T(of_many_states_that_wait_the_newest_is_kept),
        T(a_manager_that_is_gone_does_no_harm),
    };
#undef T

    return cmocka_run_group_tests(tests, NULL, NULL);
}
