/* The choice of drafts, on devices whose costs are given. */
#include <string.h>

#include "tests/unit/cmocka.h"
#include "worker/plan/drafts.h"

#define ROWS 64

/* A device: the time of a step of n tokens, and of a pass of drafting. */
struct device {
    double fixed_us, token_us, tile_us; /* tile_us: for each 8 tokens begun */
    double pass_us;
};

/* Sequences whose drafts are accepted with a probability. */
struct bench {
    struct drafts d;
    struct device device;
    uint32_t n;
    double chance;
    uint64_t random;
    float accepts[ROWS][DRAFTS_MAX];
    uint32_t idle[ROWS];
    double tokens, us; /* of all steps */
    uint32_t k;        /* of the first sequence, newest */
};

static double draw(struct bench *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (double)(b->random >> 11) / (double)(1ull << 53);
}

static double step_us(const struct device *x, uint32_t n)
{
    return x->fixed_us + x->token_us * n + x->tile_us * ((n + 7) / 8);
}

static void begin(struct bench *b, const struct device *x, uint32_t n,
                  double chance)
{
    memset(b, 0, sizeof *b);
    drafts_init(&b->d, true);
    b->device = *x;
    b->n = n;
    b->chance = chance;
    b->random = 7;
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < DRAFTS_MAX; j++) {
            b->accepts[i][j] = 0.75f;
        }
    }
}

static uint32_t accept(struct bench *b, uint32_t n)
{
    uint32_t a = 0;

    while (a < n && draw(b) < b->chance) {
        a++;
    }
    return a;
}

static void step(struct bench *b)
{
    struct drafts_row rows[ROWS];
    struct drafts_step s = {.n_tokens = b->n};
    double us;

    for (uint32_t i = 0; i < b->n; i++) {
        rows[i] = (struct drafts_row){.accepts = b->accepts[i],
                                      .most = DRAFTS_MAX,
                                      .mtp = true,
                                      .probe = b->idle[i] >= DRAFTS_PROBE};
    }
    drafts_choose(&b->d, rows, b->n, 0);
    b->k = rows[0].k;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t a = accept(b, rows[i].k);

        b->idle[i] = rows[i].k > 0 ? 0 : b->idle[i] + 1;
        drafts_note_accepted(b->accepts[i], DRAFTS_LEARN_OWN, rows[i].k, a);
        b->tokens += a + 1;
        s.n_tokens += rows[i].k;
        s.n_drafts += rows[i].k;
        s.n_accepted += a;
        s.n_rows += rows[i].k > 0;
        s.n_passes = rows[i].k > s.n_passes ? rows[i].k : s.n_passes;
    }
    us = step_us(&b->device, s.n_tokens);
    s.us = (uint32_t)(us * (0.97 + 0.06 * draw(b)));
    s.draft_us = (uint32_t)(s.n_passes * b->device.pass_us);
    b->us += us + s.draft_us;
    drafts_note_step(&b->d, &s);
}

static double rate_of(struct bench *b, uint32_t steps)
{
    b->tokens = b->us = 0;
    for (uint32_t i = 0; i < steps; i++) {
        step(b);
    }
    return b->tokens / b->us;
}

/* Returns the rate of k drafts a sequence. */
static double rate_with(const struct bench *b, uint32_t k)
{
    double tokens = 1, chance = 1;

    for (uint32_t i = 0; i < k; i++) {
        chance *= b->chance;
        tokens += chance;
    }
    return b->n * tokens /
           (step_us(&b->device, b->n * (k + 1)) + k * b->device.pass_us);
}

static double best_rate(const struct bench *b)
{
    double best = 0;

    for (uint32_t k = 0; k <= DRAFTS_MAX; k++) {
        best = rate_with(b, k) > best ? rate_with(b, k) : best;
    }
    return best;
}

/* As on a GPU, on which a step reads all weights; in tiles of 8 tokens; on a
 * CPU; one on which the MTP layer costs as much as the model; and one near the
 * border, where a step of many tokens is limited by more than its weights. */
static const struct device devices[] = {
    {4500, 20, 0, 120},  {4000, 10, 600, 150}, {300, 900, 0, 100},
    {4500, 20, 0, 4500}, {4100, 112, 0, 1200},
};

#define DEVICES (sizeof devices / sizeof *devices)

static void the_rate_is_near_the_best(void **state)
{
    static const uint32_t sizes[] = {1, 4, 32};
    static const double chances[] = {0.05, 0.5, 0.8, 0.95};

    (void)state;
    for (size_t x = 0; x < DEVICES; x++) {
        for (size_t i = 0; i < 12; i++) {
            struct bench b;
            double rate, best, plain;

            begin(&b, &devices[x], sizes[i / 4], chances[i % 4]);
            (void)rate_of(&b, 300); /* it learns */
            rate = rate_of(&b, 4000);
            best = best_rate(&b);
            plain = rate_with(&b, 0);
            if (rate < 0.93 * best || rate < 0.97 * plain) {
                print_message("device %zu, %u sequences, %.2f: %.4f of %.4f, "
                              "plain %.4f\n",
                              x, b.n, b.chance, rate * 1000, best * 1000,
                              plain * 1000);
            }
            assert_true(rate >= 0.93 * best);
            assert_true(rate >= 0.97 * plain);
        }
    }
}

/* While it learns, too. */
static void learning_costs_little(void **state)
{
    (void)state;
    for (size_t x = 0; x < DEVICES; x++) {
        struct bench b;

        begin(&b, &devices[x], 8, 0.3);
        assert_true(rate_of(&b, 1000) >= 0.93 * rate_with(&b, 0));
    }
}

static void no_drafts_where_they_do_not_pay(void **state)
{
    struct bench b;

    (void)state;
    begin(&b, &devices[2], 8, 0.5);
    (void)rate_of(&b, 500);
    assert_int_equal(b.k, 0);
}

/* The tokens that one sequence gains do not pay for a pass of the MTP layer;
 * those of 32 sequences do. */
static void one_pays_where_all_do(void **state)
{
    static const struct device x = {.fixed_us = 1000, .pass_us = 150};
    struct drafts_row row = {.most = DRAFTS_MAX, .mtp = true};
    struct bench b;

    (void)state;
    begin(&b, &x, 32, 0.8);
    (void)rate_of(&b, 300);
    row.accepts = b.accepts[0];
    drafts_choose(&b.d, &row, 1, b.n - 1);
    assert_int_equal(row.k, 0);
    assert_true(drafts_pay(&b.d, &row, b.accepts[1], b.n - 1));
    row.most = 0;
    assert_false(drafts_pay(&b.d, &row, b.accepts[1], b.n - 1));
}

static void none_pays_where_all_do_not(void **state)
{
    struct drafts_row row = {.most = DRAFTS_MAX, .mtp = true};
    struct bench b;

    (void)state;
    begin(&b, &devices[2], 32, 0.05);
    (void)rate_of(&b, 500);
    row.accepts = b.accepts[0];
    assert_false(drafts_pay(&b.d, &row, b.accepts[1], b.n - 1));
}

/* Whatever the estimates are worth, drafts cost their share of the time. */
static void what_drafts_cost_is_bounded(void **state)
{
    static const uint32_t sizes[] = {1, 8, 32};

    (void)state;
    for (size_t x = 0; x < DEVICES; x++) {
        for (size_t i = 0; i < 3 * 9; i++) {
            struct bench b;
            double plain, most;

            begin(&b, &devices[x], sizes[i / 9], 0.1 * (double)(i % 9 + 1));
            (void)rate_of(&b, 100); /* its plain step is known */
            plain = rate_with(&b, 0);
            /* Behind the credit and the share, only noise is left. */
            most = DRAFTS_CREDIT / 3000.0 + 1.0 / DRAFTS_SPEND + 0.002;
            assert_true(rate_of(&b, 3000) >= (1 - most) * plain);
        }
    }
}

/* Steps that took three times what their tokens are worth spend the credit.
 * Then nothing is drafted until half of it is there again. */
static void a_spent_account_is_closed(void **state)
{
    static const float accepts[DRAFTS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    static struct drafts d;
    struct drafts_step s = {.n_tokens = 1, .us = 1000};
    struct drafts_row row = {.accepts = accepts, .most = 1, .probe = true};
    uint32_t n = 0;

    (void)state;
    drafts_init(&d, true);
    drafts_note_step(&d, &s);
    s = (struct drafts_step){
        .n_tokens = 2, .n_drafts = 1, .n_accepted = 1, .us = 6000};
    for (; !d.closed; n++) {
        drafts_note_step(&d, &s);
    }
    assert_in_range(n, DRAFTS_CREDIT / 4, DRAFTS_CREDIT / 4 + 1);
    s = (struct drafts_step){.n_tokens = 1, .us = 1000};
    for (n = 0; d.closed; n++) {
        row.probe = true;
        drafts_choose(&d, &row, 1, 0);
        assert_int_equal(row.k, 0);
        assert_false(drafts_may_try(&d));
        assert_false(drafts_pay(&d, &row, accepts, 0));
        drafts_note_step(&d, &s);
    }
    assert_in_range(n, DRAFTS_CREDIT / 2 * DRAFTS_SPEND,
                    (DRAFTS_CREDIT / 2 + 4) * DRAFTS_SPEND);
    assert_true(drafts_may_try(&d));
    row.probe = true;
    drafts_choose(&d, &row, 1, 0);
    assert_int_equal(row.k, 1);
}

/* Passes of the MTP layer count, also those without drafts. */
static void passes_without_drafts_are_charged(void **state)
{
    static struct drafts d;
    struct drafts_step s = {.n_tokens = 32, .us = 800};
    uint32_t n = 0;

    (void)state;
    drafts_init(&d, true);
    drafts_note_step(&d, &s);
    s.n_rows = 32;
    s.n_passes = 1;
    s.draft_us = 200;
    for (; drafts_may_try(&d); n++) {
        drafts_note_step(&d, &s);
    }
    /* 200 / 800 less the share, of half the credit. */
    assert_in_range(n, DRAFTS_CREDIT * 2, DRAFTS_CREDIT * 2 + 8);
}

/* Never where drafts pay. */
static void it_stops_where_drafts_do_not_pay(void **state)
{
    struct drafts_row row = {.most = DRAFTS_MAX, .mtp = true};
    struct bench b;

    (void)state;
    begin(&b, &devices[2], 8, 0.05);
    (void)rate_of(&b, 500);
    row.accepts = b.accepts[0];
    for (uint32_t i = 0; i <= DRAFTS_IDLE; i++) {
        assert_int_equal(drafts_stop(&b.d, &row, b.accepts[1], b.n - 1, i),
                         i == DRAFTS_IDLE);
    }
    begin(&b, &devices[0], 1, 0.95);
    (void)rate_of(&b, 500);
    row.accepts = b.accepts[0];
    assert_false(drafts_stop(&b.d, &row, b.accepts[0], 0, DRAFTS_IDLE));
}

static void alone_a_sequence_gets_more(void **state)
{
    struct bench alone, crowd;

    (void)state;
    begin(&alone, &devices[1], 1, 0.8);
    begin(&crowd, &devices[1], 64, 0.8);
    (void)rate_of(&alone, 500);
    (void)rate_of(&crowd, 500);
    assert_true(alone.k > crowd.k);
}

/* Where all sequences have a deadline, none gets more for it. */
static void with_a_deadline_it_gets_more(void **state)
{
    struct drafts_row rows[8];
    struct bench b;
    uint32_t k[3] = {0}, others[3] = {0};

    (void)state;
    begin(&b, &devices[2], 8, 0.75);
    (void)rate_of(&b, 500);
    for (uint32_t urgent = 0; urgent < 3; urgent++) {
        for (uint32_t i = 0; i < 8; i++) {
            rows[i] = (struct drafts_row){.accepts = b.accepts[0],
                                          .most = DRAFTS_MAX,
                                          .mtp = true,
                                          .urgent = urgent == 2 ||
                                                    (urgent == 1 && i == 0)};
        }
        drafts_choose(&b.d, rows, 8, 0);
        k[urgent] = rows[0].k;
        others[urgent] = rows[7].k;
    }
    assert_true(k[1] > k[0]);
    assert_true(k[1] > others[1]);
    assert_int_equal(k[2], k[0]);
    assert_int_equal(others[2], others[0]);
}

static void it_follows_what_is_accepted(void **state)
{
    struct bench b;

    (void)state;
    begin(&b, &devices[0], 1, 0.9);
    (void)rate_of(&b, 500);
    assert_true(b.k >= 4);
    b.chance = 0.02;
    (void)rate_of(&b, 500);
    assert_true(rate_of(&b, 2000) >= 0.97 * rate_with(&b, 0));
    b.chance = 0.9;
    (void)rate_of(&b, 4000);
    assert_true(rate_of(&b, 1000) >= 0.93 * best_rate(&b));
}

static void it_follows_the_device(void **state)
{
    struct bench b;

    (void)state;
    begin(&b, &devices[2], 1, 0.9); /* tokens cost as on a busy CPU */
    (void)rate_of(&b, 500);
    b.device = devices[0];
    (void)rate_of(&b, 6000);
    assert_true(rate_of(&b, 1000) >= 0.93 * best_rate(&b));
}

/* ---- parts ---- */

static void a_fixed_number_is_chosen_at_once(void **state)
{
    static const float accepts[DRAFTS_MAX];
    struct drafts_row rows[] = {
        {.accepts = accepts, .most = 3, .mtp = true, .k = 9},
        {.accepts = accepts, .most = 0, .probe = true, .k = 9},
        {.accepts = accepts, .most = 8, .probe = true, .k = 9}};
    struct drafts d;

    (void)state;
    drafts_init(&d, false);
    drafts_choose(&d, rows, 3, 5);
    assert_int_equal(rows[0].k, 3);
    assert_int_equal(rows[1].k, 0);
    assert_int_equal(rows[2].k, 8);
}

static void the_plain_step_is_measured_first(void **state)
{
    static const float accepts[DRAFTS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    struct drafts_row row = {.accepts = accepts, .most = 2};
    struct drafts_step s = {.n_tokens = 1, .us = 1000};
    struct drafts d;

    (void)state;
    drafts_init(&d, true);
    drafts_choose(&d, &row, 1, 0);
    assert_int_equal(row.k, 0);
    drafts_note_step(&d, &s);
    drafts_choose(&d, &row, 1, 0);
    assert_int_equal(row.k, 2);
}

static void a_probe_gets_one(void **state)
{
    static const float accepts[DRAFTS_MAX];
    struct drafts_row row = {.accepts = accepts, .most = 2, .probe = true};
    struct drafts_step s = {.n_tokens = 1, .us = 1000};
    struct drafts d;

    (void)state;
    drafts_init(&d, true);
    drafts_note_step(&d, &s);
    drafts_choose(&d, &row, 1, 0);
    assert_int_equal(row.k, 1);
    row.probe = false;
    drafts_choose(&d, &row, 1, 0);
    assert_int_equal(row.k, 0);
}

static void acceptance_is_learned_by_depth(void **state)
{
    float accepts[DRAFTS_MAX] = {0.5f, 0.5f, 0.5f, 0.5f};

    (void)state;
    drafts_note_accepted(accepts, 0.5f, 3, 1);
    assert_true(accepts[0] > 0.7f && accepts[1] < 0.3f);
    assert_true(accepts[2] == 0.5f && accepts[3] == 0.5f);
    drafts_note_accepted(accepts, 0.5f, 3, 3);
    assert_true(accepts[2] > 0.7f && accepts[3] == 0.5f);
}

/* Each size has a time, the largest too. */
static void times_are_learned_by_size(void **state)
{
    struct drafts d;

    (void)state;
    drafts_init(&d, true);
    for (uint32_t n = 1; n <= STEP_TOKENS_MAX; n++) {
        drafts_note_step(
            &d, &(struct drafts_step){.n_tokens = n, .us = 1000 + 10 * n});
    }
    for (uint32_t n = 1; n <= STEP_TOKENS_MAX; n += n / 8 + 1) {
        double us = 1000 + 10.0 * n, got = (double)drafts_step_us(&d, n);

        assert_true(got > 0.85 * us && got < 1.15 * us);
    }
}

static void a_full_step_gets_no_more(void **state)
{
    static float accepts[DRAFTS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    static struct drafts_row rows[DRAFTS_ROWS];
    static struct drafts d;
    struct drafts_step s = {.n_tokens = STEP_TOKENS_MAX - 1, .us = 1000};
    uint32_t sum = 0;

    (void)state;
    for (uint32_t i = 0; i < DRAFTS_ROWS; i++) {
        rows[i] = (struct drafts_row){.accepts = accepts, .most = DRAFTS_MAX};
    }
    drafts_init(&d, true);
    drafts_note_step(&d, &s);
    drafts_choose(&d, rows, DRAFTS_ROWS, STEP_TOKENS_MAX - 1 - DRAFTS_ROWS);
    for (uint32_t i = 0; i < DRAFTS_ROWS; i++) {
        sum += rows[i].k;
    }
    assert_in_range(sum, 0, 1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rate_is_near_the_best),
        cmocka_unit_test(learning_costs_little),
        cmocka_unit_test(no_drafts_where_they_do_not_pay),
        cmocka_unit_test(one_pays_where_all_do),
        cmocka_unit_test(none_pays_where_all_do_not),
        cmocka_unit_test(what_drafts_cost_is_bounded),
        cmocka_unit_test(a_spent_account_is_closed),
        cmocka_unit_test(passes_without_drafts_are_charged),
        cmocka_unit_test(it_stops_where_drafts_do_not_pay),
        cmocka_unit_test(alone_a_sequence_gets_more),
        cmocka_unit_test(with_a_deadline_it_gets_more),
        cmocka_unit_test(it_follows_what_is_accepted),
        cmocka_unit_test(it_follows_the_device),
        cmocka_unit_test(a_fixed_number_is_chosen_at_once),
        cmocka_unit_test(the_plain_step_is_measured_first),
        cmocka_unit_test(a_probe_gets_one),
        cmocka_unit_test(acceptance_is_learned_by_depth),
        cmocka_unit_test(times_are_learned_by_size),
        cmocka_unit_test(a_full_step_gets_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
