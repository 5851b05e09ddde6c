/* Counts of drafts during a run. */
#include "client/load/figures/draft_sum.h"
#include "tests/unit/cmocka.h"

static void sums(const struct draft_sum *s, uint64_t rows, uint64_t verified,
                 uint64_t accepted)
{
    assert_int_equal(s->sum.rows, rows);
    assert_int_equal(s->sum.verified, verified);
    assert_int_equal(s->sum.accepted, accepted);
}

static void counts_begin_at_the_first_reading(void **state)
{
    struct draft_sum s = {0};

    (void)state;
    draft_sum_read(&s, &(struct draft_counts){100, 400, 300});
    sums(&s, 0, 0, 0);
    draft_sum_read(&s, &(struct draft_counts){100, 400, 300});
    sums(&s, 0, 0, 0);
    draft_sum_read(&s, &(struct draft_counts){110, 430, 301});
    sums(&s, 10, 30, 1);
}

/* Each of the three may be the one that shows it. */
static void a_new_router_counts_from_0(void **state)
{
    static const struct draft_counts after[] = {
        {9, 40, 30}, {10, 39, 30}, {10, 40, 29}};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct draft_sum s = {0};

        draft_sum_read(&s, &(struct draft_counts){8, 35, 25});
        draft_sum_read(&s, &(struct draft_counts){10, 40, 30});
        draft_sum_read(&s, &after[i]);
        sums(&s, 2 + after[i].rows, 5 + after[i].verified,
             5 + after[i].accepted);
        draft_sum_read(&s, &(struct draft_counts){20, 80, 60});
        sums(&s, 22, 85, 65);
    }
}

static void a_row_has_one_token_more_than_accepted_drafts(void **state)
{
    (void)state;
    assert_true(draft_tokens(&(struct draft_counts){4, 16, 0}) == 1);
    assert_true(draft_tokens(&(struct draft_counts){4, 16, 10}) == 3.5);
    assert_true(draft_tokens(&(struct draft_counts){0, 0, 0}) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_begin_at_the_first_reading),
        cmocka_unit_test(a_new_router_counts_from_0),
        cmocka_unit_test(a_row_has_one_token_more_than_accepted_drafts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
