#include "common/loop.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define ITEMS (2 * TRANSPORT_LISTEN_MAX + LOOP_SOURCES)

int64_t loop_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void loop_init(struct loop *l, struct transport *t, const struct node_ops *ops,
               void *node)
{
    *l = (struct loop){.transport = t, .ops = ops, .node = node};
}

void loop_add(struct loop *l, int fd, void (*ready)(void *arg, int fd),
              void *arg)
{
    assert(l->n_sources < LOOP_SOURCES);
    l->sources[l->n_sources++] =
        (struct loop_source){.fd = fd, .ready = ready, .arg = arg};
}

/* Rounded up: to wake a little late, never to spin. */
static long wait_ms(const struct loop *l, int64_t max_wait_us)
{
    int64_t left;

    if (l->left_over) {
        return 0;
    }
    left = l->due_us == NODE_IDLE ? max_wait_us : l->due_us - loop_now_us();
    if (left > max_wait_us) {
        left = max_wait_us;
    }
    if (left > LOOP_WAIT_MS * 1000) {
        return LOOP_WAIT_MS;
    }
    return left <= 0 ? 0 : (long)((left + 999) / 1000);
}

bool loop_turn(struct loop *l, int64_t max_wait_us)
{
    zmq_pollitem_t items[ITEMS];
    int n = transport_items(l->transport, items);
    int first = n, ready;

    for (unsigned i = 0; i < l->n_sources; i++) {
        items[n++] =
            (zmq_pollitem_t){.fd = l->sources[i].fd, .events = ZMQ_POLLIN};
    }
    ready = zmq_poll(items, n, wait_ms(l, max_wait_us));
    assert(ready >= 0 || errno == EINTR);
    l->left_over = transport_turn(l->transport, l->ops, l->node);
    for (int i = first; ready > 0 && i < n; i++) {
        if (items[i].revents != 0) {
            struct loop_source *s = &l->sources[i - first];

            s->ready(s->arg, s->fd);
        }
    }
    l->due_us = l->ops->tick(l->node, loop_now_us());
    return l->due_us != NODE_STOP;
}

void loop_run(struct loop *l)
{
    while (loop_turn(l, INT64_MAX)) {
    }
}

int loop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

int loop_signal_read(int fd)
{
    struct signalfd_siginfo info;

    return read(fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo
                                                       : 0;
}
