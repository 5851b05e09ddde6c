/* Entries that go ahead of one that waits for room, and those that may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/schedule/bypass.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
/* max_tokens for n blocks with a prompt of 40 */
#define BLOCKS(n) (32 * (n)-40)
#define BIG       20 /* blocks of the one that waits */

struct scene {
    struct rig *rig;
    struct fake *w, *c;
};

/* n of so many blocks run, one of BIG waits as number n + 1, and n_free blocks
 * are free. */
static void bring(struct scene *s, uint8_t n, uint32_t blocks, uint32_t n_free)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 1000000};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->w = rig_worker(s->rig, "w1", n * blocks + n_free, n + 3);
    for (uint8_t id = 1; id <= n + 1; id++) {
        client_generate(s->c, id, 40, BLOCKS(id <= n ? blocks : BIG));
        rig_run(s->rig);
    }
    assert_int_equal(rig_state(s->rig, n), CHOICE_PREFILL);
    assert_int_equal(rig_state(s->rig, (uint8_t)(n + 1)), CHOICE_WAITING);
}

/* Lets the time pass in which others may go ahead. */
static void be_late(struct scene *s)
{
    for (uint32_t i = 0; i < 2 * BIG * 32; i++) {
        rig_advance(s->rig, COSTS_STEP_US);
        worker_report(s->w);
        rig_run(s->rig);
    }
    assert_false(s->w->gone);
}

static bool waits_after(struct scene *s, uint8_t id, uint32_t blocks)
{
    client_generate(s->c, id, 40, BLOCKS(blocks));
    rig_run(s->rig);
    return rig_state(s->rig, id) == CHOICE_WAITING;
}

static void small_ones_go_ahead(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 3, BIG, 10);
    for (uint8_t id = 5; id < 35; id++) {
        assert_false(waits_after(&s, id, 2));
        worker_give(s.w, id, 0, BLOCKS(2), LENGTH);
        assert_int_equal(rig_state(s.rig, 4), CHOICE_WAITING);
    }
    worker_give(s.w, 2, 0, BLOCKS(BIG), LENGTH);
    assert_int_not_equal(rig_state(s.rig, 4), CHOICE_WAITING);
    rig_free(&s.rig);
}

/* As long as the first, they would hold the room that it waits for. */
static void long_ones_wait_for_their_turn(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 5, 12, 14);
    assert_true(waits_after(&s, 7, 14));
    assert_true(waits_after(&s, 8, 15)); /* has no room in any case */
    assert_false(waits_after(&s, 9, 2));
    rig_free(&s.rig);
}

/* One of its elders has to end in any case, and then it has room beside those
 * that went ahead. */
static void past_its_time_those_go_ahead_that_cost_none(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 3, BIG, 10);
    be_late(&s);
    assert_false(waits_after(&s, 5, 8));
    assert_true(waits_after(&s, 6, 3));
    assert_false(waits_after(&s, 7, 2));
    worker_give(s.w, 2, 0, BLOCKS(BIG), LENGTH);
    assert_int_not_equal(rig_state(s.rig, 4), CHOICE_WAITING);
    rig_free(&s.rig);
}

/* Two of its elders have to end. */
static void past_its_time_none_goes_ahead(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 5, 12, 5);
    assert_false(waits_after(&s, 7, 2));
    be_late(&s);
    assert_true(waits_after(&s, 8, 2));
    worker_give(s.w, 7, 0, BLOCKS(2), LENGTH);
    worker_give(s.w, 1, 0, BLOCKS(12), LENGTH);
    worker_give(s.w, 2, 0, BLOCKS(12), LENGTH);
    assert_int_not_equal(rig_state(s.rig, 6), CHOICE_WAITING);
    assert_int_not_equal(rig_state(s.rig, 8), CHOICE_WAITING);
    rig_free(&s.rig);
}

/* Without elders nothing has to end but those that went ahead. */
static void without_elders_none_goes_ahead(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, 1, BIG, BIG - 1);
    be_late(&s);
    assert_false(waits_after(&s, 3, BIG - 1));
    worker_give(s.w, 1, 0, BLOCKS(BIG), LENGTH);
    assert_int_not_equal(rig_state(s.rig, 2), CHOICE_WAITING);
    rig_free(&s.rig);
}

static void other_places_are_free(void **state)
{
    struct scene s;
    struct fake *other;

    (void)state;
    bring(&s, 3, BIG, 10);
    other = rig_worker(s.rig, "w2", BIG - 1, 6);
    assert_int_equal(rig_state(s.rig, 4), CHOICE_WAITING);
    assert_false(waits_after(&s, 5, BIG - 1));
    assert_non_null(worker_sequence_of(other, 5));
    rig_free(&s.rig);
}

/* It reserves the next place, where it runs as soon as that has room. */
static void one_whose_place_is_lost_takes_another(void **state)
{
    struct scene s;
    struct fake *other;

    (void)state;
    bring(&s, 3, BIG, 10);
    fake_lost(s.w);
    other = rig_worker(s.rig, "w2", BIG, 6);
    rig_run(s.rig);
    for (uint8_t id = 1; id <= 4; id++) {
        assert_non_null(worker_sequence_of(other, id));
        worker_give(other, id, 0, BLOCKS(BIG), LENGTH);
    }
    rig_free(&s.rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_ones_go_ahead),
        cmocka_unit_test(long_ones_wait_for_their_turn),
        cmocka_unit_test(past_its_time_those_go_ahead_that_cost_none),
        cmocka_unit_test(past_its_time_none_goes_ahead),
        cmocka_unit_test(without_elders_none_goes_ahead),
        cmocka_unit_test(other_places_are_free),
        cmocka_unit_test(one_whose_place_is_lost_takes_another),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
