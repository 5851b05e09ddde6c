/* Families whose layers differ in details: what their files state, what those
 * leave out, and refusals. */
#include "common/model/config.h"

#include <string.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/worker/model/fixture.h"

#define FAMILIES "tests/vectors/families/"

/* Sets key to value (stolen), and returns the configuration. */
static struct model_config with(const char *family, const char *key,
                                json_t *value)
{
    json_t *j = fixture_config(family);
    struct model_config c;

    assert_non_null(value);
    json_object_set_new(j, key, value);
    c = fixture_parsed(j);
    json_decref(j);
    return c;
}

static void reads_seed_oss(void **state)
{
    struct model_config c = fixture_load_config(FAMILIES "tiny-seed-oss");

    (void)state;
    assert_string_equal(c.family, "seed_oss");
    assert_true(c.qkv_bias);
    assert_false(c.o_bias || c.qk_norm || c.tied);
    c = with("seed_oss", "attention_out_bias", json_true());
    assert_true(c.qkv_bias && c.o_bias);
    c = with("seed_oss", "attention_bias", json_false());
    assert_false(c.qkv_bias || c.o_bias);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_seed_oss),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
