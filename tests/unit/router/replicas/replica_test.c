/* Replicas: how stages are assembled, and how a replica ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "router/replicas/replica.h"
#include "tests/unit/router/rig.h"

/* Returns the places of all models. */
static uint32_t n_places(struct fake *admin)
{
    Sluice__V1__ListModelsRequest m = SLUICE__V1__LIST_MODELS_REQUEST__INIT;
    struct record *x =
        client_call(admin, METHOD_INFERENCE_LIST_MODELS, &m.base, 0);
    const Sluice__V1__ListModelsReply *reply;
    uint32_t n = 0;

    rig_run(admin->rig);
    assert_int_equal(x->status, ST_OK);
    reply = (const void *)x->reply;
    for (size_t i = 0; i < reply->n_models; i++) {
        n += reply->models[i]->n_workers;
    }
    return n;
}

static void assert_ring(struct fake *const *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(w[i]->assembly, w[0]->assembly);
        assert_int_equal(w[i]->stage, i);
        assert_int_equal(w[i]->n_stages, n);
        assert_string_equal(w[i]->next, w[(i + 1) % n]->endpoint);
    }
}

static void forms_in_any_order(void **state)
{
    static const uint32_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const uint32_t at[4] = {0, 1, 3, 4};

    (void)state;
    for (int i = 0; i < 6; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *admin = rig_admin(rig, "a"), *w[3];

        for (int k = 0; k < 3; k++) {
            uint32_t s = orders[i][k];
            char name[8];

            assert_int_equal(n_places(admin), 0);
            snprintf(name, sizeof name, "w%u", s);
            w[s] = rig_stage(rig, name, at[s], at[s + 1]);
        }
        assert_ring(w, 3);
        assert_int_equal(n_places(admin), 1);
        rig_advance(rig, ASSEMBLE_US + 1000);
        rig_end(&rig);
    }
}

/* ---- choice of workers ---- */

static void shards_of_two_models_never_meet(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *admin = rig_admin(rig, "a");
    struct fake *w[2], *other = fake_stage_new(rig, "o", 2, 4);

    (void)state;
    w[0] = rig_stage(rig, "w0", 0, 2);
    strcpy(other->model, "other");
    other->shard.model = wire_text(other->model);
    fake_hello(other);
    assert_true(other->up);
    assert_int_equal(w[0]->n_assembles + other->n_assembles, 0);
    w[1] = rig_stage(rig, "w1", 2, 4);
    assert_ring(w, 2);
    assert_int_equal(other->n_assembles, 0);
    assert_int_equal(n_places(admin), 1);
    rig_end(&rig);
}

typedef void (*spoil_fn)(struct fake *f);

static void wider(struct fake *f)
{
    f->shard.hidden++;
}

static void smaller_blocks(struct fake *f)
{
    f->shard.block_tokens = RIG_BLOCK / 2;
}

static void more_layers(struct fake *f)
{
    f->shard.n_layers = 5;
}

static void overlaps(struct fake *f)
{
    f->shard.layer_begin = 1;
}

static void leaves_a_gap(struct fake *f)
{
    f->shard.layer_begin = 3;
}

/* A shard that does not fit waits; one that fits is used. */
static void shards_that_do_not_fit_never_meet(void **state)
{
    static const spoil_fn spoils[] = {wider, smaller_blocks, more_layers,
                                      overlaps, leaves_a_gap};

    (void)state;
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        struct rig *rig = rig_new(NULL);
        struct fake *odd = fake_stage_new(rig, "odd", 2, 4), *w[2];

        w[0] = rig_stage(rig, "w0", 0, 2);
        spoils[i](odd);
        fake_hello(odd);
        assert_true(odd->up);
        rig_advance(rig, 100000);
        assert_int_equal(w[0]->n_assembles, 0);
        w[1] = rig_stage(rig, "w1", 2, 4);
        assert_ring(w, 2);
        assert_int_equal(odd->n_assembles, 0);
        rig_end(&rig);
    }
}

static void other_weights_are_refused(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *other = fake_stage_new(rig, "o", 2, 4);

    (void)state;
    rig_stage(rig, "w0", 0, 2);
    memset(other->fingerprint, 8, 16);
    fake_hello(other);
    assert_true(other->refused);
    assert_int_equal(other->refusal, ST_FAILED_PRECONDITION);
    rig_end(&rig);
}

/* Six workers with three kinds of shards make two replicas in any order. */
static void two_replicas_of_three_stages(void **state)
{
    (void)state;
    for (uint32_t order = 0; order < 24; order++) {
        struct rig *rig = rig_new(NULL);
        struct fake *admin = rig_admin(rig, "a"), *w[2][3] = {{NULL}};
        uint32_t n[3] = {0}, x = order * 2654435761u;

        for (uint32_t left = 6; left > 0; left--) {
            uint32_t s = (x = x * 1664525u + 1013904223u) / 65536 % 3;
            char name[8];

            while (n[s] == 2) {
                s = (s + 1) % 3;
            }
            snprintf(name, sizeof name, "w%u%u", s, n[s]);
            w[n[s]][s] = rig_stage(rig, name, s, s == 2 ? 4 : s + 1);
            n[s]++;
        }
        assert_ring(w[0], 3); /* the workers that came first */
        assert_ring(w[1], 3);
        assert_true(w[0][0]->assembly != w[1][0]->assembly);
        assert_int_equal(n_places(admin), 2);
        rig_end(&rig);
    }
}

static void whole_workers_and_replicas_serve_one_model(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *admin = rig_admin(rig, "a"), *w[2];

    (void)state;
    w[0] = rig_stage(rig, "w0", 0, 2);
    rig_worker(rig, "whole", 64, 8);
    assert_int_equal(n_places(admin), 1);
    w[1] = rig_stage(rig, "w1", 2, 4);
    assert_ring(w, 2);
    assert_int_equal(n_places(admin), 2);
    rig_end(&rig);
}

/* ---- end of a replica ---- */

static void say_goodbye(struct fake *f)
{
    Sluice__V1__GoodbyeMessage m = SLUICE__V1__GOODBYE_MESSAGE__INIT;

    assert_int_equal(peer_oneway(f->peer, METHOD_REGISTRY_GOODBYE, &m.base),
                     ST_OK);
    rig_run(f->rig);
    f->gone = true;
}

enum ending { REFUSED, TIMED_OUT, LOST, GOODBYE, BROKEN, SILENT, ENDINGS };

/* Three stages, of which n have answered Assemble. */
struct trio {
    struct rig *rig;
    struct fake *admin, *client, *w[3];
};

static struct trio trio_new(uint32_t n, uint32_t not, enum status refuse)
{
    static const struct rig_options o = {.max_peers = 16,
                                         .max_requests = 16,
                                         .max_waiting = 16,
                                         .worker_wait_us = 60000000};
    struct trio t = {.rig = rig_new(&o)};

    t.admin = rig_admin(t.rig, "a");
    t.client = rig_client(t.rig, "c");
    for (uint32_t i = 0; i < 3; i++) {
        char name[8];

        snprintf(name, sizeof name, "w%u", i);
        t.w[i] = fake_stage_new(t.rig, name, i, i == 2 ? 4 : i + 1);
        t.w[i]->hold_assembles = true;
        t.w[i]->refuse_assembles = i == not ? refuse : ST_OK;
        t.w[i]->n_hears = 0;
        fake_hello(t.w[i]);
    }
    for (uint32_t i = 0; i < 3; i++) {
        if (i != not &&n > 0) {
            stage_assembled(t.w[i]);
            n--;
        }
    }
    if (n > 0) {
        stage_assembled(t.w[not ]);
    }
    return t;
}

/* Moves the time by us, while all but one keep reporting. */
static void pass(struct trio *t, int64_t us, const struct fake *deaf)
{
    for (; us > 0; us -= 200000) {
        for (int i = 0; i < 3; i++) {
            if (t->w[i] != deaf && t->w[i]->up && !t->w[i]->gone) {
                worker_report(t->w[i]);
            }
        }
        rig_advance(t->rig, us < 200000 ? us : 200000);
    }
}

static void end_it(struct trio *t, enum ending how, struct fake *w)
{
    switch (how) {
    case REFUSED:
        break;
    case TIMED_OUT:
        pass(t, ASSEMBLE_US, NULL);
        break;
    case LOST:
        fake_lost(w);
        break;
    case GOODBYE:
        say_goodbye(w);
        break;
    case BROKEN:
        stage_broken(w, w->assembly, "an edge broke");
        break;
    case SILENT:
        w->mute = w->deaf = true;
        pass(t, WORKER_LOST_US, w);
        break;
    case ENDINGS:
        break;
    }
    pass(t, BROKEN_US, how == SILENT ? w : NULL);
}

static void come_back(struct trio *t)
{
    for (int i = 0; i < 3; i++) {
        t->w[i]->hold_assembles = false;
        t->w[i]->refuse_assembles = ST_OK;
        fake_reconnect(t->w[i]);
        assert_true(t->w[i]->up);
    }
    pass(t, ASSEMBLE_RETRY_US, NULL);
}

static void assert_ends(enum ending how, uint32_t who, uint32_t n)
{
    struct trio t = trio_new(n, who, how == REFUSED ? ST_UNAVAILABLE : ST_OK);
    uint64_t assembly = t.w[0]->assembly;

    assert_int_equal(n_places(t.admin), n == 3);
    end_it(&t, how, t.w[who]);
    assert_int_equal(n_places(t.admin), 0);
    for (uint32_t i = 0; i < 3; i++) {
        bool own = i == who && (how == LOST || how == SILENT);

        assert_int_equal(t.w[i]->gone, !own);
        assert_int_equal(t.w[i]->n_assembles, 1);
    }
    come_back(&t);
    assert_ring(t.w, 3);
    assert_true(t.w[0]->assembly != assembly);
    assert_int_equal(n_places(t.admin), 1);
    rig_end(&t.rig);
}

/* A replica ends as a whole, whichever stage ends it, how and when.  The same
 * workers are then assembled again. */
static void it_ends_as_a_whole(void **state)
{
    (void)state;
    for (int how = REFUSED; how < ENDINGS; how++) {
        for (uint32_t who = 0; who < 3; who++) {
            for (uint32_t n = 0; n <= 3; n++) {
                if (n < 3 || (how != REFUSED && how != TIMED_OUT)) {
                    assert_ends((enum ending)how, who, n);
                }
            }
        }
    }
}

static void it_forms_in_good_time(void **state)
{
    struct trio t = trio_new(2, 1, ST_OK);

    (void)state;
    pass(&t, ASSEMBLE_US - 200000, NULL);
    assert_int_equal(n_places(t.admin), 0);
    stage_assembled(t.w[1]);
    assert_int_equal(n_places(t.admin), 1);
    pass(&t, ASSEMBLE_US, NULL);
    assert_int_equal(n_places(t.admin), 1);
    rig_end(&t.rig);
}

/* The delay grows with each failed assembly; a replica that was up resets it.
 */
static void failures_are_spaced(void **state)
{
    struct trio t = trio_new(0, 1, ST_UNAVAILABLE);
    int64_t wait_us = ASSEMBLE_RETRY_US;

    (void)state;
    for (int i = 0; i < 9; i++) {
        uint32_t n = t.w[1]->n_assembles;

        pass(&t, BROKEN_US, NULL);
        for (int k = 0; k < 3; k++) {
            assert_true(t.w[k]->gone);
            fake_reconnect(t.w[k]);
        }
        pass(&t, wait_us - 1000, NULL);
        assert_int_equal(t.w[1]->n_assembles, n);
        pass(&t, 1000, NULL);
        assert_int_equal(t.w[1]->n_assembles, n + 1);
        wait_us *= 2;
        if (wait_us > ASSEMBLE_RETRY_US_MAX) {
            wait_us = ASSEMBLE_RETRY_US_MAX;
        }
    }
    pass(&t, BROKEN_US, NULL);
    come_back(&t);
    pass(&t, wait_us, NULL);
    assert_int_equal(n_places(t.admin), 1);
    pass(&t, ASSEMBLE_RETRY_US_MAX + 1000, NULL);
    stage_broken(t.w[0], t.w[0]->assembly, "once");
    pass(&t, BROKEN_US, NULL);
    come_back(&t); /* the shortest delay again */
    assert_int_equal(n_places(t.admin), 1);
    rig_end(&t.rig);
}

static void a_stale_break_is_nothing(void **state)
{
    struct trio t = trio_new(3, 0, ST_OK);
    struct fake *loose = rig_stage(t.rig, "loose", 1, 4);

    (void)state;
    stage_broken(t.w[1], t.w[1]->assembly + 2, "of yesterday");
    stage_broken(loose, t.w[1]->assembly, "of somebody else's");
    pass(&t, BROKEN_US, NULL);
    assert_int_equal(n_places(t.admin), 1);
    stage_broken(t.w[1], t.w[1]->assembly, "once");
    stage_broken(t.w[1], t.w[1]->assembly, "and once more");
    pass(&t, BROKEN_US, NULL);
    assert_int_equal(n_places(t.admin), 0);
    assert_true(t.w[0]->gone && !loose->gone);
    rig_end(&t.rig);
}

/* Requests in the meantime wait. */
static void a_spare_takes_the_place_of_a_stage(void **state)
{
    struct trio t = trio_new(3, 0, ST_OK);
    struct fake *spare = rig_stage(t.rig, "spare", 1, 2), *w[3];
    struct record *x;

    (void)state;
    fake_lost(t.w[1]);
    x = client_generate(t.client, 1, 10, 4);
    rig_run(t.rig);
    assert_true(t.w[0]->gone && t.w[2]->gone && !spare->gone);
    t.w[0]->hold_assembles = t.w[2]->hold_assembles = false;
    fake_reconnect(t.w[2]);
    fake_reconnect(t.w[0]);
    w[0] = t.w[0];
    w[1] = spare;
    w[2] = t.w[2];
    assert_ring(w, 3);
    assert_false(x->ended);
    worker_give(w[0], 1, 0, 4, SLUICE__V1__FINISH__FINISH_LENGTH);
    assert_true(x->ended && x->status == ST_OK);
    record_check(x, 1, 0, 4);
    rig_end(&t.rig);
}

static void a_drained_worker_is_not_assembled(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *admin = rig_admin(rig, "a"), *w[2];
    Sluice__V1__DrainRequest d = SLUICE__V1__DRAIN_REQUEST__INIT;
    Sluice__V1__WorkerRequest u = SLUICE__V1__WORKER_REQUEST__INIT;

    (void)state;
    w[0] = rig_stage(rig, "w0", 0, 2);
    d.worker = u.worker = wire_text("w0");
    client_call(admin, METHOD_ADMIN_DRAIN, &d.base, 0);
    rig_run(rig);
    w[1] = rig_stage(rig, "w1", 2, 4);
    assert_int_equal(w[0]->n_assembles + w[1]->n_assembles, 0);
    client_call(admin, METHOD_ADMIN_UNDRAIN, &u.base, 0);
    rig_run(rig);
    assert_ring(w, 2);
    rig_end(&rig);
}

/* Requests wait for the first replica of a model as they wait for a worker. */
static void calls_wait_for_the_first_replica(void **state)
{
    static const struct rig_options o = {.max_peers = 16,
                                         .max_requests = 16,
                                         .max_waiting = 16,
                                         .worker_wait_us = 1000000};

    (void)state;
    for (int comes = 0; comes < 2; comes++) {
        struct rig *rig = rig_new(&o);
        struct fake *client = rig_client(rig, "c"), *w[2];
        struct record *x;

        w[0] = rig_stage(rig, "w0", 0, 2);
        x = client_generate(client, 1, 10, 4);
        rig_advance(rig, 500000);
        assert_false(x->ended);
        if (comes) {
            w[1] = rig_stage(rig, "w1", 2, 4);
            assert_ring(w, 2);
            worker_give(w[0], 1, 0, 4, SLUICE__V1__FINISH__FINISH_LENGTH);
            assert_true(x->ended && x->status == ST_OK);
        } else {
            rig_advance(rig, 500000);
            assert_true(x->ended && x->status == ST_UNAVAILABLE);
        }
        rig_end(&rig);
    }
}

/* ---- blame for a death ---- */

static uint32_t n_barren(struct trio *t, const struct fake *f)
{
    struct router_worker_view v;

    for (uint32_t i = 0; router_worker_view(t->rig->router, i, &v); i++) {
        if (v.session == f->session) {
            return v.n_barren;
        }
    }
    fail_msg("%s is not there", f->name);
    return 0;
}

/* Whatever sign of the death the router gets first. */
static void the_death_is_of_one(void **state)
{
    (void)state;
    for (uint32_t who = 0; who < 3; who++) {
        for (int told = 0; told < 2; told++) {
            struct trio t = trio_new(3, 0, ST_OK);
            struct record *x = client_generate(t.client, 1, 10, 8);

            rig_run(t.rig);
            if (told) {
                stage_broken(t.w[(who + 1) % 3], t.w[0]->assembly, "no edge");
                pass(&t, BROKEN_US - 1000, t.w[who]);
            }
            fake_lost(t.w[who]);
            rig_run(t.rig);
            t.w[who]->shard.life += 1000;
            come_back(&t);
            assert_ring(t.w, 3);
            for (uint32_t i = 0; i < 3; i++) {
                assert_int_equal(n_barren(&t, t.w[i]), i == who);
            }
            worker_give(t.w[0], 1, 0, 8, SLUICE__V1__FINISH__FINISH_LENGTH);
            assert_true(x->ended && x->status == ST_OK);
            rig_end(&t.rig);
        }
    }
}

/* A request that kills a stage at every replica is indicted after that stage's
 * deaths.  No lineage is charged for deaths during its trials. */
static void a_request_that_kills_a_stage_is_indicted(void **state)
{
    struct trio t = trio_new(3, 0, ST_OK);
    struct record *x = client_generate(t.client, 1, 10, 8);

    (void)state;
    rig_run(t.rig);
    for (int death = 0; death <= TRIAL_DEATHS; death++) {
        assert_false(x->ended);
        assert_non_null(worker_sequence_of(t.w[0], 1));
        fake_lost(t.w[2]);
        rig_run(t.rig);
        t.w[2]->shard.life += 1000;
        come_back(&t);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_ABORTED);
    assert_int_equal(n_barren(&t, t.w[0]) + n_barren(&t, t.w[1]), 0);
    assert_int_equal(n_barren(&t, t.w[2]), 1); /* the first death */
    rig_end(&t.rig);
}

/* A worker on probation does not keep others from being assembled. */
static void a_lineage_on_probation_waits_outside(void **state)
{
    struct trio t = trio_new(3, 0, ST_OK);

    (void)state;
    for (int death = 0; death < 2; death++) {
        fake_lost(t.w[1]);
        rig_run(t.rig);
        t.w[1]->shard.life += 1000;
        come_back(&t);
    }
    assert_int_equal(n_barren(&t, t.w[1]), 2);
    assert_int_equal(n_places(t.admin), 0);
    rig_stage(t.rig, "spare", 1, 2);
    assert_int_equal(n_places(t.admin), 1);
    pass(&t, 1200000, NULL);
    assert_int_equal(t.w[1]->n_assembles, 2);
    rig_end(&t.rig);
}

/* The size of a step is the smallest of all stages; step_tokens is unset if one
 * stage does not give it. */
static void a_step_is_the_least(void **state)
{
    (void)state;
    for (uint32_t mute = 0; mute < 2; mute++) {
        struct rig *rig = rig_new(NULL);
        struct fake *w[2];

        for (uint32_t i = 0; i < 2; i++) {
            w[i] = fake_stage_new(rig, i == 0 ? "a" : "b", 2 * i, 2 * i + 2);
            w[i]->shard.max_rows = 4 + i;
            w[i]->shard.has_step_tokens = mute == 0;
            w[i]->shard.step_tokens = mute == 0 ? 300 - i : 0;
            fake_hello(w[i]);
            assert_true(w[i]->up);
        }
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(w[i]->n_assembles, 1);
            assert_int_equal(w[i]->step_rows, 4);
            assert_int_equal(w[i]->step_tokens, mute == 0 ? 299 : 0);
        }
        rig_end(&rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_in_any_order),
        cmocka_unit_test(shards_of_two_models_never_meet),
        cmocka_unit_test(shards_that_do_not_fit_never_meet),
        cmocka_unit_test(other_weights_are_refused),
        cmocka_unit_test(two_replicas_of_three_stages),
        cmocka_unit_test(whole_workers_and_replicas_serve_one_model),
        cmocka_unit_test(a_step_is_the_least),
        cmocka_unit_test(it_ends_as_a_whole),
        cmocka_unit_test(it_forms_in_good_time),
        cmocka_unit_test(failures_are_spaced),
        cmocka_unit_test(a_stale_break_is_nothing),
        cmocka_unit_test(a_spare_takes_the_place_of_a_stage),
        cmocka_unit_test(a_drained_worker_is_not_assembled),
        cmocka_unit_test(calls_wait_for_the_first_replica),
        cmocka_unit_test(the_death_is_of_one),
        cmocka_unit_test(a_request_that_kills_a_stage_is_indicted),
        cmocka_unit_test(a_lineage_on_probation_waits_outside),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
