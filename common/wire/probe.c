#include "common/wire/probe.h"

#include <errno.h>

#include "common/wire/loop.h"
#include "common/wire/port.h"

#define PROBE_US 5000000 /* more than any loopback connection takes */

struct probe {
    struct peer_id came, lost;
};

static void probe_recv(void *node, struct peer_id from, struct frame **f)
{
    frame_free(f);
    ((struct probe *)node)->came = from;
}

static void probe_lost(void *node, struct peer_id who)
{
    ((struct probe *)node)->lost = who;
}

static int64_t probe_tick(void *node, int64_t now_us)
{
    const struct probe *s = node;

    (void)now_us;
    return s->lost.v != 0 ? NODE_STOP : NODE_IDLE;
}

/* Accepts one connection, reads one frame and sees it end: all three must
 * have the same descriptor. */
static bool agree(struct transport *t, void *context,
                  const struct curve_keys *keys)
{
    static const struct node_ops ops = {
        .recv = probe_recv, .lost = probe_lost, .tick = probe_tick};
    static const uint8_t hello[FRAME_HEADER];
    struct probe s = {{0}, {0}};
    void *peer = zmq_socket(context, ZMQ_DEALER);
    struct loop loop;
    int64_t until = loop_now_us() + PROBE_US;

    if (peer == NULL) {
        return false;
    }
    if (keys != NULL) {
        port_set_client(peer, keys, curve_keys_public(keys));
    }
    loop_init(&loop, t, &ops, &s);
    port_connect(peer, transport_endpoint(t, 0));
    while (zmq_send(peer, hello, sizeof hello, 0) < 0 && errno == EINTR) {
    }
    while (s.came.v == 0 && loop_now_us() < until) {
        loop_turn(&loop, 10000);
    }
    port_set(peer, ZMQ_LINGER, 0);
    zmq_close(peer);
    while (s.lost.v == 0 && loop_now_us() < until) {
        loop_turn(&loop, 10000);
    }
    return s.came.v != 0 && s.came.v == s.lost.v;
}

enum status probe_run(struct transport *t, void *context,
                      const struct curve_keys *keys, struct error *e)
{
    if (agree(t, context, keys)) {
        return ST_OK;
    }
    return error_set(e, ST_INTERNAL,
                     "this libzmq does not report which connection a message "
                     "came by (ZMQ_SRCFD against the socket monitor)");
}
