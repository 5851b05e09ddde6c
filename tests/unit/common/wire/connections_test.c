/* Connections are found by routing id, descriptor and number, also in shared
 * buckets, and not at all once they are gone. */
#include "common/wire/connections.h"

#include <string.h>

#include "tests/unit/cmocka.h"

#define MANY (3 * CONNECTION_BUCKETS)

static struct connections cs;

static int start(void **state)
{
    (void)state;
    memset(&cs, 0, sizeof cs);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    connections_fini(&cs);
    return 0;
}

/* libzmq's format: a zero byte and a counter. */
static const uint8_t *routing(uint32_t n)
{
    static uint8_t id[ROUTING_ID_BYTES];

    memcpy(id + 1, &n, sizeof n);
    return id;
}

static void finds_each_of_many(void **state)
{
    static struct connection *made[MANY];

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        made[i] = connections_add(&cs, i % 2, routing(i), (int)i);
        assert_int_equal(made[i]->id, i + 1);
    }
    assert_int_equal(cs.n, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_ptr_equal(connections_by_routing(&cs, i % 2, routing(i)),
                         made[i]);
        assert_ptr_equal(connections_by_fd(&cs, i % 2, (int)i), made[i]);
        assert_ptr_equal(connections_by_id(&cs, i + 1), made[i]);
        /* The same id of another port is another connection. */
        assert_null(connections_by_routing(&cs, 1 - i % 2, routing(i)));
        assert_null(connections_by_fd(&cs, 1 - i % 2, (int)i));
    }
    assert_null(connections_by_id(&cs, 0));
    assert_null(connections_by_id(&cs, MANY + 1));
    assert_null(connections_by_routing(&cs, 0, routing(MANY)));
}

static void loses_only_the_one(void **state)
{
    static struct connection *made[MANY];

    (void)state;
    for (uint32_t i = 0; i < MANY; i++) {
        made[i] = connections_add(&cs, 0, routing(i), (int)i);
    }
    for (uint32_t i = 0; i < MANY; i += 3) { /* at every depth of a chain */
        connections_remove(&cs, made[i]);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        struct connection *wanted = i % 3 == 0 ? NULL : made[i];

        assert_ptr_equal(connections_by_routing(&cs, 0, routing(i)), wanted);
        assert_ptr_equal(connections_by_fd(&cs, 0, (int)i), wanted);
        assert_ptr_equal(connections_by_id(&cs, i + 1), wanted);
    }
    assert_int_equal(cs.n, MANY - (MANY + 2) / 3);
    /* Its descriptor may be reused; its number never is. */
    assert_int_equal(connections_add(&cs, 0, routing(0), 0)->id, MANY + 1);
}

static void knows_open_descriptors(void **state)
{
    (void)state;
    assert_false(connections_open(&cs, 0, 5));
    assert_false(connections_open(&cs, 0, -1));
    connections_disconnected(&cs, 0, 5);
    connections_accepted(&cs, 1, 5);
    connections_accepted(&cs, 0, 1000);
    connections_accepted(&cs, 0, 3);
    assert_true(connections_open(&cs, 1, 5));
    assert_true(connections_open(&cs, 0, 1000));
    assert_false(connections_open(&cs, 0, 5));
    assert_false(connections_open(&cs, 0, 4));
    connections_disconnected(&cs, 0, 5); /* from a port that no longer has it */
    assert_true(connections_open(&cs, 1, 5));
    connections_disconnected(&cs, 1, 5);
    assert_false(connections_open(&cs, 1, 5));
}

/* Descriptor 5 was port 0's and is now port 1's; port 1's monitor is read
 * first. */
static void a_late_word_of_one_port_is_not_of_another(void **state)
{
    (void)state;
    connections_accepted(&cs, 1, 5);
    connections_accepted(&cs, 0, 5);
    assert_true(connections_open(&cs, 1, 5));
    connections_disconnected(&cs, 0, 5);
    assert_true(connections_open(&cs, 1, 5));
    assert_false(connections_open(&cs, 0, 5));
}

static void knows_the_later_number(void **state)
{
    static const uint8_t counts[][ROUTING_ID_BYTES] = {
        {0, 0x7f, 0xff, 0xff, 0xff},
        {0, 0x80, 0, 0, 0},
        {0, 0xff, 0xff, 0xff, 0xff},
        {0, 0, 0, 0, 0},
        {0, 0, 0, 0, 1},
        {0, 0, 0, 1, 0}};

    (void)state;
    for (size_t i = 0; i + 1 < sizeof counts / sizeof counts[0]; i++) {
        assert_true(connections_later(counts[i + 1], counts[i]));
        assert_false(connections_later(counts[i], counts[i + 1]));
        assert_false(connections_later(counts[i], counts[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_each_of_many, start, stop),
        cmocka_unit_test_setup_teardown(loses_only_the_one, start, stop),
        cmocka_unit_test_setup_teardown(knows_open_descriptors, start, stop),
        cmocka_unit_test_setup_teardown(
            a_late_word_of_one_port_is_not_of_another, start, stop),
        cmocka_unit_test(knows_the_later_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
