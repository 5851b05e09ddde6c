#include "common/wire/zap.h"

#include <stdio.h>
#include <string.h>

#include "common/wire/method.h"
#include "tests/key_files.h"
#include "tests/unit/cmocka.h"

static const uint8_t key[KEY_BYTES] = {0x01, 0xfe, [31] = 0x80};

static struct zap_part text(const char *s)
{
    return (struct zap_part){(const uint8_t *)s, strlen(s)};
}

static void fill(struct zap_part p[ZAP_REQUEST])
{
    p[0] = text("1.0");
    p[1] = text("req-7");
    p[2] = text("2");
    p[3] = text("192.0.2.1");
    p[4] = text("");
    p[5] = text("CURVE");
    p[6] = (struct zap_part){key, sizeof key};
}

static void parses_a_request(void **state)
{
    struct zap_part p[ZAP_REQUEST];
    struct zap_request r;

    (void)state;
    fill(p);
    assert_true(zap_parse(&r, p, ZAP_REQUEST, 3));
    assert_int_equal(r.port, 2);
    assert_memory_equal(r.key, key, sizeof key);
    assert_int_equal(r.n_id, 5);
    assert_memory_equal(r.id, "req-7", 5);
}

static void refuses_what_is_no_request_for_curve(void **state)
{
    static const char long_id[ZAP_ID_MAX + 1] = {1};
    struct zap_part p[ZAP_REQUEST];
    const struct {
        int part;
        struct zap_part wrong;
    } cases[] = {
        {0, text("2.0")},
        {0, text("1.0 ")},
        {1, {(const uint8_t *)long_id, sizeof long_id}},
        {2, text("3")},
        {2, text("")},
        {2, text("02")},
        {5, text("PLAIN")},
        {5, text("NULL")},
        {6, {key, KEY_BYTES - 1}},
        {6, {key, 0}},
    };
    struct zap_request r;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fill(p);
        p[cases[i].part] = cases[i].wrong;
        assert_false(zap_parse(&r, p, ZAP_REQUEST, 3));
    }
    fill(p);
    p[1] = (struct zap_part){(const uint8_t *)long_id, ZAP_ID_MAX};
    assert_true(zap_parse(&r, p, ZAP_REQUEST, 3));
    assert_false(zap_parse(&r, p, ZAP_REQUEST - 1, 3));
    assert_false(zap_parse(&r, p, ZAP_REQUEST, 2));
}

static void a_user_id_is_the_key(void **state)
{
    char id[ZAP_USER_ID + 1];
    uint8_t back[KEY_BYTES];

    (void)state;
    zap_user_id(id, key);
    assert_int_equal(strlen(id), ZAP_USER_ID);
    assert_true(zap_user_key(back, id));
    assert_memory_equal(back, key, sizeof key);
    id[7] = 'g';
    assert_false(zap_user_key(back, id));
    id[7] = '\0';
    assert_false(zap_user_key(back, id));
    assert_false(zap_user_key(back, NULL));
}

static void replies_with_the_verdict(void **state)
{
    struct zap_part p[ZAP_REQUEST];
    struct zap_request r;
    struct zap_reply reply;

    (void)state;
    fill(p);
    assert_true(zap_parse(&r, p, ZAP_REQUEST, 3));
    zap_reply(&reply, &r, ZAP_ACCEPTED);
    assert_memory_equal(reply.parts[1].data, "req-7", 5);
    assert_memory_equal(reply.parts[2].data, "200", 3);
    assert_int_equal(reply.parts[4].n, ZAP_USER_ID);
    for (int v = ZAP_UNKNOWN_KEY; v <= ZAP_WRONG_ROLE; v++) {
        zap_reply(&reply, &r, (enum zap_verdict)v);
        assert_memory_equal(reply.parts[2].data, "400", 3);
        assert_int_equal(reply.parts[4].n, 0);
        assert_int_equal(reply.parts[5].n, 0);
    }
}

static void judges_keys_by_trust_and_role(void **state)
{
    const struct identity *who;
    char path[KEY_FILES_PATH];
    struct key_files files;
    struct curve_keys *keys;
    struct error e;

    (void)state;
    key_files_begin(&files);
    key_files_make(&files, "r", "router", 1);
    key_files_make(&files, "a", "admin", 1);
    key_files_make(&files, "w", "worker,client", 1);
    key_files_path(&files, "r", ".key", path);
    assert_int_equal(curve_keys_load(&keys, path, files.dir, &e), ST_OK);
    assert_int_equal(zap_judge(keys, key, BY_ALL, &who), ZAP_UNKNOWN_KEY);
    assert_null(who);
    for (unsigned i = 0; i < 3; i++) {
        const struct identity *id = curve_keys_nth(keys, BY_ALL, i);

        for (uint8_t allowed = 0; allowed <= BY_ALL; allowed++) {
            assert_int_equal(zap_judge(keys, id->key, allowed, &who),
                             (id->roles & allowed) != 0 ? ZAP_ACCEPTED
                                                        : ZAP_WRONG_ROLE);
            assert_ptr_equal(who, id);
        }
    }
    curve_keys_free(&keys);
    key_files_end(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parses_a_request),
        cmocka_unit_test(refuses_what_is_no_request_for_curve),
        cmocka_unit_test(a_user_id_is_the_key),
        cmocka_unit_test(replies_with_the_verdict),
        cmocka_unit_test(judges_keys_by_trust_and_role),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
