#include "worker/args.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka.h"

static struct worker_args parsed(int argc, char **argv)
{
    struct worker_args a;
    struct error e;

    assert_int_equal(args_parse(&a, argc, argv, &e), ST_OK);
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
    assert_int_equal(args_parse(&a, 3, most, &e), ST_INVALID_ARGUMENT);
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
    assert_int_equal(args_parse(&a, 3, more, &e), ST_INVALID_ARGUMENT);
    a = parsed(5, zero);
    assert_int_equal(a.slots, 0);
    a = parsed(7, stages);
    assert_int_equal(args_check(&a, &e), ST_OK);
}

/* At both ends of the range and past them. */
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
    assert_int_equal(args_parse(&a, 3, more, &e), ST_INVALID_ARGUMENT);
    assert_int_equal(args_parse(&a, 3, less, &e), ST_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_plans_on_a_device),
        cmocka_unit_test(no_more_than_two_plans),
        cmocka_unit_test(steps_follow_the_device),
        cmocka_unit_test(the_largest_step_is_that_of_the_options),
        cmocka_unit_test(the_cap_on_slots_is_bounded),
        cmocka_unit_test(cache_shares_are_shares),
    };

    /* The file of an installed sluice is not for tests. */
    setenv("SLUICE_WORKER_CONFIG", "none", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
