/* Generator processes: their samples, their errors, their deaths. */
#include "client/load/drive/crew.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/client/load/drive/instant_target.h"
#include "tests/unit/client/load/drive/tiny_plan.h"
#include "tests/unit/cmocka.h"

#define SESSIONS_MAX 20000

struct got {
    uint8_t seen[SESSIONS_MAX]; /* samples of each session */
    uint32_t by[INSTANT_PROCESSES];
    size_t n, n_ok;
    uint32_t n_pulses;
    uint64_t n_sent;
};

static struct got got;
static pid_t test_pid;

static void on_sample(void *arg, const struct sample *s, const uint32_t *gaps)
{
    (void)arg;
    assert_true(s->session < SESSIONS_MAX);
    got.seen[s->session]++;
    got.by[s->process]++;
    got.n++;
    got.n_ok += s->outcome == OUTCOME_OK;
    assert_true(s->outcome != OUTCOME_OK || s->n_gaps == instant_chunks - 1);
    for (uint32_t i = 0; i < s->n_gaps; i++) {
        assert_int_equal(gaps[i], 1);
    }
}

static void on_pulse(void *arg, const struct pulse *p)
{
    (void)arg;
    got.n_pulses++;
    got.n_sent = p->n_sent;
}

struct setup {
    struct tiny tiny;
    struct plan_options plan;
    struct target_options target;
    struct crew_options crew;
};

static void set_up(struct setup *s, const char *endpoint, uint32_t n_processes)
{
    memset(&got, 0, sizeof got);
    memset(instant_shared, 0, sizeof *instant_shared);
    instant_chunks = 1;
    *s = (struct setup){
        .tiny = {.seed = 4, .n_sessions = 2000, .gap_us = 50, .tokens_max = 9},
        .target = {.endpoint = endpoint},
    };
    s->crew = (struct crew_options){
        .plan_options = &s->plan,
        .target_options = &s->target,
        .generator = {.ops = &instant_target, .memory_max = 1 << 20},
        .n_processes = n_processes,
    };
}

static enum status start(struct crew **c, struct setup *s, struct error *e)
{
    s->crew.plan = tiny_plan(&s->tiny);
    return crew_start(c, &s->crew, e);
}

static enum status run(struct crew *c, struct error *e)
{
    struct pollfd items[CREW_MAX];
    enum status st;

    do {
        poll(items, (nfds_t)crew_items(c, items), -1);
    } while (crew_turn(c, on_sample, on_pulse, NULL, &st, e));
    return st;
}

static void tear_down(struct setup *s, struct crew **c)
{
    crew_free(c);
    plan_free(&s->crew.plan);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* none is left */
    assert_int_equal(errno, ECHILD);
}

static void on_exit_of_a_process(void)
{
    if (getpid() != test_pid) {
        instant_shared->n_exits++;
    }
}

static void processes_share_the_plan(void **state)
{
    static const uint32_t sizes[] = {1, 3, 4};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct setup s;
        struct crew *c;
        struct error e;

        set_up(&s, "instant", sizes[i]);
        assert_int_equal(start(&c, &s, &e), ST_OK);
        assert_int_equal(run(c, &e), ST_OK);
        assert_int_equal(got.n, s.tiny.n_sessions);
        assert_int_equal(got.n_ok, s.tiny.n_sessions);
        for (uint64_t k = 0; k < s.tiny.n_sessions; k++) {
            assert_int_equal(got.seen[k], 1);
        }
        for (uint32_t p = 0; p < sizes[i]; p++) {
            assert_true(got.by[p] >= s.tiny.n_sessions / sizes[i]);
        }
        assert_true(got.n_pulses >= sizes[i]);
        /* Standard ones, the pipe and the socket. */
        assert_true(instant_shared->n_descriptors <= 5);
        assert_int_equal(instant_shared->n_closed, sizes[i]);
        assert_int_equal(instant_shared->n_exits, 0);
        tear_down(&s, &c);
    }
}

static void crew_has_at_most_its_limit(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "instant", CREW_MAX);
    s.tiny.n_sessions = 2 * CREW_MAX;
    assert_int_equal(start(&c, &s, &e), ST_OK);
    assert_int_equal(run(c, &e), ST_OK);
    assert_int_equal(got.n_ok, 2 * CREW_MAX);
    tear_down(&s, &c);
    set_up(&s, "instant", CREW_MAX + 1);
    assert_int_equal(start(&c, &s, &e), ST_INVALID_ARGUMENT);
    tear_down(&s, &c);
    set_up(&s, "instant", 0);
    assert_int_equal(start(&c, &s, &e), ST_INVALID_ARGUMENT);
    tear_down(&s, &c);
}

static void gaps_pass_the_pipe(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "instant", 1);
    instant_chunks = 65536; /* 65,535 gaps */
    s.tiny.n_sessions = 20;
    assert_int_equal(start(&c, &s, &e), ST_OK);
    assert_int_equal(run(c, &e), ST_OK);
    assert_int_equal(got.n_ok, 20);
    tear_down(&s, &c);
}

static void error_of_a_process_is_the_error_of_the_start(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "refuses", 3);
    assert_int_equal(start(&c, &s, &e), ST_UNAVAILABLE);
    assert_string_equal(e.text, "connect to refuses: no");
    assert_null(c);
    tear_down(&s, &c);
    set_up(&s, "instant", 2);
    s.plan.duration_us = 13;
    assert_int_equal(start(&c, &s, &e), ST_INVALID_ARGUMENT);
    tear_down(&s, &c);
}

static void death_of_a_process_ends_the_run(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;
    char pid[32];

    (void)state;
    set_up(&s, "never", 3);
    assert_int_equal(start(&c, &s, &e), ST_OK);
    snprintf(pid, sizeof pid, "pid %d", (int)instant_shared->pids[1]);
    kill(instant_shared->pids[1], SIGKILL);
    assert_int_equal(run(c, &e), ST_DATA_LOSS);
    assert_non_null(strstr(e.text, "generator process "));
    assert_non_null(strstr(e.text, pid));
    assert_non_null(strstr(e.text, "signal 9"));
    tear_down(&s, &c);
}

static void terminal_signals_are_the_parents(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "instant", 2);
    assert_int_equal(start(&c, &s, &e), ST_OK);
    for (size_t i = 0; i < 3; i++) {
        kill(instant_shared->pids[0], signals[i]);
        kill(instant_shared->pids[1], signals[i]);
    }
    assert_int_equal(run(c, &e), ST_OK);
    assert_int_equal(got.n_ok, s.tiny.n_sessions);
    tear_down(&s, &c);
}

static void stop_ends_the_run_early(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "never", 2);
    s.tiny.n_sessions = SESSIONS_MAX;
    s.tiny.gap_us = 1000000;
    assert_int_equal(start(&c, &s, &e), ST_OK);
    crew_stop(c, false);
    crew_stop(c, true);
    assert_int_equal(run(c, &e), ST_OK);
    assert_true(got.n < 100);
    assert_int_equal(got.n_ok, 0);
    tear_down(&s, &c);
}

static void free_kills_processes(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "never", 4);
    assert_int_equal(start(&c, &s, &e), ST_OK);
    tear_down(&s, &c);
}

static void closed_loop_ends_at_the_plans_duration(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "instant", 2);
    s.tiny.n_sessions = UINT64_MAX;
    s.tiny.n_slots = 1;
    s.tiny.think_us = 2000;
    s.plan.duration_us = 100000;
    assert_int_equal(start(&c, &s, &e), ST_OK);
    assert_int_equal(run(c, &e), ST_OK);
    assert_true(got.n > 0);
    assert_int_equal(got.n_ok, got.n);
    tear_down(&s, &c);
}

static void samples_that_nobody_reads_end_the_run(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;

    (void)state;
    set_up(&s, "instant", 1);
    instant_chunks = 60000;
    s.tiny.n_sessions = 400; /* 96 MB of gaps */
    s.tiny.gap_us = 1;
    assert_int_equal(start(&c, &s, &e), ST_OK);
    while (__atomic_load_n(&instant_shared->n_closed, __ATOMIC_SEQ_CST) == 0) {
        usleep(1000);
    }
    assert_int_equal(run(c, &e), ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(e.text, "64 MiB"));
    assert_true(got.n > 0 && got.n < 400);
    tear_down(&s, &c);
}

/* The test adopts the orphans, so that it can wait for their end. */
static void processes_die_with_their_parent(void **state)
{
    struct setup s;
    struct crew *c;
    struct error e;
    pid_t parent;
    int how;

    (void)state;
    set_up(&s, "never", 2);
    prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
    parent = fork();
    if (parent == 0) {
        _exit(start(&c, &s, &e) == ST_OK ? pause() : 1);
    }
    while (__atomic_load_n(&instant_shared->n_open, __ATOMIC_SEQ_CST) < 2) {
        usleep(1000);
    }
    kill(parent, SIGKILL);
    for (int i = 0; i < 3; i++) {
        assert_true(wait(&how) > 0);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0UL, 0UL, 0UL, 0UL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_share_the_plan),
        cmocka_unit_test(crew_has_at_most_its_limit),
        cmocka_unit_test(gaps_pass_the_pipe),
        cmocka_unit_test(error_of_a_process_is_the_error_of_the_start),
        cmocka_unit_test(death_of_a_process_ends_the_run),
        cmocka_unit_test(terminal_signals_are_the_parents),
        cmocka_unit_test(stop_ends_the_run_early),
        cmocka_unit_test(free_kills_processes),
        cmocka_unit_test(closed_loop_ends_at_the_plans_duration),
        cmocka_unit_test(samples_that_nobody_reads_end_the_run),
        cmocka_unit_test(processes_die_with_their_parent),
    };

    test_pid = getpid();
    instant_share();
    atexit(on_exit_of_a_process);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
