/* Which names belong to this machine. */
#include "common/base/local_host.h"

#include <string.h>

#include "tests/unit/cmocka.h"

static void hosts_are_told_apart(void **state)
{
    static const struct {
        const char *host;
        bool local;
    } rows[] = {
        {"localhost", true},
        {"localhost:8000", true},
        {"LOCALHOST.:1", true},
        {"tunnel.localhost:8000", true},
        {"127.0.0.1:8000", true},
        {"127.9.9.9", true},
        {"[::1]:8000", true},
        {"[::1]", true},
        {"[::1", false},
        {"::1", false},
        {"", false},
        {":80", false},
        {".localhost", false},
        {"127.0.0.1.evil.example", false},
        {"localhost.evil.example", false},
        {"notlocalhost", false},
        {"127.1", false}, /* browsers write all four numbers */
        {"0.0.0.0", false},
        {"10.0.0.1", false},
        {"[::2]", false},
        {"[::ffff:127.0.0.1]", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (host_is_local(rows[i].host, strlen(rows[i].host)) !=
            rows[i].local) {
            fail_msg("%s", rows[i].host);
        }
    }
}

static void a_name_has_a_longest_length(void **state)
{
    char host[LOCAL_HOST_BYTES + 8], name[LOCAL_HOST_BYTES];

    (void)state;
    memset(host, 'a', sizeof host);
    assert_true(host_name_copy(host, LOCAL_HOST_BYTES - 1, name));
    assert_int_equal(strlen(name), LOCAL_HOST_BYTES - 1);
    assert_false(host_name_copy(host, LOCAL_HOST_BYTES, name));
}

static void an_origin_has_a_host(void **state)
{
    size_t n = 0;
    const char *origin = "HTTP://[::1]:80", *host = origin_host(origin, &n);

    (void)state;
    assert_ptr_equal(host, origin + 7);
    assert_int_equal(n, 8);
    assert_non_null(origin_host("https://a.example", &n));
    assert_int_equal(n, 9);
    assert_null(origin_host("null", &n));
    assert_null(origin_host("http://", &n));
    assert_null(origin_host("file:///x", &n));
    assert_null(origin_host("", &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_told_apart),
        cmocka_unit_test(a_name_has_a_longest_length),
        cmocka_unit_test(an_origin_has_a_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
