/* The lines that requests leave in the log, one each, and those of moves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

static char last[LOG_LINE], moves[LOG_LINE];
static int n_ends;

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg;
    assert_true(level >= LOG_INFO);
    if (strncmp(line, "request-", 8) == 0) {
        snprintf(last, sizeof last, "%s", line);
        n_ends++;
    } else if (strncmp(line, "sequences-moved ", 16) == 0) {
        snprintf(moves, sizeof moves, "%s", line);
    }
}

static void expect(const char *part)
{
    if (strstr(last, part) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", part, last);
    }
}

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

static struct scene scene_new(void)
{
    struct scene s = {.rig = rig_new(NULL)};

    s.w = rig_worker(s.rig, "w1", 64, 8);
    s.c = rig_client(s.rig, "c1");
    last[0] = moves[0] = '\0';
    n_ends = 0;
    log_setup(LOG_INFO, sink, NULL);
    return s;
}

static void scene_end(struct scene *s)
{
    log_setup(LOG_OFF, NULL, NULL);
    log_requests = LOG_REQUESTS_ALL;
    rig_free(&s->rig);
}

static void a_request_leaves_one_line(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s = scene_new();

    (void)state;
    m.has_tenant = true;
    m.tenant = wire_text("a tenant\" end=x with a long name");
    client_generate_with(s.c, 1, 10, 5, &m, 0);
    rig_run(s.rig);
    rig_advance(s.rig, 2000);
    worker_give(s.w, 1, 0, 1, 0);
    rig_advance(s.rig, 4000);
    worker_give(s.w, 1, 0, 4, LENGTH);
    assert_int_equal(n_ends, 1);
    expect("request-end request=01010101010101010101010101010101 client=c1 "
           "model=tiny ");
    expect(" tenant=a_tenant__end_x_with_a_long_name choices=1 "
           "prompt=10 tokens=5 ");
    expect(" queue_ms=0.0 first_ms=2.0 total_ms=6.0 rate=1000.0 moves=0 "
           "worker=w1 end=length");
    scene_end(&s);
}

static void choices_share_the_line(void **state)
{
    struct scene s = scene_new();

    (void)state;
    client_generate_n(s.c, 1, 2, 10, 5);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 5, LENGTH);
    assert_int_equal(n_ends, 0);
    worker_give(s.w, 1, 1, 3, SLUICE__V1__FINISH__FINISH_STOP);
    assert_int_equal(n_ends, 1);
    expect("choices=2 prompt=10 tokens=8 ");
    expect("end=length");
    scene_end(&s);
}

static void a_cancel_leaves_one_line(void **state)
{
    struct scene s = scene_new();
    struct record *x = client_generate(s.c, 1, 10, 5);

    (void)state;
    rig_run(s.rig);
    client_give_up(s.c, x);
    rig_run(s.rig);
    assert_int_equal(n_ends, 1);
    expect("tokens=0 ");
    expect("end=cancelled");
    scene_end(&s);
}

static void a_failure_has_its_reason(void **state)
{
    struct scene s = scene_new();

    (void)state;
    client_generate_n(s.c, 1, 2, 10, 5);
    rig_run(s.rig);
    worker_give(s.w, 1, 0, 2, SLUICE__V1__FINISH__FINISH_FAILED);
    rig_run(s.rig);
    assert_int_equal(n_ends, 1);
    expect("end=failed status=");
    expect("why=\"");
    scene_end(&s);
}

static void a_refusal_has_its_reason(void **state)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct scene s = scene_new();

    (void)state;
    client_generate(s.c, 1, 10, 4000); /* 64 blocks of 32 tokens hold fewer */
    rig_run(s.rig);
    assert_int_equal(n_ends, 1);
    expect("request-refused request=0101");
    expect(" client=c1 model=tiny tenant=default status=RESOURCE_EXHAUSTED ");
    expect(" why=\"");
    m.model = wire_text("other"); /* refused before it is a request */
    m.has_tenant = true;
    m.tenant = wire_text("a b");
    client_generate_with(s.c, 2, 10, 5, &m, 0);
    rig_run(s.rig);
    assert_int_equal(n_ends, 2);
    expect("request-refused request=0202");
    expect(
        " client=c1 model=other tenant=a_b status=NOT_FOUND why=\"model other");
    scene_end(&s);
}

static void requests_are_logged_as_chosen(void **state)
{
    struct scene s = scene_new();

    (void)state;
    for (int which = LOG_REQUESTS_ALL; which <= LOG_REQUESTS_NONE; which++) {
        uint8_t id = (uint8_t)(2 * which + 1);

        log_requests = (enum log_requests)which;
        n_ends = 0;
        client_generate(s.c, id, 10, 5);
        rig_run(s.rig);
        worker_give(s.w, id, 0, 5, LENGTH);
        client_generate(s.c, (uint8_t)(id + 1), 10, 4000);
        rig_run(s.rig);
        assert_int_equal(n_ends, 2 - which);
    }
    log_requests = LOG_REQUESTS_ALL;
    log_setup(LOG_WARN, sink, NULL);
    n_ends = 0;
    client_generate(s.c, 99, 10, 4000);
    rig_run(s.rig);
    assert_int_equal(n_ends, 0);
    scene_end(&s);
}

static void moves_are_one_line_with_a_count(void **state)
{
    struct scene s = scene_new();

    (void)state;
    rig_worker(s.rig, "w2", 64, 8);
    client_generate_n(s.c, 1, 3, 10, 5);
    rig_run(s.rig);
    fake_lost(s.w);
    rig_run(s.rig);
    assert_non_null(strstr(moves, "worker=w1 moved="));
    assert_int_equal(n_ends, 0);
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_leaves_one_line),
        cmocka_unit_test(choices_share_the_line),
        cmocka_unit_test(a_cancel_leaves_one_line),
        cmocka_unit_test(a_failure_has_its_reason),
        cmocka_unit_test(a_refusal_has_its_reason),
        cmocka_unit_test(requests_are_logged_as_chosen),
        cmocka_unit_test(moves_are_one_line_with_a_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
