/* Workers that crash after each restart: probation. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* The worker dies and is restarted. */
static void restart(struct fake *w)
{
    fake_lost(w);
    rig_run(w->rig);
    fake_restart(w);
    assert_true(w->up);
}

static void restarts(struct fake *w, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        restart(w);
    }
}

/* All workers go on reporting. */
static void pass(struct rig *rig, int64_t ms)
{
    for (; ms > 0; ms -= 200) {
        for (uint32_t i = 0; i < rig->n_fakes; i++) {
            if (rig->fakes[i]->role == BY_WORKER && rig->fakes[i]->up) {
                worker_report(rig->fakes[i]);
            }
        }
        rig_advance(rig, (ms < 200 ? ms : 200) * 1000);
    }
}

static void the_first_restart_is_free(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    restart(w);
    assert_int_equal(fake_view(w).n_barren, 1);
    assert_false(fake_view(w).probation);
    client_generate(c, 1, 40, 20);
    client_generate(c, 2, 40, 20);
    rig_run(rig);
    assert_int_equal(w->n_submits, 2);
    rig_free(&rig);
}

/* Asserts the delay after n barren lives: ms, plus an eighth at most. */
static void waits(uint32_t n, uint32_t ms)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    uint32_t readmit_ms;

    restarts(w, n);
    readmit_ms = fake_view(w).readmit_ms;
    assert_int_equal(fake_view(w).n_barren, n);
    assert_true(fake_view(w).probation);
    assert_in_range(readmit_ms, ms, ms + ms / 8);
    client_generate(c, 1, 40, 20);
    client_generate(c, 2, 40, 20);
    pass(rig, readmit_ms - 10);
    assert_int_equal(w->n_submits, 0);
    pass(rig, 10);
    assert_int_equal(w->n_submits, 1); /* one at a time */
    worker_give(w, 1, 0, TRIAL_TOKENS - 1, 0);
    assert_int_equal(w->n_submits, 1);
    worker_give(w, 1, 0, 1, 0); /* the probation is over */
    assert_int_equal(w->n_submits, 2);
    assert_false(fake_view(w).probation);
    rig_free(&rig);
}

static void the_window_doubles(void **state)
{
    (void)state;
    waits(2, 1000);
    waits(3, 2000);
    waits(7, 32000);
    waits(8, READMIT_US_MAX / 1000);
    waits(9, READMIT_US_MAX / 1000);
    waits(80, READMIT_US_MAX / 1000);
}

/* Tests how many tokens make a life good. */
static void after_tokens(uint32_t n, uint32_t finish, uint32_t n_barren)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");

    restart(w);
    rig_worker(rig, "w2", 64, 0); /* a place for the sequences */
    client_generate(c, 1, 40, finish ? n : 100);
    rig_run(rig);
    worker_give(w, 1, 0, n, finish);
    restart(w);
    assert_int_equal(fake_view(w).n_barren, n_barren);
    rig_free(&rig);
}

static void at_the_limit_of_tokens(void **state)
{
    (void)state;
    after_tokens(LIFE_TOKENS, 0, 0);
    after_tokens(LIFE_TOKENS - 1, 0, 2);
    after_tokens(1, LENGTH, 0); /* a sequence that ended well */
}

static void a_goodbye_is_no_death(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    Sluice__V1__GoodbyeMessage m = SLUICE__V1__GOODBYE_MESSAGE__INIT;

    (void)state;
    for (int i = 0; i < 4; i++) {
        (void)!peer_oneway(w->peer, METHOD_REGISTRY_GOODBYE, &m.base);
        peer_flush(w->peer, rig->now);
        rig_run(rig);
        fake_restart(w);
    }
    assert_int_equal(fake_view(w).n_barren, 0);
    rig_free(&rig);
}

static void a_connection_is_no_life(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);

    (void)state;
    restart(w);
    for (int i = 0; i < 4; i++) {
        fake_lost(w);
        rig_run(rig);
        fake_reconnect(w);
        assert_int_equal(fake_view(w).n_barren, 1);
    }
    restart(w);
    assert_int_equal(fake_view(w).n_barren, 2);
    rig_free(&rig);
}

/* A worker that does not send its life. */
static void every_session_is_a_life_then(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w1", 64, 8);

    (void)state;
    w->shard.has_life = false;
    fake_hello(w);
    for (int i = 0; i < 2; i++) {
        fake_lost(w);
        rig_run(rig);
        fake_reconnect(w);
    }
    assert_int_equal(fake_view(w).n_barren, 2);
    rig_free(&rig);
}

/* The lineage counts, not the name. */
static void a_new_name_is_no_new_lineage(void **state)
{
    struct rig *rig = rig_new(NULL);
    char name[16];
    struct fake *w = NULL;

    (void)state;
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "w-%d", 100 + i);
        w = fake_worker_new(rig, name, 64, 8);
        w->shard.has_lineage = true;
        w->shard.lineage = wire_text("host-cpu");
        fake_hello(w);
        assert_int_equal(fake_view(w).n_barren, i);
        if (i < 2) {
            fake_lost(w);
            rig_run(rig);
        }
    }
    assert_true(fake_view(w).probation);
    rig_free(&rig);
}

static void lineages_of_wrong_lengths(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w;
    char name[PEER_NAME_MAX + 2];

    (void)state;
    memset(name, 'x', sizeof name);
    name[PEER_NAME_MAX + 1] = '\0';
    for (int i = 0; i < 3; i++) {
        w = fake_worker_new(rig, (const char *[]){"w1", "w2", "w3"}[i], 64, 8);
        w->shard.has_lineage = true;
        w->shard.lineage = wire_text(name + (i == 0   ? 0
                                             : i == 1 ? 1
                                                      : PEER_NAME_MAX + 1));
        fake_hello(w);
        assert_int_equal(w->up, i == 1);
        if (i != 1) {
            assert_int_equal(w->refusal, ST_INVALID_ARGUMENT);
        }
    }
    rig_free(&rig);
}

static void quiet_for_so_long(int64_t us, uint32_t n_barren)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);

    restarts(w, 3);
    fake_lost(w);
    rig_run(rig);
    rig_advance(rig, us);
    fake_restart(w);
    assert_int_equal(fake_view(w).n_barren, n_barren);
    rig_free(&rig);
}

static void forgotten_after_a_quiet_while(void **state)
{
    (void)state;
    quiet_for_so_long(LINEAGE_QUIET_US - 1000, 4);
    quiet_for_so_long(LINEAGE_QUIET_US, 0);
}

/* The table is full: only the oldest entry is replaced. */
static void as_many_lineages_as_there_are_places(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = fake_worker_new(rig, "w", 64, 8);
    char name[16];

    (void)state;
    for (uint32_t i = 0; i <= LINEAGES_MAX; i++) {
        (void)snprintf(name, sizeof name, "l%u", i);
        w->shard.has_lineage = true;
        w->shard.lineage = wire_text(name);
        i == 0 ? fake_hello(w) : fake_restart(w);
        assert_true(w->up);
        rig_advance(rig, 1000);
        fake_lost(w);
        rig_run(rig);
    }
    w->shard.lineage = wire_text("l0");
    fake_restart(w);
    assert_int_equal(fake_view(w).n_barren, 0);
    fake_lost(w); /* replaces l1 */
    rig_run(rig);
    w->shard.lineage = wire_text("l2");
    fake_restart(w);
    assert_int_equal(fake_view(w).n_barren, 1);
    rig_free(&rig);
}

/* A death is charged to the suspect on trial, and not to the worker as well. */
static void a_death_on_trial_is_not_the_workers(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 64, 8), *w2;
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    client_generate(c, 1, 40, 20);
    rig_run(rig);
    w2 = rig_worker(rig, "w2", 64, 8);
    fake_lost(w1);
    rig_run(rig);
    assert_non_null(worker_sequence_of(w2, 1));
    restart(w2);
    assert_int_equal(fake_view(w2).n_barren, 0);
    fake_restart(w1);
    assert_int_equal(fake_view(w1).n_barren,
                     1); /* the sequence was no suspect yet */
    rig_free(&rig);
}

/* All workers are on probation: requests wait until their deadline. */
static void the_queue_waits(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;
    struct record *x;

    (void)state;
    restarts(w, 5);
    m.model = wire_text("tiny");
    x = client_generate_with(c, 1, 40, 20, &m, 3000);
    client_generate(c, 2, 40, 20);
    pass(rig, 2900);
    assert_false(x->ended);
    pass(rig, 200);
    assert_true(x->ended);
    assert_int_equal(x->status, ST_DEADLINE_EXCEEDED);
    pass(rig, 8000);
    assert_non_null(worker_sequence_of(w, 2));
    rig_free(&rig);
}

/* A suspect goes to a worker that is not on probation, if there is one. */
static void no_trial_on_probation(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 640, 8), *w2, *w3;
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    restarts(w1, 2);
    w3 = rig_worker(rig, "w3", 64, 8);
    client_generate(c, 1, 40, 20);
    rig_run(rig);
    assert_non_null(worker_sequence_of(w3, 1));
    w2 = rig_worker(rig, "w2", 4, 8); /* room for one more */
    pass(rig, 1200);                  /* w1 has room for all */
    assert_true(fake_view(w1).probation);
    assert_int_equal(fake_view(w1).readmit_ms, 0);
    client_generate(c, 2, 40, 20);
    rig_run(rig);
    assert_non_null(worker_sequence_of(w1, 2)); /* w1 has the most room */
    client_cancel(c, 2);
    rig_run(rig);
    assert_true(fake_view(w1).probation);
    assert_int_equal(fake_view(w1).n_sequences, 0);
    fake_lost(w3);
    rig_run(rig);
    assert_non_null(worker_sequence_of(w2, 1));
    rig_free(&rig);
}

static void one_that_ends_well_opens_it(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    restarts(w, 2);
    pass(rig, 1200);
    for (uint8_t id = 1; id <= 3; id++) {
        client_generate(c, id, 40, 1);
    }
    rig_run(rig);
    assert_int_equal(w->n_submits, 1);
    worker_give(w, 1, 0, 1, LENGTH);
    assert_false(fake_view(w).probation);
    assert_int_equal(w->n_submits, 3);
    rig_free(&rig);
}

static void what_is_listed(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 64, 8);
    struct fake *a = rig_admin(rig, "a1");
    Sluice__V1__ListRequest m = SLUICE__V1__LIST_REQUEST__INIT;
    const Sluice__V1__ListWorkersReply *k;
    struct record *x;

    (void)state;
    restarts(w, 2);
    x = client_call(a, METHOD_ADMIN_LIST_WORKERS, &m.base, 0);
    rig_run(rig);
    k = (const void *)x->reply;
    assert_int_equal(k->n_workers, 1);
    assert_memory_equal(k->workers[0]->state.data, "probation", 9);
    assert_memory_equal(k->workers[0]->lineage.data, "w1", 2);
    assert_int_equal(k->workers[0]->n_barren, 2);
    assert_int_equal(k->workers[0]->readmit_ms, fake_view(w).readmit_ms);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_restart_is_free),
        cmocka_unit_test(the_window_doubles),
        cmocka_unit_test(at_the_limit_of_tokens),
        cmocka_unit_test(a_goodbye_is_no_death),
        cmocka_unit_test(a_connection_is_no_life),
        cmocka_unit_test(every_session_is_a_life_then),
        cmocka_unit_test(a_new_name_is_no_new_lineage),
        cmocka_unit_test(lineages_of_wrong_lengths),
        cmocka_unit_test(forgotten_after_a_quiet_while),
        cmocka_unit_test(as_many_lineages_as_there_are_places),
        cmocka_unit_test(a_death_on_trial_is_not_the_workers),
        cmocka_unit_test(the_queue_waits),
        cmocka_unit_test(no_trial_on_probation),
        cmocka_unit_test(one_that_ends_well_opens_it),
        cmocka_unit_test(what_is_listed),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
