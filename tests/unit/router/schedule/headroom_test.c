/* --headroom: at the limit, one past it, and what it must not hold back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
/* max_tokens for n blocks with a prompt of 40 */
#define BLOCKS(n) (32 * (n)-40)

struct scene {
    struct rig *rig;
    struct fake *w[3], *stage, *c;
};

static void bring_with(struct scene *s, bool expected)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 1000000,
                                  .headroom = true,
                                  .expected = expected};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
}

static void bring(struct scene *s)
{
    bring_with(s, false);
}

/* n workers with these blocks and slots. */
static void bring_alike(struct scene *s, int n, uint32_t blocks, uint32_t slots)
{
    static const char *const names[] = {"w1", "w2", "w3"};

    bring(s);
    for (int i = 0; i < n; i++) {
        s->w[i] = rig_worker(s->rig, names[i], blocks, slots);
    }
}

/* Requests from..to with n blocks each. */
static void ask(struct scene *s, uint8_t from, uint8_t to, uint32_t blocks)
{
    for (uint8_t i = from; i <= to; i++) {
        client_generate(s->c, i, 40, BLOCKS(blocks));
        rig_run(s->rig);
    }
}

static bool waits(const struct scene *s, uint8_t id)
{
    return rig_state(s->rig, id) == CHOICE_WAITING;
}

static void check(const struct scene *s, uint8_t last_running, uint8_t last)
{
    for (uint8_t i = 1; i <= last; i++) {
        assert_int_equal(rig_state(s->rig, i),
                         i > last_running ? CHOICE_WAITING : CHOICE_PREFILL);
    }
}

static struct fake *at(const struct scene *s, uint8_t id)
{
    for (int i = 0; i < 3; i++) {
        if (s->w[i] != NULL && worker_sequence_of(s->w[i], id) != NULL) {
            return s->w[i];
        }
    }
    return NULL;
}

/* Two tokens for each running request, so that none is a suspect after a death.
 */
static void proceed(struct scene *s, uint8_t last)
{
    for (uint8_t i = 1; i <= last; i++) {
        worker_give(at(s, i), i, 0, 2, 0);
    }
}

static void end(struct scene *s, uint8_t id, uint32_t blocks)
{
    struct fake *w = at(s, id);
    struct sequence *q = worker_sequence_of(w, id);

    worker_give(w, id, 0, BLOCKS(blocks), LENGTH);
    worker_release(w, q);
    worker_report(w);
    rig_run(s->rig);
}

/* 10 blocks each: 10 of the 20 may be granted, at either worker. */
static void two_workers(void **state)
{
    struct scene s;

    (void)state;
    bring_alike(&s, 2, 10, 64);
    ask(&s, 1, 5, 2);
    check(&s, 5, 5);
    ask(&s, 6, 6, 2); /* one past the limit */
    check(&s, 5, 6);
    end(&s, 3, 2);
    assert_false(waits(&s, 6));
    ask(&s, 7, 7, 2);
    assert_true(waits(&s, 7));
    rig_free(&s.rig);
}

static void without_it(void **state)
{
    struct scene s = {.rig = rig_new(NULL)};

    (void)state;
    s.c = rig_client(s.rig, "c1");
    rig_worker(s.rig, "w1", 10, 64);
    rig_worker(s.rig, "w2", 10, 64);
    ask(&s, 1, 11, 2);
    check(&s, 10, 11);
    rig_free(&s.rig);
}

/* Three workers of 20 blocks: 40 of 60, as the load of one fits the other two.
 */
static void three_workers(void **state)
{
    struct scene s;

    (void)state;
    bring_alike(&s, 3, 20, 64);
    ask(&s, 1, 21, 2);
    check(&s, 20, 21);
    rig_free(&s.rig);
}

static void slots_count_too(void **state)
{
    struct scene s;

    (void)state;
    bring_alike(&s, 2, 100, 3);
    ask(&s, 1, 4, 2);
    check(&s, 3, 4);
    rig_free(&s.rig);
}

/* Whichever worker is lost, its sequences are granted elsewhere at once. */
static void a_loss_waits_for_nothing(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct scene s;

        bring_alike(&s, 2, 10, 64);
        ask(&s, 1, 6, 2);
        check(&s, 5, 6);
        proceed(&s, 5);
        fake_lost(s.w[lost]);
        s.w[lost] = NULL;
        rig_run(s.rig);
        for (uint8_t i = 1; i <= 5; i++) {
            assert_non_null(at(&s, i));
        }
        rig_free(&s.rig);
    }
}

/* With grants of what is needed now: the room of a survivor is what its own
 * sequences leave when they have grown to their expected needs. */
static void survivors_grow_too(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) {
        struct router_model_view m;
        struct scene s;
        uint8_t most;

        bring_with(&s, true);
        s.w[0] = rig_worker(s.rig, "w1", 32, 64);
        s.w[1] = rig_worker(s.rig, "w2", 32, 64);
        router_model_view(s.rig->router, 0, &m);
        most = (uint8_t)(32 / ((40 + m.expected + 31) / 32));
        assert_in_range(most, 4, 8); /* two blocks each would be 10 */
        ask(&s, 1, most + 1, 8);
        check(&s, most, most + 1);
        proceed(&s, most);
        fake_lost(s.w[lost]);
        s.w[lost] = NULL;
        rig_run(s.rig);
        for (uint8_t i = 1; i <= most; i++) {
            assert_non_null(at(&s, i));
            assert_true(worker_sequence_of(at(&s, i), i)->grows);
        }
        rig_free(&s.rig);
    }
}

/* One that ran before goes on where its grant has room, also where the forecast
 * would let a new one wait. */
static void movers_need_no_forecast(void **state)
{
    struct scene s;

    (void)state;
    bring_with(&s, true);
    s.w[0] = rig_worker(s.rig, "w1", 32, 64);
    ask(&s, 1, 2, 8); /* one place: without the rule */
    proceed(&s, 2);
    s.w[1] = rig_worker(s.rig, "w2", 9, 64);
    fake_lost(s.w[0]);
    s.w[0] = NULL;
    rig_run(s.rig);
    assert_non_null(at(&s, 1));
    assert_non_null(at(&s, 2));
    rig_free(&s.rig);
}

/* The same for a drain: moving sequences were admitted before. */
static void a_drain_waits_for_nothing(void **state)
{
    struct scene s;
    Sluice__V1__LeaveRequest m = SLUICE__V1__LEAVE_REQUEST__INIT;

    (void)state;
    bring_alike(&s, 2, 10, 64);
    ask(&s, 1, 5, 2);
    client_call(s.w[0], METHOD_REGISTRY_LEAVE, &m.base, 0);
    rig_run(s.rig);
    for (uint8_t i = 1; i <= 5; i++) {
        assert_non_null(worker_sequence_of(s.w[1], i));
    }
    rig_free(&s.rig);
}

/* With one worker the option has no effect until there are two. */
static void one_worker(void **state)
{
    struct scene s;

    (void)state;
    bring_alike(&s, 1, 10, 64);
    ask(&s, 1, 4, 2);
    check(&s, 4, 4);
    s.w[1] = rig_worker(s.rig, "w2", 10, 64);
    ask(&s, 5, 5, 2); /* w1 is over its share now */
    assert_false(waits(&s, 5));
    rig_free(&s.rig);
}

/* A request that only one worker could ever hold is admitted and not counted.
 */
static void only_one_could(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0] = rig_worker(s.rig, "large", 40, 64);
    s.w[1] = rig_worker(s.rig, "small", 4, 64);
    ask(&s, 1, 1, 20);
    assert_ptr_equal(at(&s, 1), s.w[0]);
    ask(&s, 2, 3, 2); /* at the large worker; the small one could absorb them */
    check(&s, 3, 3);
    ask(&s, 4, 4, 2);
    assert_true(waits(&s, 4));
    end(&s, 1, 20);
    assert_true(waits(&s, 4));
    end(&s, 2, 2);
    assert_false(waits(&s, 4));
    rig_free(&s.rig);
}

/* An empty cluster admits any request that it can ever hold. */
static void nothing_is_loaded(void **state)
{
    struct scene s;
    struct fake *w;

    (void)state;
    bring(&s);
    s.w[0] = rig_worker(s.rig, "w1", 3, 64);
    w = fake_worker_new(s.rig, "w2", 2,
                        64); /* blocks of 64 tokens: 128 tokens as well */
    w->shard.block_tokens = 64;
    fake_hello(w);
    s.w[1] = w;
    client_generate(s.c, 1, 60, 5); /* 3 blocks of 32, 2 of 64 */
    rig_run(s.rig);
    assert_non_null(at(&s, 1));
    client_generate(s.c, 2, 4, 4);
    rig_run(s.rig);
    assert_true(waits(&s, 2));
    rig_free(&s.rig);
}

/* Different block sizes: each sequence may waste part of its last block. */
static void blocks_of_two_sizes(void **state)
{
    struct scene s;
    struct fake *w;

    (void)state;
    bring(&s);
    s.w[0] = rig_worker(s.rig, "w1", 64, 64);
    w = fake_worker_new(s.rig, "w2", 4, 64); /* 256 tokens, in 4 */
    w->shard.block_tokens = 64;
    fake_hello(w);
    s.w[1] = w;
    for (uint8_t i = 1; i <= 5; i++) { /* 32 tokens each: one block here */
        client_generate(s.c, i, 4, 28);
        rig_run(s.rig);
        assert_true(waits(&s, i) || at(&s, i) == s.w[0]);
    }
    check(&s, 4, 5); /* and one of the four blocks there */
    proceed(&s, 4);
    fake_lost(s.w[0]);
    s.w[0] = NULL;
    rig_run(s.rig);
    for (uint8_t i = 1; i <= 4; i++) {
        assert_non_null(at(&s, i));
    }
    rig_free(&s.rig);
}

/* A sequence that was cancelled, or is kept, no longer counts. */
static void what_has_ended_counts_no_more(void **state)
{
    struct scene s;

    (void)state;
    bring_alike(&s, 2, 10, 64);
    ask(&s, 1, 6, 2);
    assert_true(waits(&s, 6));
    client_cancel(s.c, 2);
    rig_run(s.rig);
    worker_report(s.w[0]);
    worker_report(s.w[1]);
    rig_run(s.rig);
    assert_false(waits(&s, 6));
    rig_free(&s.rig);
}

/* Replicas of two stages.  The second stages have as many blocks as w1 and w2
 * in the tests above, the first stages many more. */
static void bring_replicas(struct scene *s)
{
    bring(s);
    s->w[0] = rig_stage_with(s->rig, "a0", 0, 2, 40, 64);
    rig_stage_with(s->rig, "a1", 2, 4, 10, 64);
    s->w[1] = rig_stage_with(s->rig, "b0", 0, 2, 40, 64);
    s->stage = rig_stage_with(s->rig, "b1", 2, 4, 10, 64);
}

/* Replicas count by their tightest stages: 10 of 20 may be granted. */
static void two_replicas(void **state)
{
    struct scene s;

    (void)state;
    bring_replicas(&s);
    ask(&s, 1, 6, 2);
    check(&s, 5, 6);
    rig_free(&s.rig);
}

/* Whichever stage is lost, its whole replica is, and all fits the other one. */
static void the_loss_of_a_stage_waits_for_nothing(void **state)
{
    struct scene s;

    (void)state;
    bring_replicas(&s);
    ask(&s, 1, 6, 2);
    check(&s, 5, 6);
    proceed(&s, 5);
    assert_int_equal(fake_view(s.stage).n_sequences, 2);
    fake_lost(s.stage);
    rig_run(s.rig);
    for (uint8_t i = 1; i <= 5; i++) {
        assert_non_null(worker_sequence_of(s.w[0], i));
    }
    rig_free(&s.rig);
}

/* A replica is lost as a whole: alone, it has no headroom to keep. */
static void one_replica(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0] = rig_stage_with(s.rig, "a0", 0, 2, 40, 64);
    rig_stage_with(s.rig, "a1", 2, 4, 10, 64);
    ask(&s, 1, 5, 2);
    check(&s, 5, 5);
    rig_free(&s.rig);
}

/* A replica beside a worker with all layers. */
static void a_replica_and_a_whole_one(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    s.w[0] = rig_stage_with(s.rig, "a0", 0, 2, 40, 64);
    rig_stage_with(s.rig, "a1", 2, 4, 10, 64);
    s.w[1] = rig_worker(s.rig, "w2", 10, 64);
    ask(&s, 1, 6, 2);
    check(&s, 5, 6);
    proceed(&s, 5);
    fake_lost(s.w[1]);
    s.w[1] = NULL;
    rig_run(s.rig);
    for (uint8_t i = 1; i <= 5; i++) {
        assert_non_null(at(&s, i));
    }
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_workers),
        cmocka_unit_test(without_it),
        cmocka_unit_test(three_workers),
        cmocka_unit_test(slots_count_too),
        cmocka_unit_test(a_loss_waits_for_nothing),
        cmocka_unit_test(survivors_grow_too),
        cmocka_unit_test(movers_need_no_forecast),
        cmocka_unit_test(a_drain_waits_for_nothing),
        cmocka_unit_test(one_worker),
        cmocka_unit_test(only_one_could),
        cmocka_unit_test(nothing_is_loaded),
        cmocka_unit_test(blocks_of_two_sizes),
        cmocka_unit_test(what_has_ended_counts_no_more),
        cmocka_unit_test(two_replicas),
        cmocka_unit_test(the_loss_of_a_stage_waits_for_nothing),
        cmocka_unit_test(one_replica),
        cmocka_unit_test(a_replica_and_a_whole_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
