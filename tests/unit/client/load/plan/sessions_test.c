/* Sessions of drawn lengths: trees, shared prefixes, and the context. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/load/plan/plan.h"
#include "plan_fixture.h"
#include "tests/unit/cmocka.h"

#define SESSIONS 2000

/* Expects a well-formed tree whose every request fits the context, and returns
 * its longest request. */
static uint32_t check(const struct plan_session *s, uint32_t context)
{
    uint32_t ends[PLAN_TURNS_MAX], longest = 0, piece = 0;

    assert_true(s->n_turns >= 1 && s->n_turns <= PLAN_TURNS_MAX);
    assert_int_equal(s->turns[0].parent, -1);
    for (uint32_t i = 0; i < s->n_turns; i++) {
        const struct plan_turn *t = &s->turns[i];
        uint32_t sum = 0;

        assert_true(i == 0 || (t->parent >= 0 && t->parent < (int32_t)i));
        assert_int_equal(t->first_piece, piece);
        piece += t->n_pieces;
        for (uint32_t k = t->first_piece; k < piece; k++) {
            assert_true(s->pieces[k].n > 0);
            sum += s->pieces[k].n;
        }
        assert_int_equal(sum, t->n_new);
        assert_true(t->n_new > 0 && t->max_tokens > 0);
        ends[i] = (i > 0 ? ends[t->parent] : 0) + t->n_new + t->max_tokens;
        longest = ends[i] > longest ? ends[i] : longest;
    }
    assert_int_equal(piece, s->n_pieces);
    assert_true(context == 0 || longest <= context);
    return longest;
}

static void turns_are_a_chain_without_branches(void **state)
{
    struct plan_options o = {.rate = "10",
                             .prompt = "100",
                             .output = "10",
                             .turns = "3..8",
                             .turn_prompt = "20",
                             .turn_think = "2s"};
    struct plan *p = fixture_plan(&o);
    unsigned n[9] = {0};

    (void)state;
    for (int i = 0; i < SESSIONS; i++) {
        const struct plan_session *s = fixture_next(p);

        check(s, 0);
        assert_true(s->n_turns >= 3 && s->n_turns <= 8);
        n[s->n_turns]++;
        for (uint32_t k = 0; k < s->n_turns; k++) {
            assert_int_equal(s->turns[k].parent, (int32_t)k - 1);
            assert_int_equal(s->turns[k].think_us, k > 0 ? 2000000 : 0);
            assert_int_equal(s->turns[k].n_new, k > 0 ? 20 : 100);
        }
    }
    for (int k = 3; k <= 8; k++) {
        assert_true(fabs(n[k] - SESSIONS / 6.0) < 5 * sqrt(SESSIONS / 6.0));
    }
    plan_free(&p);
}

static void a_share_of_the_turns_branches(void **state)
{
    struct plan_options o = {.rate = "10",
                             .turns = "40",
                             .turn_think = "exp:1s",
                             .branches = "0.2x3"};
    struct plan *p = fixture_plan(&o);
    unsigned parents = 0, forks = 0;

    (void)state;
    for (int i = 0; i < SESSIONS; i++) {
        const struct plan_session *s = fixture_next(p);
        uint32_t children[PLAN_TURNS_MAX] = {0};
        int64_t think[PLAN_TURNS_MAX];

        check(s, 0);
        assert_int_equal(s->n_turns, 40);
        for (uint32_t k = 1; k < s->n_turns; k++) {
            int32_t up = s->turns[k].parent;

            if (children[up]++ > 0) { /* siblings start together */
                assert_int_equal(think[up], s->turns[k].think_us);
            }
            think[up] = s->turns[k].think_us;
        }
        /* All have 12 whole parents, however many of these branch. */
        for (int32_t k = 0; k < 12; k++) {
            assert_true(children[k] == 1 || children[k] == 3);
            parents++;
            forks += children[k] == 3;
        }
    }
    assert_true(fabs(forks / (double)parents - 0.2) <
                5 * sqrt(0.2 * 0.8 / parents));
    plan_free(&p);
}

static void prompts_share_a_prefix(void **state)
{
    struct plan_options o = {.rate = "10", .prompt = "50", .prefix = "256"};
    struct plan *p = fixture_plan(&o);
    struct plan_piece shared = {0};
    uint64_t last = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        const struct plan_session *s = fixture_next(p);

        check(s, 0);
        assert_int_equal(s->turns[0].n_system, 1);
        assert_int_equal(s->turns[0].n_new, 306);
        if (i == 0) {
            shared = s->pieces[0];
        }
        assert_memory_equal(&s->pieces[0], &shared, sizeof shared);
        assert_true(s->pieces[1].seed != last);
        last = s->pieces[1].seed;
    }
    assert_int_equal(shared.n, 256);
    plan_free(&p);
}

static void several_prefixes_are_equally_likely(void **state)
{
    struct plan_options o = {.rate = "10", .prefix = "16x10"};
    struct plan *p = fixture_plan(&o);
    uint64_t seeds[10];
    unsigned n[10] = {0}, n_seeds = 0;

    (void)state;
    for (int i = 0; i < SESSIONS; i++) {
        uint64_t seed = fixture_next(p)->pieces[0].seed;
        unsigned k = 0;

        while (k < n_seeds && seeds[k] != seed) {
            k++;
        }
        assert_true(k < 10);
        if (k == n_seeds) {
            seeds[n_seeds++] = seed;
        }
        n[k]++;
    }
    assert_int_equal(n_seeds, 10);
    for (int k = 0; k < 10; k++) {
        assert_true(fabs(n[k] - SESSIONS / 10.0) < 5 * sqrt(SESSIONS / 10.0));
    }
    plan_free(&p);
}

static void lengths_that_fit_are_not_scaled(void **state)
{
    struct plan_options o = {
        .rate = "10", .prompt = "1000", .output = "24", .context_max = 1024};
    struct plan *p = fixture_plan(&o);
    struct error e;

    (void)state;
    assert_null(strstr(plan_text(p), "scaled"));
    assert_int_equal(check(fixture_next(p), 1024), 1024);
    o.context_max = 1023;
    assert_int_equal(plan_restart(p, &o, &e), ST_OK);
    assert_non_null(strstr(plan_text(p), "scaled to 0.999 to fit a context of "
                                         "1023 tokens"));
    assert_true(check(fixture_next(p), 1023) >= 1021);
    plan_free(&p);
}

static void every_request_fits_any_context(void **state)
{
    struct plan_options o = {.rate = "10",
                             .prompt = "lognormal:500,1.5",
                             .output = "exp:100",
                             .prefix = "300x3",
                             .turns = "1..12",
                             .turn_prompt = "normal:60,200",
                             .branches = "0.3x4"};
    struct plan *p;
    struct error e;

    (void)state;
    o.context_max = 2;
    p = fixture_plan(&o);
    for (; o.context_max < 100000; o.context_max += 1 + o.context_max / 3) {
        assert_int_equal(plan_restart(p, &o, &e), ST_OK);
        for (int i = 0; i < 300; i++) {
            check(fixture_next(p), o.context_max);
        }
    }
    plan_free(&p);
    o.context_max = 1;
    fixture_refused(&o, "no room for a prompt and an output");
}

static void lengths_of_trees_end_at_their_limits(void **state)
{
    static const struct {
        const char *last, *past, *option;
    } turns[] = {{"64", "65", "--turns"}, {"1..64", "1..65", "--turns"}},
      prefixes[] = {{"16777216", "16777217", "--prefix"},
                    {"1x1000000", "1x1000001", "--prefix"},
                    {"1", "0", "--prefix"},
                    {"1x1", "1x0", "--prefix"}},
      branches[] = {{"1x16", "1x17", "--branches"},
                    {"0x2", "0x1", "--branches"},
                    {"1x2", "1.01x2", "--branches"}},
      prompts[] = {{"16777216", "16777217", "--prompt"},
                   {"1", "0", "--prompt"}};
    struct plan_options o = {.rate = "1"};

    (void)state;
#define EACH(list, field)                                           \
    for (size_t i = 0; i < sizeof(list) / sizeof((list)[0]); i++) { \
        struct plan *p;                                             \
                                                                    \
        o.field = (list)[i].last;                                   \
        p = fixture_plan(&o);                                       \
        plan_free(&p);                                              \
        o.field = (list)[i].past;                                   \
        fixture_refused(&o, (list)[i].option);                      \
        o.field = NULL;                                             \
    }
    EACH(turns, turns);
    EACH(prefixes, prefix);
    EACH(branches, branches);
    EACH(prompts, prompt);
#undef EACH
}

static void bad_trees_are_refused(void **state)
{
    static const char *const prefixes[] = {"",   "x10",     "256x", "1.5",
                                           "-1", "256x10x", "256 "};
    static const char *const branches[] = {"",        "0.2",    "0.2x",  "x3",
                                           "0.2x3.5", "0.2x3 ", "-0.2x3"};

    (void)state;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        fixture_refused(
            &(struct plan_options){.rate = "1", .prefix = prefixes[i]},
            "256x10");
    }
    for (size_t i = 0; i < sizeof branches / sizeof branches[0]; i++) {
        fixture_refused(
            &(struct plan_options){.rate = "1", .branches = branches[i]},
            "0.2x3");
    }
    fixture_refused(&(struct plan_options){.rate = "1", .turn_think = "x"},
                    "--turn-think");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_are_a_chain_without_branches),
        cmocka_unit_test(a_share_of_the_turns_branches),
        cmocka_unit_test(prompts_share_a_prefix),
        cmocka_unit_test(several_prefixes_are_equally_likely),
        cmocka_unit_test(lengths_that_fit_are_not_scaled),
        cmocka_unit_test(every_request_fits_any_context),
        cmocka_unit_test(lengths_of_trees_end_at_their_limits),
        cmocka_unit_test(bad_trees_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
