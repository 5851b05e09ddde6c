/* Requests with one long prefix in virtual time.  Reuse must not draw them all
 * to one worker, and a worker that joins must get its share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/base/minmax.h"
#include "tests/unit/router/rig_engine.h"

static const struct engine_load hot = {.n_prefix = 2048,
                                       .n_own = 96,
                                       .length = 80,
                                       .max_tokens = 320,
                                       .reuse = true,
                                       .slots = 64,
                                       .base_us = 8000,
                                       .row_us = 1000,
                                       .token_us = 40,
                                       .chunk = 512};

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

struct result {
    int64_t first_us, end_us; /* medians */
    uint32_t share;           /* the largest of a place, in percent */
};

static struct result result_of(const struct engines *s)
{
    static int64_t first[RIG_RECORDS], end[RIG_RECORDS];
    struct result r = {.share = 0};

    for (uint32_t i = 0; i < s->n; i++) {
        first[i] = s->all[i].first_us;
        end[i] = s->all[i].end_us;
    }
    qsort(first, s->n, sizeof first[0], ascending);
    qsort(end, s->n, sizeof end[0], ascending);
    r.first_us = first[s->n / 2];
    r.end_us = end[s->n / 2];
    for (uint32_t i = 0; i < s->n_engines; i++) {
        r.share = max_u32(r.share, s->of[i].n_granted * 100 / s->n);
    }
    return r;
}

static struct engines scene; /* large */

static struct result run(const struct engine_load *load, uint32_t rate,
                         bool reuse)
{
    struct engine_load l = *load;

    l.reuse = reuse;
    engines_bring(&scene, &l, ENGINES_MAX);
    engines_load(&scene, rate, 20);
    engines_finish(&scene);
    return result_of(&scene);
}

static void check_rate(uint32_t rate)
{
    struct result with = run(&hot, rate, true),
                  without = run(&hot, rate, false);

    assert_true(with.end_us * 100 <= without.end_us * 105);
    assert_true(with.first_us * 10 <= without.first_us * 6);
    assert_true(with.share <= 40);
}

static void reuse_makes_nobody_slower_at_8_a_second(void **state)
{
    (void)state;
    check_rate(8);
}

static void reuse_makes_nobody_slower_at_14_a_second(void **state)
{
    (void)state;
    check_rate(14);
}

/* One worker could serve all; its users would wait for each other. */
static void rows_that_cost_little_spread_too(void **state)
{
    struct engine_load cheap = hot;
    struct result with, without;

    (void)state;
    cheap.base_us = 10000;
    cheap.row_us = 50;
    cheap.token_us = 25;
    cheap.chunk = 2048;
    with = run(&cheap, 8, true);
    without = run(&cheap, 8, false);
    assert_true(with.end_us * 10 <= without.end_us * 9);
    assert_true(with.share <= 60);
}

/* Its siblings have the prefix, and the one that joins has to compute it. */
static void a_worker_that_joins_gets_its_share(void **state)
{
    const struct engine *last = &scene.of[ENGINES_MAX - 1];
    uint32_t before;

    (void)state;
    engines_bring(&scene, &hot, ENGINES_MAX - 1);
    engines_load(&scene, 10, 10);
    before = scene.n;
    engines_join(&scene);
    engines_load(&scene, 10, 1);
    assert_true(last->n_granted > 0);
    engines_load(&scene, 10, 4);
    assert_true(last->n_granted * 100 >= (scene.n - before) * 15);
    engines_finish(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reuse_makes_nobody_slower_at_8_a_second),
        cmocka_unit_test(reuse_makes_nobody_slower_at_14_a_second),
        cmocka_unit_test(rows_that_cost_little_spread_too),
        cmocka_unit_test(a_worker_that_joins_gets_its_share),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
