#include "worker/cache/paged.h"

#include "tests/unit/cmocka.h"

static void keeps_values_over_page_borders(void **state)
{
    struct slab s;
    struct paged a, b;
    uint32_t in[300], out[300];

    (void)state;
    assert_true(slab_init(&s, 300, 600, 2));
    assert_true(paged_make(&s, &a, 300));
    assert_true(paged_make(&s, &b, 300));
    for (uint32_t i = 0; i < 300; i++) {
        in[i] = i * 7;
    }
    paged_write(&s, &a, 0, in, 300);
    paged_write(&s, &b, 0, in + 100, 200);
    paged_write(&s, &b, 200, in, 100);
    paged_read(&s, &a, 13, out, 200);
    assert_memory_equal(out, in + 13, 200 * sizeof *out);
    paged_read(&s, &b, 150, out, 100);
    assert_int_equal(out[0], 250 * 7);
    assert_int_equal(out[50], 0);
    assert_int_equal(paged_get(&s, &a, 299), 299 * 7);
    paged_free(&s, &a);
    paged_free(&s, &b);
    slab_fini(&s);
}

/* Reads values like another thread, with the pages alone. */
static void shows_where_values_are(void **state)
{
    struct slab s;
    struct paged a, b;
    struct id_pages p;

    (void)state;
    assert_true(slab_init(&s, 300, 600, 2));
    assert_true(paged_make(&s, &b, 40));
    assert_true(paged_make(&s, &a, 300));
    for (uint32_t i = 0; i < 300; i++) {
        paged_write(&s, &a, i, &i, 1);
    }
    paged_free(&s, &b);
    p = paged_pages(&s, &a);
    assert_in_range(p.root, 0, p.n_pages - 1);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t leaf = p.memory[(p.root << p.shift) + (i >> p.shift)];

        assert_in_range(leaf, 0, p.n_pages - 1);
        assert_int_equal(p.memory[(leaf << p.shift) + i % (1u << p.shift)], i);
    }
    paged_free(&s, &a);
    slab_fini(&s);
}

static void takes_all_or_nothing(void **state)
{
    struct slab s;
    struct paged a, b, none;
    uint32_t room;

    (void)state;
    assert_true(slab_init(&s, 256, 256, 1)); /* pages of 16 */
    room = slab_room(&s);
    assert_true(paged_make(&s, &none, 0));
    assert_int_equal(slab_room(&s), room);
    assert_true(paged_make(&s, &a, 256));
    assert_int_equal(slab_room(&s), room - slab_cost(&s, 256));
    room = slab_room(&s);
    assert_false(paged_make(&s, &b, 16 * room)); /* and one for the root */
    assert_int_equal(slab_room(&s), room);
    paged_free(&s, &b);
    paged_free(&s, &a);
    paged_free(&s, &none);
    assert_false(paged_make(&s, &b, 257)); /* longer than the slab allows */
    slab_fini(&s);
}

static void gives_back_what_is_not_kept(void **state)
{
    struct slab s;
    struct paged a;
    uint32_t room, in[160], i;

    (void)state;
    assert_true(slab_init(&s, 256, 512, 2));
    room = slab_room(&s);
    assert_true(paged_make(&s, &a, 160)); /* 10 leaves and a root */
    for (i = 0; i < 160; i++) {
        in[i] = i;
    }
    paged_write(&s, &a, 0, in, 160);
    paged_keep(&s, &a, 40, 70); /* leaves 2, 3, 4 */
    assert_int_equal(slab_room(&s), room - 4);
    assert_int_equal(paged_get(&s, &a, 40), 40);
    assert_int_equal(paged_get(&s, &a, 69), 69);
    paged_keep(&s, &a, 48, 49);
    assert_int_equal(slab_room(&s), room - 2);
    paged_keep(&s, &a, 48, 48);
    assert_int_equal(slab_room(&s), room - 1);
    paged_free(&s, &a);
    assert_int_equal(slab_room(&s), room);
    slab_fini(&s);
}

static void uses_pages_again_without_end(void **state)
{
    struct slab s;
    struct paged a[4];

    (void)state;
    assert_true(slab_init(&s, 1000, 4000, 4));
    for (uint32_t round = 0; round < 1000; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(
                paged_make(&s, &a[i], 1 + (round * 37 + i * 311) % 1000));
        }
        for (uint32_t i = 0; i < 4; i++) {
            paged_free(&s, &a[(i + round) % 4]);
        }
    }
    assert_int_equal(slab_room(&s), s.n_pages);
    slab_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_values_over_page_borders),
        cmocka_unit_test(shows_where_values_are),
        cmocka_unit_test(takes_all_or_nothing),
        cmocka_unit_test(gives_back_what_is_not_kept),
        cmocka_unit_test(uses_pages_again_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
