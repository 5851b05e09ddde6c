/* Environment variables that set options. */
#include "common/base/option_env.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define TEST_OPTIONS(X)                         \
    X(max_rows, U32, "N", "64", "rows", 1, 512) \
    X(support, STRING, "TEXT", NULL, "a text", 0, 0)

OPTION_TABLE(test_options, TEST_OPTIONS);

static struct option_env match(const char *pair)
{
    return option_env_match("router", test_options_rows,
                            OPTION_COUNT(test_options_rows), pair);
}

static void finds_options(void **state)
{
    struct option_env found = match("SLUICE_ROUTER_MAX_ROWS=8");
    char name[64];

    (void)state;
    assert_int_equal(found.kind, OPTION_ENV_OPTION);
    assert_string_equal(found.row->name, "max_rows");
    assert_string_equal(found.value, "8");
    assert_string_equal(option_env_name("worker", "kv_dtype", name, 64),
                        "SLUICE_WORKER_KV_DTYPE");
}

static void offers_the_nearest_option(void **state)
{
    (void)state;
    assert_int_equal(match("SLUICE_ROUTER_MAX_ROW=8").kind, OPTION_ENV_NEAR);
    assert_string_equal(match("SLUICE_ROUTER_MAXROWS=8").row->name, "max_rows");
    assert_int_equal(match("SLUICE_ROUTER_max_rows=8").kind, OPTION_ENV_NEAR);
    assert_string_equal(match("SLUICE_ROUTER_max_rows=8").row->name,
                        "max_rows");
}

static void leaves_other_variables_alone(void **state)
{
    static const char *const others[] = {
        "SLUICE_ROUTER=tcp://127.0.0.1:7071",
        "SLUICE_BIN=/x",
        "SLUICE_QUICKSTART=/x:1",
        "SLUICE_FAILPOINTS=a=kill",
        "SLUICE_GATEWAY_MAX_ROWS=8",
        "PATH=/bin",
        "SLUICE_ROUTER_MAX_ROWS=",
        "SLUICE_ROUTER_MAX_ROWS",
        "SLUICE_ROUTER_SERVICE_HOST=10.0.0.1",
        "SLUICE_ROUTER_SERVICE_PORT=7070",
        "SLUICE_ROUTER_SERVICE_PORT_WORKERS=7070",
        "SLUICE_ROUTER_PORT=tcp://10.0.0.1:7070",
        "SLUICE_ROUTER_PORT_7070_TCP_ADDR=10.0.0.1",
        "SLUICE_ROUTER_MAX_ROWS_PORT=tcp://10.0.0.1:7070",
        "SLUICE_ROUTER_MAX_ROWS_PORT_7_TCP=10.0.0.1",
        "SLUICE_ROUTER_MAX_ROWS_SERVICE_HOST=10.0.0.1"};

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (match(others[i]).kind != OPTION_ENV_OTHER) {
            fail_msg("%s", others[i]);
        }
    }
    assert_int_equal(match("SLUICE_ROUTER_SUPORT=a").kind, OPTION_ENV_NEAR);
    assert_int_equal(match("SLUICE_ROUTER_WEATHER=fine").kind,
                     OPTION_ENV_UNKNOWN);
    /* Longer than any option. */
    assert_int_equal(
        match("SLUICE_ROUTER_ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVW"
              "XYZABCDEFGHIJKLMNOPQRSTUVWXYZ=1")
            .kind,
        OPTION_ENV_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_options),
        cmocka_unit_test(offers_the_nearest_option),
        cmocka_unit_test(leaves_other_variables_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
