/* Grants to a replica of several stages: within the tightest stage, with one
 * number per stage, and within every ledger. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "tests/unit/router/rig.h"

#define LENGTH    SLUICE__V1__FINISH__FINISH_LENGTH
#define BLOCKS(n) (RIG_BLOCK * (n)-40) /* max_tokens that make n blocks */

struct scene {
    struct rig *rig;
    struct fake *w[3], *c;
};

/* Three stages with these blocks and slots. */
static void bring(struct scene *s, const uint32_t blocks[3],
                  const uint32_t slots[3])
{
    static const char *const names[] = {"w0", "w1", "w2"};
    static const struct rig_options o = {.max_peers = 32,
                                         .max_requests = 256,
                                         .max_waiting = 256,
                                         .worker_wait_us = 60000000};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    for (uint32_t i = 0; i < 3; i++) {
        s->w[i] = rig_stage_with(s->rig, names[i], i, i < 2 ? i + 1 : 4,
                                 blocks[i], slots[i]);
    }
    assert_int_equal(s->w[0]->n_stages, 3);
}

static void bring_alike(struct scene *s, uint32_t blocks, uint32_t slots)
{
    bring(s, (uint32_t[]){blocks, blocks, blocks},
          (uint32_t[]){slots, slots, slots});
}

static struct record *ask(struct scene *s, uint8_t id, uint32_t blocks)
{
    struct record *x = client_generate(s->c, id, 40, BLOCKS(blocks));

    rig_run(s->rig);
    return x;
}

static bool waits(const struct scene *s, uint8_t id)
{
    return rig_state(s->rig, id) == CHOICE_WAITING;
}

static void report(struct scene *s, int i)
{
    worker_report(s->w[i]);
    rig_run(s->rig);
}

/* Asserts that each stage has received every grant, in order. */
static void finish(struct scene *s)
{
    for (int i = 0; i < 3; i++) {
        assert_true(s->w[i]->grants_in_order);
    }
    rig_free(&s->rig);
}

static void the_tightest_stage_decides(void **state)
{
    for (int tight = 0; tight < 3; tight++) {
        uint32_t blocks[3] = {64, 64, 64}, slots[3] = {8, 8, 8};
        struct scene s;

        (void)state;
        blocks[tight] = 12;
        bring(&s, blocks, slots);
        for (uint8_t id = 1; id <= 3;
             id++) { /* 4 each: all blocks of the tightest stage */
            ask(&s, id, 4);
            assert_false(waits(&s, id));
        }
        ask(&s, 4, 2);
        assert_true(waits(&s, 4));
        worker_give(s.w[0], 2, 0, BLOCKS(4), LENGTH);
        for (int i = 0; i < 3; i++) { /* a step carries the leader's ledger */
            assert_int_equal(waits(&s, 4), tight > 0 && i <= tight);
            report(&s, i);
        }
        assert_false(waits(&s, 4));
        finish(&s);
    }
}

/* The last free block of the tightest stage, and one past it. */
static void at_the_limit(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, (uint32_t[]){64, 10, 64}, (uint32_t[]){8, 8, 8});
    ask(&s, 1, 10);
    assert_false(waits(&s, 1));
    ask(&s, 2, 2);
    assert_true(waits(&s, 2));
    finish(&s);
}

static void slots_bind_too(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, (uint32_t[]){64, 64, 64}, (uint32_t[]){8, 8, 2});
    ask(&s, 1, 2);
    ask(&s, 2, 2);
    ask(&s, 3, 2);
    assert_false(waits(&s, 2));
    assert_true(waits(&s, 3));
    finish(&s);
}

/* The client's figures are sums over all stages. */
static void figures_add_up(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s, (uint32_t[]){0, 64, 16}, (uint32_t[]){4, 0, 8});
    x = ask(&s, 1, 4);
    worker_give(s.w[0], 1, 0, BLOCKS(4), LENGTH);
    rig_run(s.rig);
    assert_int_equal(x->figures.n_generated, BLOCKS(4));
    assert_int_equal(x->figures.blocks, 8);
    assert_int_equal(x->figures.slots, 2);
    finish(&s);
}

/* A stage without attention has no blocks, one without linear layers no slots.
 * Classes that a stage lacks are neither needed nor a limit. */
static void kinds_that_a_shard_lacks(void **state)
{
    struct scene s;
    const struct sequence *q;

    (void)state;
    bring(&s, (uint32_t[]){0, 64, 16}, (uint32_t[]){4, 0, 8});
    ask(&s, 1, 4);
    q = worker_sequence_of(s.w[0], 1);
    assert_true(q->blocks == 0 && q->slots == 1);
    q = worker_sequence_of(s.w[1], 1);
    assert_true(q->blocks == 4 && q->slots == 0);
    q = worker_sequence_of(s.w[2], 1);
    assert_true(q->blocks == 4 && q->slots == 1);
    for (uint8_t id = 2; id <= 4; id++) {
        ask(&s, id, 4);
        assert_false(waits(&s, id));
    }
    ask(&s, 5,
        2); /* no slots at the first and no blocks at the last are left */
    assert_true(waits(&s, 5));
    finish(&s);
}

/* Opens that still wait in the ring count as owed to the stages, whatever the
 * leader's ledger shows. */
static void a_stage_that_settles_late(void **state)
{
    struct scene s;
    struct router_worker_view v;

    (void)state;
    bring_alike(&s, 16, 8);
    s.w[1]->hold_opens = true;
    for (uint8_t id = 1; id <= 4; id++) {
        ask(&s, id, 4);
    }
    for (int i = 0; i < 3; i++) {
        report(&s, i);
    }
    v = fake_view(s.w[0]);
    assert_true(v.granted_blocks == 0 && v.grant == 4);
    v = fake_view(s.w[1]);
    assert_true(v.granted_blocks == 16 && v.granted_slots == 4);
    assert_true(v.grant == 0 && v.last_grant == 4 && v.n_sequences == 4);
    for (uint8_t id = 1; id <= 4; id++) { /* ended at the leader */
        worker_give(s.w[0], id, 0, BLOCKS(4), LENGTH);
    }
    ask(&s, 5, 2);
    assert_true(waits(&s, 5));
    stage_opens(s.w[1]); /* and the removals */
    report(&s, 2);
    assert_true(waits(&s, 5));
    report(&s, 1);
    assert_false(waits(&s, 5));
    finish(&s);
}

/* The leader refuses a grant: the other stages settle its number by a void
 * Open. */
static void refusals_between_grants(void **state)
{
    struct scene s;
    struct router_worker_view v;

    (void)state;
    bring_alike(&s, 64, 8);
    s.w[1]->hold_opens = true;
    ask(&s, 1, 4);
    s.w[0]->refuse_submits = ST_RESOURCE_EXHAUSTED;
    ask(&s, 2, 4);
    assert_true(
        waits(&s, 2)); /* until the leader's ledger includes that grant */
    s.w[0]->refuse_submits = ST_OK;
    report(&s, 1);
    report(&s, 2);
    assert_true(waits(&s, 2));
    report(&s, 0);
    assert_false(waits(&s, 2));
    ask(&s, 3, 4);
    v = fake_view(s.w[1]);
    assert_true(v.last_grant == 4 && v.grant == 0);
    assert_int_equal(v.granted_blocks, 16); /* four, one of them void */
    assert_int_equal(s.w[1]->n_opens, 4);
    stage_opens(s.w[1]);
    report(&s, 1);
    v = fake_view(s.w[1]);
    assert_true(v.granted_blocks == 0 && v.grant == 4);
    assert_int_equal(v.free_blocks, 64 - 12);
    assert_int_equal(s.w[1]->n_voids, 1);
    assert_int_equal(s.w[2]->n_voids, 1);
    finish(&s);
}

/* Each stage counts its own numbers, also after a tombstone. */
static void tombstones(void **state)
{
    struct scene s;

    (void)state;
    bring_alike(&s, 64, 8);
    s.w[0]->refuse_submits = ST_CANCELLED;
    ask(&s, 1, 4);
    s.w[0]->refuse_submits = ST_OK;
    for (int i = 0; i < 3; i++) {
        report(&s, i);
        assert_int_equal(fake_view(s.w[i]).grant, i == 0 ? 1 : 2);
        assert_int_equal(fake_view(s.w[i]).last_grant, 2);
    }
    assert_false(waits(&s, 1));
    finish(&s);
}

/* GRANTS_UNSETTLED_MAX grants at a stage may be unsettled, and no more. */
static void grants_unsettled(void **state)
{
    struct scene s;
    uint32_t n = 0;

    (void)state;
    bring(&s, (uint32_t[]){64, 2 * GRANTS_UNSETTLED_MAX + 64, 64},
          (uint32_t[]){32, 0, 0});
    s.w[1]->hold_opens = true;
    for (; n < GRANTS_UNSETTLED_MAX; n += 32) {
        uint8_t id = (uint8_t)(1 + n / 32);

        client_generate_n(s.c, id, 32, 40, BLOCKS(2));
        rig_run(s.rig);
        for (uint32_t c = 0; c < 32; c++) {
            worker_make(s.w[0], worker_choice_of(s.w[0], id, c), BLOCKS(2),
                        LENGTH);
        }
        worker_step(s.w[0]);
        rig_run(s.rig);
        s.w[1]->n_opens = 0; /* the stage never receives them */
        fake_forget(s.c);
        report(&s, 2);
    }
    assert_int_equal(fake_view(s.w[1]).last_grant, GRANTS_UNSETTLED_MAX);
    ask(&s, 201, 2);
    assert_true(waits(&s, 201));
    s.w[1]->ledger.grant = 1;
    report(&s, 1);
    assert_false(waits(&s, 201));
    rig_free(&s.rig);
}

static void never_fits(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring(&s, (uint32_t[]){0, 64, 16}, (uint32_t[]){4, 4, 4});
    x = ask(&s, 1, 16);
    assert_false(x->ended);
    x = ask(&s, 2, 17);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_int_equal(x->retry_ms, 0);
    assert_non_null(strstr(x->error, "need 17 blocks and 1 slots"));
    assert_non_null(strstr(x->error, "of stage 2 (worker w2)"));
    assert_non_null(strstr(x->error, "for at most 16 blocks and 4 slots"));
    finish(&s);
}

/* The error names the replica whose tightest stage is larger. */
static void the_largest_replica(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    rig_stage_with(rig, "a0", 0, 2, 90, 4);
    rig_stage_with(rig, "a1", 2, 4, 10, 4);
    rig_stage_with(rig, "b0", 0, 2, 20, 4);
    rig_stage_with(rig, "b1", 2, 4, 30, 4);
    x = client_generate(c, 1, 40, BLOCKS(25));
    rig_run(rig);
    assert_int_equal(x->status, ST_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(x->error, "of stage 0 (worker b0)"));
    rig_free(&rig);
}

static void the_shortest_context(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1"), *f;
    struct record *x;

    (void)state;
    f = fake_stage_new(rig, "w1", 2, 4);
    f->shard.context = 100;
    fake_hello(f);
    rig_stage(rig, "w0", 0, 2);
    x = client_generate(c, 1, 40, 60);
    rig_run(rig);
    assert_int_equal(rig_state(rig, 1), CHOICE_PREFILL);
    x = client_generate(c, 2, 40, 61);
    rig_run(rig);
    assert_int_equal(x->status, ST_INVALID_ARGUMENT);
    assert_non_null(strstr(x->error, "the context of tiny, 100 tokens"));
    rig_free(&rig);
}

/* A Submit crosses the end of the assembly: the request waits for the next one.
 */
static void refused_by_no_assembly(void **state)
{
    struct scene s;
    struct record *x;

    (void)state;
    bring_alike(&s, 64, 8);
    s.w[0]->refuse_submits = ST_UNAVAILABLE;
    x = ask(&s, 1, 4);
    assert_true(waits(&s, 1) && !x->ended);
    for (int i = 0; i < 3; i++) { /* tried again, refused again */
        report(&s, i);
    }
    assert_int_equal(s.w[0]->n_submits, 2);
    s.w[0]->refuse_submits = ST_OK;
    stage_broken(s.w[1], s.w[1]->assembly, "an edge ended");
    for (int i = 0; i < 3; i++) {
        report(&s, i);
    }
    assert_true(waits(&s, 1));
    rig_advance(s.rig, BROKEN_US);
    for (int i = 0; i < 3; i++) {
        assert_true(s.w[i]->gone);
        fake_reconnect(s.w[i]);
    }
    rig_advance(s.rig, ASSEMBLE_RETRY_US);
    worker_give(s.w[0], 1, 0, BLOCKS(4), LENGTH);
    assert_int_equal(x->status, ST_OK);
    record_check(x, 1, 0, BLOCKS(4));
    finish(&s);
}

/* Some layers are missing: the error names that. */
static void no_whole_replica(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1");
    struct record *x;

    (void)state;
    rig_stage(rig, "w0", 0, 2);
    rig_stage(rig, "v0", 0, 2);
    x = client_generate(c, 1, 40, 10);
    rig_run(rig);
    assert_int_equal(x->status, ST_UNAVAILABLE);
    assert_non_null(strstr(x->error, "2 workers of some layers of model tiny"));
    rig_free(&rig);
}

/* Beside a worker with all layers: the place with the most room is chosen, by
 * its tightest stage. */
static void beside_a_whole_one(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *c = rig_client(rig, "c1"), *whole, *leader;

    (void)state;
    whole = rig_worker(rig, "whole", 20, 8);
    leader = rig_stage_with(rig, "w0", 0, 2, 64, 8);
    rig_stage_with(rig, "w1", 2, 4, 10, 8);
    for (uint8_t id = 1; id <= 5; id++) { /* 28 pages to 18, 5 each */
        client_generate(c, id, 40, BLOCKS(4));
        rig_run(rig);
        assert_int_equal(worker_sequence_of(whole, id) != NULL,
                         id <= 3 || id == 5);
        /* None waits there before the next one. */
        worker_give(worker_sequence_of(whole, id) != NULL ? whole : leader, id,
                    0, 1, 0);
    }
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tightest_stage_decides),
        cmocka_unit_test(at_the_limit),
        cmocka_unit_test(slots_bind_too),
        cmocka_unit_test(kinds_that_a_shard_lacks),
        cmocka_unit_test(figures_add_up),
        cmocka_unit_test(a_stage_that_settles_late),
        cmocka_unit_test(refusals_between_grants),
        cmocka_unit_test(tombstones),
        cmocka_unit_test(grants_unsettled),
        cmocka_unit_test(never_fits),
        cmocka_unit_test(the_largest_replica),
        cmocka_unit_test(the_shortest_context),
        cmocka_unit_test(refused_by_no_assembly),
        cmocka_unit_test(no_whole_replica),
        cmocka_unit_test(beside_a_whole_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
