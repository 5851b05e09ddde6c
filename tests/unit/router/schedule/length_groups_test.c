/* Lengths by tenant and route: what a new group begins with, how soon it has
 * its own lengths, and what becomes of those past the limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "router/schedule/length_groups.h"

enum { HEAVY = 1, LIGHT = 2, CHAT = 3, BATCH = 4 };

#define MAX LENGTHS_MOST

static struct length_groups all;

static struct lengths *group(uint32_t tenant, uint32_t route)
{
    struct group_ref x = {.route = route};

    length_groups_arrived(&all, tenant, &x);
    return length_groups_lengths(&all, tenant, &x);
}

/* Sequences that are observed token by token, from `from` on. */
static void reach(struct lengths *l, uint32_t from, uint32_t n)
{
    if (from == 0) {
        lengths_begun(l, 1);
    }
    for (uint32_t had = from > 0 ? from : 1; had < n; had++) {
        lengths_reached(l, had, had + 1);
    }
}

static void learn(struct lengths *l, uint32_t times, uint32_t n)
{
    for (uint32_t i = 0; i < times; i++) {
        reach(l, 0, n);
        lengths_ended(l, n);
    }
}

static uint32_t expected(struct lengths *l)
{
    return lengths_expect(l, 0, MAX);
}

static void a_new_tenant_is_like_its_model(void **state)
{
    (void)state;
    length_groups_init(&all);
    assert_int_equal(expected(group(HEAVY, 0)), expected(&all.model));
    learn(group(LIGHT, 0), 100, 150);
    assert_in_range(expected(&all.model), 144, 160);
    assert_int_equal(expected(group(HEAVY, 0)), expected(&all.model));
}

static void a_new_route_is_like_its_tenant(void **state)
{
    (void)state;
    length_groups_init(&all);
    learn(group(LIGHT, 0), 100, 1000);
    learn(group(HEAVY, CHAT), 100, 20);
    assert_int_equal(expected(group(HEAVY, BATCH)), expected(group(HEAVY, 0)));
    assert_in_range(expected(group(HEAVY, BATCH)), 20, 40);
}

/* A hundred ends are enough, whatever the others of the model do. */
static void each_has_its_own_lengths_after_a_hundred_ends(void **state)
{
    (void)state;
    length_groups_init(&all);
    for (uint32_t i = 0; i < 100; i++) {
        learn(group(LIGHT, 0), 5, 10);
        learn(group(HEAVY, CHAT), 1, 150);
        learn(group(HEAVY, BATCH), 1, 2000);
    }
    assert_in_range(expected(group(LIGHT, 0)), 10, 12);
    assert_in_range(expected(group(HEAVY, CHAT)), 144, 160);
    assert_in_range(expected(group(HEAVY, BATCH)), 1921, 2048);
    assert_in_range(lengths_mean(group(HEAVY, CHAT), 0, MAX), 130, 400);
    assert_in_range(lengths_mean(group(HEAVY, BATCH), 0, MAX), 1600, 2400);
}

/* A batch job of 32 at once, 40 tokens/s each: long outputs are expected of it
 * before one has ended, and of its tenant's chats no longer ones than before.
 */
static void long_outputs_are_seen_while_they_run(void **state)
{
    struct lengths *chat, *batch;
    uint32_t before;

    (void)state;
    length_groups_init(&all);
    chat = group(HEAVY, CHAT);
    learn(chat, 300, 100);
    before = expected(chat);
    batch = group(HEAVY, BATCH);
    assert_in_range(expected(batch), 96, 112);
    for (uint32_t s = 0; s < 30; s++) {
        for (uint32_t i = 0; i < 32; i++) {
            reach(batch, s * 40, s * 40 + 40);
        }
    }
    assert_in_range(expected(batch), 1200, MAX);
    assert_in_range(expected(chat), before, before + before / 8);
}

/* The same route becomes ten times as long: 4 requests/s for 30 s. */
static void a_route_that_changes_is_followed_in_30_s(void **state)
{
    struct lengths *l;

    (void)state;
    length_groups_init(&all);
    l = group(HEAVY, CHAT);
    learn(l, 1000, 100);
    assert_in_range(expected(l), 96, 112);
    learn(l, 120, 1000);
    assert_in_range(expected(l), 961, 1024);
}

static void routes_past_the_limit_replace_the_oldest(void **state)
{
    struct group_ref first = {.route = 1}, next = {.route = 2}, x;

    (void)state;
    length_groups_init(&all);
    length_groups_arrived(&all, HEAVY, &first);
    learn(length_groups_lengths(&all, HEAVY, &first), 100, 500);
    length_groups_arrived(&all, HEAVY, &next);
    for (uint32_t r = 3; r <= LENGTH_ROUTES_MAX; r++) {
        learn(group(HEAVY, r), 1, 5);
    }
    /* So many have their groups, and the first comes once more. */
    x = first;
    length_groups_seek(&all, HEAVY, &x);
    assert_int_equal(x.number, first.number);
    length_groups_arrived(&all, HEAVY, &first);
    (void)group(HEAVY, LENGTH_ROUTES_MAX + 1);
    x = first;
    length_groups_seek(&all, HEAVY, &x);
    assert_int_equal(x.number, first.number);
    x = next;
    length_groups_seek(&all, HEAVY, &x);
    assert_int_equal(x.number, 0);
    /* The running sequence of the second belongs to its tenant. */
    assert_ptr_equal(length_groups_lengths(&all, HEAVY, &next),
                     &all.tenants[HEAVY]);
}

static void a_group_counts_for_its_tenant_and_model(void **state)
{
    (void)state;
    length_groups_init(&all);
    learn(group(HEAVY, CHAT), 3, 7);
    lengths_cut(group(HEAVY, BATCH));
    learn(group(LIGHT, 0), 2, 7);
    assert_int_equal(lengths_count(group(HEAVY, CHAT)), 3);
    assert_int_equal(lengths_count(group(HEAVY, 0)), 4);
    assert_int_equal(lengths_count(group(LIGHT, 0)), 2);
    assert_int_equal(lengths_count(&all.model), 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_tenant_is_like_its_model),
        cmocka_unit_test(a_new_route_is_like_its_tenant),
        cmocka_unit_test(each_has_its_own_lengths_after_a_hundred_ends),
        cmocka_unit_test(long_outputs_are_seen_while_they_run),
        cmocka_unit_test(a_route_that_changes_is_followed_in_30_s),
        cmocka_unit_test(routes_past_the_limit_replace_the_oldest),
        cmocka_unit_test(a_group_counts_for_its_tenant_and_model),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
