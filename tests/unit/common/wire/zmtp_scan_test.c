/* Every stream is scanned whole, byte by byte, and split in two at every
 * position: the verdict is the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "common/wire/zmtp_scan.h"

#define LONGEST 300

struct stream {
    uint8_t bytes[8192];
    size_t n;
};

static void add(struct stream *s, const void *bytes, size_t n)
{
    assert_true(s->n + n <= sizeof s->bytes);
    memcpy(s->bytes + s->n, bytes, n);
    s->n += n;
}

/* Adds a frame of `bytes` bytes with the long or the short form of its length.
 */
static void add_frame(struct stream *s, uint8_t flags, uint64_t bytes)
{
    static const uint8_t body[6000];
    uint8_t head[9] = {flags};
    size_t n = (flags & 2) != 0 ? 8 : 1;

    for (size_t i = 0; i < n; i++) {
        head[n - i] = (uint8_t)(bytes >> 8 * i);
    }
    add(s, head, n + 1);
    add(s, body, bytes < sizeof body ? (size_t)bytes : 1);
}

static void begin(struct stream *s)
{
    static const uint8_t greeting[64] = {
        0xff, [9] = 0x7f, [10] = 3, [11] = 1, [12] = 'N', 'U', 'L', 'L'};

    s->n = 0;
    add(s, greeting, sizeof greeting);
    add_frame(s, 4, 28);
}

/* Scans the stream in parts that end at `at` and at the end. */
static struct zmtp_scan scan_split(const struct stream *s, size_t at)
{
    struct zmtp_scan z;

    zmtp_scan_init(&z, false);
    zmtp_scan(&z, s->bytes, at, LONGEST);
    zmtp_scan(&z, s->bytes + at, s->n - at, LONGEST);
    return z;
}

static void check(const struct stream *s, enum zmtp_fault wanted, bool spoke)
{
    struct zmtp_scan z;

    for (size_t at = 0; at <= s->n; at++) {
        z = scan_split(s, at);
        assert_int_equal(z.fault, wanted);
        assert_int_equal(z.spoke, spoke);
    }
    zmtp_scan_init(&z, false);
    for (size_t i = 0; i < s->n; i++) {
        zmtp_scan(&z, s->bytes + i, 1, LONGEST);
    }
    assert_int_equal(z.fault, wanted);
    assert_int_equal(z.spoke, spoke);
}

static void accepts_what_our_peers_send(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    check(&s, ZMTP_FINE, false);
    add_frame(&s, 4, 8); /* PING */
    add_frame(&s, 0, 110);
    check(&s, ZMTP_FINE, true);
    add_frame(&s, 2, 256);
    add_frame(&s, 0, 0);
    add_frame(&s, 2, 3); /* a short length in the long form is allowed */
    add_frame(&s, 4, 8);
    check(&s, ZMTP_FINE, true);
}

static void an_unfinished_message_is_no_message(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    add_frame(&s, 0, 110);
    s.n--;
    check(&s, ZMTP_FINE, false);
}

static void refuses_a_second_frame(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    add_frame(&s, 0, 10);
    add_frame(&s, 1, 10);
    add_frame(&s, 0, 10);
    check(&s, ZMTP_PARTS, true);
    begin(&s);
    add_frame(&s, 1, 0);
    check(&s, ZMTP_PARTS, false);
    begin(&s);
    add_frame(&s, 5, 10); /* a command in parts */
    check(&s, ZMTP_PARTS, false);
}

static void limits_the_length_of_a_message(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    add_frame(&s, 2, LONGEST);
    check(&s, ZMTP_FINE, true);
    begin(&s);
    add_frame(&s, 2, LONGEST + 1);
    check(&s, ZMTP_LENGTH, false);
    begin(&s);
    add_frame(&s, 2, UINT64_MAX);
    check(&s, ZMTP_LENGTH, false);
}

static void limits_the_length_of_a_command(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    add_frame(&s, 6, ZMTP_COMMAND_MAX);
    check(&s, ZMTP_FINE, false);
    begin(&s);
    add_frame(&s, 6, ZMTP_COMMAND_MAX + 1);
    check(&s, ZMTP_COMMAND, false);
    begin(&s);
    add_frame(&s, 4, 0);
    check(&s, ZMTP_COMMAND, false);
}

static void refuses_unknown_flags(void **state)
{
    struct stream s;

    (void)state;
    for (unsigned bit = 3; bit < 8; bit++) {
        begin(&s);
        add_frame(&s, (uint8_t)(1u << bit), 10);
        check(&s, ZMTP_FLAGS, false);
    }
}

/* Any other first byte, and older versions, whose frames differ. */
static void refuses_other_greetings(void **state)
{
    static const struct {
        size_t at;
        uint8_t byte;
    } wrong[] = {{0, 0xfe}, {0, 'G'}, {9, 0x7e}, {10, 1}, {10, 2}};
    struct stream s;

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        begin(&s);
        s.bytes[wrong[i].at] = wrong[i].byte;
        check(&s, ZMTP_GREETING, false);
    }
    begin(&s);
    s.bytes[5] = s.bytes[11] = s.bytes[32] = s.bytes[63] = 0xaa; /* free */
    check(&s, ZMTP_FINE, false);
}

/* ---- CURVE ---- */

static void begin_curve(struct stream *s)
{
    static const uint8_t greeting[64] = {
        0xff, [9] = 0x7f, [10] = 3, [11] = 1, [12] = 'C', 'U', 'R', 'V', 'E'};

    s->n = 0;
    add(s, greeting, sizeof greeting);
}

static void shake(struct stream *s)
{
    begin_curve(s);
    add_frame(s, 4, ZMTP_HELLO);
    add_frame(s, 6, ZMTP_INITIATE + 35);
}

static void check_curve(const struct stream *s, enum zmtp_fault wanted,
                        bool spoke)
{
    for (size_t at = 0; at <= s->n; at++) {
        struct zmtp_scan z;

        zmtp_scan_init(&z, true);
        zmtp_scan(&z, s->bytes, at, LONGEST);
        zmtp_scan(&z, s->bytes + at, s->n - at, LONGEST);
        assert_int_equal(z.fault, wanted);
        assert_int_equal(z.spoke, spoke);
    }
}

static void accepts_a_peer_with_a_key(void **state)
{
    struct zmtp_scan z;
    struct stream s;

    (void)state;
    shake(&s);
    check_curve(&s, ZMTP_FINE, false);
    add_frame(&s, 0, ZMTP_MESSAGE_MIN + ZMTP_CURVE);
    add_frame(&s, 2, LONGEST + ZMTP_CURVE);
    check_curve(&s, ZMTP_FINE, true);
    zmtp_scan_init(&z, true);
    zmtp_scan(&z, s.bytes, s.n, LONGEST);
    assert_int_equal(z.messages, 2);
    assert_int_equal(z.bytes, ZMTP_MESSAGE_MIN + LONGEST);
}

static void a_port_has_one_mechanism(void **state)
{
    struct stream s;

    (void)state;
    begin(&s);
    check_curve(&s, ZMTP_MECHANISM, false);
    shake(&s);
    check(&s, ZMTP_MECHANISM, false);
    for (size_t at = 12; at < 32; at++) {
        begin(&s);
        s.bytes[at] ^= 1;
        check(&s, ZMTP_MECHANISM, false);
        shake(&s);
        s.bytes[at] ^= 1;
        check_curve(&s, ZMTP_MECHANISM, false);
    }
}

/* HELLO, INITIATE and then messages, each of its length. */
static void a_handshake_has_an_order(void **state)
{
    static const struct {
        uint8_t flags;
        uint64_t bytes;
    } first[] = {{4, ZMTP_HELLO - 1},
                 {4, ZMTP_HELLO + 1},
                 {4, 0},
                 {0, ZMTP_HELLO},
                 {6, UINT64_MAX}},
      second[] = {{4, ZMTP_INITIATE - 2},
                  {6, ZMTP_INITIATE - 1},
                  {6, ZMTP_INITIATE + ZMTP_METADATA + 1},
                  {2, ZMTP_INITIATE},
                  {6, UINT64_MAX}};
    struct stream s;

    (void)state;
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        begin_curve(&s);
        add_frame(&s, first[i].flags, first[i].bytes);
        check_curve(&s, ZMTP_COMMAND, false);
    }
    for (size_t i = 0; i < sizeof second / sizeof second[0]; i++) {
        begin_curve(&s);
        add_frame(&s, 4, ZMTP_HELLO);
        add_frame(&s, second[i].flags, second[i].bytes);
        check_curve(&s, ZMTP_COMMAND, false);
    }
    begin_curve(&s);
    add_frame(&s, 4, ZMTP_HELLO);
    add_frame(&s, 6, ZMTP_INITIATE + ZMTP_METADATA);
    check_curve(&s, ZMTP_FINE, false);
    add_frame(&s, 4, ZMTP_MESSAGE_MIN + ZMTP_CURVE); /* after the handshake */
    check_curve(&s, ZMTP_COMMAND, false);
}

static void messages_of_a_key_have_limits(void **state)
{
    struct stream s;

    (void)state;
    shake(&s);
    add_frame(&s, 0, ZMTP_MESSAGE_MIN + ZMTP_CURVE - 1);
    check_curve(&s, ZMTP_SHORT, false);
    shake(&s);
    add_frame(&s, 0, 0);
    check_curve(&s, ZMTP_SHORT, false);
    shake(&s);
    add_frame(&s, 2, LONGEST + ZMTP_CURVE + 1);
    check_curve(&s, ZMTP_LENGTH, false);
    shake(&s);
    add_frame(&s, 2, UINT64_MAX);
    check_curve(&s, ZMTP_LENGTH, false);
    shake(&s);
    add_frame(&s, 1, 200);
    check_curve(&s, ZMTP_PARTS, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_what_our_peers_send),
        cmocka_unit_test(an_unfinished_message_is_no_message),
        cmocka_unit_test(refuses_a_second_frame),
        cmocka_unit_test(limits_the_length_of_a_message),
        cmocka_unit_test(limits_the_length_of_a_command),
        cmocka_unit_test(refuses_unknown_flags),
        cmocka_unit_test(refuses_other_greetings),
        cmocka_unit_test(accepts_a_peer_with_a_key),
        cmocka_unit_test(a_port_has_one_mechanism),
        cmocka_unit_test(a_handshake_has_an_order),
        cmocka_unit_test(messages_of_a_key_have_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
