#include "common/wire/loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#define ITEMS (TRANSPORT_ITEMS + LOOP_SOURCES)

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

void loop_notify(struct loop *l, struct notify *n)
{
    l->notify = n;
}

/* Returns max_us, or the time until the watchdog is due if that is less. */
static int64_t until_notify(const struct loop *l, int64_t max_us)
{
    int64_t us = l->notify != NULL ? notify_wait_us(l->notify, loop_now_us())
                                   : INT64_MAX;

    return us < max_us ? us : max_us;
}

/* Looks at the sockets that were used since the last turn: their descriptors
 * may not signal again. */
static int64_t wait_us(const struct loop *l, int64_t max_wait_us)
{
    int64_t left =
        l->due_us == NODE_IDLE ? max_wait_us : l->due_us - loop_now_us();

    if (left > max_wait_us) {
        left = max_wait_us;
    }
    left = until_notify(l, left);
    if (left <= 0 || transport_look(l->transport)) {
        return 0;
    }
    return left < LOOP_WAIT_US ? left : LOOP_WAIT_US;
}

static void tick(struct loop *l)
{
    l->due_us = l->ops->tick(l->node, loop_now_us());
    if (l->notify != NULL) {
        notify_turn(l->notify, loop_now_us());
    }
}

bool loop_turn(struct loop *l, int64_t max_wait_us)
{
    struct pollfd items[ITEMS];
    int n = transport_items(l->transport, items);
    int64_t us = wait_us(l, max_wait_us);
    struct timespec wait = {us / 1000000, us % 1000000 * 1000};
    int first = n, ready;

    for (unsigned i = 0; i < l->n_sources; i++) {
        items[n++] = (struct pollfd){.fd = l->sources[i].fd, .events = POLLIN};
    }
    /* ppoll() takes nanoseconds; poll() would round a wait of 100 us to 0 or
     * 1 ms. */
    ready = ppoll(items, (nfds_t)n, &wait, NULL);
    assert(ready >= 0 || errno == EINTR);
    transport_turn(l->transport, items, l->ops, l->node);
    for (int i = first; i < n; i++) {
        if (items[i].revents != 0) {
            const struct loop_source *s = &l->sources[i - first];

            s->ready(s->arg, s->fd);
        }
    }
    tick(l);
    return l->due_us != NODE_STOP;
}

void loop_run(struct loop *l)
{
    while (loop_turn(l, INT64_MAX)) {
    }
}

enum loop_end loop_until(struct loop *l, bool (*done)(const void *arg),
                         const void *arg, int64_t max_us)
{
    int64_t end_us = loop_now_us() + max_us;

    while (!done(arg)) {
        int64_t left_us = end_us - loop_now_us();

        if (left_us <= 0) {
            return LOOP_LATE;
        }
        if (!loop_turn(l, left_us)) {
            return LOOP_STOPPED;
        }
    }
    return LOOP_DONE;
}

/* A handler that a preloaded library has set stays. */
static void ignore(int number)
{
    struct sigaction now;

    if (sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
        signal(number, SIG_IGN);
    }
}

int loop_signals(void)
{
    sigset_t set;

    /* The reader of a pipe may go away, and a stray signal is no reason to
     * lose what runs. */
    ignore(SIGPIPE);
    ignore(SIGUSR1);
    ignore(SIGUSR2);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
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
