/* Kept sequences that go to the host tier, and are continued from there. */
#include "common/base/log.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/sequences/chat.h"
#include "worker/base/metrics.h"

static struct worker_metrics counts(const struct rig *r)
{
    struct worker_metrics m;

    worker_counts(r->worker, &m);
    return m;
}

/* The pool has room for one sequence of these tests. */
static void defaults(struct worker_options *o)
{
    chat_defaults(o);
    o->pool.n_pages = 64;
    o->pool.host_pages = 200;
}

/* A sequence of 400 ids, which is kept in the host tier. */
static void begin(struct chat *c, const struct worker_options *o)
{
    *c = (struct chat){.id = 1};
    c->r = rig_new(o);
    assert_int_equal(chat_turn(c, 300, 100, false), 399);
    rig_advance(c->r, 20000);
    assert_int_equal(rig_state(c->r, 2), KEPT);
    assert_int_equal(counts(c->r).kept_out, 1);
}

static void holds_nothing_of_the_pool(void **state)
{
    struct worker_options o;
    struct worker_account a;
    struct chat c;

    (void)state;
    defaults(&o);
    begin(&c, &o);
    a = rig_account(c.r);
    assert_int_equal(a.pages.held + a.pages.granted, 0);
    assert_int_equal(a.pages.free + a.pages.cached, 64);
    /* The router sees the room, and a kept sequence. */
    assert_int_equal(c.r->ledger.pages->held, 0);
    assert_int_equal(c.r->ledger.n_kept, 1);
    rig_free(&c.r);
}

/* The pages come back, and not the index's alone: those behind the last whole
 * unit, and the state. */
static void goes_on_from_there(void **state)
{
    for (uint32_t kind = 0; kind < 8; kind++) {
        struct worker_options o;
        struct chat c;

        defaults(&o);
        o.one_arithmetic = kind & 1;
        o.engine_depth = 1 + (kind >> 1 & 1);
        o.reuse = kind & 4;
        begin(&c, &o);
        assert_int_equal(chat_turn(&c, 20, 20, true), 1 + 20 + 19);
        assert_int_equal(c.r->heard[c.r->grant].reused, 399);
        assert_int_equal(counts(c.r).continued, 1);
        assert_int_equal(counts(c.r).pages_in,
                         counts(c.r).pages_out - rig_account(c.r).host_used +
                             rig_account(c.r).host_cached);
        rig_free(&c.r);
    }
    (void)state;
}

static void windows_go_along(void **state)
{
    struct worker_options o;
    struct chat c;

    (void)state;
    defaults(&o);
    o.window = 40;
    o.pool.window_pages = 1;
    o.chunk_tokens = 64;
    o.pool.n_pages = 71;
    begin(&c, &o);
    assert_int_equal(chat_turn(&c, 20, 20, true), 1 + 20 + 19);
    rig_free(&c.r);
}

static void stays_while_there_is_room(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};

    (void)state;
    defaults(&o);
    o.pool.n_pages = 128;
    c.r = rig_new(&o);
    chat_turn(&c, 300, 100, false);
    rig_advance(c.r, 20000);
    assert_int_equal(counts(c.r).kept_out, 0);
    assert_int_equal(rig_account(c.r).slots.held, 1);
    rig_free(&c.r);
}

/* Its ranges must end where they are asked to. */
static void stays_without_linear_layers(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};

    (void)state;
    defaults(&o);
    o.pool.pages_per_slot = 0;
    c.r = rig_new(&o);
    chat_turn(&c, 300, 100, false);
    rig_advance(c.r, 20000);
    assert_int_equal(counts(c.r).kept_out, 0);
    rig_free(&c.r);
}

static void stays_where_the_host_tier_is_too_small(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};

    (void)state;
    defaults(&o);
    o.pool.host_pages = 3; /* a state, and one of two blocks */
    c.r = rig_new(&o);
    chat_turn(&c, 300, 100, false);
    rig_advance(c.r, 20000);
    assert_int_equal(counts(c.r).kept_out, 0);
    rig_free(&c.r);
}

/* Ids and a place in the table stay with each sequence that is away.  The table
 * has room for as many as the host tier holds beside those of the pool. */
static void they_leave_room_for_others(void **state)
{
    struct worker_options o;
    struct chat c = {.id = 1};

    (void)state;
    defaults(&o);
    o.pool.host_pages = 4096;
    c.r = rig_new(&o);
    for (uint32_t i = 0; i < 80; i++) {
        c.n = c.n_spans = 0;
        chat_turn(&c, 300, 100, false);
        rig_advance(c.r, 20000);
    }
    assert_in_range(counts(c.r).kept_out, 70, 80);
    rig_free(&c.r);
}

/* The index had the first units, and has lost them. */
static void is_computed_where_a_part_is_lost(void **state)
{
    struct worker_options o;
    struct chat c;

    (void)state;
    defaults(&o);
    begin(&c, &o);
    worker_clear_index(c.r->worker);
    assert_int_equal(chat_turn(&c, 20, 20, true), 400 + 20 + 19);
    rig_free(&c.r);
}

static void a_range_goes_back_to_the_begin(void **state)
{
    struct worker_options o;
    struct chat c;
    uint64_t tag;

    (void)state;
    defaults(&o);
    begin(&c, &o);
    tag = rig_remove_range(c.r, 2, 390, 0);
    rig_turn(c.r);
    rig_check_ok(c.r, tag);
    assert_int_equal(c.r->ends[tag].receipt.position, 0);
    assert_int_equal(rig_account(c.r).host_used, rig_account(c.r).host_cached);
    c.n = 390;
    c.spans[1] = 90;
    c.n_spans = 2;
    /* The index has the state at 384. */
    assert_int_equal(chat_turn(&c, 20, 9, true), 6 + 20 + 8);
    rig_free(&c.r);
}

static void the_end_of_its_lease_frees_the_host_tier(void **state)
{
    struct worker_options o;
    struct chat c;

    (void)state;
    defaults(&o);
    begin(&c, &o);
    assert_true(rig_account(c.r).host_used > rig_account(c.r).host_cached);
    assert_int_equal(c.r->tier.kept,
                     rig_account(c.r).host_used - rig_account(c.r).host_cached);
    rig_advance(c.r, 6000000);
    assert_int_equal(c.r->tier.kept, 0);
    assert_int_equal(rig_state(c.r, 2), UNKNOWN);
    rig_check_empty(c.r);
    rig_free(&c.r);
}

static void a_lost_session_frees_it(void **state)
{
    struct worker_options o;
    struct chat c;

    (void)state;
    defaults(&o);
    begin(&c, &o);
    rig_lose(c.r);
    rig_reconnect(c.r);
    rig_advance(c.r, 20000);
    rig_free(&c.r);
}

/* A plan that never ran, or failed, is computed again. */
static void any_plan_of_the_heir_may_fail(void **state)
{
    for (uint32_t i = 0; i < 8; i++) {
        struct worker_options o;
        struct chat c;

        defaults(&o);
        o.engine_depth = 1 + i % 2;
        o.reuse = i & 4;
        begin(&c, &o);
        if (i & 2) {
            c.r->fail_next = "it was told to";
        } else {
            c.r->refuse_once = true;
        }
        assert_true(chat_turn(&c, 20, 20, true) >= 40);
        rig_free(&c.r);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_nothing_of_the_pool),
        cmocka_unit_test(goes_on_from_there),
        cmocka_unit_test(windows_go_along),
        cmocka_unit_test(stays_while_there_is_room),
        cmocka_unit_test(stays_without_linear_layers),
        cmocka_unit_test(stays_where_the_host_tier_is_too_small),
        cmocka_unit_test(they_leave_room_for_others),
        cmocka_unit_test(is_computed_where_a_part_is_lost),
        cmocka_unit_test(a_range_goes_back_to_the_begin),
        cmocka_unit_test(the_end_of_its_lease_frees_the_host_tier),
        cmocka_unit_test(a_lost_session_frees_it),
        cmocka_unit_test(any_plan_of_the_heir_may_fail),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
