#include "worker/cache/logprobs.h"

#include <string.h>

#include "tests/unit/cmocka.h"

/* Every bit pattern is preserved, so the values here need not be logprobs. */
static float value(uint32_t index, uint32_t i)
{
    uint32_t bits = index * 4096 + i + 1;
    float f;

    memcpy(&f, &bits, sizeof f);
    return f;
}

static void put(struct slab *s, struct logprobs *l)
{
    struct token_logprob top[TOP_LOGPROBS_MAX];

    for (uint32_t i = 0; i < l->n_top; i++) {
        top[i] = (struct token_logprob){l->end + i, value(l->end, 1 + i)};
    }
    logprobs_put(s, l, value(l->end, 0), top);
}

static void check(const struct slab *s, const struct logprobs *l,
                  uint32_t begin, uint32_t end)
{
    static float logprobs[LOGPROB_WINDOW * (1 + TOP_LOGPROBS_MAX)];
    static uint32_t top[LOGPROB_WINDOW * TOP_LOGPROBS_MAX];
    const float *at = logprobs;
    const uint32_t *id = top;

    logprobs_get(s, l, begin, end - begin, logprobs, top);
    for (uint32_t index = begin; index < end; index++) {
        for (uint32_t i = 0; i <= l->n_top; i++) {
            float right = value(index, i);

            assert_memory_equal(at++, &right, sizeof right);
        }
        for (uint32_t i = 0; i < l->n_top; i++) {
            assert_int_equal(*id++, index + i);
        }
    }
}

static void keeps_the_newest(void **state)
{
    static const uint32_t tops[] = {0, 1, 7, TOP_LOGPROBS_MAX};

    (void)state;
    for (int t = 0; t < 4; t++) {
        struct logprobs l;
        struct slab s;

        assert_true(logprobs_slab(&s, 1));
        assert_true(logprobs_make(&s, &l, tops[t], 5, 5000));
        assert_int_equal(l.window, LOGPROB_WINDOW);
        for (uint32_t n = 0; n < 3 * LOGPROB_WINDOW + 1; n++) {
            put(&s, &l);
            check(&s, &l, l.first, l.end);
        }
        assert_int_equal(l.first, 5 + 2 * LOGPROB_WINDOW + 1);
        check(&s, &l, l.end, l.end);
        logprobs_free(&s, &l);
        slab_fini(&s);
    }
}

static void knows_what_it_reaches(void **state)
{
    struct logprobs l;
    struct slab s;

    (void)state;
    assert_true(logprobs_slab(&s, 1));
    assert_true(logprobs_make(&s, &l, 0, 10, 5000));
    assert_true(logprobs_reach(&l, 10, 1));
    assert_false(logprobs_reach(&l, 9, 0)); /* generated elsewhere */
    for (uint32_t n = 0; n < LOGPROB_WINDOW - 1; n++) {
        assert_true(logprobs_room(&l, 10, 0));
        put(&s, &l);
    }
    assert_true(logprobs_room(&l, 10, 0));
    assert_false(logprobs_room(&l, 10, 1));
    assert_true(logprobs_room(&l, 11, 1));
    assert_true(logprobs_reach(&l, 10, 1));
    assert_false(logprobs_reach(&l, 10, 2));
    put(&s, &l);
    assert_false(logprobs_room(&l, 10, 0));
    assert_true(logprobs_reach(&l, 10, 0));
    assert_false(logprobs_reach(&l, 10, 1));
    put(&s, &l);
    assert_false(logprobs_reach(&l, 10, 0));
    assert_true(logprobs_reach(&l, 11, 0));
    assert_true(logprobs_reach(&l, l.end, 2));
    logprobs_free(&s, &l);
    slab_fini(&s);
}

/* Sequences shorter than the window, and one that has all its tokens. */
static void takes_no_more_than_can_come(void **state)
{
    struct logprobs l, none;
    struct slab s;
    uint32_t room;

    (void)state;
    assert_true(logprobs_slab(&s, 1));
    room = slab_room(&s);
    assert_true(logprobs_make(&s, &none, 20, 8, 8));
    assert_int_equal(slab_room(&s), room);
    assert_true(logprobs_make(&s, &l, 20, 5, 8));
    assert_int_equal(l.window, 3);
    assert_int_equal(room - slab_room(&s), slab_cost(&s, 3 * 41));
    for (int n = 0; n < 3; n++) {
        assert_true(logprobs_room(&l, 5, 0));
        put(&s, &l);
    }
    check(&s, &l, 5, 8);
    logprobs_free(&s, &l);
    logprobs_free(&s, &none);
    logprobs_free(&s, &none); /* also for a ring that was never made */
    assert_int_equal(slab_room(&s), room);
    slab_fini(&s);
}

/* The largest rings all fit; another one is refused and takes nothing. */
static void holds_as_many_as_it_was_made_for(void **state)
{
    struct logprobs l[6];
    struct slab s;
    uint32_t n = 0, room;

    (void)state;
    assert_true(logprobs_slab(&s, 5));
    for (; n < 5; n++) {
        assert_true(logprobs_make(&s, &l[n], TOP_LOGPROBS_MAX, 0, 256));
    }
    room = slab_room(&s);
    assert_false(logprobs_make(&s, &l[5], TOP_LOGPROBS_MAX, 0, 256));
    logprobs_free(&s, &l[5]);
    assert_int_equal(slab_room(&s), room);
    logprobs_free(&s, &l[2]);
    assert_true(logprobs_make(&s, &l[2], TOP_LOGPROBS_MAX, 0, 256));
    for (n = 0; n < 5; n++) {
        logprobs_free(&s, &l[n]);
    }
    slab_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_newest),
        cmocka_unit_test(knows_what_it_reaches),
        cmocka_unit_test(takes_no_more_than_can_come),
        cmocka_unit_test(holds_as_many_as_it_was_made_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
