/* A request_id that is used again while the first sequence is still here. */
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/rig.h"

static uint64_t cancel_grant(struct rig *r, const struct rig_message *submit,
                             uint64_t grant)
{
    Sluice__V1__CancelRequest m = SLUICE__V1__CANCEL_REQUEST__INIT;

    m.sequence = submit->m.sequence;
    m.has_grant = true;
    m.grant = grant;
    assert_int_equal(
        peer_call(r->peer, METHOD_WORKER_CANCEL, &m.base, 0, ++r->tag, NULL),
        ST_OK);
    return r->tag;
}

/* Its end was acknowledged before the Cancel came: no trace of the first may
 * hit the second. */
static void late_cancel_spares_the_next_submit(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};
    struct rig_message m;
    uint64_t tag;

    (void)state;
    rig_message(r, &s, &m);
    (void)rig_send_submit(r, &m);
    rig_turn(r);
    rig_run(r);
    rig_advance(r, 20000);
    rig_check_empty(r);
    tag = cancel_grant(r, &m, 1);
    rig_turn(r);
    assert_int_equal(r->ends[tag].receipt.state, 0);
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_OK);
    rig_run(r);
    rig_advance(r, 20000);
    rig_free(&r);
}

static void early_cancel_strikes_its_submit(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};
    struct rig_message m;
    uint64_t tag;

    (void)state;
    rig_message(r, &s, &m);
    (void)cancel_grant(r, &m, 1);
    rig_turn(r);
    tag = rig_submit(r, &s);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_CANCELLED);
    rig_free(&r);
}

/* The router drew another seed, so the old tokens do not belong to it. */
static void another_seed_starts_anew(void **state)
{
    struct rig *r = rig_new(NULL);
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 5};
    struct rig_message m;
    uint32_t n_steps;
    uint64_t tag;

    (void)state;
    r->acknowledge = false;
    (void)rig_submit(r, &s);
    rig_turn(r);
    rig_run(r);
    assert_int_equal(rig_state(r, 6), 5); /* finished */
    n_steps = r->n_steps;
    rig_message(r, &s, &m);
    m.sampling.seed++;
    tag = rig_send_submit(r, &m);
    r->acknowledge = true;
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_OK);
    rig_run(r);
    rig_advance(r, 20000);
    assert_int_equal(r->n_steps, n_steps + 5);
    assert_int_equal(r->heard[2].n, 5);
    rig_check_empty(r);
    rig_free(&r);
}

/* An end token came while the next plan ran: the plan still names the
 * memory, but the router has the end and may submit again. */
static void starts_while_the_last_plan_returns(void **state)
{
    struct worker_options o;
    struct rig *r;
    struct rig_submit s = {.id = 6, .n_prompt = 20, .max_tokens = 9};
    struct rig_message m;
    uint64_t tag;

    (void)state;
    rig_defaults(&o);
    o.engine_depth = 2;
    r = rig_new(&o);
    r->eos_at = 2;
    (void)rig_submit(r, &s);
    rig_turn(r);
    while (rig_state(r, 6) != 5) {
        assert_true(rig_step(r));
    }
    assert_true(rig_inflight(r) > 0);
    rig_message(r, &s, &m);
    m.sampling.seed++;
    tag = rig_send_submit(r, &m);
    rig_turn(r);
    assert_int_equal(r->ends[tag].status, ST_OK);
    assert_int_equal(rig_state(r, 6), 2); /* in prefill: the new one */
    rig_run(r);
    rig_advance(r, 20000);
    assert_int_equal(r->heard[2].n, 3);
    rig_check_empty(r);
    rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_cancel_spares_the_next_submit),
        cmocka_unit_test(early_cancel_strikes_its_submit),
        cmocka_unit_test(another_seed_starts_anew),
        cmocka_unit_test(starts_while_the_last_plan_returns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
