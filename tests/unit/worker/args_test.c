#include "worker/args.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_plans_on_a_device),
        cmocka_unit_test(no_more_than_two_plans),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
