/* Names and roles that a key gives. */
#include "common/wire/identity.h"

#include <string.h>

#include "common/wire/method.h"
#include "common/wire/wire.h"
#include "tests/unit/cmocka.h"

static struct identity key(const char *name, uint8_t roles)
{
    struct identity id = {.roles = roles};

    strcpy(id.name, name);
    return id;
}

static void names_begin_with_the_key(void **state)
{
    static const struct {
        const char *key, *said, *name;
    } cases[] = {
        {NULL, "w1", "w1"},          {NULL, "k/w1", "k/w1"},
        {"w1", "w1", "w1"},          {"w1", "gpu0", "w1/gpu0"},
        {"w1", "w", "w1/w"},         {"w1", "w10", "w1/w10"},
        {"w1", "w1/w1", "w1/w1/w1"}, {"w1", "w2/w1", "w1/w2/w1"},
        {"w1", "/", "w1//"},         {"w", "1/w", "w/1/w"},
    };
    char name[PEER_NAME_MAX + 1];
    struct error e;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct identity id = key(cases[i].key ? cases[i].key : "", BY_WORKER);

        assert_int_equal(identity_name(cases[i].key ? &id : NULL,
                                       wire_text(cases[i].said), "name", name,
                                       &e),
                         ST_OK);
        assert_string_equal(name, cases[i].name);
    }
}

/* The limit holds for the key's name, the slash and the rest together. */
static void a_long_name_is_refused_and_not_cut(void **state)
{
    struct identity id = key("", BY_WORKER);
    char name[PEER_NAME_MAX + 1], said[PEER_NAME_MAX + 2];
    struct error e;

    (void)state;
    memset(id.name, 'k', KEY_NAME_MAX);
    memset(said, 's', sizeof said);
    said[PEER_NAME_MAX - KEY_NAME_MAX - 1] = '\0';
    assert_int_equal(identity_name(&id, wire_text(said), "name", name, &e),
                     ST_OK);
    assert_int_equal(strlen(name), PEER_NAME_MAX);
    assert_int_equal(name[KEY_NAME_MAX], '/');
    said[PEER_NAME_MAX - KEY_NAME_MAX - 1] = 's';
    said[PEER_NAME_MAX - KEY_NAME_MAX] = '\0';
    assert_int_equal(identity_name(&id, wire_text(said), "lineage", name, &e),
                     ST_INVALID_ARGUMENT);
    assert_non_null(strstr(e.text, "the lineage has 65 bytes with its key"));
    assert_non_null(strstr(e.text, "shorten it to 31 bytes"));
    said[PEER_NAME_MAX - KEY_NAME_MAX] = 's';
    said[PEER_NAME_MAX] = '\0';
    assert_int_equal(identity_name(NULL, wire_text(said), "name", name, &e),
                     ST_OK);
    said[PEER_NAME_MAX] = 's';
    said[PEER_NAME_MAX + 1] = '\0';
    assert_int_equal(identity_name(NULL, wire_text(said), "name", name, &e),
                     ST_INVALID_ARGUMENT);
}

static void roles_are_those_of_the_key(void **state)
{
    static const uint8_t all[] = {BY_ROUTER, BY_WORKER, BY_CLIENT, BY_ADMIN};
    struct error e;

    (void)state;
    for (uint8_t roles = 0; roles <= BY_ALL; roles++) {
        struct identity id = key("k1", roles);

        for (size_t i = 0; i < sizeof all; i++) {
            bool may = (roles & all[i]) != 0 ||
                       (all[i] == BY_CLIENT && (roles & BY_ADMIN) != 0);

            assert_int_equal(identity_check_role(NULL, all[i], &e), ST_OK);
            assert_int_equal(identity_check_role(&id, all[i], &e),
                             may ? ST_OK : ST_PERMISSION_DENIED);
            if (!may) {
                assert_non_null(strstr(e.text, "k1"));
                assert_non_null(strstr(e.text, identity_role(all[i])));
            }
        }
    }
}

static void keys_are_compared_whole(void **state)
{
    struct identity id = key("k", BY_WORKER);
    uint8_t other[KEY_BYTES] = {0};

    (void)state;
    assert_true(identity_has_key(&id, other));
    assert_false(identity_has_key(NULL, other));
    other[KEY_BYTES - 1] = 1;
    assert_false(identity_has_key(&id, other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_begin_with_the_key),
        cmocka_unit_test(a_long_name_is_refused_and_not_cut),
        cmocka_unit_test(roles_are_those_of_the_key),
        cmocka_unit_test(keys_are_compared_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
