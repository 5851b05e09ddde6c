#include "tests/bench/raw_broker.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zmq.h>

#include "tests/bench/child.h"

static void must(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "raw_broker: %s: %s\n", what,
                zmq_strerror(zmq_errno()));
        exit(1);
    }
}

/* Forwards all parts of one message from one socket to the other; replaces the
 * first part, the addressee, and keeps the sender. */
static void forward(void *from, void *to, zmq_msg_t *whom, zmq_msg_t *sender)
{
    zmq_msg_t body, copy;

    must(zmq_msg_recv(sender, from, 0) >= 0, "receive");
    zmq_msg_init(&body);
    must(zmq_msg_recv(&body, from, 0) >= 0, "receive");
    zmq_msg_init(&copy);
    zmq_msg_copy(&copy, whom);
    must(zmq_msg_send(&copy, to, ZMQ_SNDMORE) >= 0, "send");
    must(zmq_msg_send(&body, to, 0) >= 0, "send");
}

static void *router_bound(void *context, char *endpoint, size_t size)
{
    void *s = zmq_socket(context, ZMQ_ROUTER);

    must(s != NULL && zmq_bind(s, "tcp://127.0.0.1:*") == 0, "bind");
    zmq_getsockopt(s, ZMQ_LAST_ENDPOINT, endpoint, &size);
    return s;
}

/* Serves one client at a time and one worker, which is all the bench needs. */
static void broke(int out)
{
    void *context = zmq_ctx_new();
    char endpoints[2][256] = {"", ""};
    void *clients = router_bound(context, endpoints[0], sizeof endpoints[0]);
    void *workers = router_bound(context, endpoints[1], sizeof endpoints[1]);
    zmq_pollitem_t items[2] = {{.socket = workers, .events = ZMQ_POLLIN},
                               {.socket = clients, .events = ZMQ_POLLIN}};
    zmq_msg_t client, worker, hello;

    must(write(out, endpoints, sizeof endpoints) == sizeof endpoints, "pipe");
    zmq_msg_init(&client);
    zmq_msg_init(&worker);
    zmq_msg_init(&hello);
    must(zmq_msg_recv(&worker, workers, 0) >= 0, "receive");
    must(zmq_msg_recv(&hello, workers, 0) >= 0, "receive");
    for (;;) {
        must(zmq_poll(items, 2, -1) > 0, "poll");
        if (items[1].revents != 0) {
            forward(clients, workers, &worker, &client);
        }
        if (items[0].revents != 0) {
            forward(workers, clients, &client, &worker);
        }
    }
}

static void echo(const char *endpoint)
{
    void *s = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    static uint8_t in[RAW_BYTES_MAX];

    must(s != NULL && zmq_connect(s, endpoint) == 0, "connect");
    must(zmq_send(s, "hello", 5, 0) == 5, "send");
    for (;;) {
        uint32_t n = 0;

        must(zmq_recv(s, in, sizeof in, 0) >= (int)sizeof n, "receive");
        memcpy(&n, in, sizeof n);
        must(n <= RAW_BYTES_MAX && zmq_send(s, in, n, 0) == (int)n, "send");
    }
}

void raw_broker_start(struct raw_broker *b)
{
    char endpoints[2][256];
    int fds[2];

    must(pipe(fds) == 0, "pipe");
    b->children[0] = child_new();
    if (b->children[0] == 0) {
        broke(fds[1]);
    }
    must(read(fds[0], endpoints, sizeof endpoints) == sizeof endpoints, "pipe");
    close(fds[0]);
    close(fds[1]);
    b->children[1] = child_new();
    if (b->children[1] == 0) {
        echo(endpoints[1]);
    }
    memcpy(b->endpoint, endpoints[0], sizeof b->endpoint);
}

void raw_broker_end(struct raw_broker *b)
{
    children_end(b->children, 2);
}
