/* Several choices of one Generate, and a client that reads slowly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH

/* Moves the time; the worker keeps reporting. */
static void wait_s(struct fake *w, int seconds)
{
    for (int i = 0; i < seconds; i++) {
        rig_advance(w->rig, 1000000);
        worker_report(w);
    }
    rig_run(w->rig);
}

/* Waiting choices take turns, one chunk each. */
static void choices_share_a_slow_line(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 4, 10, 30000);

    (void)state;
    rig_run(rig);
    c->deaf = true;
    for (int k = 0; k < 80; k++) { /* the first chunks fill the link */
        for (uint32_t q = 0; q < 4; q++) {
            worker_make(w, worker_choice_of(w, 1, q), k < 70 ? 1 : 2000, 0);
        }
        worker_step(w);
        rig_advance(rig, 1000);
    }
    c->deaf = false;
    wait_s(w, 5);
    for (uint32_t q = 0; q < 4; q++) {
        record_check(x, 1, q, 20070);
    }
    assert_true(x->n_chunks < 4 * 80); /* some were of several steps */
    for (uint32_t i = 0; i + 4 < x->n_chunks; i++) {
        assert_int_equal(x->chunks[i], x->chunks[i + 4]);
    }
    rig_free(&rig);
}

/* Enough of these exceed the link of a deaf client. */
static void one_token_each(struct fake *w, int n)
{
    for (int i = 0; i < n; i++) {
        for (uint32_t q = 0; q < 3; q++) {
            worker_make(w, worker_choice_of(w, 1, q), 1, 0);
        }
        worker_step(w);
        rig_advance(w->rig, 1000);
    }
}

/* A client that reads nothing for 30 s loses all choices. */
static void a_reader_of_choices_is_slow(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, 3, 10, 39000);
    struct router_metrics k;

    (void)state;
    rig_run(rig);
    c->deaf = true;
    one_token_each(w, 1300);
    wait_s(w, 20);
    c->deaf = false; /* for a moment */
    wait_s(w, 2);
    c->deaf = true;
    one_token_each(w, 1300);
    assert_true(x->n_tokens >= 1300);
    wait_s(w, 24);
    assert_int_equal(w->n_cancels, 0);
    wait_s(w, 10);
    assert_int_equal(w->n_cancels, 3);
    assert_int_equal(w->last_reason,
                     SLUICE__V1__CANCEL_REASON__CANCEL_SLOW_READER);
    router_counts(rig->router, &k);
    assert_int_equal(k.cancelled, 3);
    rig_end(&rig);
}

/* Chunks of some choices every 25 s keep all 64 alive, although each one waits
 * for minutes. */
static void a_reader_takes_a_little(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *w = rig_worker(rig, "w1", 100000, 64);
    struct fake *c = rig_client(rig, "c1");
    struct record *x = client_generate_n(c, 1, CHOICES_MAX, 10, 70 + 80 * 49);
    int rounds = 0;

    (void)state;
    rig_run(rig);
    c->deaf = true;
    for (int k = 0; k < 150; k++) { /* the first chunks fill its link */
        for (uint32_t q = 0; q < CHOICES_MAX; q++) {
            worker_make(w, worker_choice_of(w, 1, q), k < 70 ? 1 : 49,
                        k < 149 ? 0 : LENGTH);
        }
        worker_step(w);
        rig_advance(rig, 1000);
    }
    for (; !x->ended && rounds < 50; rounds++) {
        wait_s(w, 20);
        c->deaf = false;
        c->n_hears = 2;
        wait_s(w, 5);
    }
    assert_true(rounds > 3);
    assert_int_equal(x->status, ST_OK);
    for (uint32_t q = 0; q < CHOICES_MAX; q++) {
        record_check(x, 1, q, 70 + 80 * 49);
    }
    c->deaf = false;
    rig_end(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_share_a_slow_line),
        cmocka_unit_test(a_reader_of_choices_is_slow),
        cmocka_unit_test(a_reader_takes_a_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
