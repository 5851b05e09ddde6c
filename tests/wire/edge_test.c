/* An edge between two stages over TCP, one of them in its own process:
 * tensors of 4 bytes to 8 MiB both ways, each once, in order and
 * bit-identical. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/wire/loop.h"
#include "tests/patience.h"
#include "tests/unit/cmocka.h"
#include "tests/wire/edge_node.h"

#define FORWARDS 24
#define LARGEST  (8u << 20)

struct end {
    struct transport *t;
    struct edge_node node;
    struct loop loop;
    char endpoint[ENDPOINT_MAX];
};

static void end_listen(struct end *x)
{
    static const struct transport_port port = {"tcp://127.0.0.1:*", BY_WORKER,
                                               true};
    struct error e;

    memset(x, 0, sizeof *x);
    if (transport_new(&x->t, "tcp://127.0.0.1:1", &port, 1, NULL, &e) !=
        ST_OK) {
        fail_msg("%s", e.text);
    }
    snprintf(x->endpoint, sizeof x->endpoint, "%s",
             transport_endpoint(x->t, 0));
}

static void end_begin(struct end *x, const char *next)
{
    edge_node_init(&x->node, transport_io(x->t), next, FORWARDS, LARGEST);
    loop_init(&x->loop, x->t, &edge_node_ops, &x->node);
}

/* Runs the other process: both sides of the edge, until it is killed. */
static void other(int in, int out)
{
    char next[ENDPOINT_MAX];
    bool said = false;
    struct end x;

    prctl(PR_SET_PDEATHSIG,
          SIGKILL); /* a failed test leaves no process behind */
    end_listen(&x);
    if (write(out, x.endpoint, ENDPOINT_MAX) != ENDPOINT_MAX ||
        read(in, next, ENDPOINT_MAX) != ENDPOINT_MAX) {
        _exit(1);
    }
    end_begin(&x, next);
    while (loop_turn(&x.loop, 1000000) && !x.node.bad) {
        if (!said && x.node.n_got == FORWARDS) {
            said = write(out, "k", 1) == 1;
        }
    }
    _exit(2); /* a wrong message arrived */
}

/* The other process has received everything. */
static void hear(void *arg, int fd)
{
    char byte;

    *(bool *)arg = read(fd, &byte, 1) == 1 && byte == 'k';
}

static void tensors_both_ways(void **state)
{
    int64_t until = loop_now_us() + patience_us();
    char next[ENDPOINT_MAX];
    bool all_there = false;
    int down[2], up[2];
    struct end x;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    child = fork();
    if (child == 0) {
        other(down[0], up[1]);
    }
    end_listen(&x);
    assert_int_equal(read(up[0], next, ENDPOINT_MAX), ENDPOINT_MAX);
    assert_int_equal(write(down[1], x.endpoint, ENDPOINT_MAX), ENDPOINT_MAX);
    end_begin(&x, next);
    loop_add(&x.loop, up[0], hear, &all_there);
    while ((x.node.n_got < FORWARDS || !all_there) && !x.node.bad &&
           loop_now_us() < until) {
        loop_turn(&x.loop, 10000);
    }
    assert_true(all_there);
    assert_false(x.node.bad);
    assert_int_equal(x.node.n_got, FORWARDS);
    assert_int_equal(x.node.n_sent, FORWARDS);
    /* A machine short of time may have lost a session, and begun the series
     * again. */
    assert_int_equal(x.node.n_came, x.node.n_gone + 1);
    assert_int_equal(x.node.n_up, x.node.n_down + 1);
    assert_int_equal(x.node.before.counts.strikes, 0);
    x.loop.n_sources = 0;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    while ((x.node.n_gone < x.node.n_came || x.node.n_down < x.node.n_up) &&
           loop_now_us() < until) {
        loop_turn(&x.loop, 10000);
    }
    assert_int_equal(x.node.n_gone, x.node.n_came);
    assert_int_equal(x.node.n_down, x.node.n_up);
    edge_node_fini(&x.node);
    transport_free(&x.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
