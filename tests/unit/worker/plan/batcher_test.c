/* The rows of a step. */
#include "tests/unit/worker/plan/batcher_bench.h"

static void cuts_a_prompt_at_multiples(void **state)
{
    struct batcher *b = bench_with(4, 512, 100, 1);
    struct sequence *s = bench_line_up(228, 0, 2);
    const struct plan *p = bench_next(b);

    (void)state;
    assert_int_equal(p->n_rows, 1);
    assert_int_equal(p->n_zero, 1);
    assert_int_equal(p->zero_slots[0], s->memory.slot);
    bench_check_row(p, 0, s, 0, 64, false);
    assert_int_equal(s->state, SEQUENCE_PREFILL);
    assert_null(batcher_plan(b)); /* depth 1 */
    bench_back(b);
    p = bench_next(b);
    assert_int_equal(p->n_zero, 0);
    assert_int_equal(p->step, 2);
    bench_check_row(p, 0, s, 64, 64, false);
    assert_int_equal(p->tokens[p->rows[0].token], 64);
    bench_back(b);
    /* The rest fits into a chunk: cut at the prompt's end. */
    p = bench_next(b);
    bench_check_row(p, 0, s, 128, 100, true);
    assert_int_equal(p->rows[0].index, 0);
    bench_back(b);
    p = bench_next(b);
    bench_check_row(p, 0, s, 228, 1, true);
    assert_int_equal(p->tokens[0], 500);
    assert_int_equal(p->rows[0].index, 1);
    bench_back(b);
    s->state = SEQUENCE_DECODE;
    batcher_drop(b, s);
    assert_null(batcher_plan(b));
    bench_done();
}

static void cuts_small_chunks_at_their_own_size(void **state)
{
    struct batcher *b = bench_with(4, 512, 24, 1);
    struct sequence *s = bench_line_up(50, 0, 2);
    const struct plan *p = bench_next(b);

    (void)state;
    bench_check_row(p, 0, s, 0, 24, false);
    bench_back(b);
    bench_check_row(bench_next(b), 0, s, 24, 24, false);
    bench_back(b);
    bench_check_row(bench_next(b), 0, s, 48, 2, true);
    bench_back(b);
    bench_done();
}

static void takes_decode_first_then_short_prompts(void **state)
{
    struct batcher *b = bench_with(8, 160, 128, 1);
    struct sequence *a = bench_line_up(3, 0, 50), *c, *d, *e;
    const struct plan *p;

    (void)state;
    bench_next(b);
    bench_back(b);
    c = bench_line_up(100, 0, 5);
    d = bench_line_up(100, 0, 5);
    e = bench_line_up(4, 0, 5);
    p = bench_next(b);
    /* One token of a, all of e and c; the 55 left are too few for a cut of d.
     */
    assert_int_equal(p->n_rows, 3);
    bench_check_row(p, 0, a, 3, 1, true);
    bench_check_row(p, 1, e, 0, 4, true);
    bench_check_row(p, 2, c, 0, 100, true);
    bench_back(b);
    p = bench_next(b);
    assert_int_equal(p->n_rows, 4);
    assert_in_range(p->n_tokens, 1, 160);
    bench_check_row(p, 3, d, 0, 100, true);
    bench_back(b);
    p = bench_next(b);
    assert_int_equal(p->n_rows, 4);
    assert_int_equal(p->n_tokens, 4);
    bench_back(b);
    bench_done();
}

static void computes_moved_ids_as_generated(void **state)
{
    struct batcher *b = bench_with(4, 64, 64, 1);
    struct sequence *s = bench_line_up(10, 100, 120);
    const struct plan *p = bench_next(b);

    (void)state;
    /* The row ends at the prompt's end, although more ids are known. */
    bench_check_row(p, 0, s, 0, 10, false);
    bench_back(b);
    bench_check_row(bench_next(b), 0, s, 10, 64, false);
    bench_back(b);
    p = bench_next(b);
    bench_check_row(p, 0, s, 74, 36, true);
    assert_int_equal(p->rows[0].index, 100);
    bench_back(b);
    bench_check_row(bench_next(b), 0, s, 110, 1, true);
    bench_back(b);
    bench_done();
}

static void chains_a_row_to_the_plan_before(void **state)
{
    struct batcher *b = bench_with(4, 64, 64, 2);
    struct sequence *s = bench_line_up(5, 0, 3);
    const struct plan *p;

    (void)state;
    bench_check_row(bench_next(b), 0, s, 0, 5, true);
    p = bench_next(b);
    bench_check_row(p, 0, s, 5, 1, true);
    assert_true(p->rows[0].chained);
    assert_int_equal(p->rows[0].chain_row, 0);
    assert_int_equal(p->rows[0].index, 1);
    assert_null(batcher_plan(b)); /* depth 2 */
    bench_back(b);
    p = bench_next(b);
    bench_check_row(p, 0, s, 6, 1, true);
    assert_true(p->rows[0].chained);
    assert_int_equal(p->rows[0].index, 2);
    bench_back(b);
    /* Index 2 is the last of 3: no further token is sampled. */
    assert_null(batcher_plan(b));
    bench_back(b);
    assert_int_equal(s->portable.n_generated, 3);
    assert_int_equal(s->plan.pending, 0);
    bench_done();
}

static void chains_prefill_chunks_without_tokens(void **state)
{
    struct batcher *b = bench_with(4, 64, 64, 2);
    struct sequence *s = bench_line_up(100, 0, 3);
    const struct plan *p;

    (void)state;
    bench_check_row(bench_next(b), 0, s, 0, 64, false);
    p = bench_next(b);
    bench_check_row(p, 0, s, 64, 36, true);
    assert_false(p->rows[0].chained);
    bench_back(b);
    p = bench_next(b);
    assert_true(p->rows[0].chained);
    bench_check_row(p, 0, s, 100, 1, true);
    bench_back(b);
    bench_back(b);
    bench_done();
}

static void lets_many_take_turns(void **state)
{
    struct batcher *b = bench_with(3, 512, 64, 1);
    struct sequence *s[6];
    uint32_t seen[6] = {0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        s[i] = bench_line_up(4, 0, 100);
    }
    for (int step = 0; step < 20; step++) {
        const struct plan *p = bench_next(b);

        assert_int_equal(p->n_rows, 3);
        for (uint32_t i = 0; i < 3; i++) {
            seen[p->rows[i].sequence - 1]++;
        }
        bench_back(b);
    }
    /* 60 rows; sequences that joined last have a few less. */
    for (int i = 0; i < 6; i++) {
        assert_in_range(seen[i], 7, 14);
        assert_int_equal(seen[i], s[i]->portable.n_generated);
    }
    bench_done();
}

static void keeps_a_row_for_one_that_waits(void **state)
{
    struct batcher *b = bench_with(2, 512, 64, 1);
    struct sequence *late;

    (void)state;
    bench_line_up(4, 0, 100);
    bench_line_up(4, 0, 100);
    bench_next(b);
    bench_back(b);
    late = bench_line_up(4, 0, 100);
    bench_check_row(bench_next(b), 1, late, 0, 4, true);
    bench_back(b);
    bench_done();
}

static void shares_the_smallest_step(void **state)
{
    struct batcher *b = bench_with(1, 1, 1, 1);
    struct sequence *s = bench_line_up(4, 0, 20), *t;

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(bench_next(b)->n_tokens, 1);
        bench_back(b);
    }
    assert_int_equal(s->portable.n_generated, 3);
    t = bench_line_up(3, 0, 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(bench_next(b)->n_tokens, 1);
        bench_back(b);
    }
    assert_in_range(t->portable.n_generated, 5, 15);
    assert_in_range(s->portable.n_generated, 8, 18);
    bench_done();
}

static void takes_blocks_as_positions_are_reached(void **state)
{
    struct batcher *b = bench_with(4, 512, 64, 1);
    struct sequence *s = bench_line_up(15, 0, 20);
    struct pool_account a = pool_account(&bench.pool, POOL_BLOCKS);

    (void)state;
    assert_int_equal(a.held, 0);
    assert_int_equal(a.granted, 5);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t end = 15 + i;

        bench_next(b);
        a = pool_account(&bench.pool, POOL_BLOCKS);
        assert_int_equal(a.held, (end + 7) / 8);
        assert_int_equal(a.granted, 5 - (end + 7) / 8);
        bench_back(b);
    }
    assert_int_equal(s->memory.n_blocks, 5);
    bench_done();
}

static void names_one_that_broke_the_account(void **state)
{
    struct batcher *b = bench_with(4, 512, 64, 1);
    struct sequence *s = bench_line_up(15, 0, 20);

    (void)state;
    s->memory.need.n[POOL_BLOCKS] = 1; /* it needs 2 */
    assert_null(batcher_plan(b));
    assert_ptr_equal(b->stuck, s);
    assert_null(batcher_plan(b));
    assert_null(b->stuck);
    bench_done();
}

static void withdraws_the_newest(void **state)
{
    struct batcher *b = bench_with(4, 64, 64, 2);
    struct sequence *s = bench_line_up(5, 0, 9);
    const struct plan *first = bench_next(b), *second = bench_next(b);

    (void)state;
    assert_ptr_equal(&batcher_oldest(b)->plan, first);
    assert_ptr_equal(&batcher_withdraw(b)->plan, second);
    s->plan.inflight--;
    s->plan.pending--;
    assert_ptr_equal(&batcher_here(b)->plan, first);
    batcher_drop(b, s);
    bench_back(b);
    bench_done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_a_prompt_at_multiples),
        cmocka_unit_test(cuts_small_chunks_at_their_own_size),
        cmocka_unit_test(takes_decode_first_then_short_prompts),
        cmocka_unit_test(computes_moved_ids_as_generated),
        cmocka_unit_test(chains_a_row_to_the_plan_before),
        cmocka_unit_test(chains_prefill_chunks_without_tokens),
        cmocka_unit_test(lets_many_take_turns),
        cmocka_unit_test(keeps_a_row_for_one_that_waits),
        cmocka_unit_test(shares_the_smallest_step),
        cmocka_unit_test(takes_blocks_as_positions_are_reached),
        cmocka_unit_test(names_one_that_broke_the_account),
        cmocka_unit_test(withdraws_the_newest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
