/* Floods of Hellos: bounded, counted, and one line of log a second. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/log_gate.h"
#include "common/wire/hello.h"
#include "router/base/router_limits.h"
#include "router/calls/hello_throttle.h"
#include "tests/unit/router/rig.h"

#define STRANGER 1000000u /* connections of strangers begin here */

static unsigned n_lines;
static char last[LOG_LINE];

static void sink(void *arg, enum log_level level, const char *line)
{
    (void)arg, (void)level;
    n_lines++;
    snprintf(last, sizeof last, "%s", line);
}

/* One Hello of a stranger, at the port of this role. */
static void hello(struct rig *rig, uint32_t connection, Sluice__V1__Role role,
                  uint32_t version)
{
    Sluice__V1__HelloRequest m = SLUICE__V1__HELLO_REQUEST__INIT;
    struct frame *f;

    m.version_major = version;
    m.role = role;
    m.nonce = rig->random++;
    m.name = wire_text("stranger");
    f = hello_make(&m.base);
    router_node_ops.recv(rig->router, (struct peer_id){connection}, &f);
}

static struct router_metrics counts(const struct rig *rig)
{
    struct router_metrics m;

    router_counts(rig->router, &m);
    return m;
}

#define CLIENT SLUICE__V1__ROLE__ROLE_CLIENT
#define ADMIN  SLUICE__V1__ROLE__ROLE_ADMIN

static void a_connection_has_a_limit_in_a_second(void **state)
{
    struct rig *rig = rig_new(NULL);

    (void)state;
    for (uint32_t i = 0; i < HELLO_BURST; i++) {
        hello(rig, STRANGER, CLIENT, 99);
    }
    assert_int_equal(counts(rig).hellos_refused, HELLO_BURST);
    assert_int_equal(counts(rig).hellos_throttled, 0);
    hello(rig, STRANGER, CLIENT, 99);
    assert_int_equal(counts(rig).hellos_refused, HELLO_BURST);
    assert_int_equal(counts(rig).hellos_throttled, 1);
    /* Another connection is not affected, and this one only for a second. */
    hello(rig, STRANGER + 1, CLIENT, 99);
    assert_int_equal(counts(rig).hellos_refused, HELLO_BURST + 1);
    rig_advance(rig, HELLO_SECOND_US);
    hello(rig, STRANGER, CLIENT, 99);
    assert_int_equal(counts(rig).hellos_refused, HELLO_BURST + 2);
    rig_free(&rig);
}

static void a_role_has_a_limit_of_its_own(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a, *w;

    (void)state;
    for (uint32_t i = 0; i < HELLO_ROLE_BURST; i++) {
        hello(rig, STRANGER + i, CLIENT, WIRE_VERSION_MAJOR);
    }
    assert_int_equal(counts(rig).hellos_throttled, 0);
    hello(rig, STRANGER + HELLO_ROLE_BURST, CLIENT, WIRE_VERSION_MAJOR);
    assert_int_equal(counts(rig).hellos_throttled, 1);
    a = rig_admin(rig, "a");
    w = rig_worker(rig, "w1", 8, 2);
    assert_true(a->up && w->up);
    /* One more each HELLO_SECOND_US / HELLO_ROLE_RATE. */
    rig->now += HELLO_SECOND_US / HELLO_ROLE_RATE;
    hello(rig, STRANGER + HELLO_ROLE_BURST + 1, CLIENT, WIRE_VERSION_MAJOR);
    assert_int_equal(counts(rig).hellos_throttled, 1);
    hello(rig, STRANGER + HELLO_ROLE_BURST + 2, CLIENT, WIRE_VERSION_MAJOR);
    assert_int_equal(counts(rig).hellos_throttled, 2);
    rig_free(&rig);
}

/* Hellos that claim a role which their port does not admit throttle nobody of
 * that role. */
static void a_false_role_counts_for_none(void **state)
{
    struct rig *rig = rig_new(NULL);
    struct fake *a;

    (void)state;
    rig->port = BY_CLIENT;
    for (uint32_t i = 0; i < HELLO_ROLE_BURST + 9; i++) {
        hello(rig, STRANGER + i, ADMIN, WIRE_VERSION_MAJOR);
    }
    assert_int_equal(counts(rig).hellos_refused, HELLO_ROLE_BURST);
    assert_int_equal(counts(rig).hellos_throttled, 9);
    rig->port = BY_ALL;
    a = rig_admin(rig, "a");
    assert_true(a->up);
    rig_free(&rig);
}

/* The flood that wrote 7.4 MB of log. */
static void a_flood_writes_one_line_a_second_and_a_count(void **state)
{
    struct rig *rig = rig_new(NULL);

    (void)state;
    n_lines = 0;
    for (uint32_t i = 0; i < 49469; i++) {
        hello(rig, STRANGER + i / 12, CLIENT, 99);
    }
    assert_int_equal(n_lines, 2); /* the first refused, the first throttled */
    rig_advance(rig, LOG_GATE_US);
    assert_int_equal(n_lines, 4);
    assert_non_null(strstr(last, "more="));
    rig_advance(rig, 10 * LOG_GATE_US);
    assert_int_equal(n_lines, 4);
    assert_int_equal(counts(rig).hellos_refused + counts(rig).hellos_throttled,
                     49469);
    rig_free(&rig);
}

/* Sessions that come and go fill no log, and each flood ends with the places as
 * they were. */
static void expelled_strangers_write_one_line_a_second(void **state)
{
    struct rig *rig = rig_new(NULL);

    (void)state;
    n_lines = 0;
    for (int i = 0; i < 40; i++) {
        struct fake *c = rig_client(rig, "c");

        for (int k = 0; k < PEER_STRIKES; k++) {
            struct envelope e = {.method = METHOD_REGISTRY_REPORT,
                                 .kind = ENVELOPE_ONEWAY};
            struct frame_header h = {.session = c->session, .n_state = 1};
            struct frame *f = frame_new(FRAME_HEADER + ENVELOPE_HEADER);

            h.envelopes_bytes = ENVELOPE_HEADER;
            envelope_head(f->data + FRAME_HEADER, &e);
            frame_seal(f, &h);
            router_node_ops.recv(rig->router, c->id, &f);
        }
        rig_run(rig);
        assert_true(c->gone);
    }
    assert_int_equal(n_lines, 1);
    rig_advance(rig, LOG_GATE_US);
    assert_int_equal(n_lines, 2);
    assert_string_equal(last, "peer-expelled more=39");
    assert_int_equal(counts(rig).clients, 0);
    rig_free(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_has_a_limit_in_a_second),
        cmocka_unit_test(a_role_has_a_limit_of_its_own),
        cmocka_unit_test(a_false_role_counts_for_none),
        cmocka_unit_test(a_flood_writes_one_line_a_second_and_a_count),
        cmocka_unit_test(expelled_strangers_write_one_line_a_second),
    };

    log_setup(LOG_WARN, sink, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
