/* Tenants that wait: who goes first, by how much, and with which weight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "router/base/named_numbers.h"
#include "tests/unit/router/rig.h"

#define LENGTH SLUICE__V1__FINISH__FINISH_LENGTH
#define PROMPT 40
#define TOKENS 24 /* 2 blocks in all */

struct scene {
    struct rig *rig;
    struct fake *w, *c;
    uint8_t n; /* requests so far */
    const char *tenant[256];
};

/* A worker with room for one sequence of 2 blocks. */
static void bring_queue(struct scene *s, uint32_t max_waiting,
                        const struct named_number *weights, uint32_t n_weights)
{
    const struct rig_options o = {.max_peers = 32,
                                  .max_requests = 256,
                                  .max_waiting = max_waiting,
                                  .worker_wait_us = 1000000,
                                  .weights = weights,
                                  .n_weights = n_weights};

    memset(s, 0, sizeof *s);
    s->rig = rig_new(&o);
    s->c = rig_client(s->rig, "c1");
    s->w = rig_worker(s->rig, "w1", 2, 1);
}

static void bring(struct scene *s, const struct named_number *weights,
                  uint32_t n_weights)
{
    bring_queue(s, 256, weights, n_weights);
}

static void ask_tier(struct scene *s, uint32_t n, const char *tenant,
                     Sluice__V1__Tier tier)
{
    Sluice__V1__GenerateRequest m = SLUICE__V1__GENERATE_REQUEST__INIT;

    m.has_tier = true;
    m.tier = tier;
    m.has_tenant = true;
    m.tenant = wire_text(tenant);
    for (uint32_t i = 0; i < n; i++) {
        s->tenant[++s->n] = tenant;
        client_generate_with(s->c, s->n, PROMPT, TOKENS, &m, 0);
        rig_run(s->rig);
    }
}

static void ask(struct scene *s, uint32_t n, const char *tenant)
{
    ask_tier(s, n, tenant, SLUICE__V1__TIER__TIER_DEFAULT);
}

static uint8_t running_id(const struct scene *s)
{
    for (uint8_t id = 1; id <= s->n; id++) {
        if (worker_sequence_of(s->w, id) != NULL &&
            rig_state(s->rig, id) < CHOICE_ENDING) {
            return id;
        }
    }
    fail();
    return 0;
}

/* Returns the tenant of the one that runs. */
static const char *running(const struct scene *s)
{
    return s->tenant[running_id(s)];
}

/* Ends the one that runs after n tokens, and returns its tenant. */
static const char *end_one(struct scene *s, uint32_t n)
{
    uint8_t id = running_id(s);

    worker_give(s->w, id, 0, n,
                n == TOKENS ? LENGTH : SLUICE__V1__FINISH__FINISH_STOP);
    return s->tenant[id];
}

static void a_light_tenant_does_not_wait_for_a_backlog(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, NULL, 0);
    ask(&s, 40, "heavy");
    assert_string_equal(end_one(&s, TOKENS), "heavy");
    ask(&s, 1, "light");
    assert_string_equal(end_one(&s, TOKENS), "heavy"); /* it runs already */
    assert_string_equal(end_one(&s, TOKENS), "light");
    assert_string_equal(end_one(&s, TOKENS), "heavy");
    rig_free(&s.rig);
}

/* Returns the number of the newest n requests that wait. */
static uint32_t n_taken(const struct scene *s, uint8_t n)
{
    uint32_t sum = 0;

    for (uint8_t i = 0; i < n; i++) {
        sum += rig_state(s->rig, (uint8_t)(s->n - i)) == CHOICE_WAITING;
    }
    return sum;
}

static void a_full_queue_takes_those_below_their_share(void **state)
{
    static const struct named_number weights[] = {{"b", 3}};
    struct scene s;

    (void)state;
    bring_queue(&s, 8, weights, 1);
    ask(&s, 1, "a"); /* runs */
    ask(&s, 10, "a");
    assert_int_equal(n_taken(&s, 10), 8);
    ask(&s, 10, "b"); /* 3 of 4 shares */
    assert_int_equal(n_taken(&s, 10), 6);
    ask(&s, 10, "c"); /* 1 of 5 */
    assert_int_equal(n_taken(&s, 10), 1);
    ask(&s, 1, "a");
    assert_int_equal(n_taken(&s, 1), 0);
    rig_free(&s.rig);
}

static void count(struct scene *s, uint32_t n, uint32_t *a, uint32_t *b)
{
    *a = *b = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *tenant = end_one(s, TOKENS);

        *a += strcmp(tenant, "a") == 0;
        *b += strcmp(tenant, "b") == 0;
    }
}

static void two_that_wait_take_turns(void **state)
{
    struct scene s;
    uint32_t a, b;

    (void)state;
    bring(&s, NULL, 0);
    ask(&s, 60, "a");
    ask(&s, 60, "b");
    count(&s, 80, &a, &b);
    assert_in_range(a, 39, 42);
    assert_in_range(b, 38, 41);
    rig_free(&s.rig);
}

static uint8_t end_next(struct scene *s)
{
    uint8_t id = running_id(s);

    (void)end_one(s, TOKENS);
    return id;
}

static void passes_backlog(Sluice__V1__Tier backlog, Sluice__V1__Tier tier)
{
    struct scene s;

    bring(&s, NULL, 0);
    ask_tier(&s, 40, "a", backlog);
    ask_tier(&s, 1, "a", tier);
    assert_int_equal(end_next(&s), 1); /* it runs already */
    assert_int_equal(end_next(&s), 41);
    assert_int_equal(end_next(&s), 2);
    rig_free(&s.rig);
}

static void none_waits_for_a_later_tier_of_its_tenant(void **state)
{
    (void)state;
    passes_backlog(SLUICE__V1__TIER__TIER_DEFAULT,
                   SLUICE__V1__TIER__TIER_PRIORITY);
    passes_backlog(SLUICE__V1__TIER__TIER_FLEX, SLUICE__V1__TIER__TIER_DEFAULT);
    passes_backlog(SLUICE__V1__TIER__TIER_FLEX,
                   SLUICE__V1__TIER__TIER_PRIORITY);
}

/* Others do not make it wait longer than what was there when it came. */
static void flex_comes_after_those_before_it(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, NULL, 0);
    ask(&s, 4, "a");
    ask_tier(&s, 1, "a", SLUICE__V1__TIER__TIER_FLEX); /* 5 */
    ask(&s, 40, "a");
    for (uint8_t id = 1; id <= 4; id++) {
        assert_int_equal(end_next(&s), id);
    }
    assert_int_equal(end_next(&s), 6); /* both start then */
    assert_int_equal(end_next(&s), 5);
    rig_free(&s.rig);
}

/* A number of a later version of the wire is the default. */
static void an_unknown_tier_is_the_default(void **state)
{
    struct scene s;

    (void)state;
    bring(&s, NULL, 0);
    ask_tier(&s, 2, "a", (Sluice__V1__Tier)9);
    ask(&s, 1, "a");
    for (uint8_t id = 1; id <= 3; id++) {
        assert_int_equal(end_next(&s), id);
    }
    rig_free(&s.rig);
}

/* A tenant whose requests are all urgent has the share of one without any. */
static void priority_takes_nothing_from_others(void **state)
{
    struct scene s;
    uint32_t a, b;

    (void)state;
    bring(&s, NULL, 0);
    ask_tier(&s, 60, "a", SLUICE__V1__TIER__TIER_PRIORITY);
    ask(&s, 60, "b");
    count(&s, 80, &a, &b);
    assert_in_range(a, 39, 42);
    assert_in_range(b, 38, 41);
    rig_free(&s.rig);
}

static void shares_are_by_weight(void **state)
{
    static const struct named_number weights[] = {{"b", 3}};
    struct scene s;
    uint32_t a, b;

    (void)state;
    bring(&s, weights, 1);
    ask(&s, 100, "a");
    ask(&s, 100, "b");
    count(&s, 80, &a, &b);
    assert_in_range(a, 18, 22);
    assert_in_range(b, 58, 62);
    rig_free(&s.rig);
}

/* 30 and 50 of 80. */
static void large_weights_are_not_rounded(void **state)
{
    static const struct named_number weights[] = {{"a", 600}, {"b", 1000}};
    struct scene s;
    uint32_t a, b;

    (void)state;
    bring(&s, weights, 2);
    ask(&s, 100, "a");
    ask(&s, 100, "b");
    count(&s, 80, &a, &b);
    assert_in_range(a, 28, 32);
    assert_in_range(b, 48, 52);
    rig_free(&s.rig);
}

/* Alone it waits in order of arrival, and owes nothing afterwards. */
static void one_alone_is_served_in_order_and_owes_nothing(void **state)
{
    struct scene s;
    uint32_t a, b;

    (void)state;
    bring(&s, NULL, 0);
    ask(&s, 30, "a");
    for (uint8_t id = 1; id <= 30; id++) {
        assert_non_null(worker_sequence_of(s.w, id));
        end_one(&s, TOKENS);
    }
    ask(&s, 20, "b");
    ask(&s, 20, "a");
    count(&s, 30, &a, &b);
    assert_in_range(a, 13, 16);
    rig_free(&s.rig);
}

/* Answers of a end after a token, those of b use all: a gets more of them. */
static void what_is_not_used_is_given_back(void **state)
{
    struct scene s;
    uint32_t a = 0, b = 0;

    (void)state;
    bring(&s, NULL, 0);
    ask(&s, 4, "a");
    ask(&s, 4, "b");
    for (uint32_t i = 0; i < 100; i++) {
        bool is_a = running(&s)[0] == 'a';

        end_one(&s, is_a ? 1 : TOKENS);
        ask(&s, 1, is_a ? "a" : "b");
        a += is_a;
        b += !is_a;
    }
    /* 41 tokens against 64 */
    assert_in_range(a, 57, 66);
    assert_int_equal(a + b, 100);
    rig_free(&s.rig);
}

static void weights_are_parsed(void **state)
{
    static const struct {
        const char *item;
        bool fine;
    } rows[] = {{"anna=1", true},   {"anna=1000", true},  {"a=b=7", true},
                {"anna=0", false},  {"anna=1001", false}, {"anna", false},
                {"=1", false},      {"anna=", false},     {"anna=-1", false},
                {"anna=1.5", false}};
    struct option_list twice = {.item = {"a=1", "a=2"}, .n = 2};
    struct named_numbers w;
    struct error e;

    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct option_list one = {.item = {rows[i].item}, .n = 1};

        assert_int_equal(named_numbers_parse(&w, &weight_rule, &one, &e) ==
                             ST_OK,
                         rows[i].fine);
    }
    assert_int_equal(named_numbers_parse(&w, &weight_rule, &twice, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "--tenant-weight: tenant a is there twice");
}

/* At most as many as there are workers. */
static void places_are_parsed(void **state)
{
    struct option_list list = {.item = {"org/m=64", "n=1"}, .n = 2};
    struct named_numbers w;
    struct error e;

    (void)state;
    assert_int_equal(named_numbers_parse(&w, &places_rule, &list, &e), ST_OK);
    assert_int_equal(named_number(w.of, w.n, "org/m", 0), 64);
    assert_int_equal(named_number(w.of, w.n, "n", 0), 1);
    assert_int_equal(named_number(w.of, w.n, "o", 7), 7);
    list.item[0] = "org/m=65";
    assert_int_equal(named_numbers_parse(&w, &places_rule, &list, &e),
                     ST_INVALID_ARGUMENT);
    assert_string_equal(e.text, "--places org/m=65: must be MODEL=N, MODEL of "
                                "1 to 128 bytes and N from 1 to 64");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_light_tenant_does_not_wait_for_a_backlog),
        cmocka_unit_test(two_that_wait_take_turns),
        cmocka_unit_test(none_waits_for_a_later_tier_of_its_tenant),
        cmocka_unit_test(flex_comes_after_those_before_it),
        cmocka_unit_test(a_full_queue_takes_those_below_their_share),
        cmocka_unit_test(an_unknown_tier_is_the_default),
        cmocka_unit_test(priority_takes_nothing_from_others),
        cmocka_unit_test(shares_are_by_weight),
        cmocka_unit_test(large_weights_are_not_rounded),
        cmocka_unit_test(one_alone_is_served_in_order_and_owes_nothing),
        cmocka_unit_test(what_is_not_used_is_given_back),
        cmocka_unit_test(weights_are_parsed),
        cmocka_unit_test(places_are_parsed),
    };

    log_setup(LOG_OFF, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
