/* Layers that no worker has, or no longer has: which offers receive them. */
#include <stdio.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"
#include "tests/unit/router/rig_offer.h"

/* The readmission delay after two deaths, without the random eighth. */
#define SECOND 1000000

/* A replica of three stages, and free offers. */
struct ring {
    struct rig *rig;
    struct fake *w[3], *spare;
};

static struct fake *stage_of_12(struct rig *rig, const char *name,
                                uint32_t begin, uint32_t end)
{
    struct fake *f = fake_offer_new(rig, name, 3, 12);

    f->offers = false;
    f->shard.layer_begin = begin;
    f->shard.layer_end = end;
    fake_hello(f);
    assert_true(f->up);
    return f;
}

static struct ring ring_new(void)
{
    struct ring g = {.rig = rig_new(NULL)};

    for (uint32_t i = 0; i < 3; i++) {
        char name[8];

        snprintf(name, sizeof name, "w%u", i);
        g.w[i] = stage_of_12(g.rig, name, 4 * i, 4 * i + 4);
    }
    assert_int_equal(g.w[0]->n_assembles, 1);
    g.spare = rig_offer(g.rig, "spare", 3, 12);
    for (int64_t us = 0; us < 2 * RETURN_US; us += 500000) {
        for (int i = 0; i < 3; i++) {
            worker_report(g.w[i]);
        }
        rig_advance(g.rig, 500000);
    }
    assert_free(g.spare);
    return g;
}

static void report(struct fake *const *w, uint32_t n, int64_t us)
{
    for (; us > 0; us -= 500000) {
        for (uint32_t i = 0; i < n; i++) {
            worker_report(w[i]);
        }
        rig_advance(w[0]->rig, us < 500000 ? us : 500000);
    }
}

static void a_free_offer_takes_the_place_of_the_dead(void **state)
{
    struct ring g = ring_new();
    struct fake *others[2] = {g.w[0], g.w[2]};

    (void)state;
    fake_lost(g.w[1]);
    rig_run(g.rig);
    fake_reconnect(g.w[0]);
    fake_reconnect(g.w[2]);
    report(others, 2, RETURN_US - 1000);
    assert_free(g.spare); /* the stage may still come back */
    report(others, 2, 2000);
    assert_given(g.spare, 4, 8);
    offer_load(g.spare);
    assert_int_equal(g.spare->n_assembles, 1);
    assert_int_equal(g.spare->stage, 1);
    rig_end(&g.rig);
}

static void who_comes_back_needs_nobody(void **state)
{
    struct ring g = ring_new();
    struct fake *others[2] = {g.w[0], g.w[2]};

    (void)state;
    fake_lost(g.w[1]);
    rig_run(g.rig);
    fake_reconnect(g.w[0]);
    fake_reconnect(g.w[2]);
    report(others, 2, RETURN_US / 2);
    fake_reconnect(g.w[1]);
    report(g.w, 3, 2 * RETURN_US);
    assert_int_equal(g.w[1]->n_assembles, 2);
    assert_free(g.spare);
    rig_end(&g.rig);
}

/* The end of the old session is noticed after the new one is open: with its
 * layers, or without. */
static void who_is_back_is_not_expected(void **state)
{
    (void)state;
    for (int empty = 0; empty < 2; empty++) {
        struct ring g = ring_new();
        struct fake *others[2] = {g.w[1], g.w[2]};

        g.w[0]->mute = true;
        report(others, 2, NAME_BUSY_US + 1000);
        g.w[0]->offers = empty;
        fake_reconnect(g.w[0]);
        assert_true(g.w[0]->up && g.w[1]->gone && g.w[2]->gone);
        fake_reconnect(g.w[1]);
        fake_reconnect(g.w[2]);
        report(others, 2, 1000);
        if (empty) {
            assert_given(g.spare, 0, 4);
        } else {
            assert_int_equal(g.w[0]->n_assembles, 2);
            assert_free(g.spare);
        }
        rig_end(&g.rig);
    }
}

/* A worker that comes back without its layers is not waited for. */
static void who_comes_back_empty_is_not_waited_for(void **state)
{
    struct ring g = ring_new();

    (void)state;
    fake_lost(g.w[1]);
    rig_run(g.rig);
    fake_reconnect(g.w[0]);
    fake_reconnect(g.w[2]);
    g.w[1]->offers = true;
    fake_reconnect(g.w[1]);
    assert_given(g.spare, 4, 8); /* the spare came first */
    assert_int_equal(g.w[1]->n_assigns, 0);
    rig_end(&g.rig);
}

/* While a worker may be loading layers, no other worker receives them. */
static void a_gap_is_given_once(void **state)
{
    struct ring g = ring_new();
    struct fake *others[2] = {g.w[0], g.w[2]}, *next;

    (void)state;
    fake_lost(g.w[1]);
    rig_run(g.rig);
    fake_reconnect(g.w[0]);
    fake_reconnect(g.w[2]);
    report(others, 2, RETURN_US + 1000);
    assert_given(g.spare, 4, 8);
    next = rig_offer(g.rig, "next", 3, 12);
    assert_free(next); /* the spare has not left yet */
    offer_leave(g.spare);
    report(others, 2, ASSIGN_US - 2000000);
    assert_free(next);
    report(others, 2, 3000000);
    assert_given(next, 4, 8);
    rig_end(&g.rig);
}

/* A gap too large for one offer is divided.  Two gaps are filled together or
 * not at all. */
static void gaps_are_filled_by_as_few_as_can(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a, *b, *c, *mid;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    mid = stage_of_12(rig, "mid", 4, 5);
    a = rig_offer(rig, "a", 4, 4);
    b = rig_offer(rig, "b", 4, 4);
    assert_free(a);
    assert_free(b);
    worker_report(mid);
    c = rig_offer(rig, "c", 4, 4);
    assert_int_equal(a->n_assigns + b->n_assigns + c->n_assigns, 3);
    assert_int_equal(a->begin + b->begin + c->begin,
                     0 + 5 +
                         (a->end == 12   ? a->begin
                          : b->end == 12 ? b->begin
                                         : c->begin));
    offer_load(a);
    offer_load(b);
    offer_load(c);
    assert_int_equal(mid->n_assembles, 1);
    assert_int_equal(mid->n_stages, 4);
    rig_end(&rig);
}

/* One gap of many layers may need more offers than two of fewer layers. */
static void two_gaps_rather_than_a_large_one(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a, *b;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    stage_of_12(rig, "s0", 0, 3);
    stage_of_12(rig, "s2", 6, 9);
    a = rig_offer(rig, "a", 4, 3);
    assert_free(a);
    b = rig_offer(rig, "b", 4, 3);
    assert_given(a, 3, 6);
    assert_given(b, 9, 12);
    rig_end(&rig);
}

/* A shard is left out if one offer can then do the work of two. */
static void one_gap_rather_than_two_small_ones(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    stage_of_12(rig, "s0", 0, 4);
    stage_of_12(rig, "s1", 5, 6);
    stage_of_12(rig, "s2", 7, 12);
    a = rig_offer(rig, "a", 4, 3);
    assert_given(a, 4, 7);
    rig_end(&rig);
}

/* If both chains can be filled, the one with fewer offers is chosen. */
static void one_offer_rather_than_two(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[5];

    (void)state;
    w[0] = rig_offer(rig, "a", 3, 3); /* before there are gaps */
    w[1] = rig_offer(rig, "b", 3, 3);
    w[2] = stage_of_12(rig, "s0", 0, 4);
    w[3] = stage_of_12(rig, "s1", 5, 6);
    w[4] = stage_of_12(rig, "s2", 7, 12);
    report(w + 2, 3, RETURN_US + 1000);
    assert_given(w[0], 4, 7);
    assert_free(w[1]);
    rig_end(&rig);
}

/* The first layer comes with the embedding, the last one with the head. */
static void the_ends_weigh_more(void **state)
{
    (void)state;
    for (int head = 0; head < 2; head++) {
        for (int fits = 0; fits < 2; fits++) {
            struct rig *rig = rig_new(NULL);
            struct fake *f = fake_offer_new(rig, "f", 2, 6);

            rig_advance(rig, RETURN_US + 1000);
            f->offer.embed_bytes = head ? 1 << 30 : 700;
            f->offer.head_bytes = head ? 700 : 1 << 30;
            f->offer.budget_bytes += fits ? 700 : 699;
            stage_of_12(rig, "s", head ? 0 : 6, head ? 6 : 12);
            fake_hello(f);
            assert_true(f->up);
            assert_int_equal(f->n_assigns, fits);
            rig_end(&rig);
        }
    }
}

/* A worker that leaves is not waited for, and a draining one does not count. */
static void who_leaves_leaves_a_gap(void **state)
{
    struct ring g = ring_new();
    struct fake *others[2] = {g.w[0], g.w[2]};
    Sluice__V1__LeaveRequest leave = SLUICE__V1__LEAVE_REQUEST__INIT;

    (void)state;
    client_call(g.w[1], METHOD_REGISTRY_LEAVE, &leave.base, 0);
    rig_run(g.rig);
    offer_leave(g.w[1]);
    fake_reconnect(g.w[0]);
    fake_reconnect(g.w[2]);
    report(others, 2, 1000);
    assert_given(g.spare, 4, 8);
    rig_end(&g.rig);
}

/* A worker on probation is connected, and does not count. */
static void who_is_kept_out_is_no_part(void **state)
{
    struct ring g = ring_new();

    (void)state;
    for (int death = 0; death < 2; death++) {
        assert_free(g.spare);
        fake_lost(g.w[1]);
        rig_run(g.rig);
        fake_restart(g.w[1]);
        fake_reconnect(g.w[0]);
        fake_reconnect(g.w[2]);
        report(g.w, 3, 1000);
    }
    assert_int_equal(g.w[1]->assembly, 0);
    assert_given(g.spare, 4, 8);
    rig_end(&g.rig);
}

/* Once it is readmitted, its shard counts and the gap is dealt. */
static void who_is_let_in_is_a_part(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *spare, *s;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    s = stage_of_12(rig, "s", 0, 6);
    for (int death = 0; death < 2; death++) {
        fake_lost(s);
        rig_run(rig);
        fake_restart(s);
    }
    report(&s, 1, SECOND / 2);
    spare = rig_offer(rig, "spare", 2, 12);
    report(&s, 1, SECOND / 2 - 1000);
    assert_free(spare);
    report(&s, 1, SECOND / 8 + 2000);
    assert_given(spare, 6, 12);
    rig_end(&rig);
}

/* Two workers on one machine without lineages of their own. */
static void two_of_one_lineage_are_both_expected(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *two[2], *spare;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    for (int i = 0; i < 2; i++) {
        two[i] = fake_offer_new(rig, i == 0 ? "a" : "b", 2, 12);
        two[i]->offer.has_lineage = true;
        two[i]->offer.lineage = wire_text("machine");
        fake_hello(two[i]);
    }
    assert_given(two[0], 0, 6);
    assert_given(two[1], 6, 12);
    spare = rig_offer(rig, "spare", 2, 12);
    rig_advance(rig, RETURN_US);
    assert_free(spare);
    rig_end(&rig);
}

static void who_is_drained_is_no_part(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *admin = rig_admin(rig, "admin"), *spare;
    Sluice__V1__DrainRequest d = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__WorkerRequest u = SLUICE__V1__WORKER_REQUEST__INIT;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    stage_of_12(rig, "s", 0, 6);
    d.worker = wire_text("s");
    client_call(admin, METHOD_ADMIN_DRAIN, &d.base, 0);
    rig_run(rig);
    spare = rig_offer(rig, "spare", 2, 12);
    assert_free(spare);
    u.worker = wire_text("s");
    client_call(admin, METHOD_ADMIN_UNDRAIN, &u.base, 0);
    rig_run(rig);
    assert_given(spare, 6, 12);
    rig_end(&rig);
}

/* A router that has just started deals nothing beside a left-over shard.  Once
 * that shard drains it does not count, and all layers are dealt. */
static void what_is_drained_is_left_to_others_at_once(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *admin = rig_admin(rig, "admin"), *a, *b;
    Sluice__V1__DrainRequest d = SLUICE__V1__DRAIN_REQUEST__INIT;

    (void)state;
    stage_of_12(rig, "s", 0, 4);
    a = rig_offer(rig, "a", 2, 12);
    b = rig_offer(rig, "b", 2, 12);
    assert_free(a);
    assert_free(b);
    d.worker = wire_text("s");
    client_call(admin, METHOD_ADMIN_DRAIN, &d.base, 0);
    rig_run(rig);
    assert_given(a, 0, 6);
    assert_given(b, 6, 12);
    rig_end(&rig);
}

/* A gap that no offer can fill does not keep offers from a replica of their
 * own. */
static void a_gap_too_large_is_passed_by(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[3];

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    stage_of_12(rig, "odd", 5, 6);
    for (uint32_t i = 0; i < 3; i++) {
        char name[8];

        snprintf(name, sizeof name, "w%u", i);
        w[i] = rig_offer(rig, name, 3, 4);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_given(w[i], 4 * i, 4 * i + 4);
    }
    rig_end(&rig);
}

/* A router that has just started waits for workers with layers. */
static void a_young_router_fills_no_gaps(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[3], *spare;

    (void)state;
    w[0] = stage_of_12(rig, "w0", 0, 4);
    spare = rig_offer(rig, "spare", 3, 12);
    w[1] = stage_of_12(rig, "w1", 4, 8);
    report(w, 2, RETURN_US / 2);
    assert_free(spare);
    w[2] = stage_of_12(rig, "w2", 8, 12);
    report(w, 3, 2 * RETURN_US);
    assert_free(spare);
    rig_end(&rig);

    rig = rig_new(NULL);
    w[0] = stage_of_12(rig, "w0", 0, 8);
    spare = rig_offer(rig, "spare", 3, 12);
    report(w, 1, RETURN_US);
    assert_given(spare, 8, 12);
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_offer_takes_the_place_of_the_dead),
        cmocka_unit_test(who_comes_back_needs_nobody),
        cmocka_unit_test(who_is_back_is_not_expected),
        cmocka_unit_test(who_comes_back_empty_is_not_waited_for),
        cmocka_unit_test(a_gap_is_given_once),
        cmocka_unit_test(gaps_are_filled_by_as_few_as_can),
        cmocka_unit_test(two_gaps_rather_than_a_large_one),
        cmocka_unit_test(one_gap_rather_than_two_small_ones),
        cmocka_unit_test(one_offer_rather_than_two),
        cmocka_unit_test(the_ends_weigh_more),
        cmocka_unit_test(who_leaves_leaves_a_gap),
        cmocka_unit_test(who_is_kept_out_is_no_part),
        cmocka_unit_test(who_is_let_in_is_a_part),
        cmocka_unit_test(two_of_one_lineage_are_both_expected),
        cmocka_unit_test(who_is_drained_is_no_part),
        cmocka_unit_test(what_is_drained_is_left_to_others_at_once),
        cmocka_unit_test(a_gap_too_large_is_passed_by),
        cmocka_unit_test(a_young_router_fills_no_gaps),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
