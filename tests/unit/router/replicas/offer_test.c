/* Workers without layers: which layers each is assigned. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"
#include "tests/unit/router/rig_offer.h"

#define LOADING_US 20000000 /* a typical loading time */

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

/* Each worker gets layers that it can hold; faster ones get more. */
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

/* No layers are assigned until a split fits. */
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

static struct fake *offer_with(struct rig *rig, const char *name,
                               const char *format)
{
    struct fake *f = fake_offer_new(rig, name, 2, 12);

    f->offer.has_kv_format = true;
    f->offer.kv_format = wire_text(format);
    fake_hello(f);
    assert_true(f->up);
    return f;
}

/* Stages of a replica have one KV format; one without a format is not compared.
 */
static void offers_of_two_kv_formats_never_meet(void **state)
{
    for (int given = 0; given < 2; given++) {
        struct rig *rig = rig_new(NULL);
        struct fake *a = offer_with(rig, "a", "bf16");
        struct fake *odd = offer_with(rig, "odd", "affine4/64+bf16");

        (void)state;
        assert_free(a);
        assert_free(odd);
        if (given) {
            offer_with(rig, "b", "bf16");
        } else {
            rig_offer(rig, "b", 2, 12);
        }
        assert_int_equal(a->n_assigns, 1);
        assert_free(odd);
        rig_end(&rig);
    }
}

/* An offer of another format than the connected workers' would load layers that
 * the router refuses. */
static void an_offer_has_the_kv_format_of_the_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w", 64, 8), *f;

    (void)state;
    w->shard.has_kv_format = true;
    w->shard.kv_format = wire_text("bf16");
    fake_hello(w);
    assert_true(w->up);
    f = fake_offer_new(rig, "f", 2, 12);
    f->offer.has_kv_format = true;
    f->offer.kv_format = wire_text("affine4/64+bf16");
    fake_hello(f);
    assert_int_equal(f->refusal, ST_FAILED_PRECONDITION);
    assert_non_null(strstr(f->why, "the KV cache is affine4/64+bf16, but that "
                                   "of the 1 connected workers is bf16"));
    rig_end(&rig);
}

static struct fake *offer_of(struct rig *rig, const char *name,
                             const char *arithmetic)
{
    struct fake *f = fake_offer_new(rig, name, 2, 12);

    f->offer.has_arithmetic = true;
    f->offer.arithmetic = wire_text(arithmetic);
    fake_hello(f);
    assert_true(f->up);
    return f;
}

/* Stages of a replica have one arithmetic, unless the router has the option. */
static void offers_of_two_arithmetics_never_meet(void **state)
{
    for (int mixed = 0; mixed < 2; mixed++) {
        const struct rig_options o = {.max_peers = 16,
                                      .max_requests = 16,
                                      .max_waiting = 16,
                                      .mixed_arithmetic = mixed};
        struct rig *rig = rig_new(&o);
        struct fake *a = offer_of(rig, "a", "cpu-int8-1");
        struct fake *odd = offer_of(rig, "odd", "cpu-float-1");

        (void)state;
        assert_int_equal(a->n_assigns, mixed);
        assert_int_equal(odd->n_assigns, mixed);
        if (!mixed) {
            offer_of(rig, "b", "cpu-int8-1");
            assert_int_equal(a->n_assigns, 1);
            assert_free(odd);
        }
        rig_end(&rig);
    }
}

/* While the first workers load, the next ones start another replica. */
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

/* ---- answers to Assign ---- */

/* The worker leaves before it accepts the layers, or refuses them. */
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

/* A refusing worker is tried again later. */
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

/* A Goodbye may come without the answer. */
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

/* ---- sessions of offers ---- */

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

/* One past EXPECTED_MAX: the oldest is forgotten, and its gap is dealt again.
 */
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
    fake_lost(rig_stage(rig, "else", 0, 2)); /* 4 layers: another kind */
    rig_run(rig);
    assert_given(spare, 0, 6);
    rig_end(&rig);
}

static size_t n_listed(struct fake *admin)
{
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    struct record *x =
        client_call(admin, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);

    rig_run(admin->rig);
    assert_non_null(x->reply);
    return ((const Sluice__V1__ListWorkersReply *)(const void *)x->reply)
        ->n_offers;
}

static void two_load(struct rig *rig, const char *a, const char *b)
{
    struct fake *w[2] = {rig_offer(rig, a, 2, 12), rig_offer(rig, b, 2, 12)};

    for (int i = 0; i < 2; i++) {
        assert_int_equal(w[i]->n_assigns, 1);
        offer_leave(w[i]);
    }
}

/* Without other offers, assigned layers stay expected for ASSIGN_US only. */
static void nobody_loads_for_ever(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a = rig_admin(rig, "a1");

    (void)state;
    two_load(rig, "o0", "o1");
    rig_advance(rig, 10000000);
    two_load(rig, "p0", "p1");
    rig_advance(rig, ASSIGN_US - 10001000);
    assert_int_equal(n_listed(a), 4);
    rig_advance(rig, 2000);
    assert_int_equal(n_listed(a), 2);
    rig_advance(rig, 10000000);
    assert_int_equal(n_listed(a), 0);
    rig_free(&rig);
}

/* Only the second of two workers has room for the embedding. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_share_a_model),
        cmocka_unit_test(to_each_what_it_can_hold),
        cmocka_unit_test(too_small_is_left_alone),
        cmocka_unit_test(offers_that_differ_never_meet),
        cmocka_unit_test(offers_of_two_kv_formats_never_meet),
        cmocka_unit_test(offers_of_two_arithmetics_never_meet),
        cmocka_unit_test(an_offer_has_the_kv_format_of_the_workers),
        cmocka_unit_test(six_make_two_replicas),
        cmocka_unit_test(what_is_not_taken_is_given_again),
        cmocka_unit_test(who_refuses_is_asked_again_later),
        cmocka_unit_test(a_goodbye_after_assign_takes_the_layers),
        cmocka_unit_test(who_never_answers_is_let_go),
        cmocka_unit_test(an_offer_has_nothing_to_tell),
        cmocka_unit_test(one_name_is_one_worker),
        cmocka_unit_test(weights_of_others_are_refused_before_they_are_loaded),
        cmocka_unit_test(so_many_offers),
        cmocka_unit_test(so_many_are_expected),
        cmocka_unit_test(nobody_loads_for_ever),
        cmocka_unit_test(orders_are_tried_up_to_so_many_layers),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
