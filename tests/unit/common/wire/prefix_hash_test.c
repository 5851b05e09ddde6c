#include "common/wire/prefix_hash.h"

#include "tests/unit/cmocka.h"

/* SipHash-2-4-128 of no bytes under the key 00 01 .. 0f, from the reference
 * implementation's vectors. */
static void the_root_is_siphash_of_the_name(void **state)
{
    static const uint8_t expected[PREFIX_HASH_BYTES] = {
        0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
        0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    struct prefix_key key;
    struct prefix_hash h;

    (void)state;
    for (uint8_t i = 0; i < PREFIX_KEY_BYTES; i++) {
        key.bytes[i] = i;
    }
    h = prefix_hash_root(&key, NULL, 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(h.lo >> (8 * i) & 0xff, expected[i]);
        assert_int_equal(h.hi >> (8 * i) & 0xff, expected[8 + i]);
    }
}

static void a_hash_depends_on_everything_before_it(void **state)
{
    struct prefix_key key = {{1}}, other = {{2}};
    struct prefix_hash root = prefix_hash_root(&key, "a", 1), h;
    uint32_t tokens[PREFIX_UNIT] = {0};

    (void)state;
    h = prefix_hash_next(&key, root, tokens);
    assert_true(prefix_hash_same(h, prefix_hash_next(&key, root, tokens)));
    assert_false(prefix_hash_same(h, prefix_hash_next(&other, root, tokens)));
    assert_false(prefix_hash_same(h, prefix_hash_next(&key, h, tokens)));
    assert_false(prefix_hash_same(root, prefix_hash_root(&key, "b", 1)));
    assert_false(prefix_hash_same(root, prefix_hash_root(&key, "", 0)));
    for (uint32_t i = 0; i < PREFIX_UNIT; i++) {
        tokens[i] = 1 << 24;
        assert_false(prefix_hash_same(h, prefix_hash_next(&key, root, tokens)));
        tokens[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_is_siphash_of_the_name),
        cmocka_unit_test(a_hash_depends_on_everything_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
