/* Which sequence killed a worker: suspects, trials, verdicts. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "router/base/router_limits.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

static uint64_t indicted(const struct rig *rig)
{
    struct router_metrics k;

    router_counts(rig->router, &k);
    return k.indicted;
}

static bool has(struct fake *w, uint8_t id)
{
    return worker_sequence_of(w, id) != NULL;
}

static void dies(struct fake *w)
{
    fake_lost(w);
    w->shard.life += 1000;
    rig_run(w->rig);
}

/* Restarts the worker with a good lineage: a sequence ends well there. */
static void comes(struct fake *w)
{
    fake_reconnect(w);
    assert_true(w->up);
    rig_run(w->rig);
}

/* Two workers, both with room for all, and a client. */
struct scene {
    struct rig *rig;
    struct fake *w1, *w2, *c;
};

static void set(struct scene *s)
{
    s->rig = rig_new(NULL);
    s->w1 = rig_worker(s->rig, "w1", 64, 16);
    s->c = rig_client(s->rig, "c1");
    s->w2 = NULL;
}

static void second(struct scene *s)
{
    s->w2 = rig_worker(s->rig, "w2", 64, 16);
}

/* Runs sequences 1..n at w1 with n_tokens tokens each; then w1 dies. */
static void die_with(struct scene *s, uint8_t n, uint32_t n_tokens)
{
    for (uint8_t id = 1; id <= n; id++) {
        client_generate(s->c, id, 40, 20);
    }
    rig_run(s->rig);
    for (uint8_t id = 1; id <= n; id++) {
        assert_true(has(s->w1, id));
        if (n_tokens > 0) {
            worker_give(s->w1, id, 0, n_tokens, 0);
        }
    }
    second(s);
    dies(s->w1);
}

static void at_the_limit_of_tokens(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    die_with(&s, 3, TRIAL_TOKENS); /* free: all at once */
    assert_true(has(s.w2, 1) && has(s.w2, 2) && has(s.w2, 3));
    assert_int_equal(fake_view(s.w2).n_suspects, 0);
    rig_free(&s.rig);
}

static void one_token_less(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    die_with(&s, 3, TRIAL_TOKENS - 1); /* suspects: one at a time */
    assert_true(has(s.w2, 1));
    assert_false(has(s.w2, 2) || has(s.w2, 3));
    assert_int_equal(fake_view(s.w2).n_suspects, 1);
    worker_give(s.w2, 1, 0, TRIAL_TOKENS - 1, 0);
    rig_advance(s.rig, 100000);
    assert_false(has(s.w2, 2));
    worker_give(s.w2, 1, 0, 1, 0); /* cleared: the next one may run */
    assert_true(has(s.w2, 2));
    assert_false(has(s.w2, 3));
    worker_give(s.w2, 2, 0, 19,
                LENGTH); /* the end of a sequence clears it too */
    assert_true(has(s.w2, 3));
    rig_free(&s.rig);
}

/* Only tokens from this worker count, not all of the sequence. */
static void tokens_of_another_worker(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    die_with(&s, 2, 5);
    assert_true(has(s.w2, 1) && has(s.w2, 2));
    comes(s.w1);
    dies(s.w2);
    assert_true(has(s.w1, 1));
    assert_false(has(s.w1, 2));
    rig_free(&s.rig);
}

static void others_overtake_and_run_beside(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    die_with(&s, 2, 0);
    assert_true(has(s.w2, 1));
    client_generate(s.c, 9, 40, 20);
    rig_run(s.rig);
    assert_true(has(s.w2, 9));
    assert_false(has(s.w2, 2));
    assert_int_equal(fake_view(s.w2).n_suspects, 1);
    rig_free(&s.rig);
}

/* A suspect that waits for room, not for its trial, is not overtaken. */
static void one_that_waits_for_room_is_not_overtaken(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 8, 8), *w2;
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    client_generate(c, 1, 200, 56); /* 8 blocks */
    rig_run(rig);
    w2 = rig_worker(rig, "w2", 8, 8);
    client_generate(c, 2, 40, 20); /* 2 of 8 blocks of w2 */
    rig_run(rig);
    assert_true(has(w2, 2));
    worker_give(w2, 2, 0, 3, 0);
    dies(w1);
    client_generate(c, 3, 40, 20);
    rig_run(rig);
    assert_false(has(w2, 1) || has(w2, 3));
    worker_give(w2, 2, 0, 17, LENGTH);
    assert_true(has(w2, 1));
    assert_false(has(w2, 3));
    rig_free(&rig);
}

/* TRIALS_ASIDE_MAX suspects are overtaken, and no more. */
static void overtake(uint32_t n_suspects, bool passes)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 400, 200), *w2;
    struct fake *c = rig_client(rig, "c1");

    for (uint32_t id = 1; id <= n_suspects + 1; id++) {
        client_generate(c, (uint8_t)id, 40, 20);
    }
    rig_run(rig);
    w2 = rig_worker(rig, "w2", 400, 200);
    dies(w1);
    client_generate(c, 200, 40, 20);
    rig_run(rig);
    assert_true(has(w2, 1)); /* on trial; n_suspects wait for their trials */
    assert_false(has(w2, 2));
    assert_int_equal(has(w2, 200), passes);
    rig_free(&rig);
}

static void as_many_as_may_step_aside(void **state)
{
    (void)state;
    overtake(TRIALS_ASIDE_MAX, true);
}

static void one_more_than_may_step_aside(void **state)
{
    (void)state;
    overtake(TRIALS_ASIDE_MAX + 1, false);
}

/* Returns the worker that has the choice. */
static struct fake *holder(struct rig *rig, uint8_t id, uint32_t choice)
{
    for (uint32_t i = 0; i < rig->n_fakes; i++) {
        struct fake *w = rig->fakes[i];
        if (w->role == BY_WORKER && w->up && !w->deaf &&
            worker_choice_of(w, id, choice) != NULL) {
            return w;
        }
    }
    fail_msg("nobody has %d", id);
    return NULL;
}

/* A request that kills its workers: three deaths, then it fails. */
static void indicted_after_two_trials(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c, *innocent, *w;
    struct record *x;

    (void)state;
    for (int i = 0; i < 4; i++) {
        rig_worker(rig, (const char *[]){"w1", "w2", "w3", "w4"}[i], 64, 16);
    }
    c = rig_client(rig, "c1");
    x = client_generate_n(c, 1, 2, 40, 20); /* choice 0 kills its workers */
    rig_run(rig);
    innocent = holder(rig, 1, 1);
    worker_give(innocent, 1, 1, 3, 0);
    for (uint32_t i = 0; i <= TRIAL_DEATHS; i++) {
        assert_false(x->ended);
        assert_int_equal(indicted(rig), 0);
        w = holder(rig, 1, 0);
        assert_ptr_not_equal(w, innocent);
        assert_int_equal(fake_view(w).n_suspects, i > 0);
        dies(w);
    }
    assert_true(x->ended);
    assert_int_equal(x->status, ST_ABORTED);
    assert_non_null(strstr(
        x->error, "3 workers died while running the sequence, the last was w"));
    assert_non_null(
        strstr(x->error, " (the connection broke); it is not retried"));
    assert_int_equal(indicted(rig), 1);
    rig_advance(rig, 100000); /* its other choice is cancelled */
    assert_null(worker_choice_of(innocent, 1, 1));
    assert_int_equal(fake_view(innocent).n_sequences, 0);
    rig_free(&rig);
}

/* n workers of the model die that never ran a sequence. */
static void others_die(struct rig *rig, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct fake *w = rig_worker(rig, "other", 64, 16);

        fake_lost(w);
        rig_run(rig);
    }
}

/* Returns how many workers request 1 kills until it is indicted, after others
 * died and wait_us passed. */
static uint32_t cost(uint32_t n_others, int64_t wait_us)
{
    struct scene s;
    uint32_t n = 1;
    char name[8];

    set(&s);
    die_with(&s, 1, 0);
    others_die(s.rig, n_others);
    for (int64_t t = 0; t < wait_us; t += 100000) {
        worker_report(s.w2);
        rig_advance(s.rig, 100000);
    }
    for (; indicted(s.rig) == 0; n++) {
        snprintf(name, sizeof name, "n%u", n);
        rig_worker(s.rig, name, 64, 16);
        dies(holder(s.rig, 1, 0));
    }
    rig_free(&s.rig);
    return n;
}

/* Deaths without the suspect raise the number of deaths that indict it. */
static void mercy(void **state)
{
    (void)state;
    assert_int_equal(cost(0, 0), TRIAL_DEATHS + 1);
    assert_int_equal(cost(1, 0), TRIAL_DEATHS + 2);
    assert_int_equal(cost(TRIAL_MERCY_MAX, 0),
                     TRIAL_DEATHS + 1 + TRIAL_MERCY_MAX);
    assert_int_equal(cost(TRIAL_MERCY_MAX + 1, 0),
                     TRIAL_DEATHS + 1 + TRIAL_MERCY_MAX);
}

/* Deaths of another model's workers, at the same times, do not count. */
static void no_mercy_for_another_model(void **state)
{
    struct scene s;
    uint32_t n = 1;
    char name[8];

    (void)state;
    set(&s);
    die_with(&s, 1, 0);
    for (; indicted(s.rig) == 0; n++) {
        struct fake *other = fake_worker_new(s.rig, "other", 64, 16);

        strcpy(other->model, "other");
        other->shard.model = wire_text(other->model);
        fake_hello(other);
        rig_run(s.rig);
        assert_true(other->up);
        fake_lost(other);
        snprintf(name, sizeof name, "n%u", n);
        rig_worker(s.rig, name, 64, 16);
        dies(holder(s.rig, 1, 0));
    }
    assert_int_equal(n, TRIAL_DEATHS + 1);
    rig_free(&s.rig);
}

/* Deaths that another sequence was indicted for do not count. */
static void no_mercy_after_a_verdict(void **state)
{
    struct scene s;
    uint32_t n = 0;
    char name[16];

    (void)state;
    set(&s);
    die_with(&s, 1, 0);
    for (uint8_t id = 1; id <= 2; id++) {
        for (uint32_t k = id == 1 ? 1 : 0; indicted(s.rig) < id; k++) {
            assert_true(k < TRIAL_DEATHS + 1);
            snprintf(name, sizeof name, "n%u", n++);
            rig_worker(s.rig, name, 64, 16);
            dies(holder(s.rig, id, 0));
        }
        if (id == 1) {
            client_generate(s.c, 2, 40, 20);
            rig_worker(s.rig, "next", 64, 16);
            rig_run(s.rig);
        }
    }
    rig_free(&s.rig);
}

static void mercy_ends(void **state)
{
    (void)state;
    assert_int_equal(cost(2, TRIAL_WINDOW_US - 1000000), TRIAL_DEATHS + 3);
    assert_int_equal(cost(2, TRIAL_WINDOW_US + 1000000), TRIAL_DEATHS + 1);
}

/* The sequence on trial is charged; those beside it only become suspects. */
static void the_one_on_trial_is_charged(void **state)
{
    struct scene s;
    struct fake *w3;
    struct record *beside;

    (void)state;
    set(&s);
    die_with(&s, 1, 0);
    assert_true(has(s.w2, 1));
    beside = client_generate(s.c, 9, 40, 20);
    rig_run(s.rig);
    assert_true(has(s.w2, 9));
    w3 = rig_worker(s.rig, "w3", 64, 16);
    dies(s.w2);
    assert_true(has(w3, 1));  /* one death on trial */
    assert_false(has(w3, 9)); /* a suspect */
    s.w2 = rig_worker(s.rig, "w4", 64, 16);
    rig_run(s.rig);
    assert_true(has(s.w2, 9));
    dies(w3);
    assert_int_equal(indicted(s.rig), 1); /* sequence 1, by its second death */
    assert_false(beside->ended);
    worker_give(s.w2, 9, 0, 20, LENGTH);
    assert_int_equal(beside->status, ST_OK);
    rig_free(&s.rig);
}

static void a_goodbye_is_no_death(void **state)
{
    struct scene s;
    Sluice__V1__GoodbyeMessage m = SLUICE__V1__GOODBYE_MESSAGE__INIT;

    (void)state;
    set(&s);
    for (uint8_t id = 1; id <= 3; id++) {
        client_generate(s.c, id, 40, 20);
    }
    rig_run(s.rig);
    second(&s);
    (void)!peer_oneway(s.w1->peer, METHOD_REGISTRY_GOODBYE, &m.base);
    peer_flush(s.w1->peer, s.rig->now);
    rig_run(s.rig);
    assert_true(has(s.w2, 1) && has(s.w2, 2) && has(s.w2, 3));
    rig_free(&s.rig);
}

static void silence_is_a_death(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    for (uint8_t id = 1; id <= 2; id++) {
        client_generate(s.c, id, 40, 20);
    }
    rig_run(s.rig);
    second(&s);
    s.w1->mute = s.w1->deaf = true;
    for (int i = 0; i < 40; i++) {
        worker_report(s.w2);
        rig_advance(s.rig, 100000);
    }
    assert_true(has(s.w2, 1));
    assert_false(has(s.w2, 2));
    rig_free(&s.rig);
}

/* A sequence whose ids were not all sent is no suspect.  The link sends part of
 * the ids of sequence 1, and none of the others. */
static void ids_that_never_left(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 4000, 16), *w2;
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    w1->deaf = true; /* nothing is acknowledged */
    for (uint8_t id = 1; id <= 3; id++) {
        client_generate(c, id, 39000, 20);
    }
    rig_run(rig);
    assert_int_equal(fake_view(w1).n_sequences, 3);
    w2 = rig_worker(rig, "w2", 4000, 16);
    dies(w1);
    assert_true(has(w2, 1) && has(w2, 2) && has(w2, 3));
    assert_int_equal(fake_view(w2).n_suspects, 0);
    rig_free(&rig);
}

/* All ids of the first sequence were sent, so it is a suspect. */
static void ids_that_just_left(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 4000, 16), *w2;
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    w1->deaf = true;
    client_generate(c, 1, 12000, 20);
    rig_run(rig);
    w2 = rig_worker(rig, "w2", 4000, 16);
    dies(w1);
    assert_true(has(w2, 1));
    assert_int_equal(fake_view(w2).n_suspects, 1);
    rig_free(&rig);
}

/* The same life comes back: the death is taken back. */
static void a_death_that_was_none(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    for (uint8_t id = 1; id <= 3; id++) {
        client_generate(s.c, id, 40, 20);
    }
    rig_run(s.rig);
    second(&s);
    fake_lost(s.w1);
    rig_run(s.rig);
    assert_true(has(s.w2, 1));
    assert_false(has(s.w2, 2));
    comes(s.w1);
    rig_run(s.rig);
    assert_int_equal(fake_view(s.w2).n_suspects, 0);
    assert_int_equal(fake_view(s.w1).n_suspects, 0);
    assert_true(has(s.w1, 2) || has(s.w2, 2));
    assert_true(has(s.w1, 3) || has(s.w2, 3));
    rig_free(&s.rig);
}

/* The charge is taken back, each time. */
static void a_charge_that_is_taken_back(void **state)
{
    struct scene s;

    (void)state;
    set(&s);
    die_with(&s, 1, 0);
    comes(s.w1);
    for (int i = 0; i < 3 * TRIAL_DEATHS; i++) {
        struct fake *w = holder(s.rig, 1, 0);

        assert_int_equal(fake_view(w).n_suspects, 1);
        fake_lost(w);
        rig_run(s.rig);
        fake_reconnect(w);
        rig_run(s.rig);
    }
    assert_int_equal(indicted(s.rig), 0);
    dies(holder(s.rig, 1, 0)); /* no fewer deaths than were charged */
    dies(holder(s.rig, 1, 0));
    assert_int_equal(indicted(s.rig), 1);
    rig_free(&s.rig);
}

/* The first worker was only away and still has the sequence.  Its death is
 * taken back; the next worker's death counts. */
static void found_alive_after_another_died(void **state)
{
    struct rig_options o = {.max_peers = 8,
                            .max_requests = 8,
                            .max_waiting = 8,
                            .worker_wait_us = 10000000};
    struct scene s = {.rig = rig_new(&o)};

    (void)state;
    s.w1 = rig_worker(s.rig, "w1", 64, 16);
    s.w1->survives = true;
    s.c = rig_client(s.rig, "c1");
    client_generate(s.c, 1, 40, 20);
    rig_run(s.rig);
    second(&s);
    fake_lost(s.w1);
    rig_run(s.rig);
    assert_true(has(s.w2, 1));
    dies(s.w2); /* first death */
    comes(s.w1);
    worker_live(s.w1, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w1->n_adopts, 1);
    assert_int_equal(fake_view(s.w1).n_suspects, 1);
    s.w1->survives = false;
    dies(s.w1); /* second death */
    assert_int_equal(indicted(s.rig), 0);
    comes(s.w2);
    assert_true(has(s.w2, 1));
    dies(s.w2); /* third death */
    assert_int_equal(indicted(s.rig), 1);
    rig_free(&s.rig);
}

/* Two suspects are found alive at one worker.  The second is not tried there,
 * and its deaths at other workers still count. */
static void found_alive_beside_one_on_trial(void **state)
{
    struct rig_options o = {.max_peers = 8,
                            .max_requests = 8,
                            .max_waiting = 8,
                            .worker_wait_us = 10000000};
    struct scene s = {.rig = rig_new(&o)};
    struct fake *w3;
    int n = 0;

    (void)state;
    s.w1 = rig_worker(s.rig, "w1", 64, 16);
    s.w1->survives = true;
    s.c = rig_client(s.rig, "c1");
    client_generate(s.c, 1, 40, 20);
    client_generate(s.c, 2, 40, 20);
    rig_run(s.rig);
    second(&s);
    w3 = rig_worker(s.rig, "w3", 64, 16);
    fake_lost(s.w1);
    rig_run(s.rig);
    dies(holder(s.rig, 2, 0));
    dies(holder(s.rig, 1, 0));
    comes(w3); /* the other worker of each; the head of the queue first */
    comes(s.w2);
    dies(holder(s.rig, 2, 0));
    dies(holder(s.rig, 1, 0));
    comes(s.w1);
    worker_live(s.w1, 3000);
    rig_run(s.rig);
    assert_int_equal(s.w1->n_adopts, 2);
    assert_int_equal(fake_view(s.w1).n_suspects, 1);
    s.w1->survives = false;
    client_cancel(s.c, 1);
    rig_run(s.rig);
    dies(s.w1);
    for (; indicted(s.rig) == 0 && n < 10; n++) {
        comes(s.w2);
        dies(holder(s.rig, 2, 0));
    }
    /* One of its two deaths on trial is the first now; two deaths of the other
     * suspect give it mercy. */
    assert_int_equal(n, TRIAL_DEATHS + 2 - 1);
    rig_free(&s.rig);
}

static void a_cancel_while_on_trial(void **state)
{
    struct scene s;
    struct record *k;

    (void)state;
    set(&s);
    die_with(&s, 2, 0);
    k = client_cancel(s.c, 1);
    rig_run(s.rig);
    assert_true(k->ended);
    assert_int_equal(k->status, ST_OK);
    assert_true(has(s.w2, 2)); /* its trial has passed to the next one */
    k = client_cancel(s.c, 2);
    rig_run(s.rig);
    assert_true(k->ended);
    assert_int_equal(fake_view(s.w2).n_suspects, 0);
    rig_end(&s.rig);
}

/* A suspect that waits for its trial can be cancelled like any waiting request.
 */
static void a_cancel_before_the_trial(void **state)
{
    struct scene s;
    struct record *k;

    (void)state;
    set(&s);
    die_with(&s, 3, 0);
    k = client_cancel(s.c, 2);
    rig_run(s.rig);
    assert_int_equal(k->receipt.state,
                     SLUICE__V1__SEQUENCE_STATE__SEQUENCE_QUEUED);
    worker_give(s.w2, 1, 0, 20, LENGTH);
    assert_true(has(s.w2, 3));
    rig_free(&s.rig);
}

/* A suspect avoids the lineage that died with it, if there is another worker.
 */
static void another_worker_is_preferred(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w1 = rig_worker(rig, "w1", 640, 16), *w2;
    struct fake *c = rig_client(rig, "c1");

    (void)state;
    client_generate(c, 1, 200, 50); /* 8 blocks */
    rig_run(rig);
    worker_give(w1, 1, 0, 1, 0);
    w2 = rig_worker(rig, "w2", 9, 16);
    client_generate(c, 2, 40, 20);
    rig_run(rig);
    assert_true(has(w1, 1) && has(w1, 2));
    w2->refuse_submits =
        ST_RESOURCE_EXHAUSTED; /* the router takes w2 as full */
    worker_give(w1, 2, 0, 20, LENGTH);
    dies(w1);
    comes(w1); /* w1 has most room, but died with the sequence */
    assert_false(has(w1, 1));
    w2->refuse_submits = ST_OK;
    for (int i = 0; i < 5; i++) {
        worker_report(w2);
        rig_advance(rig, 100000);
    }
    assert_true(has(w2, 1));
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_limit_of_tokens),
        cmocka_unit_test(one_token_less),
        cmocka_unit_test(tokens_of_another_worker),
        cmocka_unit_test(others_overtake_and_run_beside),
        cmocka_unit_test(one_that_waits_for_room_is_not_overtaken),
        cmocka_unit_test(as_many_as_may_step_aside),
        cmocka_unit_test(one_more_than_may_step_aside),
        cmocka_unit_test(indicted_after_two_trials),
        cmocka_unit_test(mercy),
        cmocka_unit_test(no_mercy_for_another_model),
        cmocka_unit_test(no_mercy_after_a_verdict),
        cmocka_unit_test(mercy_ends),
        cmocka_unit_test(the_one_on_trial_is_charged),
        cmocka_unit_test(a_goodbye_is_no_death),
        cmocka_unit_test(silence_is_a_death),
        cmocka_unit_test(ids_that_never_left),
        cmocka_unit_test(ids_that_just_left),
        cmocka_unit_test(a_death_that_was_none),
        cmocka_unit_test(a_charge_that_is_taken_back),
        cmocka_unit_test(found_alive_after_another_died),
        cmocka_unit_test(found_alive_beside_one_on_trial),
        cmocka_unit_test(a_cancel_while_on_trial),
        cmocka_unit_test(a_cancel_before_the_trial),
        cmocka_unit_test(another_worker_is_preferred),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
