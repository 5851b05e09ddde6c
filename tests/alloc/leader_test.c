/* A running leader does not allocate.  Sequences arrive, with ids in parts,
 * penalties and logprobs, pass through the ring in microbatches, and end by
 * themselves or are cancelled.  Their Removes come back. */
#include "tests/alloc/count.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/worker/stages/ring.h"

#define WARM   20
#define ROUNDS 100
#define LIVE   8

static void within(bool in)
{
    alloc_as(in ? ALLOC_WORKER : ALLOC_TEST);
}

static void submit(struct rig *r, uint32_t i)
{
    struct rig_submit s = {.id = 1 + i,
                           .n_prompt = 30,
                           .max_tokens = 10,
                           .n_first = 20,
                           .ignore_eos = true,
                           .penalise = i % 2 == 0,
                           .logprobs = i % 3 == 0,
                           .n_top = i % 3 == 0 ? 4 : 0};
    struct rig_message m;

    rig_message(r, &s, &m);
    rig_send_submit(r, &m);
    rig_part(r, r->grant, &m, 20, 10);
}

static void rounds(struct rig *r, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = 0; i < LIVE; i++) {
            submit(r, i);
        }
        rig_turn(r);
        for (int i = 0; i < 30; i++) {
            rig_step(r);
            ring_step(r->ring);
        }
        rig_cancel(r, 1 + k % LIVE);
        rig_turn(r);
        ring_run(r->ring);
        rig_advance(r, 300000);
        rig_check_empty(r);
        r->ring->n_said = r->ring->n_done = 0;
    }
    assert_int_equal(r->n_broken, 0);
}

static void a_leader_allocates_nothing(void **state)
{
    struct worker_options o;
    struct rig *r;

    (void)state;
    ring_options(&o);
    o.engine_depth = 2;
    r = ring_rig(3, &o);
    r->within = within;
    rounds(r, WARM);
    assert_true(alloc_count(ALLOC_WORKER) > 0); /* the counter works */
    alloc_reset();
    rounds(r, ROUNDS);
    assert_int_equal(alloc_count(ALLOC_WORKER), 0);
    r->within = NULL;
    ring_rig_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_leader_allocates_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
