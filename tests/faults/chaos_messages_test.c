/* The proxy's commands, between a DEALER and a ROUTER.  Argument: the path of
 * the proxy. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/faults/chaos_rig.h"

#define MESSAGES 500
#define END      UINT32_MAX

/* Sends two frames; the number determines length and bytes of the second. */
static void z_send(uint32_t number)
{
    static uint8_t body[70000];
    size_t n = number == END ? 0 : (number * 2654435761u) % sizeof body;

    memset(body, (int)(number & 0xff), n);
    assert_int_equal(zmq_send(rig.dealer, &number, sizeof number, ZMQ_SNDMORE),
                     sizeof number);
    assert_int_equal(zmq_send(rig.dealer, body, n, 0), (int)n);
}

/* Receives a message and returns its number; counts wrong bits in the body. */
static uint32_t z_recv(unsigned long *wrong)
{
    uint8_t id[16];
    uint32_t number;
    zmq_msg_t body;
    size_t n;

    assert_int_equal(zmq_recv(rig.router, id, sizeof id, 0), 5);
    assert_int_equal(zmq_recv(rig.router, &number, sizeof number, 0),
                     sizeof number);
    n = number == END ? 0 : (number * 2654435761u) % 70000;
    zmq_msg_init(&body);
    assert_int_equal(zmq_msg_recv(&body, rig.router, 0), (int)n);
    assert_false(zmq_msg_more(&body));
    for (size_t i = 0; i < n; i++) {
        uint8_t x = ((const uint8_t *)zmq_msg_data(&body))[i] ^ (number & 0xff);

        *wrong += (unsigned long)__builtin_popcount(x);
    }
    zmq_msg_close(&body);
    return number;
}

struct seen {
    unsigned times[MESSAGES];
    unsigned n, inversions;
    unsigned long wrong;
};

/* Sends all messages under `command`, then one that marks the end. */
static void z_run(const char *command, struct seen *seen)
{
    uint32_t number, before = 0;
    unsigned long done = rig_stat("z", "messages_up");

    *seen = (struct seen){.n = 0};
    z_send(END); /* wait for the connection */
    assert_int_equal(z_recv(&seen->wrong), END);
    rig_ok(command);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        z_send(i);
    }
    rig_until("z", "messages_up", done + MESSAGES + 1);
    rig_ok("z heal");
    z_send(END);
    while ((number = z_recv(&seen->wrong)) != END) {
        assert_true(number < MESSAGES);
        seen->times[number]++;
        seen->inversions += number < before;
        before = number;
        seen->n++;
    }
}

static void messages_are_doubled(void **state)
{
    struct seen seen;
    unsigned twice = 0;

    (void)state;
    z_run("z dup 1/3", &seen);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_in_range(seen.times[i], 1, 2);
        twice += seen.times[i] == 2;
    }
    assert_int_equal(twice, rig_stat("z", "dups"));
    assert_in_range(twice, MESSAGES / 6, MESSAGES / 2);
    assert_int_equal(seen.inversions + seen.wrong, 0);
    assert_int_equal(rig_stat("z", "accepted"), 1);
}

static void messages_are_swapped(void **state)
{
    struct seen seen;

    (void)state;
    z_run("z reorder 1/3", &seen);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        assert_int_equal(seen.times[i], 1);
    }
    assert_int_equal(seen.inversions, rig_stat("z", "reorders"));
    assert_in_range(seen.inversions, MESSAGES / 8, MESSAGES / 2);
    assert_int_equal(seen.wrong, 0);
    assert_int_equal(rig_stat("z", "accepted"), 1);
}

static void messages_are_lost(void **state)
{
    struct seen seen;

    (void)state;
    z_run("z lose 1/3", &seen);
    assert_int_equal(seen.n + rig_stat("z", "losses"), MESSAGES);
    assert_in_range(seen.n, MESSAGES / 2, MESSAGES * 5 / 6);
    assert_int_equal(seen.inversions + seen.wrong, 0);
    z_run("z drop up", &seen);
    assert_int_equal(seen.n, 0);
    assert_int_equal(rig_stat("z", "dropped_messages"), MESSAGES);
    assert_int_equal(rig_stat("z", "accepted"), 1);
}

static void bodies_are_damaged_and_the_stream_is_whole(void **state)
{
    struct seen seen;

    (void)state;
    /* The number is a body too; at this rate and seed, none is hit. */
    z_run("z flip_body 1/100000", &seen);
    assert_int_equal(seen.n, MESSAGES);
    assert_true(seen.wrong > 0);
    assert_int_equal(seen.wrong, rig_stat("z", "flips"));
    assert_int_equal(rig_stat("z", "accepted"), 1);
}

/* A flipped bit in a flag or a length can make a message longer than allowed.
 * ZeroMQ then drops the connection and opens another one. */
static void flips_anywhere_kill_the_connection(void **state)
{
    unsigned long wrong = 0;

    (void)state;
    z_send(END);
    assert_int_equal(z_recv(&wrong), END);
    rig_ok("z flip 1/20");
    for (int64_t end = rig_now_ms() + patience_ms();
         rig_stat("z", "accepted") < 2;) {
        zmq_send(rig.dealer, "0123456789", 10, ZMQ_DONTWAIT);
        assert_true(rig_now_ms() < end);
        poll(NULL, 0, 2);
    }
}

static void a_large_message_passes_once(void **state)
{
    size_t n = (4u << 20) + 100000;
    uint8_t *body = calloc(1, n);
    zmq_msg_t msg;

    (void)state;
    rig_ok("z dup 1/1");
    assert_int_equal(zmq_send(rig.dealer, body, n, 0), (int)n);
    rig_ok("z delay 1");
    zmq_msg_init(&msg);
    assert_int_equal(zmq_msg_recv(&msg, rig.router, 0), 5);
    assert_int_equal(zmq_msg_recv(&msg, rig.router, 0), (int)n);
    zmq_msg_close(&msg);
    free(body);
    assert_int_equal(rig_stat("z", "dups"), 0);
    assert_int_equal(rig_stat("z", "messages_up"), 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(messages_are_doubled),
        RIG_TEST(messages_are_swapped),
        RIG_TEST(messages_are_lost),
        RIG_TEST(bodies_are_damaged_and_the_stream_is_whole),
        RIG_TEST(flips_anywhere_kill_the_connection),
        RIG_TEST(a_large_message_passes_once),
    };

    if (!rig_program(argc, argv)) {
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
