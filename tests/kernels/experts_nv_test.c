/* Tests how products of prompt tokens with their experts are cut. */
#include "kernels/opencl/nv/experts_nv.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static struct experts_nv_tile tile_of(uint32_t hidden, uint32_t dim)
{
    const struct matmul_nv_product of[2] = {
        {MATMUL_NV_SILU, 2 * dim, hidden, 0, true},
        {MATMUL_NV_STORE, hidden, dim, 0, true}};

    return experts_nv_tile(of);
}

static void test_tile_has_few_rows_behind_the_matrix(void **state)
{
    (void)state;
    assert_int_equal(tile_of(2048, 512).rows, 256);
    assert_int_equal(tile_of(2880, 2880).rows, 192);
}

static void test_tile_fits_local_memory(void **state)
{
    const uint32_t dims[][2] = {{2048, 512}, {2880, 2880}, {64, 64}};

    (void)state;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        const struct experts_nv_tile t = tile_of(dims[i][0], dims[i][1]);

        assert_true(experts_nv_bytes(&t) <= matmul_nv_local(90));
        assert_int_equal(t.rows % 64, 0);
        assert_int_equal(t.pairs % EXPERTS_NV_GRAIN, 0);
    }
}

static void test_cut_has_the_kernel_and_its_defines(void **state)
{
    const struct experts_nv_tile t = {192, 160, 3};
    const struct matmul_nv_product gate_up = {MATMUL_NV_SILU, 1024, 2048, 0,
                                              true};
    const struct matmul_nv_product down = {MATMUL_NV_STORE, 2048, 512, 0, true};
    struct matmul_nv m;

    (void)state;
    experts_nv_cut(&m, &gate_up, &t);
    assert_string_equal(m.kernel, "experts_gate_up");
    assert_string_equal(m.defines, "-DN=512 -DK=2048 -DEPILOGUE=1 -DTILE_W=192 "
                                   "-DTILE_P=160 -DSTAGES=3");
    assert_int_equal(m.items, 384);
    assert_int_equal(m.tokens, 160);
    experts_nv_cut(&m, &down, &t);
    assert_string_equal(m.kernel, "experts_down");
    assert_non_null(strstr(m.defines, "-DN=2048 -DK=512 -DEPILOGUE=0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile_has_few_rows_behind_the_matrix),
        cmocka_unit_test(test_tile_fits_local_memory),
        cmocka_unit_test(test_cut_has_the_kernel_and_its_defines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
