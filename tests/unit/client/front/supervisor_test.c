/* The order of starts, restarts and stops, without a process. */
#include "client/front/supervisor.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

/* The deeds of the supervisor, one word each: "s0" starts child 0, "t0" and
 * "k0" send SIGTERM and SIGKILL, "r0:500" announces a restart, "f0" a failure.
 */
struct rig {
    struct supervisor s;
    char did[1024];
};

static void note(struct rig *r, const char *word)
{
    size_t n = strlen(r->did);

    snprintf(r->did + n, sizeof r->did - n, "%s%s", n > 0 ? " " : "", word);
}

static void on_start(void *arg, uint32_t i)
{
    char word[32];

    snprintf(word, sizeof word, "s%u", i);
    note(arg, word);
}

static void on_signal(void *arg, uint32_t i, bool kill)
{
    char word[32];

    snprintf(word, sizeof word, "%c%u", kill ? 'k' : 't', i);
    note(arg, word);
}

static void on_restarts(void *arg, uint32_t i, int64_t backoff_ms)
{
    char word[32];

    snprintf(word, sizeof word, "r%u:%lld", i, (long long)backoff_ms);
    note(arg, word);
}

static void on_failed(void *arg, uint32_t i)
{
    char word[32];

    snprintf(word, sizeof word, "f%u", i);
    note(arg, word);
}

static void on_up(void *arg)
{
    note(arg, "up");
}

static const struct supervisor_ops ops = {on_start, on_signal, on_restarts,
                                          on_failed, on_up};

/* Expects what was done since the last call. */
static void did(struct rig *r, const char *want)
{
    assert_string_equal(r->did, want);
    r->did[0] = '\0';
}

/* A router (0), two workers (1, 2) and a gateway (3), just begun. */
static void begin(struct rig *r)
{
    memset(r->did, 0, sizeof r->did);
    supervisor_init(&r->s, &ops, r);
    supervisor_add(&r->s, 0, 0);
    supervisor_add(&r->s, 1, 1);
    supervisor_add(&r->s, 1, 1);
    supervisor_add(&r->s, 2, 2);
    supervisor_begin(&r->s);
    did(r, "s0");
}

static void bring_up(struct rig *r)
{
    begin(r);
    for (uint32_t i = 0; i < 4; i++) {
        supervisor_ready(&r->s, i, 0);
    }
    did(r, "s1 s2 s3 up");
}

static void a_level_starts_when_the_one_below_is_ready(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    supervisor_ready(&r.s, 0, 0);
    did(&r, "s1 s2");
    supervisor_ready(&r.s, 2, 0);
    did(&r, "");
    supervisor_ready(&r.s, 1, 0);
    did(&r, "s3");
    supervisor_ready(&r.s, 3, 0);
    did(&r, "up");
    assert_true(supervisor_tick(&r.s, 0) == SUPERVISOR_IDLE);
    assert_false(supervisor_ended(&r.s));
}

static void a_child_that_dies_is_started_again_after_a_backoff(void **state)
{
    struct rig r;

    (void)state;
    bring_up(&r);
    supervisor_exited(&r.s, 1, -1, 1000);
    did(&r, "r1:500");
    assert_int_equal(supervisor_tick(&r.s, 1499), 1500);
    did(&r, "");
    assert_true(supervisor_tick(&r.s, 1500) == SUPERVISOR_IDLE);
    did(&r, "s1");
    supervisor_ready(&r.s, 1, 2000);
    did(&r, ""); /* the group is up only once */
}

static void the_backoff_doubles_up_to_its_limit(void **state)
{
    static const char *const want[] = {"r3:500",   "r3:1000",  "r3:2000",
                                       "r3:4000",  "r3:8000",  "r3:16000",
                                       "r3:30000", "r3:30000", "r3:30000"};
    struct rig r;
    int64_t now = 0;

    (void)state;
    bring_up(&r);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        /* Exit code 2 is no failed start once the child was ready. */
        supervisor_exited(&r.s, 3, SUPERVISOR_NO_START, now);
        did(&r, want[i]);
        now = supervisor_tick(&r.s, now);
        supervisor_tick(&r.s, now);
        did(&r, "s3");
    }
}

static void calm_starts_the_backoff_anew(void **state)
{
    struct rig r;

    (void)state;
    bring_up(&r);
    supervisor_exited(&r.s, 3, 1, 0);
    supervisor_tick(&r.s, 500);
    supervisor_ready(&r.s, 3, 500);
    supervisor_exited(&r.s, 3, 1, 500 + SUPERVISOR_CALM_MS - 1);
    did(&r, "r3:500 s3 r3:1000");
    supervisor_tick(&r.s, 500 + SUPERVISOR_CALM_MS + 999);
    supervisor_ready(&r.s, 3, 100000);
    supervisor_exited(&r.s, 3, 1, 100000 + SUPERVISOR_CALM_MS);
    did(&r, "s3 r3:500");
}

static void a_child_that_cannot_start_stops_the_group(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    supervisor_ready(&r.s, 0, 0);
    supervisor_exited(&r.s, 2, SUPERVISOR_NO_START, 10);
    did(&r, "s1 s2 f2 t1");
    assert_true(r.s.failed);
    supervisor_exited(&r.s, 1, 0, 20);
    did(&r, "t0");
    assert_false(supervisor_ended(&r.s));
    supervisor_exited(&r.s, 0, 0, 30);
    assert_true(supervisor_ended(&r.s));
}

static void a_crash_before_the_ready_line_is_tried_again(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    supervisor_exited(&r.s, 0, -1, 0);
    did(&r, "r0:500");
    supervisor_tick(&r.s, 500);
    did(&r, "s0");
    supervisor_exited(&r.s, 0, SUPERVISOR_NO_START, 600);
    did(&r, "f0");
    assert_true(supervisor_ended(&r.s));
}

static void a_start_has_an_end(void **state)
{
    struct rig r;
    int64_t now = 10;

    (void)state;
    begin(&r);
    supervisor_ready(&r.s, 0, now);
    r.did[0] = '\0';
    /* A child that dies again and again was never ready. */
    for (int i = 1; i < SUPERVISOR_TRIES; i++) {
        supervisor_exited(&r.s, 1, -1, now);
        now = supervisor_tick(&r.s, now);
        assert_true(now < SUPERVISOR_IDLE);
        (void)supervisor_tick(&r.s, now);
    }
    assert_false(r.s.failed);
    r.did[0] = '\0';
    supervisor_exited(&r.s, 1, -1, now);
    assert_true(r.s.failed);
    did(&r, "f1 t2");
}

static void a_wait_for_another_program_has_an_end(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    supervisor_ready(&r.s, 0, 10);
    r.did[0] = '\0';
    assert_int_equal(supervisor_tick(&r.s, 20), SUPERVISOR_IDLE);
    supervisor_waits(&r.s, 1, 20);
    assert_int_equal(supervisor_tick(&r.s, 21), 20 + SUPERVISOR_WAIT_MS);
    (void)supervisor_tick(&r.s, 20 + SUPERVISOR_WAIT_MS - 1);
    did(&r, "");
    (void)supervisor_tick(&r.s, 20 + SUPERVISOR_WAIT_MS);
    did(&r, "f1 t1 t2");
    assert_true(r.s.failed);
}

static void starts_early_and_stops_first(void **state)
{
    struct rig r;

    (void)state;
    memset(r.did, 0, sizeof r.did);
    supervisor_init(&r.s, &ops, &r);
    supervisor_add(&r.s, 0, 0);
    supervisor_add(&r.s, 1, 1);
    supervisor_add(&r.s, 1, 2);
    supervisor_begin(&r.s);
    did(&r, "s0");
    supervisor_ready(&r.s, 0, 1);
    did(&r, "s1 s2");
    supervisor_ready(&r.s, 2, 2);
    did(&r, "");
    supervisor_ready(&r.s, 1, 3);
    did(&r, "up");
    supervisor_stop(&r.s, 4);
    did(&r, "t2");
    supervisor_exited(&r.s, 2, 0, 5);
    did(&r, "t1");
}

static void a_stop_goes_down_level_by_level(void **state)
{
    struct rig r;

    (void)state;
    bring_up(&r);
    supervisor_stop(&r.s, 0);
    did(&r, "t3");
    supervisor_exited(&r.s, 3, 0, 10);
    did(&r, "t1 t2");
    supervisor_exited(&r.s, 1, 0, 20);
    did(&r, "");
    supervisor_exited(&r.s, 2, -1, 30);
    did(&r, "t0");
    supervisor_exited(&r.s, 0, 0, 40);
    did(&r, "");
    assert_true(supervisor_ended(&r.s));
    assert_false(r.s.failed);
    assert_true(supervisor_tick(&r.s, 50) == SUPERVISOR_IDLE ||
                supervisor_ended(&r.s));
}

static void
a_level_that_does_not_stop_is_killed_and_the_next_is_asked(void **state)
{
    struct rig r;

    (void)state;
    bring_up(&r);
    supervisor_stop(&r.s, 0);
    supervisor_exited(&r.s, 3, 0, 0);
    supervisor_exited(&r.s, 1, 0, 0);
    did(&r, "t3 t1 t2");
    assert_int_equal(supervisor_tick(&r.s, SUPERVISOR_STOP_MS - 1),
                     SUPERVISOR_STOP_MS);
    did(&r, "");
    supervisor_tick(&r.s, SUPERVISOR_STOP_MS);
    did(&r, "k2");
    supervisor_tick(&r.s, 2 * SUPERVISOR_STOP_MS);
    did(&r, "");
    supervisor_exited(&r.s, 2, -1, 30000);
    did(&r, "t0");
    assert_int_equal(supervisor_tick(&r.s, 30000), 30000 + SUPERVISOR_STOP_MS);
}

static void a_second_stop_kills_all(void **state)
{
    struct rig r;

    (void)state;
    bring_up(&r);
    supervisor_stop(&r.s, 0);
    did(&r, "t3");
    supervisor_stop(&r.s, 1);
    did(&r, "k0 k1 k2 k3");
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(supervisor_ended(&r.s));
        supervisor_exited(&r.s, i, -1, 2);
    }
    did(&r, "");
    assert_true(supervisor_ended(&r.s));
}

static void a_stop_during_start_and_backoff_reaches_who_runs(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    supervisor_ready(&r.s, 0, 0);
    supervisor_exited(&r.s, 1, 1, 0); /* in its backoff; 3 was not started */
    did(&r, "s1 s2 r1:500");
    supervisor_stop(&r.s, 100);
    did(&r, "t2");
    supervisor_tick(&r.s, 600);
    supervisor_ready(&r.s, 2, 600);
    did(&r, "");
    supervisor_exited(&r.s, 2, 0, 700);
    did(&r, "t0");
}

static void a_lower_child_may_exit_while_a_higher_one_stops(void **state)
{
    struct rig r;

    (void)state;
    bring_up(&r);
    supervisor_stop(&r.s, 0);
    supervisor_exited(&r.s, 0, -1, 0);
    supervisor_exited(&r.s, 1, -1, 0);
    did(&r, "t3");
    supervisor_exited(&r.s, 3, 0, 0);
    did(&r, "t2");
    supervisor_exited(&r.s, 2, 0, 0);
    did(&r, "");
    assert_true(supervisor_ended(&r.s));
}

static void a_stop_without_processes_ends_at_once(void **state)
{
    struct rig r;

    (void)state;
    begin(&r);
    supervisor_exited(&r.s, 0, 1, 0);
    supervisor_stop(&r.s, 0);
    did(&r, "r0:500");
    assert_true(supervisor_ended(&r.s));
}

static void a_group_has_room_for_66_children(void **state)
{
    struct rig r;

    (void)state;
    memset(&r, 0, sizeof r);
    supervisor_init(&r.s, &ops, &r);
    for (uint32_t i = 0; i < SUPERVISOR_CHILDREN_MAX; i++) {
        assert_int_equal(supervisor_add(&r.s, i, i), i);
    }
    supervisor_begin(&r.s);
    for (uint32_t i = 0; i < SUPERVISOR_CHILDREN_MAX; i++) {
        supervisor_ready(&r.s, i, 0);
    }
    assert_true(r.s.up);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_level_starts_when_the_one_below_is_ready),
        cmocka_unit_test(a_child_that_dies_is_started_again_after_a_backoff),
        cmocka_unit_test(the_backoff_doubles_up_to_its_limit),
        cmocka_unit_test(calm_starts_the_backoff_anew),
        cmocka_unit_test(a_child_that_cannot_start_stops_the_group),
        cmocka_unit_test(a_crash_before_the_ready_line_is_tried_again),
        cmocka_unit_test(a_start_has_an_end),
        cmocka_unit_test(a_wait_for_another_program_has_an_end),
        cmocka_unit_test(starts_early_and_stops_first),
        cmocka_unit_test(a_stop_goes_down_level_by_level),
        cmocka_unit_test(
            a_level_that_does_not_stop_is_killed_and_the_next_is_asked),
        cmocka_unit_test(a_second_stop_kills_all),
        cmocka_unit_test(a_stop_during_start_and_backoff_reaches_who_runs),
        cmocka_unit_test(a_lower_child_may_exit_while_a_higher_one_stops),
        cmocka_unit_test(a_stop_without_processes_ends_at_once),
        cmocka_unit_test(a_group_has_room_for_66_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
