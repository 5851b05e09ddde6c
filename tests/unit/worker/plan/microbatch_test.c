/* Microbatches of a leader: which sequences are in each, how many there are,
 * and whether all stages have work. */
#include <string.h>

#include "tests/unit/worker/plan/batcher_bench.h"

/* Stages of equal step time: in a turn each one computes a microbatch and
 * passes it on. */
struct ring {
    struct batcher *b;
    uint32_t n;
    uint32_t at[BATCHES_MAX]; /* the stage of the i-th oldest */
    uint32_t turns, busy[BATCHES_MAX];
    uint32_t least_rows; /* microbatches since ring_measure() */
};

static void ring_new(struct ring *r, uint32_t n, uint32_t rows, uint32_t tokens,
                     uint32_t depth)
{
    memset(r, 0, sizeof *r);
    r->b = bench_with(rows, tokens, 64, depth);
    r->n = n;
    batcher_lead(r->b, n, rows, tokens);
}

static void ring_measure(struct ring *r)
{
    memset(r->busy, 0, sizeof r->busy);
    r->turns = 0;
    r->least_rows = UINT32_MAX;
}

/* No sequence decodes in two microbatches, and none has more than its share. */
static void check_plan(const struct ring *r, const struct batch *t,
                       uint32_t n_decode)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        const struct plan_row *row = &t->plan.rows[i];
        const struct sequence *s = t->owners[i];

        assert_false(row->chained);
        assert_true(s->plan.pending <= 1);
        if (s->state == SEQUENCE_DECODE) {
            assert_int_equal(s->plan.inflight, 1);
            n++;
        }
    }
    assert_true(n <= (n_decode + r->n - 1) / r->n);
}

static void ring_plan(struct ring *r)
{
    uint32_t n_decode = r->b->decode.n, i = r->b->inflight;

    while (batcher_plan(r->b) != NULL) {
        const struct batch *t =
            &r->b->ring[(r->b->oldest + i) % r->b->limits.batches];

        check_plan(r, t, n_decode);
        if (t->plan.n_rows < r->least_rows) {
            r->least_rows = t->plan.n_rows;
        }
        r->at[i++] = 0;
        n_decode = r->b->decode.n;
        assert_true(r->b->inflight <= r->n);
        assert_true(r->b->here <= r->b->limits.depth);
    }
}

/* The oldest microbatch returns; sequences with all tokens leave. */
static void ring_back(struct ring *r)
{
    const struct batch *t = batcher_oldest(r->b);

    bench_back(r->b);
    memmove(r->at, r->at + 1, (r->n - 1) * sizeof r->at[0]);
    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        if (t->owners[i]->portable.n_generated ==
            t->owners[i]->portable.max_tokens) {
            batcher_drop(r->b, t->owners[i]);
        }
    }
}

static void ring_turn(struct ring *r)
{
    uint32_t n = r->b->inflight, first_here = n - r->b->here, n_back = 0;

    ring_plan(r);
    n = r->b->inflight;
    for (uint32_t i = 0; i < n && i <= first_here; i++) {
        r->busy[r->at[i]]++;
        n_back += ++r->at[i] == r->n;
    }
    if (first_here < n) {
        batcher_pass(r->b);
    }
    assert_true(n_back <= 1);
    if (n_back > 0) {
        ring_back(r);
    }
    r->turns++;
}

static void all_are_busy(const struct ring *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        assert_int_equal(r->busy[i], r->turns);
    }
}

static void some(struct sequence **s, uint32_t n, uint32_t max_tokens)
{
    for (uint32_t i = 0; i < n; i++) {
        s[i] = bench_line_up(4, 0, max_tokens);
    }
}

static void chains_no_row(void **state)
{
    struct batcher *b = bench_with(8, 64, 64, 2);
    struct sequence *s = bench_line_up(4, 0, 9);

    (void)state;
    batcher_lead(b, 3, 8, 64);
    bench_check_row(bench_next(b), 0, s, 0, 4, true);
    assert_null(batcher_plan(b)); /* no row of it is chained */
    batcher_pass(b);
    assert_null(batcher_here(b));
    assert_null(batcher_plan(b));
    bench_back(b);
    bench_check_row(bench_next(b), 0, s, 4, 1, true);
    batcher_pass(b);
    bench_back(b);
    bench_done();
}

/* The limits are the least of all stages; a later assembly may have larger
 * ones. */
static void takes_the_limits_of_all_stages(void **state)
{
    struct batcher *b = bench_with(8, 512, 128, 1);
    struct sequence *s = bench_line_up(640, 0, 9);

    (void)state;
    batcher_lead(b, 2, 1, 40);
    bench_check_row(bench_next(b), 0, s, 0, 40, false);
    batcher_pass(b);
    bench_line_up(700, 0, 9);
    assert_int_equal(bench_next(b)->n_rows, 1);
    batcher_pass(b);
    bench_back(b);
    bench_back(b);
    batcher_lead(b, 2, 100, 1000);
    assert_int_equal(b->limits.max_rows, 8);
    assert_int_equal(b->limits.step_tokens, 512);
    bench_check_row(bench_next(b), 0, s, 80, 48, false); /* to a cut */
    bench_done();
}

/* As many microbatches as stages, and as the engine takes. */
static void knows_how_many_are_under_way(void **state)
{
    struct batcher *b = bench_with(8, 64, 64, 2);

    (void)state;
    batcher_lead(b, 3, 8, 64);
    bench_line_up(640, 0, 9);
    bench_next(b);
    bench_next(b);
    assert_null(batcher_plan(b)); /* 2 here */
    batcher_pass(b);
    bench_next(b);
    batcher_pass(b);
    assert_null(batcher_plan(b)); /* 3 in all */
    assert_int_equal(batcher_here(b)->plan.step, 3);
    assert_int_equal(batcher_oldest(b)->plan.step, 1);
    bench_back(b);
    bench_next(b);
    assert_int_equal(b->inflight, 3);
    assert_int_equal(b->here, 2);
    bench_done();
}

static void remembers_when_each_plan_was_sent(void **state)
{
    struct batcher *b = bench_with(8, 64, 64, 2);

    (void)state;
    batcher_lead(b, 3, 8, 64);
    bench_line_up(640, 0, 9);
    assert_null(batcher_here(b));
    bench_next(b);
    batcher_sent(b, 100);
    bench_next(b);
    batcher_sent(b, 150);
    assert_int_equal(batcher_here(b)->sent_us, 100);
    batcher_pass(b);
    assert_int_equal(batcher_here(b)->sent_us, 150);
    batcher_pass(b);
    assert_null(batcher_here(b));
    bench_done();
}

static void spreads_over_the_free_places(void **state)
{
    struct ring r;
    struct sequence *s[8];
    const uint32_t rows[] = {3, 3, 2};

    (void)state;
    ring_new(&r, 3, 16, 512, 2);
    some(s, 8, 50);
    for (int i = 0; i < 3; i++) { /* all prompts in one microbatch */
        ring_turn(&r);
    }
    assert_int_equal(r.b->inflight, 0);
    for (int i = 0; i < 3; i++) {
        const struct plan *p = bench_next(r.b);

        assert_int_equal(p->n_rows, rows[i]);
        assert_int_equal(p->rows[0].position, 4);
        batcher_pass(r.b);
    }
    bench_done();
}

/* 4 over 3: 2, 1 and 1, not 2, 2 and 0. */
static void leaves_no_microbatch_without_rows(void **state)
{
    for (uint32_t n = 2; n <= 8; n++) {
        for (uint32_t k = 1; k <= 4; k++) {
            for (uint32_t more = 0; more < n; more++) {
                struct ring r;
                struct sequence *s[64];

                (void)state;
                ring_new(&r, n, 64, 512, 1);
                some(s, n * k + more, 60);
                for (uint32_t i = 0; i < 10 * n; i++) {
                    ring_turn(&r);
                }
                ring_measure(&r);
                for (uint32_t i = 0; i < 10 * n; i++) {
                    ring_turn(&r);
                }
                all_are_busy(&r);
                assert_in_range(r.least_rows, k, 64);
                bench_done();
            }
        }
    }
}

/* Every sequence decodes once in each round of the ring. */
static void is_fair(void **state)
{
    struct ring r;
    struct sequence *s[20];

    (void)state;
    ring_new(&r, 3, 64, 512, 1);
    some(s, 20, 200);
    for (uint32_t i = 0; i < 3 * 100; i++) {
        ring_turn(&r);
    }
    for (uint32_t i = 0; i < 20; i++) {
        assert_in_range(s[i]->portable.n_generated, 96, 100);
    }
    bench_done();
}

/* More sequences than a step has rows. */
static void lets_many_take_turns(void **state)
{
    struct ring r;
    struct sequence *s[30];

    (void)state;
    ring_new(&r, 3, 4, 512, 1);
    some(s, 30, 200);
    for (uint32_t i = 0; i < 600; i++) {
        ring_turn(&r);
    }
    for (uint32_t i = 0; i < 30; i++) {
        assert_in_range(s[i]->portable.n_generated, 70, 85);
    }
    bench_done();
}

/* The chunks of one prompt follow each other without waiting for results,
 * and each leaves room for decode. */
static void prefills_through_all_microbatches(void **state)
{
    struct ring r;
    struct sequence *s[9], *late;
    uint32_t before, n_turns = 0;

    (void)state;
    ring_new(&r, 3, 64, 70, 1);
    some(s, 9, 200);
    for (uint32_t i = 0; i < 60; i++) {
        ring_turn(&r);
    }
    late = bench_line_up(640, 0, 5);
    before = s[0]->portable.n_generated;
    ring_measure(&r);
    while (late->portable.n_generated == 0) {
        uint32_t planned = late->plan.n_planned;

        ring_turn(&r);
        n_turns++;
        if (planned < 640) {
            assert_int_equal(late->plan.n_planned - planned, 64);
        }
    }
    assert_int_equal(n_turns, 10 + 2); /* and the last one's round */
    all_are_busy(&r);
    assert_in_range(s[0]->portable.n_generated - before, n_turns / 3,
                    n_turns / 3 + 1);
    bench_done();
}

/* A step too small to divide: prefill and decode take turns. */
static void shares_the_smallest_step(void **state)
{
    struct ring r;
    struct sequence *s[2];

    (void)state;
    ring_new(&r, 2, 1, 1, 1);
    s[0] = bench_line_up(3, 0, 100);
    for (uint32_t i = 0; i < 20; i++) {
        ring_turn(&r);
    }
    assert_in_range(s[0]->portable.n_generated, 8, 9);
    s[1] = bench_line_up(30, 0, 100);
    for (uint32_t i = 0; i < 70; i++) {
        ring_turn(&r);
    }
    assert_in_range(s[0]->portable.n_generated, 20, 44);
    assert_in_range(s[1]->portable.n_generated, 1, 20);
    bench_done();
}

/* Dropped while queued, here and passed: it gets no more rows, others use
 * its place, and batcher_names() reports the plan here. */
static void drops_at_every_place(void **state)
{
    struct batcher *b = bench_with(8, 64, 64, 2);
    struct sequence *s = bench_line_up(640, 0, 9), *t, *u;

    (void)state;
    batcher_lead(b, 3, 8, 64);
    assert_false(batcher_names(b, s));
    bench_next(b);
    bench_next(b);
    t = bench_line_up(4, 0, 9);
    u = bench_line_up(4, 0, 9);
    assert_true(batcher_names(b, s));
    assert_false(batcher_names(b, t));
    batcher_pass(b);
    assert_true(batcher_names(b, s)); /* the second chunk */
    batcher_drop(b, s);
    batcher_drop(b, u);
    batcher_pass(b);
    assert_false(batcher_names(b, s));
    assert_int_equal(s->plan.inflight, 2);
    bench_check_row(bench_next(b), 0, t, 0, 4, true);
    assert_int_equal(batcher_here(b)->plan.n_rows, 1);
    assert_false(batcher_names(b, s));
    assert_true(batcher_names(b, t));
    bench_back(b);
    bench_back(b);
    assert_int_equal(s->plan.inflight, 0);
    assert_int_equal(u->plan.inflight, 0);
    bench_done();
}

/* A refused plan is not under way; the plan before it still names its
 * sequences. */
static void withdraws_the_newest(void **state)
{
    struct batcher *b = bench_with(8, 64, 64, 2);
    struct sequence *s = bench_line_up(640, 0, 9);
    const struct plan *second;

    (void)state;
    batcher_lead(b, 3, 8, 64);
    bench_next(b);
    second = bench_next(b);
    assert_ptr_equal(&batcher_withdraw(b)->plan, second);
    assert_true(batcher_names(b, s));
    batcher_pass(b);
    assert_false(batcher_names(b, s));
    assert_int_equal(b->inflight, 1);
    bench_done();
}

/* Random arrivals and departures: check_plan() holds, every sequence ends,
 * and nothing is under way at the end. */
static void holds_under_change(void **state)
{
    uint64_t dice = 12345;

    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        struct ring r;
        struct sequence *s[60];
        uint32_t n_made = 0;

        ring_new(&r, n, 12, 128, 1 + n % 2);
        for (uint32_t i = 0; i < 4000; i++) {
            dice = dice * 6364136223846793005u + 1442695040888963407u;
            if (n_made < 60 && dice >> 60 == 0) {
                uint32_t n_prompt = 1 + (uint32_t)(dice >> 33) % 300;
                uint32_t max = 1 + (uint32_t)(dice >> 13) % 100;

                s[n_made++] = bench_line_up(n_prompt, 0, max);
            }
            ring_turn(&r);
        }
        assert_int_equal(n_made, 60);
        assert_int_equal(r.b->inflight, 0);
        for (uint32_t i = 0; i < 60; i++) {
            assert_int_equal(s[i]->portable.n_generated,
                             s[i]->portable.max_tokens);
            assert_int_equal(s[i]->plan.inflight, 0);
        }
        bench_done();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_no_row),
        cmocka_unit_test(takes_the_limits_of_all_stages),
        cmocka_unit_test(knows_how_many_are_under_way),
        cmocka_unit_test(remembers_when_each_plan_was_sent),
        cmocka_unit_test(spreads_over_the_free_places),
        cmocka_unit_test(leaves_no_microbatch_without_rows),
        cmocka_unit_test(is_fair),
        cmocka_unit_test(lets_many_take_turns),
        cmocka_unit_test(prefills_through_all_microbatches),
        cmocka_unit_test(shares_the_smallest_step),
        cmocka_unit_test(drops_at_every_place),
        cmocka_unit_test(withdraws_the_newest),
        cmocka_unit_test(holds_under_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
