/* The tree of restorable prefixes: depths, the bound, and the order of
 * eviction. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "router/base/router_limits.h"
#include "router/placement/prefix_tree.h"

#define UNITS  64
#define PLENTY 1024

static const struct prefix_key key = {{1, 2, 3}};

/* Hashes a prompt whose unit u consists of the token first + u. */
static void hash_prompt(struct prefix_hash *out, uint32_t first, uint32_t n)
{
    struct prefix_hash h = prefix_hash_root(&key, "t", 1);
    uint32_t ids[PREFIX_UNIT];

    for (uint32_t u = 0; u < n; u++) {
        for (uint32_t i = 0; i < PREFIX_UNIT; i++) {
            ids[i] = first + u;
        }
        h = out[u] = prefix_hash_next(&key, h, ids);
    }
}

static void add(struct prefix_tree *t, const struct prefix_hash *units,
                uint32_t u, uint32_t bit)
{
    prefix_tree_add(t, units[u - 1], u * PREFIX_UNIT, bit);
}

static void depth_is_the_longest_prefix_of_each_worker(void **state)
{
    struct prefix_tree *t = prefix_tree_new(PLENTY, 7);
    struct prefix_hash p[UNITS], other[UNITS];
    uint32_t depth[PREFIX_TREE_WORKERS];

    (void)state;
    hash_prompt(p, 10, 4);
    hash_prompt(other, 500, 4);
    add(t, p, 1, 0);
    add(t, p, 3, 0);
    add(t, p, 2, 5);
    add(t, p, 4, 63);
    prefix_tree_match(t, p, 4, depth);
    assert_int_equal(depth[0], 192);
    assert_int_equal(depth[5], 128);
    assert_int_equal(depth[63], 256);
    assert_int_equal(depth[1], 0);
    /* A shorter prompt ends before the deeper ones. */
    prefix_tree_match(t, p, 2, depth);
    assert_int_equal(depth[0], 64);
    assert_int_equal(depth[63], 0);
    prefix_tree_match(t, other, 4, depth);
    assert_int_equal(depth[0], 0);
    prefix_tree_free(&t);
    assert_null(t);
}

static void what_goes_is_not_found(void **state)
{
    struct prefix_tree *t = prefix_tree_new(PLENTY, 7);
    uint32_t depth[PREFIX_TREE_WORKERS];
    struct prefix_hash p[UNITS];
    uint64_t version;

    (void)state;
    hash_prompt(p, 10, 3);
    add(t, p, 2, 0);
    add(t, p, 2, 1);
    add(t, p, 3, 1);
    version = prefix_tree_version(t);
    prefix_tree_remove(t, p[1], 0);
    assert_true(prefix_tree_version(t) != version);
    prefix_tree_match(t, p, 3, depth);
    assert_int_equal(depth[0], 0);
    assert_int_equal(depth[1], 192);
    assert_int_equal(prefix_tree_count(t), 2);
    prefix_tree_remove(t, p[1], 0); /* a second time, and one unknown */
    prefix_tree_remove(t, p[0], 0);
    prefix_tree_forget(t, 1);
    assert_int_equal(prefix_tree_count(t), 0);
    prefix_tree_match(t, p, 3, depth);
    assert_int_equal(depth[1], 0);
    prefix_tree_free(&t);
}

/* The first length of a hash stays, so that a worker with another length seems
 * to restore nothing instead of more than the prompt has. */
static void a_wrong_length_does_not_count(void **state)
{
    struct prefix_tree *t = prefix_tree_new(PLENTY, 7);
    uint32_t depth[PREFIX_TREE_WORKERS];
    struct prefix_hash p[UNITS];

    (void)state;
    hash_prompt(p, 10, 3);
    prefix_tree_add(t, p[0], 64 * 100, 2);
    prefix_tree_match(t, p, 3, depth);
    assert_int_equal(depth[2], 0);
    prefix_tree_free(&t);
}

/* At the bound, the leaf of the path that was used longest ago goes. */
static void the_oldest_leaf_goes_first(void **state)
{
    struct prefix_tree *t = prefix_tree_new(6, 7);
    uint32_t depth[PREFIX_TREE_WORKERS];
    struct prefix_hash a[UNITS], b[UNITS], c[UNITS];

    (void)state;
    hash_prompt(a, 10, 3);
    hash_prompt(b, 20, 3);
    hash_prompt(c, 30, 3);
    for (uint32_t u = 1; u <= 3; u++) {
        add(t, a, u, 0);
        add(t, b, u, 0);
    }
    prefix_tree_match(t, b, 3, depth);
    prefix_tree_match(t, a, 3, depth);
    assert_int_equal(prefix_tree_count(t), 6);
    add(t, c, 1, 0); /* one past the limit */
    assert_int_equal(prefix_tree_count(t), 6);
    prefix_tree_match(t, b, 3, depth);
    assert_int_equal(depth[0], 128);
    prefix_tree_match(t, a, 3, depth);
    assert_int_equal(depth[0], 192);
    prefix_tree_free(&t);
}

/* At the router's own bound, and one past it. */
static void the_tree_has_a_limit(void **state)
{
    struct prefix_tree *t = prefix_tree_new(PREFIX_TREE_MAX, 7);
    uint32_t depth[PREFIX_TREE_WORKERS];
    struct prefix_hash h = {0, 3};

    (void)state;
    for (h.lo = 0; h.lo < PREFIX_TREE_MAX; h.lo++) {
        prefix_tree_add(t, h, PREFIX_UNIT, 0);
    }
    assert_int_equal(prefix_tree_count(t), PREFIX_TREE_MAX);
    prefix_tree_add(t, h, PREFIX_UNIT, 0);
    assert_int_equal(prefix_tree_count(t), PREFIX_TREE_MAX);
    h.lo = 0;
    prefix_tree_match(t, &h, 1, depth);
    assert_int_equal(depth[0], 0);
    h.lo = 1;
    prefix_tree_match(t, &h, 1, depth);
    assert_int_equal(depth[0], PREFIX_UNIT);
    prefix_tree_free(&t);
}

static uint32_t roll(uint64_t *dice, uint32_t sides)
{
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*dice >> 33) % sides;
}

/* Random changes below the bound, against a table of who has what. */
static void any_changes_agree_with_a_table(void **state)
{
    struct prefix_tree *t = prefix_tree_new(PLENTY, 99);
    struct prefix_hash p[8][UNITS];
    uint32_t depth[PREFIX_TREE_WORKERS];
    bool has[8][UNITS + 1][4] = {{{false}}};
    uint64_t dice = 5;

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        hash_prompt(p[i], 1000 * i, UNITS);
    }
    for (int step = 0; step < 20000; step++) {
        uint32_t i = roll(&dice, 8), u = 1 + roll(&dice, UNITS);
        uint32_t bit = roll(&dice, 4);

        if (roll(&dice, 200) == 0) {
            prefix_tree_forget(t, bit);
            for (uint32_t k = 0; k < 8; k++) {
                for (uint32_t v = 1; v <= UNITS; v++) {
                    has[k][v][bit] = false;
                }
            }
        } else if (roll(&dice, 2) == 0) {
            add(t, p[i], u, bit);
            has[i][u][bit] = true;
        } else {
            prefix_tree_remove(t, p[i][u - 1], bit);
            has[i][u][bit] = false;
        }
        prefix_tree_match(t, p[i], UNITS, depth);
        for (uint32_t b = 0; b < 4; b++) {
            uint32_t v = UNITS;

            while (v > 0 && !has[i][v][b]) {
                v--;
            }
            assert_int_equal(depth[b], v * PREFIX_UNIT);
        }
    }
    prefix_tree_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_is_the_longest_prefix_of_each_worker),
        cmocka_unit_test(what_goes_is_not_found),
        cmocka_unit_test(a_wrong_length_does_not_count),
        cmocka_unit_test(the_oldest_leaf_goes_first),
        cmocka_unit_test(the_tree_has_a_limit),
        cmocka_unit_test(any_changes_agree_with_a_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
