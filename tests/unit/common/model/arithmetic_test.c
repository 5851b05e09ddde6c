#include "common/model/arithmetic.h"

#include <string.h>

#include "tests/unit/cmocka.h"

/* Only weights that have integer products differ by the option. */
static void ids_of_the_cpu_follow_the_weights(void **state)
{
    static const struct {
        enum weight_format f;
        const char *with, *without;
    } cases[] = {{WEIGHT_PLAIN, "cpu-float-1", "cpu-float-1"},
                 {WEIGHT_FP8, "cpu-float-1", "cpu-float-1"},
                 {WEIGHT_AFFINE, "cpu-int8-1", "cpu-float-1"},
                 {WEIGHT_MXFP4, "cpu-int8-1", "cpu-float-1"},
                 {WEIGHT_K6, "cpu-int8-1", "cpu-float-1"}};
    char id[ARITHMETIC_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_string_equal(arithmetic_cpu(id, cases[i].f, true),
                            cases[i].with);
        assert_string_equal(arithmetic_cpu(id, cases[i].f, false),
                            cases[i].without);
    }
}

static void ids_of_devices_differ_by_their_text(void **state)
{
    char a[ARITHMETIC_SIZE], b[ARITHMETIC_SIZE];

    (void)state;
    arithmetic_device(a, "NVIDIA CUDA\nH200\n580.1");
    arithmetic_device(b, "NVIDIA CUDA\nH200\n580.1");
    assert_string_equal(a, b);
    assert_int_equal(strncmp(a, "opencl-", 7), 0);
    assert_int_equal(strlen(a), strlen("opencl-12345678-1"));
    arithmetic_device(b, "NVIDIA CUDA\nH200\n580.2");
    assert_string_not_equal(a, b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_of_the_cpu_follow_the_weights),
        cmocka_unit_test(ids_of_devices_differ_by_their_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
