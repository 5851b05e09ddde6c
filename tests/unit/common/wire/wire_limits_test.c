/* The table of limits that --limits prints. */
#include <string.h>

#include "common/wire/wire_limits.h"
#include "tests/unit/cmocka.h"

static void names_each_limit_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < wire_limits_n; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(wire_limits[i].name, wire_limits[j].name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_each_limit_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
