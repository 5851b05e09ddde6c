/* Student's t and Welch's test against tables and known samples. */
#include "client/load/figures/confidence.h"

#include <math.h>

#include "tests/unit/cmocka.h"

static void t_is_that_of_the_tables(void **state)
{
    /* By numeric integration of the density. */
    static const double want[][2] = {
        {1, 12.7062},  {2, 4.3027},   {2.5, 3.5747},  {9, 2.2622},
        {9.5, 2.2441}, {19, 2.0930},  {29.5, 2.0437}, {30, 2.0423},
        {40, 2.0211},  {120, 1.9799}, {1e9, 1.9600}};

    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        double got = confidence_t(want[i][0]);

        /* Read between the rows of a table: within 2 %. */
        if (fabs(got / want[i][1] - 1) > (want[i][0] < 3 ? 0.02 : 0.001)) {
            print_error("t(%g) is %g, not %g\n", want[i][0], got, want[i][1]);
            fail();
        }
    }
    assert_true(confidence_t(0.5) == confidence_t(1));
}

static void mean_and_half_width_are_those_of_the_values(void **state)
{
    const double values[] = {2, 4, 4, 4, 5, 5, 7, 9};
    struct confidence c = confidence_of(values, 8);

    (void)state;
    assert_true(fabs(c.mean - 5) < 1e-12);
    assert_true(fabs(c.variance - 32.0 / 7) < 1e-12);
    assert_true(fabs(confidence_half(&c) - 2.3646 * sqrt(32.0 / 56)) < 1e-9);
    c = confidence_of(values, 1);
    assert_true(c.mean == 2 && c.variance == 0);
    c = confidence_of(values, 0);
    assert_true(c.mean == 0 && c.variance == 0);
}

static bool differ(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct confidence x = confidence_of(a, n_a), y = confidence_of(b, n_b);

    assert_int_equal(confidence_differ(&x, &y), confidence_differ(&y, &x));
    return confidence_differ(&x, &y);
}

static void differences_within_the_scatter_are_noise(void **state)
{
    const double a[] = {10, 11, 12, 13}, same[] = {11, 12, 13, 12.5};
    const double far[] = {20, 21, 22, 23}, flat[] = {5, 5, 5};
    const double other[] = {6, 6, 6};

    (void)state;
    assert_false(differ(a, 4, same, 4));
    assert_true(differ(a, 4, far, 4));
    assert_false(differ(a, 4, far, 1)); /* one value has no scatter */
    assert_false(differ(flat, 3, flat, 3));
    assert_true(differ(flat, 3, other, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_is_that_of_the_tables),
        cmocka_unit_test(mean_and_half_width_are_those_of_the_values),
        cmocka_unit_test(differences_within_the_scatter_are_noise),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
