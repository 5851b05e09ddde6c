#include "worker/cache/pool.h"

#include <string.h>

#include "common/base/log.h"
#include "tests/unit/cmocka.h"

static struct pool make(uint32_t blocks, uint32_t slots)
{
    struct pool p;
    struct pool_need total = {{blocks, slots, 0}}, pages = {{1, 3, 0}};

    assert_true(pool_init(&p, &total, &pages));
    return p;
}

static void check(const struct pool *p, enum pool_class c, uint32_t free,
                  uint32_t held, uint32_t granted)
{
    const struct pool_account *a = pool_account(p, c);

    assert_int_equal(a->free, free);
    assert_int_equal(a->held, held);
    assert_int_equal(a->granted, granted);
    assert_int_equal(a->total, a->free + a->held + a->cached + a->granted);
}

static void grants_takes_and_releases(void **state)
{
    struct pool p = make(8, 2);
    struct pool_need need = {{5, 1, 0}}, rest = {{2, 0, 0}};
    uint32_t got[3], slot;

    (void)state;
    check(&p, POOL_BLOCKS, 8, 0, 0);
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    check(&p, POOL_BLOCKS, 3, 0, 5);
    check(&p, POOL_SLOTS, 1, 0, 1);
    assert_true(pool_take(&p, POOL_BLOCKS, 3, got));
    assert_true(pool_take(&p, POOL_SLOTS, 1, &slot));
    check(&p, POOL_BLOCKS, 3, 3, 2);
    check(&p, POOL_SLOTS, 1, 1, 0);
    pool_ungrant(&p, &rest);
    for (int i = 0; i < 3; i++) {
        pool_release(&p, POOL_BLOCKS, got[i]);
    }
    pool_release(&p, POOL_SLOTS, slot);
    check(&p, POOL_BLOCKS, 8, 0, 0);
    check(&p, POOL_SLOTS, 2, 0, 0);
    assert_int_equal(p.violations, 0);
    pool_fini(&p);
}

static void grants_all_or_nothing(void **state)
{
    struct pool p = make(8, 1);
    struct pool_need fits = {{8, 1, 0}}, more = {{9, 1, 0}};
    struct pool_need slots = {{1, 2, 0}}, kind = {{0, 0, 1}};
    struct error e;

    (void)state;
    assert_int_equal(pool_grant(&p, &more, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text, "needs 9 blocks, 8 free of 8");
    assert_int_equal(pool_grant(&p, &slots, &e), ST_RESOURCE_EXHAUSTED);
    assert_string_equal(e.text, "needs 2 slots, 1 free of 1");
    assert_int_equal(pool_grant(&p, &kind, &e), ST_RESOURCE_EXHAUSTED);
    check(&p, POOL_BLOCKS, 8, 0, 0);
    check(&p, POOL_SLOTS, 1, 0, 0);
    assert_int_equal(pool_grant(&p, &fits, &e), ST_OK);
    check(&p, POOL_BLOCKS, 0, 0, 8);
    pool_fini(&p);
}

static void uses_the_last_released_first(void **state)
{
    struct pool p = make(8, 0);
    struct pool_need need = {{4, 0, 0}};
    uint32_t got[3], again;

    (void)state;
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    assert_true(pool_take(&p, POOL_BLOCKS, 3, got));
    assert_int_equal(got[0], 0);
    assert_int_equal(got[1], 1);
    pool_release(&p, POOL_BLOCKS, got[1]);
    assert_true(pool_take(&p, POOL_BLOCKS, 1, &again));
    assert_int_equal(again, got[1]);
    pool_fini(&p);
}

static void counts_what_breaks_the_account(void **state)
{
    struct pool p = make(4, 0);
    struct pool_need need = {{2, 0, 0}}, more = {{3, 0, 0}};
    uint32_t got[4];

    (void)state;
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    assert_false(pool_take(&p, POOL_BLOCKS, 3, got));
    assert_int_equal(p.violations, 1);
    assert_true(pool_take(&p, POOL_BLOCKS, 2, got));
    pool_release(&p, POOL_BLOCKS, got[0]);
    pool_release(&p, POOL_BLOCKS, got[0]); /* twice */
    assert_int_equal(p.violations, 2);
    pool_release(&p, POOL_BLOCKS, 4); /* no such number */
    pool_release(&p, POOL_BLOCKS, 3); /* it is not held */
    pool_release(&p, POOL_SLOTS, 0);  /* no such class */
    assert_int_equal(p.violations, 5);
    pool_ungrant(&p, &more);
    assert_int_equal(p.violations, 6);
    check(&p, POOL_BLOCKS, 3, 1, 0);
    pool_fini(&p);
}

static void counts_pages_of_all_classes(void **state)
{
    struct pool p = make(8, 2);
    struct pool_need need = {{2, 1, 0}};
    struct pool_account a;
    uint32_t got;

    (void)state;
    assert_int_equal(pool_grant(&p, &need, NULL), ST_OK);
    assert_true(pool_take(&p, POOL_SLOTS, 1, &got));
    a = pool_pages(&p);
    assert_int_equal(a.total, 8 + 2 * 3);
    assert_int_equal(a.free, 6 + 3);
    assert_int_equal(a.granted, 2);
    assert_int_equal(a.held, 3);
    pool_fini(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grants_takes_and_releases),
        cmocka_unit_test(grants_all_or_nothing),
        cmocka_unit_test(uses_the_last_released_first),
        cmocka_unit_test(counts_what_breaks_the_account),
        cmocka_unit_test(counts_pages_of_all_classes),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
