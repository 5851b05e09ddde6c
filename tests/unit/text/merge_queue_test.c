/* The queue compared with a list that is searched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "text/merge_queue.h"

#define PENDING_MAX 4096

static uint64_t pending[PENDING_MAX];
static size_t n_pending;

static uint64_t take_least(void)
{
    size_t best = 0;
    uint64_t key;

    for (size_t i = 1; i < n_pending; i++) {
        best = pending[i] < pending[best] ? i : best;
    }
    key = pending[best];
    pending[best] = pending[--n_pending];
    return key;
}

static void push(struct merge_queue *q, uint32_t rank, uint32_t pos)
{
    assert_true(n_pending < PENDING_MAX);
    pending[n_pending++] = (uint64_t)rank << 32 | pos;
    assert_true(merge_queue_push(q, rank, pos));
}

static void pop(struct merge_queue *q)
{
    uint32_t rank, pos;
    bool got = merge_queue_pop(q, &rank, &pos);

    assert_int_equal(got, n_pending > 0);
    if (got) {
        assert_true(((uint64_t)rank << 32 | pos) == take_least());
    }
}

/* Ranks that share a slot, positions in order and not, pops between. */
static void in_order(void **state)
{
    static struct merge_queue q;
    uint32_t seed = 5;

    (void)state;
    for (int round = 0; round < 50; round++) {
        merge_queue_reset(&q);
        n_pending = 0;
        for (uint32_t i = 0; i < 2000; i++) {
            uint32_t r;
            seed = seed * 1664525u + 1013904223u;
            r = seed >> 8;
            push(&q, (r & 3) + (r >> 2 & 1) * MERGE_QUEUE_RUNS,
                 r % 5 == 0 ? r >> 4 & 0xFFF : i);
            if (r % 3 == 0) {
                pop(&q);
            }
        }
        while (n_pending > 0) {
            pop(&q);
        }
        pop(&q);
    }
    merge_queue_fini(&q);
}

/* Entries that were not popped are dropped. */
static void reset(void **state)
{
    static struct merge_queue q;
    uint32_t rank, pos;

    (void)state;
    merge_queue_reset(&q);
    assert_true(merge_queue_push(&q, 1, 1));
    merge_queue_reset(&q);
    assert_false(merge_queue_pop(&q, &rank, &pos));
    assert_true(merge_queue_push(&q, 1, 2));
    assert_true(merge_queue_pop(&q, &rank, &pos));
    assert_int_equal(pos, 2);
    assert_false(merge_queue_pop(&q, &rank, &pos));
    merge_queue_fini(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order),
        cmocka_unit_test(reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
