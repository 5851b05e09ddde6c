/* Which variables a private cluster does without. */
#include <stdlib.h>
#include <string.h>

#include "client/front/private_env.h"
#include "tests/unit/cmocka.h"

static bool drops(const char *name)
{
    return private_env_drops(name, strlen(name));
}

static void options_and_keys_of_other_clusters_go(void **state)
{
    (void)state;
    assert_true(drops("SLUICE_ROUTER"));
    assert_true(drops("SLUICE_ROUTER_KEY"));
    assert_true(drops("SLUICE_GATEWAY_KEYS"));
    assert_true(drops("SLUICE_WORKER_MEMORY"));
    assert_true(drops("SLUICE_KEY"));
    assert_true(drops("SLUICE_TRUST"));
    assert_false(drops("SLUICE_API_KEY"));
    assert_false(drops("SLUICE_KEYS"));
    assert_false(drops("SLUICE_FAILPOINTS"));
    assert_false(drops("PATH"));
    assert_false(drops(""));
}

static void the_first_option_is_named(void **state)
{
    char name[64];

    (void)state;
    assert_int_equal(clearenv(), 0);
    assert_int_equal(private_env_clean(name, sizeof name), 0);
    assert_string_equal(name, "");
    setenv("PATH", "/bin", 1);
    setenv("SLUICE_ROUTER_CONFIG", "none", 1);
    setenv("SLUICE_KEY", "anna.key", 1);
    setenv("SLUICE_WORKER_MEMORY", "1GiB", 1);
    setenv("HOME", "/root", 1);
    assert_int_equal(private_env_clean(name, sizeof name), 1);
    assert_string_equal(name, "SLUICE_WORKER_MEMORY");
    assert_null(getenv("SLUICE_ROUTER_CONFIG"));
    assert_null(getenv("SLUICE_KEY"));
    assert_null(getenv("SLUICE_WORKER_MEMORY"));
    assert_string_equal(getenv("PATH"), "/bin");
    assert_string_equal(getenv("HOME"), "/root");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_and_keys_of_other_clusters_go),
        cmocka_unit_test(the_first_option_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
