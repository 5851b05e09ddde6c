/* The syntax of SLUICE_FAILPOINTS, and the conditions of a rule. */
#include "common/base/failpoint.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static void taken(const char *text, struct failpoint_rules *r)
{
    struct error e = {ST_OK, ""};

    if (failpoint_parse(text, r, &e) != ST_OK) {
        fail_msg("\"%s\": %s", text, e.text);
    }
}

static void nothing_is_no_rule(void **state)
{
    struct failpoint_rules r;

    (void)state;
    taken(NULL, &r);
    assert_int_equal(r.n, 0);
    taken("", &r);
    assert_int_equal(r.n, 0);
}

static void every_action_and_every_when(void **state)
{
    struct failpoint_rules r;

    (void)state;
    taken("worker.step.before_result=kill@3;router.submit.sent=sleep(200)%1/50"
          "#7;worker.engine.layer=spin;worker.session.up=exit(255)@1;"
          "session.hello.sent=stop%3/4;client.chunk.came=segv;"
          "router.step.taken=abort;transport.send=error%1/2;",
          &r);
    assert_int_equal(r.n, 8);
    assert_int_equal(r.rule[0].point, FAILPOINT_WORKER_RESULT);
    assert_int_equal(r.rule[0].action, FAILPOINT_KILL);
    assert_int_equal(r.rule[0].nth, 3);
    assert_int_equal(r.rule[1].action, FAILPOINT_SLEEP);
    assert_int_equal(r.rule[1].of, 200);
    assert_int_equal(r.rule[1].p, 1);
    assert_int_equal(r.rule[1].q, 50);
    assert_int_equal(r.rule[1].seed, 7);
    assert_int_equal(r.rule[2].action, FAILPOINT_SPIN);
    assert_int_equal(r.rule[2].nth + r.rule[2].q, 0);
    assert_int_equal(r.rule[3].of, 255);
    assert_int_equal(r.rule[4].action, FAILPOINT_STOP);
    assert_int_equal(r.rule[5].action, FAILPOINT_SEGV);
    assert_int_equal(r.rule[6].action, FAILPOINT_ABORT);
    assert_int_equal(r.rule[7].action, FAILPOINT_ERROR);
}

/* Each with a part of the expected error text. */
static void what_is_refused(void **state)
{
    static const char *const cases[][2] = {
        {"worker.step", "POINT=ACTION is wanted"},
        {"=kill", "POINT=ACTION is wanted"},
        {";", "POINT=ACTION is wanted"},
        {"worker.step.befor_result=kill", "no point worker.step.befor_result"},
        {"worker.session.up=", "\"\" is none of"},
        {"worker.session.up=die", "\"die\" is none of"},
        {"worker.session.up=kill(3)", "\"(3)\" is too much"},
        {"worker.session.up=exit", "exit(N) is wanted"},
        {"worker.session.up=exit(256)", "at most 255"},
        {"worker.session.up=sleep(3600001)", "at most 3600000"},
        {"worker.session.up=sleep(-1)", "sleep(N) is wanted"},
        {"worker.session.up=sleep(1", "sleep(N) is wanted"},
        {"worker.session.up=error", "worker.session.up cannot fail"},
        {"worker.session.up=kill@0", "@N is wanted"},
        {"worker.session.up=kill@99999999999999999999", "@N is wanted"},
        {"worker.session.up=kill%1", "%P/Q"},
        {"worker.session.up=kill%2/1", "%P/Q"},
        {"worker.session.up=kill%0/0", "%P/Q"},
        {"worker.session.up=kill%1/4294967296", "%P/Q"},
        {"worker.session.up=kill%1/2#", "%P/Q"},
        {"worker.session.up=kill@1%1/2", "is too much"},
        {"worker.session.up=kill ;transport.send=kill", "\"kill \" is none"},
        {"worker.session.up=kill;;", "rule 2: POINT=ACTION"},
    };
    struct failpoint_rules r;
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum status st = failpoint_parse(cases[i][0], &r, &e);

        if (st != ST_INVALID_ARGUMENT || strstr(e.text, cases[i][1]) == NULL) {
            fail_msg("\"%s\": status %d, %s", cases[i][0], (int)st, e.text);
        }
    }
}

static void so_many_rules_and_no_more(void **state)
{
    char text[1024] = "";
    struct failpoint_rules r;
    struct error e;

    (void)state;
    for (int i = 0; i < FAILPOINT_RULES; i++) {
        strcat(text, "worker.session.up=kill@1;");
    }
    taken(text, &r);
    assert_int_equal(r.n, FAILPOINT_RULES);
    strcat(text, "worker.session.up=kill@1");
    assert_int_equal(failpoint_parse(text, &r, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "more than 16"));
}

static void the_nth_time_only(void **state)
{
    struct failpoint_rules r;

    (void)state;
    taken("worker.session.up=kill@3;worker.session.up=kill", &r);
    for (uint64_t n = 1; n < 10; n++) {
        assert_int_equal(failpoint_due(&r.rule[0], n), n == 3);
        assert_true(failpoint_due(&r.rule[1], n));
    }
}

static unsigned times(const char *text, bool *at, unsigned n)
{
    struct failpoint_rules r;
    unsigned sum = 0;

    taken(text, &r);
    for (unsigned i = 0; i < n; i++) {
        at[i] = failpoint_due(&r.rule[0], i + 1);
        sum += at[i];
    }
    return sum;
}

static void chance_is_fair_and_comes_again(void **state)
{
    enum { N = 100000 };
    static bool a[N], b[N];
    unsigned n = times("worker.session.up=kill%1/50#1", a, N);

    (void)state;
    /* 2000 are expected, with a standard deviation of 44. */
    assert_in_range(n, 2000 - 6 * 44, 2000 + 6 * 44);
    assert_int_equal(times("worker.session.up=kill%1/50#1", b, N), n);
    assert_memory_equal(a, b, sizeof a);
    times("worker.session.up=kill%1/50#2", b, N);
    assert_memory_not_equal(a, b, sizeof a);
    times("worker.plan.submitted=kill%1/50#1", b, N);
    assert_memory_not_equal(a, b, sizeof a);
    assert_int_equal(times("worker.session.up=kill%0/1", a, N), 0);
    assert_int_equal(times("worker.session.up=kill%5/5", a, N), N);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_no_rule),
        cmocka_unit_test(every_action_and_every_when),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(so_many_rules_and_no_more),
        cmocka_unit_test(the_nth_time_only),
        cmocka_unit_test(chance_is_fair_and_comes_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
