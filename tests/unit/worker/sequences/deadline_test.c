/* Sequences that a worker ends by itself at the deadline of their call. */
#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig_orphan.h"
#include "worker/base/metrics.h"
#include "worker/base/options.h"

#define CANCELLED SLUICE__V1__FINISH__FINISH_CANCELLED
#define ENDS_US   100000

static const struct rig_submit timed = {.id = 5,
                                        .n_prompt = 20,
                                        .max_tokens = 200,
                                        .ignore_eos = true,
                                        .deadline_ms = ENDS_US / 1000};

static uint64_t expired(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m.expired;
}

/* Submits s, and takes some steps. */
static struct rig *begun(const struct rig_submit *s)
{
    struct rig *r = rig_new(NULL);

    rig_submit(r, s);
    rig_turn(r);
    for (int i = 0; i < 5; i++) {
        rig_step(r);
    }
    return r;
}

static void ends_at_its_deadline(void **state)
{
    struct rig *r = begun(&timed);

    (void)state;
    rig_advance(r, ENDS_US - 10000);
    assert_int_equal(expired(r), 0);
    rig_advance(r, 20000);
    assert_int_equal(expired(r), 1);
    rig_run(r);
    rig_turn(r);
    assert_int_equal(r->heard[r->grant].finish, CANCELLED);
    assert_true(r->heard[r->grant].n < timed.max_tokens);
    rig_check_empty(r);
    rig_free(&r);
}

static void one_that_waits_ends_too(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = timed;

    (void)state;
    rig_submit(r, &s);
    rig_advance(r, ENDS_US + 10000);
    assert_int_equal(expired(r), 1);
    rig_run(r);
    rig_turn(r);
    assert_int_equal(r->heard[r->grant].n, 0);
    assert_int_equal(r->heard[r->grant].finish, CANCELLED);
    rig_check_empty(r);
    rig_free(&r);
}

static void others_have_no_end(void **state)
{
    struct rig_submit s = timed;
    struct rig *r;

    (void)state;
    s.deadline_ms = 0;
    r = begun(&s);
    rig_advance(r, 10 * ENDS_US);
    assert_int_equal(expired(r), 0);
    rig_run(r);
    rig_check_tokens(r, r->grant, s.id, s.n_prompt, s.max_tokens);
    rig_free(&r);
}

/* The time of a kept sequence is its lease. */
static void a_lease_outlives_it(void **state)
{
    struct rig_submit s = timed;
    struct rig *r;

    (void)state;
    s.max_tokens = 3;
    s.keep_ms = 1000;
    r = begun(&s);
    rig_run(r);
    assert_int_equal(rig_state(r, s.id), STATE(KEPT));
    rig_advance(r, 2 * ENDS_US);
    assert_int_equal(rig_state(r, s.id), STATE(KEPT));
    rig_advance(r, 1000000);
    assert_int_not_equal(rig_state(r, s.id), STATE(KEPT));
    assert_int_equal(expired(r), 0);
    rig_free(&r);
}

/* An orphan has its own time; what adopts it brings a new deadline. */
static void an_adoption_sets_it_anew(void **state)
{
    struct rig *r = lost_after(10, 1);
    struct rig_submit s = having(10);

    (void)state;
    rig_reconnect(r);
    s.deadline_ms = 100;
    assert_int_equal(adopt(r, &s), ST_OK);
    rig_advance(r, 90000);
    assert_int_equal(expired(r), 0);
    rig_advance(r, 20000);
    assert_int_equal(expired(r), 1);
    rig_run(r);
    rig_turn(r);
    assert_int_equal(r->heard[r->grant].finish, CANCELLED);
    rig_free(&r);
}

static void an_orphan_has_its_own_time(void **state)
{
    struct rig *r = begun(&timed);

    (void)state;
    rig_lose(r);
    rig_advance(r, 2 * ENDS_US);
    assert_int_equal(rig_account(r).n_orphans, 1);
    assert_int_equal(expired(r), 0);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_at_its_deadline),
        cmocka_unit_test(one_that_waits_ends_too),
        cmocka_unit_test(others_have_no_end),
        cmocka_unit_test(a_lease_outlives_it),
        cmocka_unit_test(an_adoption_sets_it_anew),
        cmocka_unit_test(an_orphan_has_its_own_time),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
