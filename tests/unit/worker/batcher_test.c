/* What a step computes, row by row. */
#include "worker/batcher.h"

#include <string.h>

#include "tests/unit/cmocka.h"

struct bench {
    struct pool pool;
    struct sequence_table table;
    struct batcher batcher;
};

static struct bench bench;

static struct batcher *with(uint32_t rows, uint32_t tokens, uint32_t chunk,
                            uint32_t depth)
{
    struct pool_need total = {{256, 32, 0}}, pages = {{1, 1, 1}};
    struct sequence_limits sl = {
        .capacity = 64, .longest = 1024, .values = 32768, .hash_seed = 1};
    struct batcher_limits bl = {.max_rows = rows,
                                .step_tokens = tokens,
                                .chunk_tokens = chunk,
                                .depth = depth,
                                .block_tokens = 8,
                                .n_blocks = 256,
                                .n_slots = 32};

    assert_true(pool_init(&bench.pool, &total, &pages));
    assert_true(sequence_table_init(&bench.table, &sl, &bench.pool));
    assert_true(batcher_init(&bench.batcher, &bl, &bench.table));
    return &bench.batcher;
}

static void done(void)
{
    assert_int_equal(bench.pool.violations, 0);
    batcher_fini(&bench.batcher);
    sequence_table_fini(&bench.table);
    pool_fini(&bench.pool);
}

/* In line, with n_generated ids that were made elsewhere; id i is i. */
static struct sequence *line_up(uint32_t n_prompt, uint32_t n_generated,
                                uint32_t max_tokens)
{
    uint32_t n = n_prompt + max_tokens;
    struct pool_need need = {{(n + 7) / 8, 1, 0}};
    struct sequence *s = sequence_new(&bench.table, n, need.n[POOL_BLOCKS]);

    assert_non_null(s);
    assert_int_equal(pool_grant(&bench.pool, &need, NULL), ST_OK);
    s->need = need;
    s->n_prompt = n_prompt;
    s->n_generated = n_generated;
    s->max_tokens = max_tokens;
    for (uint32_t i = 0; i < n_prompt + n_generated; i++) {
        paged_write(&bench.table.slab, &s->tokens, i, &i, 1);
    }
    sequence_move(&bench.table, s, SEQUENCE_QUEUED);
    batcher_add(&bench.batcher, s);
    return s;
}

/* The oldest plan is back; every sampled id is 500. */
static void back(struct batcher *b)
{
    const struct batch *t = batcher_oldest(b);
    uint32_t id = 500;

    for (uint32_t i = 0; i < t->plan.n_rows; i++) {
        struct sequence *s = t->who[i];

        s->inflight--;
        if (t->plan.rows[i].sample) {
            s->pending--;
            paged_write(&bench.table.slab, &s->tokens, sequence_known(s), &id,
                        1);
            s->n_generated++;
            if (s->state == SEQUENCE_PREFILL) {
                sequence_move(&bench.table, s, SEQUENCE_DECODE);
            }
        }
    }
    batcher_return(b);
}

static const struct plan *next(struct batcher *b)
{
    const struct plan *p = batcher_plan(b);

    assert_non_null(p);
    assert_null(b->stuck);
    return p;
}

static void check_row(const struct plan *p, uint32_t i,
                      const struct sequence *s, uint32_t position,
                      uint32_t n_tokens, bool sample)
{
    const struct plan_row *r = &p->rows[i];

    assert_in_range(i, 0, p->n_rows - 1);
    assert_int_equal(r->sequence, s->number);
    assert_int_equal(r->position, position);
    assert_int_equal(r->n_tokens, n_tokens);
    assert_int_equal(r->sample, sample);
    assert_int_equal(r->kind,
                     position < s->n_prompt ? ROW_PROMPT : ROW_GENERATED);
    assert_int_equal(r->n_blocks, (position + n_tokens + 7) / 8);
    assert_int_equal(r->slot, s->slot);
}

static void cuts_a_prompt_at_multiples(void **state)
{
    struct batcher *b = with(4, 512, 100, 1);
    struct sequence *s = line_up(228, 0, 2);
    const struct plan *p = next(b);

    (void)state;
    assert_int_equal(p->n_rows, 1);
    assert_int_equal(p->n_zero, 1);
    assert_int_equal(p->zero_slots[0], s->slot);
    check_row(p, 0, s, 0, 64, false);
    assert_int_equal(s->state, SEQUENCE_PREFILL);
    assert_null(batcher_plan(b)); /* depth 1 */
    back(b);
    p = next(b);
    assert_int_equal(p->n_zero, 0);
    assert_int_equal(p->step, 2);
    check_row(p, 0, s, 64, 64, false);
    assert_int_equal(p->tokens[p->rows[0].token], 64);
    back(b);
    /* The rest fits a chunk: cut at the prompt's end. */
    p = next(b);
    check_row(p, 0, s, 128, 100, true);
    assert_int_equal(p->rows[0].index, 0);
    back(b);
    p = next(b);
    check_row(p, 0, s, 228, 1, true);
    assert_int_equal(p->tokens[0], 500);
    assert_int_equal(p->rows[0].index, 1);
    back(b);
    s->state = SEQUENCE_DECODE;
    batcher_drop(s);
    assert_null(batcher_plan(b));
    done();
}

static void cuts_small_chunks_at_their_own_size(void **state)
{
    struct batcher *b = with(4, 512, 24, 1);
    struct sequence *s = line_up(50, 0, 2);
    const struct plan *p = next(b);

    (void)state;
    check_row(p, 0, s, 0, 24, false);
    back(b);
    check_row(next(b), 0, s, 24, 24, false);
    back(b);
    check_row(next(b), 0, s, 48, 2, true);
    back(b);
    done();
}

static void takes_decode_first_then_prefill_in_order(void **state)
{
    struct batcher *b = with(8, 160, 128, 1);
    struct sequence *a = line_up(3, 0, 50), *c, *d, *e;
    const struct plan *p;

    (void)state;
    next(b);
    back(b);
    c = line_up(100, 0, 5);
    d = line_up(100, 0, 5);
    e = line_up(4, 0, 5);
    p = next(b);
    /* One token of a, all of c; 59 are left, too few for a cut of d, and
     * nobody overtakes d. */
    assert_int_equal(p->n_rows, 2);
    check_row(p, 0, a, 3, 1, true);
    check_row(p, 1, c, 0, 100, true);
    back(b);
    p = next(b);
    assert_int_equal(p->n_rows, 4);
    assert_in_range(p->n_tokens, 1, 160);
    check_row(p, 2, d, 0, 100, true);
    check_row(p, 3, e, 0, 4, true);
    back(b);
    p = next(b);
    assert_int_equal(p->n_rows, 4);
    assert_int_equal(p->n_tokens, 4);
    back(b);
    done();
}

static void computes_moved_ids_as_generated(void **state)
{
    struct batcher *b = with(4, 64, 64, 1);
    struct sequence *s = line_up(10, 100, 120);
    const struct plan *p = next(b);

    (void)state;
    /* The prompt's end ends the row, although more is known. */
    check_row(p, 0, s, 0, 10, false);
    back(b);
    check_row(next(b), 0, s, 10, 64, false);
    back(b);
    p = next(b);
    check_row(p, 0, s, 74, 36, true);
    assert_int_equal(p->rows[0].index, 100);
    back(b);
    check_row(next(b), 0, s, 110, 1, true);
    back(b);
    done();
}

static void chains_a_row_to_the_plan_before(void **state)
{
    struct batcher *b = with(4, 64, 64, 2);
    struct sequence *s = line_up(5, 0, 3);
    const struct plan *p;

    (void)state;
    check_row(next(b), 0, s, 0, 5, true);
    p = next(b);
    check_row(p, 0, s, 5, 1, true);
    assert_true(p->rows[0].chained);
    assert_int_equal(p->rows[0].chain_row, 0);
    assert_int_equal(p->rows[0].index, 1);
    assert_null(batcher_plan(b)); /* depth 2 */
    back(b);
    p = next(b);
    check_row(p, 0, s, 6, 1, true);
    assert_true(p->rows[0].chained);
    assert_int_equal(p->rows[0].index, 2);
    back(b);
    /* Index 2 is the last of 3: nothing more to ask for. */
    assert_null(batcher_plan(b));
    back(b);
    assert_int_equal(s->n_generated, 3);
    assert_int_equal(s->pending, 0);
    done();
}

static void chains_prefill_chunks_without_tokens(void **state)
{
    struct batcher *b = with(4, 64, 64, 2);
    struct sequence *s = line_up(100, 0, 3);
    const struct plan *p;

    (void)state;
    check_row(next(b), 0, s, 0, 64, false);
    p = next(b);
    check_row(p, 0, s, 64, 36, true);
    assert_false(p->rows[0].chained);
    back(b);
    p = next(b);
    assert_true(p->rows[0].chained);
    check_row(p, 0, s, 100, 1, true);
    back(b);
    back(b);
    done();
}

static void lets_many_take_turns(void **state)
{
    struct batcher *b = with(3, 512, 64, 1);
    struct sequence *s[6];
    uint32_t seen[6] = {0};

    (void)state;
    for (int i = 0; i < 6; i++) {
        s[i] = line_up(4, 0, 100);
    }
    for (int step = 0; step < 20; step++) {
        const struct plan *p = next(b);

        assert_int_equal(p->n_rows, 3);
        for (uint32_t i = 0; i < 3; i++) {
            seen[p->rows[i].sequence - 1]++;
        }
        back(b);
    }
    /* 60 rows; the ones that joined last have a few less. */
    for (int i = 0; i < 6; i++) {
        assert_in_range(seen[i], 7, 14);
        assert_int_equal(seen[i], s[i]->n_generated);
    }
    done();
}

static void keeps_a_row_for_one_that_waits(void **state)
{
    struct batcher *b = with(2, 512, 64, 1);
    struct sequence *late;

    (void)state;
    line_up(4, 0, 100);
    line_up(4, 0, 100);
    next(b);
    back(b);
    late = line_up(4, 0, 100);
    check_row(next(b), 1, late, 0, 4, true);
    back(b);
    done();
}

static void shares_the_smallest_step(void **state)
{
    struct batcher *b = with(1, 1, 1, 1);
    struct sequence *s = line_up(4, 0, 20), *t;

    (void)state;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(next(b)->n_tokens, 1);
        back(b);
    }
    assert_int_equal(s->n_generated, 3);
    t = line_up(3, 0, 20);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(next(b)->n_tokens, 1);
        back(b);
    }
    assert_in_range(t->n_generated, 5, 15);
    assert_in_range(s->n_generated, 8, 18);
    done();
}

static void takes_blocks_as_positions_are_reached(void **state)
{
    struct batcher *b = with(4, 512, 64, 1);
    struct sequence *s = line_up(15, 0, 20);
    const struct pool_account *a = pool_account(&bench.pool, POOL_BLOCKS);

    (void)state;
    assert_int_equal(a->held, 0);
    assert_int_equal(a->granted, 5);
    for (uint32_t i = 0; i < 20; i++) {
        uint32_t end = 15 + i;

        next(b);
        assert_int_equal(a->held, (end + 7) / 8);
        assert_int_equal(a->granted, 5 - (end + 7) / 8);
        back(b);
    }
    assert_int_equal(s->n_blocks, 5);
    done();
}

static void names_one_that_broke_the_account(void **state)
{
    struct batcher *b = with(4, 512, 64, 1);
    struct sequence *s = line_up(15, 0, 20);

    (void)state;
    s->need.n[POOL_BLOCKS] = 1; /* it needs 2 */
    assert_null(batcher_plan(b));
    assert_ptr_equal(b->stuck, s);
    assert_null(batcher_plan(b));
    assert_null(b->stuck);
    done();
}

static void withdraws_the_newest(void **state)
{
    struct batcher *b = with(4, 64, 64, 2);
    struct sequence *s = line_up(5, 0, 9);
    const struct plan *first = next(b), *second = next(b);

    (void)state;
    assert_ptr_equal(&batcher_oldest(b)->plan, first);
    assert_ptr_equal(&batcher_newest(b)->plan, second);
    batcher_withdraw(b);
    s->inflight--;
    s->pending--;
    assert_ptr_equal(&batcher_newest(b)->plan, first);
    batcher_drop(s);
    back(b);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_a_prompt_at_multiples),
        cmocka_unit_test(cuts_small_chunks_at_their_own_size),
        cmocka_unit_test(takes_decode_first_then_prefill_in_order),
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
