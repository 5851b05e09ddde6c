#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "common/wire/door_rules.h"

#define SECOND INT64_C(1000000)

static const struct door_limits limits = {.connections = 4,
                                          .per_address = 2,
                                          .rate = 10,
                                          .burst = 8,
                                          .handshakes = UINT32_MAX};

static void start(struct door_rules *r, const struct door_limits *l)
{
    door_rules_init(r, l, 0);
}

static void leave(struct door_rules *r, uint64_t address, unsigned n)
{
    while (n-- > 0) {
        door_rules_leave(r, address, false);
    }
}

static void limits_all_connections(void **state)
{
    struct door_rules r;

    (void)state;
    start(&r, &limits);
    for (uint64_t a = 1; a <= 4; a++) {
        assert_int_equal(door_rules_enter(&r, a, 0), DOOR_OPEN);
    }
    assert_int_equal(door_rules_enter(&r, 5, 0), DOOR_FULL);
    door_rules_leave(&r, 1, false);
    assert_int_equal(door_rules_enter(&r, 5, 0), DOOR_OPEN);
    for (uint64_t a = 2; a <= 5; a++) {
        door_rules_leave(&r, a, false);
    }
    door_rules_fini(&r);
}

static void limits_one_address(void **state)
{
    struct door_rules r;

    (void)state;
    start(&r, &limits);
    assert_int_equal(door_rules_enter(&r, 7, 0), DOOR_OPEN);
    assert_int_equal(door_rules_enter(&r, 7, 0), DOOR_OPEN);
    assert_int_equal(door_rules_enter(&r, 7, 0), DOOR_ADDRESS);
    assert_int_equal(door_rules_enter(&r, 8, 0), DOOR_OPEN);
    door_rules_leave(&r, 7, false);
    assert_int_equal(door_rules_enter(&r, 7, 0), DOOR_OPEN);
    leave(&r, 7, 2);
    leave(&r, 8, 1);
    door_rules_fini(&r);
}

static void a_local_port_is_one_address(void **state)
{
    struct door_rules r;

    (void)state;
    start(&r, &limits);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(door_rules_enter(&r, DOOR_LOCAL, 0), DOOR_OPEN);
    }
    assert_int_equal(door_rules_enter(&r, DOOR_LOCAL, 0), DOOR_FULL);
    leave(&r, DOOR_LOCAL, 4);
    door_rules_fini(&r);
}

static void limits_unfinished_handshakes(void **state)
{
    const struct door_limits some = {.connections = 100,
                                     .per_address = 100,
                                     .rate = 10,
                                     .burst = 100,
                                     .handshakes = 8};
    struct door_rules r;

    (void)state;
    start(&r, &some);
    for (int i = 0; i < 6; i++) { /* three quarters */
        assert_int_equal(door_rules_enter(&r, 1, 0), DOOR_OPEN);
    }
    assert_int_equal(door_rules_enter(&r, 1, 0), DOOR_SHAKING);
    assert_int_equal(door_rules_enter(&r, 2, 0), DOOR_OPEN);
    assert_int_equal(door_rules_enter(&r, 3, 0), DOOR_OPEN);
    assert_int_equal(door_rules_enter(&r, 4, 0), DOOR_SHAKING);
    door_rules_spoke(&r, 1);
    assert_int_equal(door_rules_enter(&r, 1, 0), DOOR_OPEN);
    door_rules_leave(&r, 1, true); /* the one that spoke */
    assert_int_equal(door_rules_enter(&r, 1, 0), DOOR_SHAKING);
    leave(&r, 1, 1);
    assert_int_equal(door_rules_enter(&r, 4, 0), DOOR_OPEN);
    leave(&r, 1, 5);
    for (uint64_t a = 2; a <= 4; a++) {
        leave(&r, a, 1);
    }
    door_rules_fini(&r);
}

static void limits_the_rate(void **state)
{
    struct door_rules r;

    (void)state;
    start(&r, &limits);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(door_rules_enter(&r, 1, 0), DOOR_OPEN);
        door_rules_leave(&r, 1, false);
    }
    assert_int_equal(door_rules_enter(&r, 1, 0), DOOR_RATE);
    assert_int_equal(door_rules_enter(&r, 1, SECOND / 10 - 1), DOOR_RATE);
    assert_int_equal(door_rules_enter(&r, 1, SECOND / 10), DOOR_OPEN);
    assert_int_equal(door_rules_enter(&r, 1, SECOND / 10), DOOR_RATE);
    door_rules_leave(&r, 1, false);
    /* After a long pause the burst is the same as at the start. */
    for (int i = 0; i < 8; i++) {
        assert_int_equal(door_rules_enter(&r, 1, 1000 * SECOND), DOOR_OPEN);
        door_rules_leave(&r, 1, false);
    }
    assert_int_equal(door_rules_enter(&r, 1, 1000 * SECOND), DOOR_RATE);
    door_rules_fini(&r);
}

static uint64_t v4(const char *text)
{
    struct sockaddr_in a = {.sin_family = AF_INET};

    assert_int_equal(inet_pton(AF_INET, text, &a.sin_addr), 1);
    return door_address((const struct sockaddr *)&a);
}

static uint64_t v6(const char *text)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};

    assert_int_equal(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
    return door_address((const struct sockaddr *)&a);
}

static void tells_addresses_apart(void **state)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    (void)state;
    assert_int_equal(v4("127.0.0.1"), v4("127.255.3.4"));
    assert_int_not_equal(v4("10.0.0.1"), v4("10.0.0.2"));
    assert_int_not_equal(v4("126.0.0.1"), v4("127.0.0.1"));
    assert_int_equal(v6("2001:db8::1"), v6("2001:db8::ffff:1"));
    assert_int_not_equal(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
    assert_int_equal(v6("::ffff:10.0.0.1"), v4("10.0.0.1"));
    assert_true(door_address((const struct sockaddr *)&un) == DOOR_LOCAL);
    assert_true(v6("ffff:ffff:ffff:fffe::") != DOOR_LOCAL);
}

static void leaves_a_share_to_others(void **state)
{
    (void)state;
    assert_int_equal(door_share(8192), 6144);
    assert_int_equal(door_share(1), 1);
    assert_int_equal(door_share(4), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_all_connections),
        cmocka_unit_test(limits_one_address),
        cmocka_unit_test(a_local_port_is_one_address),
        cmocka_unit_test(limits_unfinished_handshakes),
        cmocka_unit_test(limits_the_rate),
        cmocka_unit_test(tells_addresses_apart),
        cmocka_unit_test(leaves_a_share_to_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
