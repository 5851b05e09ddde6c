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

/* Three of BIG blocks run, and one waits as number 4: 10 blocks are free. */
static void bring(struct scene *s)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = 256,
                                  .worker_wait_us = 1000000};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->w = rig_worker(s->rig, "w1", 3 * BIG + 10, 6);
    for (uint8_t id = 1; id <= 4; id++) {
        client_generate(s->c, id, 40, BLOCKS(BIG));
        rig_run(s->rig);
    }
    assert_int_equal(rig_state(s->rig, 4), CHOICE_WAITING);
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
    bring(&s);
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
    bring(&s);
    assert_true(waits_after(&s, 5, 10));
    assert_true(waits_after(&s, 6, 11)); /* has no room in any case */
    assert_false(waits_after(&s, 7, 2));
    rig_free(&s.rig);
}

static void past_its_time_none_goes_ahead(void **state)
{
    struct scene s;

    (void)state;
    bring(&s);
    assert_false(waits_after(&s, 5, 2));
    for (uint32_t i = 0; i < 2 * BIG * 32; i++) {
        rig_advance(s.rig, COSTS_STEP_US);
        worker_report(s.w);
        rig_run(s.rig);
    }
    assert_false(s.w->gone);
    assert_true(waits_after(&s, 6, 2));
    worker_give(s.w, 5, 0, BLOCKS(2), LENGTH);
    worker_give(s.w, 1, 0, BLOCKS(BIG), LENGTH);
    assert_int_not_equal(rig_state(s.rig, 4), CHOICE_WAITING);
    assert_int_not_equal(rig_state(s.rig, 6), CHOICE_WAITING);
    rig_free(&s.rig);
}

static void other_places_are_free(void **state)
{
    struct scene s;
    struct fake *other;

    (void)state;
    bring(&s);
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
    bring(&s);
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
        cmocka_unit_test(past_its_time_none_goes_ahead),
        cmocka_unit_test(other_places_are_free),
        cmocka_unit_test(one_whose_place_is_lost_takes_another),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
