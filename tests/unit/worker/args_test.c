#include "worker/args.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

/* Parses as the program does, from all sources. */
static enum status parse(struct worker_args *a, int argc, char **argv,
                         struct error *e)
{
    static struct option_sources s;
    enum status st = option_sources_load(&s, &args_program, a, argc, argv, e);

    args_choose_depth(a);
    return st;
}

static struct worker_args parsed(int argc, char **argv)
{
    struct worker_args a;
    struct error e;

    assert_int_equal(parse(&a, argc, argv, &e), ST_OK);
    return a;
}

static uint32_t depth(int argc, char **argv)
{
    return parsed(argc, argv).engine_depth;
}

static void two_plans_on_a_device(void **state)
{
    char *none[] = {"sluice-worker"};
    char *cpu[] = {"sluice-worker", "--device", "cpu"};
    char *device[] = {"sluice-worker", "--device", "opencl"};
    char *told[] = {"sluice-worker", "--device", "0", "--engine-depth", "1"};
    char *cpu_told[] = {"sluice-worker", "--engine-depth", "2"};

    (void)state;
    assert_int_equal(depth(1, none), 1);
    assert_int_equal(depth(3, cpu), 1);
    assert_int_equal(depth(3, device), 2);
    assert_int_equal(depth(5, told), 1);
    assert_int_equal(depth(3, cpu_told), 2);
}

static void no_more_than_two_plans(void **state)
{
    char *most[] = {"sluice-worker", "--engine-depth", "3"};
    struct worker_args a;
    struct error e;

    (void)state;
    assert_int_equal(parse(&a, 3, most, &e), ST_INVALID_ARGUMENT);
}

static void steps_follow_the_device(void **state)
{
    char *none[] = {"sluice-worker"};
    char *told[] = {"sluice-worker", "--step-tokens", "100", "--chunk-tokens",
                    "8192"};
    char *absent[] = {"sluice-worker", "--device", "no such device"};
    struct worker_args a = parsed(1, none);

    (void)state;
    assert_false(args_on_gpu(&a));
    args_choose_steps(&a, false);
    assert_int_equal(a.step_tokens, 512);
    assert_int_equal(a.chunk_tokens, 256);
    a = parsed(1, none);
    args_choose_steps(&a, true);
    assert_int_equal(a.step_tokens, 2048);
    assert_int_equal(a.chunk_tokens, 1024);
    a = parsed(5, told);
    args_choose_steps(&a, true);
    assert_int_equal(a.step_tokens, 100);
    assert_int_equal(a.chunk_tokens, 8192);
    a = parsed(3, absent);
    assert_false(args_on_gpu(&a));
}

static void the_largest_step_is_that_of_the_options(void **state)
{
    char *all[] = {"sluice-worker",
                   "--device",
                   "0",
                   "--step-tokens",
                   "700",
                   "--max-rows",
                   "9",
                   "--block-tokens",
                   "8",
                   "--engine-depth",
                   "1",
                   "--threads",
                   "3"};
    struct worker_args a = parsed(13, all);
    struct costs_step step = args_step(&a, 1000);

    (void)state;
    assert_true(step.opencl);
    assert_int_equal(step.tokens, 700);
    assert_int_equal(step.rows, 9);
    assert_int_equal(step.block_tokens, 8);
    assert_int_equal(step.plans, 2);
    assert_int_equal(step.threads, 3);
    assert_int_equal(step.context, 1000);
}

/* At the limit and one past it; 0 is the default. */
static void the_cap_on_slots_is_bounded(void **state)
{
    char *most[] = {"sluice-worker", "--model", "m", "--slots", "4096"};
    char *more[] = {"sluice-worker", "--slots", "4097"};
    char *zero[] = {"sluice-worker", "--model", "m", "--slots", "0"};
    char *stages[] = {"sluice-worker", "--model", "m", "--slots", "1",
                      "--stages",      "2"};
    struct worker_args a = parsed(5, most);
    struct error e;

    (void)state;
    assert_int_equal(a.slots, 4096);
    assert_int_equal(args_check(&a, &e), ST_OK);
    assert_int_equal(parse(&a, 3, more, &e), ST_INVALID_ARGUMENT);
    a = parsed(5, zero);
    assert_int_equal(a.slots, 0);
    a = parsed(7, stages);
    assert_int_equal(args_check(&a, &e), ST_OK);
}

static void drafts_are_a_number_or_auto(void **state)
{
    static const struct {
        const char *text;
        bool ok, automatic;
        uint32_t most;
    } of[] = {{"0", true, false, 0},   {"1", true, false, 1},
              {"8", true, false, 8},   {"auto", true, true, DRAFTS_MAX},
              {"9", false, false, 0},  {"10", false, false, 0},
              {"-1", false, false, 0}, {"", false, false, 0},
              {"4 ", false, false, 0}, {"automatic", false, false, 0}};
    char text[16];
    char *argv[] = {"sluice-worker", "--drafts", text, "--max-rows", "9"};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct args_drafts d;
        struct worker_args a;
        struct error e;

        snprintf(text, sizeof text, "%s", of[i].text);
        a = parsed(5, argv);
        assert_int_equal(args_drafts(&a, &d, &e),
                         of[i].ok ? ST_OK : ST_INVALID_ARGUMENT);
        if (!of[i].ok) {
            assert_non_null(strstr(e.text, "give 0 to 8, or auto"));
            continue;
        }
        assert_int_equal(d.most, of[i].most);
        assert_int_equal(d.automatic, of[i].automatic);
        assert_int_equal(d.drafter, DRAFTER_AUTO);
        /* A row keeps the inputs of its drafts and of the token before. */
        assert_int_equal(args_step(&a, 100).keep_tokens,
                         d.most > 0 ? (d.most + 1) * 9 : 0);
    }
}

static void reads_the_target_of_a_step(void **state)
{
    static const struct {
        const char *text;
        bool ok, bounded;
        uint32_t us;
    } of[] = {{"auto", true, true, 0},      {"0", true, false, 0},
              {"0s", true, false, 0},       {"1", true, true, 1000000},
              {"50ms", true, true, 50000},  {"60s", true, true, 60000000},
              {"60001ms", false, false, 0}, {"-1", false, false, 0},
              {"", false, false, 0},        {"fast", false, false, 0}};
    char text[16];
    char *argv[] = {"sluice-worker", "--model", "m", "--itl-target", text};

    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct worker_itl_options o;
        struct worker_args a;
        struct error e;

        snprintf(text, sizeof text, "%s", of[i].text);
        a = parsed(5, argv);
        assert_int_equal(args_check(&a, &e),
                         of[i].ok ? ST_OK : ST_INVALID_ARGUMENT);
        if (!of[i].ok) {
            assert_non_null(strstr(e.text, "give auto, or a time of 0 to 60s"));
            continue;
        }
        assert_int_equal(args_itl(&a, &o, &e), ST_OK);
        assert_int_equal(o.bounded, of[i].bounded);
        assert_int_equal(o.target_us, of[i].us);
    }
}

static void a_drafter_has_a_name(void **state)
{
    static const char *const names[] = {"auto", "mtp", "ngram"};
    char text[16];
    char *argv[] = {"sluice-worker", "--model", "m", "--drafter", text};
    struct args_drafts d;
    struct worker_args a;
    struct error e;

    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "%s", names[i]);
        a = parsed(5, argv);
        assert_int_equal(args_drafts(&a, &d, &e), ST_OK);
        assert_int_equal(d.drafter, i);
        assert_int_equal(d.most, 0);
    }
    snprintf(text, sizeof text, "ngrams");
    a = parsed(5, argv);
    assert_int_equal(args_check(&a, &e), ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "--drafter ngrams: give auto, mtp or"));
}

/* At both ends of the range and past them. */
static void integer_products_are_the_default_of_the_cpu(void **state)
{
    static const struct {
        const char *device, *products;
        bool int8, valid;
    } cases[] = {{"cpu", "int8", true, true},   {"cpu", "float", false, true},
                 {"cpu", "int4", false, false}, {"cpu", "", false, false},
                 {"0", "float", false, true},   {"0", "int8", true, false}};
    char *none[] = {"sluice-worker", "--model", "m"};
    char *device[] = {"sluice-worker", "--model", "m", "--device", "0"};
    struct worker_args a = parsed(3, none);
    char id[ARITHMETIC_SIZE];
    struct error e;

    (void)state;
    assert_true(args_int8(&a));
    args_arithmetic(&a, WEIGHT_Q4, id);
    assert_string_equal(id, "cpu-int8-1");
    args_arithmetic(&a, WEIGHT_PLAIN, id);
    assert_string_equal(id, "cpu-float-1");
    assert_true(args_step(&a, 1024).int8);
    assert_int_equal(args_check(&a, &e), ST_OK);
    a = parsed(5, device);
    assert_false(args_int8(&a));
    assert_int_equal(args_check(&a, &e), ST_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a.device = cases[i].device;
        a.products = cases[i].products;
        assert_int_equal(args_int8(&a), cases[i].int8);
        assert_int_equal(args_check(&a, &e),
                         cases[i].valid ? ST_OK : ST_INVALID_ARGUMENT);
    }
    assert_string_equal(e.text, "--device 0: only the CPU has --products int8; "
                                "leave it out");
}

static void cache_shares_are_shares(void **state)
{
    char *none[] = {"sluice-worker", "--model", "m"};
    char *set[] = {"sluice-worker",  "--no-reuse", "--cache-checkpoints", "0",
                   "--cache-tenant", "0.25"};
    char *most[] = {"sluice-worker", "--cache-checkpoints", "1"};
    char *more[] = {"sluice-worker", "--cache-checkpoints", "1.1"};
    char *less[] = {"sluice-worker", "--cache-tenant", "-0.1"};
    struct worker_args a = parsed(3, none);
    struct error e;

    (void)state;
    assert_false(a.no_reuse);
    assert_true(a.cache_checkpoints >= 1);
    assert_true(a.cache_tenant >= 1 && a.cache_tenant <= 1);
    a = parsed(6, set);
    assert_true(a.no_reuse);
    assert_true(a.cache_checkpoints >= 0 && a.cache_checkpoints <= 0);
    assert_true(a.cache_tenant >= 0.25 && a.cache_tenant <= 0.25);
    a = parsed(3, most);
    assert_true(a.cache_checkpoints >= 1);
    assert_int_equal(parse(&a, 3, more, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(parse(&a, 3, less, &e), ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_plans_on_a_device),
        cmocka_unit_test(no_more_than_two_plans),
        cmocka_unit_test(steps_follow_the_device),
        cmocka_unit_test(the_largest_step_is_that_of_the_options),
        cmocka_unit_test(the_cap_on_slots_is_bounded),
        cmocka_unit_test(drafts_are_a_number_or_auto),
        cmocka_unit_test(reads_the_target_of_a_step),
        cmocka_unit_test(a_drafter_has_a_name),
        cmocka_unit_test(integer_products_are_the_default_of_the_cpu),
        cmocka_unit_test(cache_shares_are_shares),
    };

    /* The file of an installed sluice is not for tests. */
    setenv("SLUICE_WORKER_CONFIG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
