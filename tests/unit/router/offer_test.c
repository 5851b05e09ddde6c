/* Workers that take the layers they are given: who gets which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/endpoint.h"
#include "common/log.h"
#include "router/limits.h"
#include "tests/unit/router/rig.h"

#define LOADING_US 20000000 /* some while of loading */

static void assert_given(const struct fake *f, uint32_t begin, uint32_t end)
{
    if (f->n_assigns != 1 || f->begin != begin || f->end != end) {
        fail_msg("%s was given %u times, %u-%u, wanted %u-%u", f->name,
                 f->n_assigns, f->begin, f->end, begin, end);
    }
}

static void assert_free(const struct fake *f)
{
    assert_int_equal(f->n_assigns, 0);
    assert_false(f->gone);
}

/* ---- a whole model ---- */

static void three_share_a_model(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[3];

    (void)state;
    w[0] = rig_offer(rig, "w0", 3, 12);
    w[1] = rig_offer(rig, "w1", 3, 12);
    assert_free(w[0]);
    w[2] = rig_offer(rig, "w2", 3, 12);
    for (uint32_t i = 0; i < 3; i++) {
        assert_given(w[i], 4 * i, 4 * i + 4);
        assert_int_equal(w[i]->n_assembles, 0);
    }
    rig_advance(rig, LOADING_US);
    for (int i = 0; i < 3; i++) {
        offer_load(w[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(w[i]->n_assembles, 1);
        assert_int_equal(w[i]->stage, i);
        assert_int_equal(w[i]->assembly, w[0]->assembly);
    }
    rig_end(&rig);
}

/* Each gets what it can hold, the fast ones more. */
static void to_each_what_it_can_hold(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *small = rig_offer(rig, "small", 2, 3);
    struct fake *large = rig_offer(rig, "large", 2, 9), *slow, *fast;

    (void)state;
    assert_int_equal(small->end - small->begin, 3);
    assert_int_equal(large->end - large->begin, 9);
    slow = fake_offer_new(rig, "slow", 2, 12);
    slow->fingerprint[0] = 1;
    strcpy(slow->model, "other");
    slow->offer.model = wire_text("other");
    slow->offer.speed = 1000;
    fake_hello(slow);
    fast = fake_offer_new(rig, "fast", 2, 12);
    fast->fingerprint[0] = 1;
    strcpy(fast->model, "other");
    fast->offer.model = wire_text("other");
    fast->offer.speed = 3000;
    fake_hello(fast);
    assert_int_equal(slow->end - slow->begin, 3);
    assert_int_equal(fast->end - fast->begin, 9);
    rig_end(&rig);
}

/* None is given until a split fits. */
static void too_small_is_left_alone(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_offer(rig, "a", 2, 4), *b = rig_offer(rig, "b", 2, 4);
    struct fake *c;

    (void)state;
    assert_free(a);
    assert_free(b);
    c = rig_offer(rig, "c", 2, 8);
    assert_int_equal(c->end - c->begin, 8);
    assert_int_equal(a->n_assigns + b->n_assigns, 1);
    rig_end(&rig);
}

typedef void (*spoil_fn)(struct fake *f);

static void other_model(struct fake *f)
{
    f->offer.model = wire_text("other");
}

static void other_weights(struct fake *f)
{
    f->fingerprint[3]++;
}

static void other_blocks(struct fake *f)
{
    f->offer.block_tokens = 16;
}

static void other_context(struct fake *f)
{
    f->offer.context++;
}

static void other_rows(struct fake *f)
{
    f->offer.max_rows++;
}

static void other_costs(struct fake *f)
{
    f->kv_bytes[11]++;
}

static void other_head(struct fake *f)
{
    f->offer.has_lineage = true;
    f->offer.head_bytes = 1;
}

static void other_stages(struct fake *f)
{
    f->offer.n_stages = 3;
}

static void offers_that_differ_never_meet(void **state)
{
    static const spoil_fn spoils[] = {
        other_model, other_weights, other_blocks, other_context,
        other_rows,  other_costs,   other_stages, other_head};

    (void)state;
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *a = rig_offer(rig, "a", 2, 12);
        struct fake *odd = fake_offer_new(rig, "odd", 2, 12);

        odd->offer.lineage = wire_text("odd");
        spoils[i](odd);
        fake_hello(odd);
        assert_true(odd->up);
        assert_free(a);
        assert_free(odd);
        rig_offer(rig, "b", 2, 12);
        assert_int_equal(a->n_assigns, 1);
        assert_free(odd);
        rig_end(&rig);
    }
}

/* While the first are loading, the next ones start another replica. */
static void six_make_two_replicas(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w[6];

    (void)state;
    for (uint32_t i = 0; i < 6; i++) {
        char name[8];

        snprintf(name, sizeof name, "w%u", i);
        w[i] = rig_offer(rig, name, 3, 12);
        if (i == 2) {
            offer_leave(w[0]);
        }
        rig_advance(rig, 1000000);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_given(w[i], 4 * (i % 3), 4 * (i % 3) + 4);
    }
    rig_end(&rig);
}

/* ---- gaps ---- */

/* Three stages that are up, and offers that are free. */
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
    assert_free(g.spare); /* it might be back */
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

/* Its old session is missed after its new one stands: with its layers, or
 * without. */
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

/* One that comes back without its layers is one that has lost them. */
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
    assert_given(g.spare, 4, 8); /* it came first */
    assert_int_equal(g.w[1]->n_assigns, 0);
    rig_end(&g.rig);
}

/* For as long as it may be loading, nobody else is given the same. */
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
    assert_free(next); /* the spare has not gone yet */
    offer_leave(g.spare);
    report(others, 2, ASSIGN_US - 2000000);
    assert_free(next);
    report(others, 2, 3000000);
    assert_given(next, 4, 8);
    rig_end(&g.rig);
}

/* Assigned, and gone before it took them, or refused them. */
static void what_is_not_taken_is_given_again(void **state)
{
    (void)state;
    for (int refuses = 0; refuses < 2; refuses++) {
        struct rig *rig = rig_new(NULL);
        struct fake *a = fake_offer_new(rig, "a", 2, 12), *b, *c;

        a->refuse_assigns = refuses ? ST_RESOURCE_EXHAUSTED : ST_OK;
        a->hold_assigns = true;
        fake_hello(a);
        b = rig_offer(rig, "b", 2, 12);
        assert_given(b, 6, 12);
        rig_advance(rig, RETURN_US + 1000);
        assert_false(a->gone);
        if (!refuses) {
            fake_lost(a);
        }
        c = rig_offer(rig, "c", 2, 12);
        assert_given(c, 0, 6);
        rig_end(&rig);
    }
}

/* It may have room one day. */
static void who_refuses_is_asked_again_later(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = fake_offer_new(rig, "a", 2, 12);

    (void)state;
    a->refuse_assigns = ST_RESOURCE_EXHAUSTED;
    fake_hello(a);
    rig_offer(rig, "b", 2, 12);
    a->refuse_assigns = ST_OK;
    rig_advance(rig, ASSIGN_RETRY_US - 1000);
    assert_int_equal(a->n_assigns, 1);
    rig_advance(rig, 2000);
    assert_int_equal(a->n_assigns, 2);
    assert_int_equal(a->begin, 0);
    rig_end(&rig);
}

/* Its Goodbye may come without its answer. */
static void a_goodbye_after_assign_takes_the_layers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = fake_offer_new(rig, "a", 2, 12), *b, *c;

    (void)state;
    a->hold_assigns = true;
    fake_hello(a);
    b = rig_offer(rig, "b", 2, 12);
    assert_given(b, 6, 12);
    offer_leave(a);
    c = rig_offer(rig, "c", 2, 12);
    rig_advance(rig, LOADING_US);
    assert_free(c);
    rig_end(&rig);
}

static void who_never_answers_is_let_go(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = fake_offer_new(rig, "a", 2, 12), *c;

    (void)state;
    a->hold_assigns = true;
    fake_hello(a);
    rig_offer(rig, "b", 2, 12);
    rig_advance(rig, ASSEMBLE_US + 1000);
    assert_true(a->gone);
    c = rig_offer(rig, "c", 2, 12);
    assert_given(c, 0, 6);
    rig_end(&rig);
}

/* A gap that one cannot hold is divided; two gaps are filled at once or not at
 * all. */
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

/* Many layers in one gap may take more offers than fewer in two. */
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

/* And a piece is left out if one offer can do what two would. */
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

/* If both could be done, the one that takes fewer. */
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

/* Who has the first layer has the embedding, who has the last the head. */
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

/* Who leaves is not waited for; who is drained is not counted on. */
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

/* One that dies again and again is here, and is not waited for. */
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

static void who_is_drained_is_no_part(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *admin = rig_admin(rig, "admin"), *spare;
    Sluice__V1__DrainRequest d = SLUICE__V1__DRAIN_REQUEST__INIT;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    stage_of_12(rig, "s", 0, 6);
    d.worker = wire_text("s");
    client_call(admin, METHOD_ADMIN_DRAIN, &d.base, 0);
    rig_run(rig);
    spare = rig_offer(rig, "spare", 2, 12);
    assert_free(spare);
    rig_end(&rig);
}

/* What nobody can fill keeps nobody from a replica of their own. */
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

/* A router that has just begun lets those with layers come first. */
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

/* ---- who offers ---- */

static void an_offer_has_nothing_to_tell(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = rig_offer(rig, "f", 2, 12);
    Sluice__V1__LeaveRequest leave = SLUICE__V1__LEAVE_REQUEST__INIT;
    Sluice__V1__StepOutputMessage step = SLUICE__V1__STEP_OUTPUT_MESSAGE__INIT;
    struct router_worker_view v;
    struct record *x;

    (void)state;
    worker_report(f);
    worker_say(f, &step);
    worker_live(f, 1000);
    stage_broken(f, 7, "what");
    assert_true(f->up && !f->gone);
    x = client_call(f, METHOD_REGISTRY_LEAVE, &leave.base, 0);
    rig_run(rig);
    assert_true(x->ended && x->status == ST_OK);
    assert_false(router_worker_view(rig->router, 0, &v));
    rig_end(&rig);
}

static void one_name_is_one_worker(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_offer(rig, "a", 2, 12);
    struct fake *b = fake_offer_new(rig, "a", 2, 12);

    (void)state;
    fake_hello(b);
    assert_true(b->refused && b->refusal == ST_ALREADY_EXISTS);
    rig_advance(rig, NAME_BUSY_US + 1000);
    fake_reconnect(b);
    assert_true(b->up && a->gone);
    rig_offer(rig, "c", 2, 12);
    assert_int_equal(b->n_assigns, 1);
    rig_end(&rig);
}

static void weights_of_others_are_refused_before_they_are_loaded(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_offer_new(rig, "f", 2, 12);

    (void)state;
    rig_worker(rig, "whole", 8, 2);
    f->fingerprint[0]++;
    fake_hello(f);
    assert_true(f->refused && f->refusal == ST_FAILED_PRECONDITION);
    rig_end(&rig);
}

static void so_many_offers(void **state)
{
    struct rig *rig = rig_new(NULL);

    (void)state;
    for (int i = 0; i <= OFFERS_MAX; i++) {
        char name[16];
        struct fake *f;

        snprintf(name, sizeof name, "w%d", i);
        f = fake_offer_new(rig, name, 2, 1);
        fake_hello(f);
        assert_int_equal(f->up, i < OFFERS_MAX);
        if (i == OFFERS_MAX) {
            assert_int_equal(f->refusal, ST_RESOURCE_EXHAUSTED);
        }
    }
    rig_end(&rig);
}

/* One more, and the oldest is forgotten: its gap is given again. */
static void so_many_are_expected(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w, *spare;

    (void)state;
    rig_advance(rig, RETURN_US + 1000);
    for (int i = 0; i < EXPECTED_MAX; i++) {
        char name[16];

        snprintf(name, sizeof name, "w%d", i);
        w = rig_offer(rig, name, 2, 12);
        if (i % 2 == 1) {
            assert_int_equal(w->n_assigns, 1);
            offer_leave(w);
            offer_leave(rig->fakes[i - 1]);
        }
    }
    spare = rig_offer(rig, "spare", 2, 12);
    assert_free(spare);
    fake_lost(rig_stage(rig, "else", 0, 2)); /* of 4: of another kind */
    rig_run(rig);
    assert_given(spare, 0, 6);
    rig_end(&rig);
}

/* Only the second of two has room for the embedding. */
static void orders_are_tried_up_to_so_many_layers(void **state)
{
    static uint64_t ones[OFFER_ORDER_LAYERS + 1];

    (void)state;
    for (uint32_t n = OFFER_ORDER_LAYERS; n <= OFFER_ORDER_LAYERS + 1; n++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w[2];

        for (int i = 0; i < 2; i++) {
            Sluice__V1__WorkerOffer *o;

            w[i] = fake_offer_new(rig, i == 0 ? "small" : "large", 2, 12);
            o = &w[i]->offer;
            o->n_layers = n;
            o->n_layer_bytes = o->n_kv_bytes = o->n_slot_bytes = n;
            for (uint32_t k = 0; k < n; k++) {
                ones[k] = 1;
            }
            o->layer_bytes = o->kv_bytes = o->slot_bytes = ones;
            o->embed_bytes = 50000;
            o->budget_bytes = i == 0 ? 40000 : 100000;
            fake_hello(w[i]);
            assert_true(w[i]->up);
        }
        assert_int_equal(w[0]->n_assigns, n == OFFER_ORDER_LAYERS);
        assert_int_equal(w[1]->n_assigns, n == OFFER_ORDER_LAYERS);
        rig_end(&rig);
    }
}

/* ---- what an offer may say ---- */

struct bad {
    spoil_fn spoil;
    const char *why; /* NULL: it is let in */
};

#define BAD(name) static void name(struct fake *f)

static char long_text[300];

BAD(no_model)
{
    f->offer.model = wire_text("");
}
BAD(fingerprint_15)
{
    f->offer.fingerprint.len = 15;
}
BAD(one_layer)
{
    f->offer.n_layers = 1;
}
BAD(most_layers)
{
    static uint64_t ones[SPLIT_LAYERS_MAX];

    for (int i = 0; i < SPLIT_LAYERS_MAX; i++) {
        ones[i] = 1;
    }
    f->offer.n_layers = SPLIT_LAYERS_MAX;
    f->offer.n_layer_bytes = f->offer.n_kv_bytes = f->offer.n_slot_bytes =
        SPLIT_LAYERS_MAX;
    f->offer.layer_bytes = f->offer.kv_bytes = f->offer.slot_bytes = ones;
}
BAD(too_many_layers)
{
    f->offer.n_layers = SPLIT_LAYERS_MAX + 1;
}
BAD(one_stage)
{
    f->offer.n_stages = 1;
}
BAD(most_stages)
{
    f->offer.n_stages = RIG_LAYERS;
}
BAD(more_stages_than_layers)
{
    f->offer.n_stages = RIG_LAYERS + 1;
}
BAD(too_many_stages)
{
    most_layers(f);
    f->offer.n_stages = STAGES_MAX + 1;
}
BAD(no_budget)
{
    f->offer.budget_bytes = 0;
}
BAD(largest_budget)
{
    f->offer.budget_bytes = SPLIT_BYTES_MAX;
}
BAD(huge_budget)
{
    f->offer.budget_bytes = SPLIT_BYTES_MAX + 1;
}
BAD(no_speed)
{
    f->offer.speed = 0;
}
BAD(top_speed)
{
    f->offer.speed = 1000000000000000000u;
}
BAD(past_top_speed)
{
    f->offer.speed = 1000000000000000001u;
}
BAD(huge_scratch)
{
    f->offer.scratch_bytes = SPLIT_BYTES_MAX + 1;
}
BAD(huge_embedding)
{
    f->offer.embed_bytes = UINT64_MAX;
}
BAD(huge_head)
{
    f->offer.head_bytes = SPLIT_BYTES_MAX + 1;
}
BAD(few_layer_bytes)
{
    f->offer.n_layer_bytes--;
}
BAD(many_kv_bytes)
{
    f->offer.n_kv_bytes--;
}
BAD(no_slot_bytes)
{
    f->offer.n_slot_bytes = 0;
}
BAD(empty_layer)
{
    f->layer_bytes[7] = 0;
}
BAD(huge_layer)
{
    f->layer_bytes[7] = SPLIT_BYTES_MAX + 1;
}
BAD(largest_kv)
{
    f->kv_bytes[0] = SPLIT_BYTES_MAX / (64 + RIG_BLOCK);
}
BAD(huge_kv)
{
    f->kv_bytes[0] = SPLIT_BYTES_MAX / (64 + RIG_BLOCK) + 1;
}
BAD(huge_slot)
{
    f->slot_bytes[0] = SPLIT_BYTES_MAX + 1;
}
BAD(layer_of_no_kind)
{
    f->kv_bytes[11] = 0;
}
BAD(block_24)
{
    f->offer.block_tokens = 24;
}
BAD(block_128)
{
    f->offer.block_tokens = 128;
}
BAD(no_context)
{
    f->offer.context = 0;
}
BAD(largest_context)
{
    f->offer.context = SHARD_CONTEXT_MAX;
}
BAD(huge_context)
{
    f->offer.context = SHARD_CONTEXT_MAX + 1;
}
BAD(rows_0)
{
    f->offer.max_rows = 0;
}
BAD(rows_513)
{
    f->offer.max_rows = SHARD_ROWS_MAX + 1;
}
BAD(empty_lineage)
{
    f->offer.has_lineage = true;
    f->offer.lineage = wire_text("");
}
BAD(longest_lineage)
{
    f->offer.has_lineage = true;
    f->offer.lineage = wire_text(long_text + sizeof long_text - 65);
}
BAD(long_lineage)
{
    f->offer.has_lineage = true;
    f->offer.lineage = wire_text(long_text + sizeof long_text - 66);
}
BAD(longest_endpoint)
{
    f->offer.has_stage_endpoint = true;
    f->offer.stage_endpoint =
        wire_text(long_text + sizeof long_text - ENDPOINT_MAX);
}
BAD(long_endpoint)
{
    f->offer.has_stage_endpoint = true;
    f->offer.stage_endpoint =
        wire_text(long_text + sizeof long_text - ENDPOINT_MAX - 1);
}

static const struct bad table[] = {
    {no_model, "model's name"},
    {fingerprint_15, "15 bytes long, not 16"},
    {one_layer, "n_layers is 1, must be 2..512"},
    {most_layers, NULL},
    {too_many_layers, "n_layers is 513"},
    {one_stage, "n_stages is 1, must be 2..12"},
    {most_stages, NULL},
    {more_stages_than_layers, "n_stages is 13, must be 2..12"},
    {too_many_stages, "n_stages is 17, must be 2..16"},
    {no_budget, "budget_bytes is 0"},
    {largest_budget, NULL},
    {huge_budget, "budget_bytes is 1125899906842625"},
    {no_speed, "speed is 0"},
    {top_speed, NULL},
    {past_top_speed, "speed is 1000000000000000001"},
    {huge_scratch, "scratch_bytes is"},
    {huge_embedding, "embed_bytes is"},
    {huge_head, "head_bytes is"},
    {few_layer_bytes, "12 layers, and bytes of 11, 12 and 12"},
    {many_kv_bytes, "12 layers, and bytes of 12, 11 and 12"},
    {no_slot_bytes, "12 layers, and bytes of 12, 12 and 0"},
    {empty_layer, "layer_bytes is 0"},
    {huge_layer, "layer_bytes is"},
    {largest_kv, NULL},
    {huge_kv, "kv_bytes is"},
    {huge_slot, "slot_bytes is"},
    {layer_of_no_kind, "layer 11 has neither"},
    {block_24, "must divide 64"},
    {block_128, "block_tokens is 128"},
    {no_context, "context is 0"},
    {largest_context, NULL},
    {huge_context, "context is 4194305"},
    {rows_0, "max_rows is 0"},
    {rows_513, "max_rows is 513"},
    {empty_lineage, "lineage must be 1..64"},
    {longest_lineage, NULL},
    {long_lineage, "lineage must be 1..64"},
    {longest_endpoint, NULL},
    {long_endpoint, "endpoint must be 1..255"},
};

static void what_an_offer_may_say(void **state)
{
    (void)state;
    memset(long_text, 'x', sizeof long_text - 1);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *f = fake_offer_new(rig, "f", 2, 12);

        table[i].spoil(f);
        fake_hello(f);
        if (table[i].why == NULL
                ? !f->up
                : !f->refused || f->refusal != ST_INVALID_ARGUMENT ||
                      strstr(f->why, table[i].why) == NULL) {
            fail_msg("row %zu: up %d status %d \"%s\", wanted \"%s\"", i, f->up,
                     (int)f->refusal, f->why, table[i].why);
        }
        rig_end(&rig);
    }
}

/* A worker has layers, or takes some; a client does neither. */
static void an_offer_is_a_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *f = fake_offer_new(rig, "f", 2, 12);

    (void)state;
    for (int both = 0; both < 2; both++) {
        Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
        struct frame *frame;

        m.version_major = WIRE_VERSION_MAJOR;
        m.role = both ? SLUICE__V1__ROLE__ROLE_WORKER
                      : SLUICE__V1__ROLE__ROLE_CLIENT;
        m.name = wire_text("f");
        m.offer = &f->offer;
        m.worker = both ? &f->shard : NULL;
        f->refused = false;
        frame = hello_make(&m.base);
        f->io.send(&f->io, (struct peer_id){1}, &frame);
        rig_run(rig);
        assert_true(f->refused && f->refusal == ST_INVALID_ARGUMENT);
    }
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_share_a_model),
        cmocka_unit_test(to_each_what_it_can_hold),
        cmocka_unit_test(too_small_is_left_alone),
        cmocka_unit_test(offers_that_differ_never_meet),
        cmocka_unit_test(six_make_two_replicas),
        cmocka_unit_test(a_free_offer_takes_the_place_of_the_dead),
        cmocka_unit_test(who_comes_back_needs_nobody),
        cmocka_unit_test(who_is_back_is_not_expected),
        cmocka_unit_test(who_comes_back_empty_is_not_waited_for),
        cmocka_unit_test(a_gap_is_given_once),
        cmocka_unit_test(what_is_not_taken_is_given_again),
        cmocka_unit_test(who_refuses_is_asked_again_later),
        cmocka_unit_test(a_goodbye_after_assign_takes_the_layers),
        cmocka_unit_test(who_never_answers_is_let_go),
        cmocka_unit_test(gaps_are_filled_by_as_few_as_can),
        cmocka_unit_test(two_gaps_rather_than_a_large_one),
        cmocka_unit_test(one_gap_rather_than_two_small_ones),
        cmocka_unit_test(one_offer_rather_than_two),
        cmocka_unit_test(the_ends_weigh_more),
        cmocka_unit_test(who_leaves_leaves_a_gap),
        cmocka_unit_test(who_is_kept_out_is_no_part),
        cmocka_unit_test(who_is_drained_is_no_part),
        cmocka_unit_test(a_gap_too_large_is_passed_by),
        cmocka_unit_test(a_young_router_fills_no_gaps),
        cmocka_unit_test(an_offer_has_nothing_to_tell),
        cmocka_unit_test(one_name_is_one_worker),
        cmocka_unit_test(weights_of_others_are_refused_before_they_are_loaded),
        cmocka_unit_test(so_many_offers),
        cmocka_unit_test(so_many_are_expected),
        cmocka_unit_test(orders_are_tried_up_to_so_many_layers),
        cmocka_unit_test(what_an_offer_may_say),
        cmocka_unit_test(an_offer_is_a_workers),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
