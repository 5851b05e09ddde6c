/* The quota of a tenant: what counts, for how long, who gives way, and the
 * answer to a request past it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/requests/choice_state.h"
#include "router/schedule/quota.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define PROMPT 60
#define TOKENS 4
#define EACH   (PROMPT + TOKENS) /* with strict admission */

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

/* A worker with room for four sequences. */
static void bring(struct scene *s, uint32_t quota)
{
    const struct rig_options o = {.max_peers = 8,
                                  .max_requests = 64,
                                  .max_waiting = 64,
                                  .tenant_quota = quota};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->w = rig_worker(s->rig, "w1", 8, 64);
    s->c = rig_client(s->rig, "c1");
}

static struct record *generate(struct scene *s, uint8_t id, const char *tenant,
                               uint32_t n, uint32_t keep_ms)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;

    m.model = wire_text("tiny");
    m.has_tenant = true;
    m.tenant = wire_text(tenant);
    m.has_n = true;
    m.n = n;
    m.has_keep_ms = keep_ms > 0;
    m.keep_ms = keep_ms;
    x = client_generate_with(s->c, id, PROMPT, TOKENS, &m, 0);
    rig_run(s->rig);
    return x;
}

static void end(struct scene *s, uint8_t id)
{
    worker_give(s->w, id, 0, TOKENS, LENGTH);
    worker_report(s->w);
    rig_run(s->rig);
}

static uint64_t occupied(const struct scene *s, const char *tenant)
{
    struct router_quota_view v;

    for (uint32_t i = 0; i < METRIC_SLOTS; i++) {
        if (router_quota_view(s->rig->router, i, &v) &&
            strcmp(v.tenant, tenant) == 0) {
            assert_int_equal(v.n_charged, v.n_sum);
            assert_int_equal(v.n_wrong, 0);
            return v.n_charged;
        }
    }
    return 0;
}

static void a_tenant_may_occupy_its_quota_and_no_token_more(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s, 2 * EACH);
    assert_false(generate(&s, 1, "anna", 1, 0)->ended);
    assert_false(generate(&s, 2, "anna", 1, 0)->ended);
    assert_int_equal(occupied(&s, "anna"), 2 * EACH);
    x = generate(&s, 3, "anna", 1, 0);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_true(x->retry_ms > 0);
    assert_non_null(strstr(x->error, "tenant anna that wait, run or are kept "
                                     "occupy 128 tokens, at most 128 may be "
                                     "(--tenant-quota), and the request adds "
                                     "64"));
    end(&s, 1);
    assert_int_equal(occupied(&s, "anna"), EACH);
    assert_false(generate(&s, 4, "anna", 1, 0)->ended);
    rig_free(&s.rig);
    bring(&s, 2 * EACH - 1);
    assert_false(generate(&s, 1, "anna", 1, 0)->ended);
    assert_int_equal(generate(&s, 2, "anna", 1, 0)->status,
                     ST_RESOURCE_EXHAUSTED);
    rig_free(&s.rig);
}

static void a_request_past_the_quota_can_never_run(void **state)
{
    struct record *x;
    struct scene s;

    (void)state;
    bring(&s, 3 * EACH);
    x = generate(&s, 1, "anna", 4, 0);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->retry_ms, 0);
    assert_non_null(strstr(x->error, "can never run; lower max_tokens, n or "
                                     "the prompt"));
    assert_int_equal(occupied(&s, "anna"), 0);
    assert_false(generate(&s, 2, "anna", 3, 0)->ended);
    assert_int_equal(occupied(&s, "anna"), 3 * EACH);
    rig_free(&s.rig);
}

/* Five wait and run: the pool has room for four. */
static void those_that_wait_count_as_those_that_run(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 5 * EACH);
    assert_false(generate(&s, 1, "anna", 5, 0)->ended);
    assert_int_equal(rig_state(s.rig, 1), CHOICE_PREFILL);
    assert_int_equal(generate(&s, 2, "anna", 1, 0)->status,
                     ST_RESOURCE_EXHAUSTED);
    assert_false(generate(&s, 3, "bert", 1, 0)->ended);
    rig_free(&s.rig);
}

/* One that was kept gives way to a new one of its tenant, the oldest first. */
static void kept_sequences_give_way_to_new_ones(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 2 * EACH);
    for (uint8_t id = 1; id <= 2; id++) {
        generate(&s, id, "anna", 1, 60000);
        end(&s, id);
    }
    assert_int_equal(occupied(&s, "anna"), 2 * EACH);
    assert_false(generate(&s, 3, "anna", 1, 0)->ended);
    assert_null(worker_sequence_of(s.w, 1));
    assert_non_null(worker_sequence_of(s.w, 2));
    assert_int_equal(occupied(&s, "anna"), 2 * EACH);
    rig_free(&s.rig);
}

/* A request that does not fit even without them costs them nothing. */
static void none_gives_way_in_vain(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 2 * EACH);
    generate(&s, 1, "anna", 1, 60000);
    end(&s, 1);
    generate(&s, 2, "anna", 1, 0);
    assert_int_equal(generate(&s, 3, "anna", 2, 0)->status,
                     ST_RESOURCE_EXHAUSTED);
    assert_non_null(worker_sequence_of(s.w, 1));
    rig_free(&s.rig);
}

static void without_a_quota_all_is_counted_and_nothing_refused(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 0);
    for (uint8_t id = 1; id <= 20; id++) {
        assert_false(generate(&s, id, "anna", 1, 0)->ended);
    }
    assert_int_equal(occupied(&s, "anna"), 20 * EACH);
    rig_free(&s.rig);
}

/* A client that is gone, and a session that is lost, give the quota back. */
static void what_ends_badly_is_charged_no_more(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 20 * EACH);
    generate(&s, 1, "anna", 6, 0);
    assert_int_equal(occupied(&s, "anna"), 6 * EACH);
    fake_lost(s.c);
    rig_run(s.rig);
    worker_report(s.w);
    rig_run(s.rig);
    assert_int_equal(occupied(&s, "anna"), 0);
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_may_occupy_its_quota_and_no_token_more),
        cmocka_unit_test(a_request_past_the_quota_can_never_run),
        cmocka_unit_test(those_that_wait_count_as_those_that_run),
        cmocka_unit_test(kept_sequences_give_way_to_new_ones),
        cmocka_unit_test(none_gives_way_in_vain),
        cmocka_unit_test(without_a_quota_all_is_counted_and_nothing_refused),
        cmocka_unit_test(what_ends_badly_is_charged_no_more),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
