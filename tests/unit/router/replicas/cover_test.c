#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "router/replicas/cover.h"

#define LAYERS 6

/* Asserts that each set is whole and in order, and no piece is in two sets. */
static void check(const struct cover *c, const struct cover_piece *p,
                  uint32_t n, uint32_t n_layers)
{
    bool used[COVER_PIECES_MAX] = {false};

    for (uint32_t i = 0; i < c->n; i++) {
        uint32_t at = 0;

        assert_in_range(c->sets[i].n, 2, COVER_STAGES_MAX);
        for (uint32_t k = 0; k < c->sets[i].n; k++) {
            uint32_t piece = c->sets[i].pieces[k];

            assert_true(piece < n && !used[piece]);
            used[piece] = true;
            assert_int_equal(p[piece].begin, at);
            at = p[piece].end;
        }
        assert_int_equal(at, n_layers);
    }
}

/* Returns the largest number of sets, by trying each piece that begins at the
 * next layer of the present set. */
static uint32_t most(const struct cover_piece *p, uint32_t n, uint32_t used,
                     uint32_t at)
{
    uint32_t best = 0;

    if (at == LAYERS) {
        return 1 + most(p, n, used, 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        if ((used >> i & 1) == 0 && p[i].begin == at) {
            uint32_t m = most(p, n, used | 1u << i, p[i].end);
            best = m > best ? m : best;
        }
    }
    return best;
}

static void as_many_as_there_can_be(void **state)
{
    uint32_t histogram[6] = {0};

    (void)state;
    srand(7);
    for (int round = 0; round < 3000; round++) {
        struct cover_piece p[9];
        uint32_t n = (uint32_t)rand() % 10;
        struct cover c;

        for (uint32_t i = 0; i < n; i++) {
            do {
                p[i].begin = (uint32_t)rand() % LAYERS;
                p[i].end = p[i].begin + 1 + (uint32_t)rand() % LAYERS;
            } while (p[i].end > LAYERS || p[i].end - p[i].begin == LAYERS);
        }
        cover_find(&c, p, n, LAYERS);
        check(&c, p, n, LAYERS);
        assert_int_equal(c.n, most(p, n, 0, 0));
        histogram[c.n]++;
    }
    assert_true(histogram[0] > 100 && histogram[1] > 100 && histogram[2] > 20);
}

static void those_that_came_first(void **state)
{
    const struct cover_piece p[] = {{3, 6}, {0, 3}, {0, 3}, {3, 6}, {3, 6}};
    struct cover c;

    (void)state;
    cover_find(&c, p, 5, LAYERS);
    assert_int_equal(c.n, 2);
    assert_int_equal(c.sets[0].pieces[0], 1);
    assert_int_equal(c.sets[0].pieces[1], 0);
    assert_int_equal(c.sets[1].pieces[0], 2);
    assert_int_equal(c.sets[1].pieces[1], 3);
}

/* STAGES_MAX pieces make a set; one more does not. */
static void a_set_is_so_long(void **state)
{
    struct cover_piece p[COVER_STAGES_MAX + 1];
    struct cover c;

    (void)state;
    for (uint32_t i = 0; i <= COVER_STAGES_MAX; i++) {
        p[i] = (struct cover_piece){i, i + 1};
    }
    cover_find(&c, p, COVER_STAGES_MAX, COVER_STAGES_MAX);
    assert_int_equal(c.n, 1);
    check(&c, p, COVER_STAGES_MAX, COVER_STAGES_MAX);
    cover_find(&c, p, COVER_STAGES_MAX + 1, COVER_STAGES_MAX + 1);
    assert_int_equal(c.n, 0);
}

static void of_the_most_pieces(void **state)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover c;

    (void)state;
    for (uint32_t i = 0; i < COVER_PIECES_MAX; i++) {
        p[i] = i % 2 == 0 ? (struct cover_piece){0, 1}
                          : (struct cover_piece){1, MODEL_LAYERS_MAX};
    }
    cover_find(&c, p, COVER_PIECES_MAX, MODEL_LAYERS_MAX);
    assert_int_equal(c.n, COVER_SETS_MAX);
    check(&c, p, COVER_PIECES_MAX, MODEL_LAYERS_MAX);
}

#define MUCH 1000

/* Returns the cost of the cheapest chain, by trying all. */
static uint32_t cheapest(const struct cover_piece *p, uint32_t n, uint32_t at,
                         bool any, uint32_t a_gap, uint32_t a_layer)
{
    uint32_t best = !any           ? UINT32_MAX
                    : at == LAYERS ? 0
                                   : a_gap + a_layer * (LAYERS - at);

    for (uint32_t i = 0; i < n; i++) {
        uint32_t cost;

        if (p[i].begin < at) {
            continue;
        }
        cost = cheapest(p, n, p[i].end, true, a_gap, a_layer);
        if (p[i].begin > at) {
            cost += a_gap + a_layer * (p[i].begin - at);
        }
        best = cost < best ? cost : best;
    }
    return best;
}

static void check_chain(const struct cover_piece *p, uint32_t n,
                        enum cover_goal wish, uint32_t histogram[LAYERS])
{
    uint32_t a_gap = wish == FEWEST_GAPS ? MUCH : 1, cost = 0, at = 0;
    uint32_t a_layer = wish == FEWEST_GAPS ? 1 : MUCH;
    struct cover_chain c;

    cover_chain_find(&c, p, n, LAYERS, wish);
    assert_in_range(c.n_pieces, 1, n);
    for (uint32_t i = 0; i < c.n_gaps; i++) {
        assert_true(c.gaps[i].begin >= at && c.gaps[i].end <= LAYERS);
        assert_true(c.gaps[i].begin < c.gaps[i].end);
        cost += a_gap + a_layer * (c.gaps[i].end - c.gaps[i].begin);
        at = c.gaps[i].end + 1; /* there is a piece between two gaps */
    }
    assert_int_equal(cost, cheapest(p, n, 0, false, a_gap, a_layer));
    histogram[c.n_gaps]++;
}

static void chains_with_as_little_as_can_be(void **state)
{
    uint32_t few[LAYERS] = {0}, small[LAYERS] = {0};

    (void)state;
    srand(8);
    for (int round = 0; round < 3000; round++) {
        struct cover_piece p[5];
        uint32_t n = 1 + (uint32_t)rand() % 5;

        for (uint32_t i = 0; i < n; i++) {
            p[i].begin = (uint32_t)rand() % LAYERS;
            p[i].end =
                p[i].begin + 1 + (uint32_t)rand() % (LAYERS - p[i].begin);
        }
        check_chain(p, n, FEWEST_GAPS, few);
        check_chain(p, n, FEWEST_LAYERS, small);
    }
    assert_true(few[0] > 100 && few[1] > 100 && few[2] > 20);
    assert_true(small[0] > 100 && small[1] > 100 && small[2] > 20 &&
                small[3] > 5);
}

/* Gaps past COVER_STAGES_MAX are counted but not listed. */
static void a_chain_of_many_gaps(void **state)
{
    struct cover_piece p[COVER_PIECES_MAX];
    struct cover_chain c;

    (void)state;
    for (uint32_t i = 0; i < COVER_PIECES_MAX; i++) {
        p[i] = (struct cover_piece){2 * i + 1, 2 * i + 2};
    }
    cover_chain_find(&c, p, COVER_STAGES_MAX, 2 * COVER_STAGES_MAX,
                     FEWEST_LAYERS);
    assert_int_equal(c.n_gaps, COVER_STAGES_MAX);
    assert_int_equal(c.gaps[COVER_STAGES_MAX - 1].end,
                     2 * COVER_STAGES_MAX - 1);
    cover_chain_find(&c, p, COVER_PIECES_MAX, 2 * COVER_PIECES_MAX,
                     FEWEST_LAYERS);
    assert_int_equal(c.n_gaps, COVER_PIECES_MAX);
    assert_int_equal(c.n_pieces, COVER_PIECES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_as_there_can_be),
        cmocka_unit_test(those_that_came_first),
        cmocka_unit_test(a_set_is_so_long),
        cmocka_unit_test(of_the_most_pieces),
        cmocka_unit_test(chains_with_as_little_as_can_be),
        cmocka_unit_test(a_chain_of_many_gaps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
