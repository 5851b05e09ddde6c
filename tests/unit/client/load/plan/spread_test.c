/* Distributions: what is parsed, what is refused, what is drawn. */
#include "client/load/plan/spread.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka.h"

#define DRAWS 200000

static const struct spread_range tokens = {
    .option = "--prompt", .min = 1, .max = 100000};
static const struct spread_range times = {
    .option = "--think", .max = (double)SPREAD_US_MAX, .time = true};

static struct spread parsed(const char *text, const struct spread_range *r)
{
    struct spread s;
    struct error e = {0};

    if (spread_parse(&s, text, r, &e) != ST_OK) {
        fail_msg("%s: %s", text, e.text);
    }
    return s;
}

static void refused(const char *text, const struct spread_range *r,
                    const char *has)
{
    struct spread s;
    struct error e = {0};

    if (spread_parse(&s, text, r, &e) != ST_INVALID_ARGUMENT) {
        fail_msg("\"%s\" was accepted", text);
    }
    assert_non_null(strstr(e.text, r->option));
    if (strstr(e.text, has) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", e.text, has);
    }
}

struct moments {
    double mean, deviation, least, most;
};

static struct moments moments_of(const struct spread *s)
{
    struct moments m = {.least = INFINITY, .most = -INFINITY};
    double sum = 0, squares = 0;
    struct draw d;

    draw_seed(&d, 1);
    for (int i = 0; i < DRAWS; i++) {
        double x = (double)spread_draw(s, &d);

        sum += x;
        squares += x * x;
        m.least = fmin(m.least, x);
        m.most = fmax(m.most, x);
    }
    m.mean = sum / DRAWS;
    m.deviation = sqrt(squares / DRAWS - m.mean * m.mean);
    return m;
}

/* Five deviations of the mean of DRAWS draws. */
static void mean_is(const struct moments *m, double want)
{
    assert_true(fabs(m->mean - want) < 5 * m->deviation / sqrt(DRAWS) + 1e-9);
}

static void a_number_is_always_drawn(void **state)
{
    struct spread s = parsed("1024", &tokens);
    struct moments m = moments_of(&s);

    (void)state;
    assert_true(m.least == 1024 && m.most == 1024);
    assert_true(spread_mean(&s) == 1024 && spread_high(&s) == 1024);
}

static void a_range_includes_both_ends_evenly(void **state)
{
    struct spread s = parsed("512..515", &tokens);
    struct moments m = moments_of(&s);
    unsigned n[4] = {0};
    struct draw d;

    (void)state;
    assert_true(m.least == 512 && m.most == 515);
    mean_is(&m, 513.5);
    draw_seed(&d, 2);
    for (int i = 0; i < DRAWS; i++) {
        n[spread_draw(&s, &d) - 512]++;
    }
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(n[i] - DRAWS / 4.0) < 5 * sqrt(DRAWS / 4.0));
    }
}

static void named_spreads_have_their_moments(void **state)
{
    struct spread normal = parsed("normal:1024,100", &tokens);
    struct spread lognormal = parsed("lognormal:1000,0.5", &tokens);
    struct spread exp = parsed("exp:500", &tokens);
    struct moments m = moments_of(&normal);

    (void)state;
    mean_is(&m, 1024);
    assert_true(fabs(m.deviation - 100) < 1);
    m = moments_of(&lognormal);
    mean_is(&m, spread_mean(&lognormal));
    assert_true(fabs(spread_mean(&lognormal) - 1000 * 1.133148) < 0.1);
    m = moments_of(&exp);
    assert_true(fabs(m.mean - 500) < 6); /* the cut at 1 moves it a little */
}

static void draws_are_cut_at_the_range(void **state)
{
    struct spread s = parsed("normal:50000,100000", &tokens);
    struct moments m = moments_of(&s);

    (void)state;
    assert_true(m.least == 1 && m.most == 100000);
}

static void few_draws_exceed_the_high_number(void **state)
{
    const char *texts[] = {"7..9", "normal:1000,200", "lognormal:100,1",
                           "exp:300"};

    (void)state;
    for (size_t k = 0; k < 4; k++) {
        struct spread s = parsed(texts[k], &tokens);
        struct draw d;
        unsigned above = 0;

        draw_seed(&d, 3);
        for (int i = 0; i < DRAWS; i++) {
            above += (double)spread_draw(&s, &d) > spread_high(&s);
        }
        assert_true(above <= DRAWS / 1000 + 5 * 15);
        assert_true(spread_high(&s) <= tokens.max);
    }
}

static void times_have_units(void **state)
{
    static const struct {
        const char *text;
        double us;
    } rows[] = {{"250us", 250}, {"20ms", 20e3},   {"1.5s", 1.5e6},
                {"2m", 120e6},  {"24h", 86400e6}, {"3", 3e6},
                {"0", 0},       {"1e-3s", 1e3}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spread s = parsed(rows[i].text, &times);

        assert_true(fabs(s.a - rows[i].us) < 1e-6);
    }
    assert_true(parsed("1s..2500ms", &times).b == 2.5e6);
    assert_true(parsed("normal:1s,100ms", &times).b == 1e5);
    assert_true(parsed("lognormal:1s,0.5", &times).b == 0.5);
    assert_true(parsed("exp:2s", &times).a == 2e6);
}

static void bad_text_is_refused(void **state)
{
    static const char *const texts[] = {
        "",        "abc",      "-1",          "1..",          "..5",
        "5..2",    "1024 ",    "1x",          "normal:5",     "normal:5,",
        "exp:",    "exp:1,2",  "gauss:1,2",   "normal:1,2,3", "0x10",
        "inf",     "nan",      "exp:nan",     "1s",           "1..2..3",
        "1e99999", "1.2.3..4", "lognormal:,1"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        refused(texts[i], &tokens, "512..2048");
    }
    refused("1.5", &tokens, "not whole");
    refused("1..1.5", &tokens, "not whole");
    refused("5s..2s", &times, "exp:2s");
    refused("5d", &times, "exp:2s");
    refused("1ms2", &times, "exp:2s");
}

static void the_range_is_the_limit(void **state)
{
    (void)state;
    parsed("1..100000", &tokens);
    refused("0", &tokens, "1..100000");
    refused("100001", &tokens, "1..100000");
    refused("5..100001", &tokens, "1..100000");
    refused("exp:100001", &tokens, "1..100000");
    refused("lognormal:100,10.1", &tokens, "1..100000");
    parsed("86400s", &times);
    refused("86401s", &times, "0..86400 s");
}

static void equal_seeds_draw_equal_numbers(void **state)
{
    struct spread s = parsed("lognormal:100,1", &tokens);
    struct draw a, b, c;
    unsigned equal = 0;

    (void)state;
    draw_seed(&a, 7);
    draw_seed(&b, 7);
    draw_seed(&c, 8);
    for (int i = 0; i < 1000; i++) {
        int64_t x = spread_draw(&s, &a);

        assert_int_equal(x, spread_draw(&s, &b));
        equal += x == spread_draw(&s, &c);
    }
    assert_true(equal < 50);
}

static void the_generator_matches_its_reference(void **state)
{
    /* The state {1, 2, 3, 4} of the authors' xoshiro256starstar.c. */
    static const uint64_t want[] = {11520, 0, 1509978240,
                                    UINT64_C(1215971899390074240)};
    struct draw d = {{1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        assert_true(draw_u64(&d) == want[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_always_drawn),
        cmocka_unit_test(a_range_includes_both_ends_evenly),
        cmocka_unit_test(named_spreads_have_their_moments),
        cmocka_unit_test(draws_are_cut_at_the_range),
        cmocka_unit_test(few_draws_exceed_the_high_number),
        cmocka_unit_test(times_have_units),
        cmocka_unit_test(bad_text_is_refused),
        cmocka_unit_test(the_range_is_the_limit),
        cmocka_unit_test(equal_seeds_draw_equal_numbers),
        cmocka_unit_test(the_generator_matches_its_reference),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
