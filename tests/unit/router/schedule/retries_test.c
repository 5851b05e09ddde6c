/* Retries before the time that a refusal named: how many are judged, and which
 * requests are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/calls/router_state.h"
#include "router/schedule/retries.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define PROMPT 60
#define TOKENS 4

static struct scene {
    struct rig *rig;
    struct fake *w, *c;
    uint8_t id; /* of the newest request */
} s;

/* The pool has room for one sequence, a tenant has quota for two: one runs, one
 * waits, and a third one is refused. */
static void bring(uint32_t budget)
{
    const struct rig_options o = {.max_peers = 8,
                                  .max_requests = 64,
                                  .max_waiting = 64,
                                  .tenant_quota = 2 * (PROMPT + TOKENS),
                                  .retry_budget = budget};

    memset(&s, 0, sizeof s);
    s.rig = rig_new(&o);
    s.w = rig_worker(s.rig, "w1", 2, 64);
    s.c = rig_client(s.rig, "c1");
}

static struct record *ask(const char *tenant, uint32_t n_prompt, uint32_t n)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;

    m.model = wire_text("tiny");
    m.has_tenant = true;
    m.tenant = wire_text(tenant);
    m.has_n = true;
    m.n = n;
    x = client_generate_with(s.c, ++s.id, n_prompt, TOKENS, &m, 0);
    rig_run(s.rig);
    return x;
}

static struct record *retry(void)
{
    return ask("anna", PROMPT, 1);
}

static bool judged(const struct record *x)
{
    return x->status == ST_RESOURCE_EXHAUSTED &&
           strstr(x->error, "--tenant-quota") != NULL;
}

static bool damped(const struct record *x)
{
    return x->status == ST_RESOURCE_EXHAUSTED &&
           strstr(x->error, "--retry-budget") != NULL;
}

static uint64_t n_refused(void)
{
    struct router_metrics k;

    router_counts(s.rig->router, &k);
    return k.retries_refused;
}

/* Fills the pool and the quota of anna, and has her refused. */
static struct record *crowd(void)
{
    struct record *x;

    assert_false(retry()->ended);
    assert_false(retry()->ended);
    x = retry();
    assert_true(judged(x) && x->retry_ms > 0);
    return x;
}

static void spend(void)
{
    for (uint32_t i = 0; i < RETRY_CREDIT_MAX; i++) {
        assert_true(judged(retry()));
    }
}

static void a_tenant_begins_with_its_credit_and_no_retry_more(void **state)
{
    struct record *first, *x;

    (void)state;
    bring(10);
    first = crowd();
    spend();
    assert_int_equal(n_refused(), 0);
    x = retry();
    assert_true(damped(x));
    assert_int_equal(n_refused(), 1);
    assert_true(x->retry_ms > 0 && x->retry_ms <= first->retry_ms);
    assert_non_null(strstr(x->error, "tiny has refused a request of tenant "
                                     "anna that asks for no more"));
    assert_non_null(strstr(x->error, "exceed 10 % of the tenant's admitted"));
    rig_free(&s.rig);
}

/* Without credit so many are judged before the time is over, and no more. */
static void probes_find_room_that_opens_early(void **state)
{
    struct record *first;
    uint32_t n = 0;

    (void)state;
    bring(10);
    first = crowd();
    spend();
    for (uint32_t i = 0; i < 2 * RETRY_PROBES; i++) { /* half of the time */
        rig_advance(s.rig, (int64_t)first->retry_ms * 250 / RETRY_PROBES);
        n += judged(retry());
    }
    assert_in_range(n, RETRY_PROBES / 2 - 1, RETRY_PROBES / 2);
    rig_free(&s.rig);
}

static void after_the_time_a_request_is_no_retry(void **state)
{
    struct record *x = NULL;

    (void)state;
    bring(10);
    crowd();
    spend();
    x = retry();
    assert_true(damped(x));
    rig_advance(s.rig, (int64_t)x->retry_ms * 1000 + 1000);
    assert_true(judged(retry()));
    rig_free(&s.rig);
}

static enum status check(const struct arrival *a)
{
    struct error e;
    uint32_t retry_ms = 0;

    return retries_check(&s.rig->router->schedule, a, &retry_ms, &e);
}

/* A tenth of the admitted requests: ten of them pay for one retry. */
static void admitted_requests_pay_for_retries(void **state)
{
    struct schedule *to;
    struct arrival a;

    (void)state;
    bring(10);
    crowd();
    to = &s.rig->router->schedule;
    a = (struct arrival){.demand = {s.rig->router->fleet.models[0], 100, 10},
                         .tenant = METRIC_OTHER,
                         .tier = TIER_DEFAULT,
                         .deadline_us = NODE_IDLE};
    retries_refused(to, &a, 60000);
    for (uint32_t i = 0; i < RETRY_CREDIT_MAX; i++) {
        assert_int_equal(check(&a), ST_OK);
    }
    assert_int_equal(check(&a), ST_RESOURCE_EXHAUSTED);
    for (uint32_t i = 0; i < 9; i++) {
        retries_joined(to, &a);
    }
    retries_refused(to, &a, 60000);
    assert_int_equal(check(&a), ST_RESOURCE_EXHAUSTED);
    retries_joined(to, &a);
    retries_refused(to, &a, 60000);
    assert_int_equal(check(&a), ST_OK);
    assert_int_equal(check(&a), ST_RESOURCE_EXHAUSTED);
    rig_free(&s.rig);
}

/* More urgent ones, and those that may wait longer, could be served. */
static void more_urgent_and_more_patient_ones_are_judged(void **state)
{
    struct arrival a, x;

    (void)state;
    bring(10);
    crowd();
    a = (struct arrival){.demand = {s.rig->router->fleet.models[0], 100, 10},
                         .tenant = METRIC_OTHER,
                         .tier = TIER_DEFAULT,
                         .deadline_us = s.rig->now + 1000000};
    retries_refused(&s.rig->router->schedule, &a, 60000);
    for (uint32_t i = 0; i < RETRY_CREDIT_MAX; i++) {
        assert_int_equal(check(&a), ST_OK);
    }
    assert_int_equal(check(&a), ST_RESOURCE_EXHAUSTED);
    x = a;
    x.tier = TIER_PRIORITY;
    assert_int_equal(check(&x), ST_OK);
    x = a;
    x.deadline_us++;
    assert_int_equal(check(&x), ST_OK);
    x = a;
    x.demand.n_prompt--;
    assert_int_equal(check(&x), ST_OK);
    x = a;
    x.tier = TIER_FLEX;
    assert_int_equal(check(&x), ST_RESOURCE_EXHAUSTED);
    rig_free(&s.rig);
}

static void others_and_smaller_ones_are_judged(void **state)
{
    (void)state;
    bring(10);
    crowd();
    spend();
    assert_true(damped(retry()));
    assert_false(damped(ask("bert", PROMPT, 1)));
    assert_true(judged(ask("anna", PROMPT - 1, 1)));
    rig_free(&s.rig);
}

static void without_a_budget_all_are_judged(void **state)
{
    (void)state;
    bring(0);
    crowd();
    for (uint32_t i = 0; i < 3 * RETRY_CREDIT_MAX; i++) {
        assert_true(judged(retry()));
    }
    assert_int_equal(n_refused(), 0);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_begins_with_its_credit_and_no_retry_more),
        cmocka_unit_test(probes_find_room_that_opens_early),
        cmocka_unit_test(after_the_time_a_request_is_no_retry),
        cmocka_unit_test(admitted_requests_pay_for_retries),
        cmocka_unit_test(more_urgent_and_more_patient_ones_are_judged),
        cmocka_unit_test(others_and_smaller_ones_are_judged),
        cmocka_unit_test(without_a_budget_all_are_judged),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
