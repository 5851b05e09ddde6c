#include "tests/threads/memory_net.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "common/wire/method.h"

#define WAIT_MS_MAX 100

enum letter_kind { LETTER_OPENED, LETTER_FRAME, LETTER_LOST };

struct letter {
    enum letter_kind kind;
    struct peer_id who;
    struct frame *frame;
};

struct memory_node {
    struct node_io io;
    struct memory_net *net;
    struct memory_node_config c;
    pthread_t thread;
    int fd; /* of the mailbox, and readable on a stop */
    atomic_bool stopping;
    uint64_t random;

    pthread_mutex_t lock; /* protects the mailbox */
    struct letter ring[NET_MAILBOX];
    unsigned first, n;
};

struct memory_net {
    pthread_mutex_t lock; /* protects all fields below */
    struct memory_node *nodes[NET_NODES_MAX];
    unsigned n_nodes;
    struct memory_node *owner[NET_CONNECTIONS_MAX]; /* NULL: broken */
    uint32_t n_connections; /* connection ids are indices of owner, from 1 */
};

static void wake(const struct memory_node *n)
{
    static const uint64_t one = 1;
    ssize_t wrote = write(n->fd, &one, sizeof one);

    assert(wrote == sizeof one);
    (void)wrote;
}

/* Takes the frame.  Letters without a frame always find room. */
static enum status post(struct memory_node *to, struct letter letter)
{
    enum status st = ST_OK;

    pthread_mutex_lock(&to->lock);
    if (to->n >= NET_MAILBOX - (letter.kind == LETTER_FRAME ? 8 : 0)) {
        assert(letter.kind == LETTER_FRAME);
        frame_free(&letter.frame);
        st = ST_RESOURCE_EXHAUSTED;
    } else {
        to->ring[(to->first + to->n++) % NET_MAILBOX] = letter;
    }
    pthread_mutex_unlock(&to->lock);
    wake(to);
    return st;
}

static bool take(struct memory_node *n, struct letter *out)
{
    bool found;

    pthread_mutex_lock(&n->lock);
    found = n->n > 0;
    if (found) {
        *out = n->ring[n->first];
        n->first = (n->first + 1) % NET_MAILBOX;
        n->n--;
    }
    pthread_mutex_unlock(&n->lock);
    return found;
}

/* ---- node_io ---- */

static int64_t io_now(struct node_io *io)
{
    struct timespec t;

    (void)io;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static uint64_t io_random(struct node_io *io)
{
    struct memory_node *n = io->impl;
    uint64_t z = (n->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Returns the node at the other end of a connection, seen from n; NULL if there
 * is none. */
static struct memory_node *other_end(const struct memory_node *n,
                                     struct peer_id who)
{
    struct memory_net *net = n->net;
    struct memory_node *to = NULL;

    pthread_mutex_lock(&net->lock);
    if (who.v >= 1 && who.v <= net->n_connections) {
        to = net->owner[who.v - 1];
    }
    if (to == n) {
        to = net->nodes[0];
    }
    pthread_mutex_unlock(&net->lock);
    return to;
}

static enum status io_send(struct node_io *io, struct peer_id to,
                           struct frame **f)
{
    struct memory_node *end = other_end(io->impl, to);
    struct letter letter = {LETTER_FRAME, to, *f};

    *f = NULL;
    if (end == NULL) {
        frame_free(&letter.frame);
        return ST_UNAVAILABLE;
    }
    return post(end, letter);
}

static struct peer_id io_open(struct node_io *io)
{
    struct memory_node *n = io->impl;
    struct memory_net *net = n->net;
    struct peer_id id;

    pthread_mutex_lock(&net->lock);
    assert(net->n_connections < NET_CONNECTIONS_MAX);
    net->owner[net->n_connections++] = n;
    id.v = net->n_connections;
    pthread_mutex_unlock(&net->lock);
    (void)post(n, (struct letter){LETTER_OPENED, id, NULL});
    return id;
}

/* Removes a connection.  Returns its owner, NULL if it was broken already. */
static struct memory_node *break_connection(struct memory_net *net,
                                            struct peer_id who)
{
    struct memory_node *owner;

    pthread_mutex_lock(&net->lock);
    owner = net->owner[who.v - 1];
    net->owner[who.v - 1] = NULL;
    pthread_mutex_unlock(&net->lock);
    return owner;
}

static void io_close(struct node_io *io, struct peer_id who)
{
    struct memory_node *n = io->impl;
    struct memory_node *owner = break_connection(n->net, who);

    if (owner != NULL) {
        (void)post(owner == n ? n->net->nodes[0] : owner,
                   (struct letter){LETTER_LOST, who, NULL});
    }
}

static uint8_t io_port(struct node_io *io, struct peer_id who)
{
    const struct memory_node *end = other_end(io->impl, who);

    return end == NULL ? 0 : end->c.role;
}

/* ---- the thread of a node ---- */

static void deliver(struct memory_node *n, void *core)
{
    struct letter l;

    while (take(n, &l)) {
        if (l.kind == LETTER_OPENED) {
            n->c.ops->opened(core, l.who);
        } else if (l.kind == LETTER_LOST) {
            n->c.ops->lost(core, l.who);
        } else {
            n->c.ops->recv(core, l.who, &l.frame);
        }
    }
}

static void wait_for(struct memory_node *n, int64_t due_us)
{
    struct pollfd fds[1 + NET_SOURCES] = {{.fd = n->fd, .events = POLLIN}};
    int64_t ms = due_us == NODE_IDLE ? WAIT_MS_MAX
                                     : (due_us - io_now(&n->io) + 999) / 1000;
    uint64_t count;

    ms = ms < 0 ? 0 : ms > WAIT_MS_MAX ? WAIT_MS_MAX : ms;
    for (unsigned i = 0; i < n->c.n_sources; i++) {
        fds[1 + i] =
            (struct pollfd){.fd = n->c.sources[i].fd, .events = POLLIN};
    }
    poll(fds, 1 + n->c.n_sources, (int)ms);
    while (read(n->fd, &count, sizeof count) == sizeof count) {
    }
    for (unsigned i = 0; i < n->c.n_sources; i++) {
        if (fds[1 + i].revents != 0) {
            n->c.sources[i].quiet(n->c.sources[i].arg);
        }
    }
}

static void *node_main(void *arg)
{
    struct memory_node *n = arg;
    void *core = n->c.make(n->c.arg, &n->io);
    bool ending = false;
    int64_t due = 0;

    assert(core != NULL);
    while (due != NODE_STOP) {
        wait_for(n, due);
        if (atomic_load(&n->stopping) && !ending) {
            ending = true;
            if (n->c.stop == NULL) {
                break;
            }
            n->c.stop(core);
        }
        deliver(n, core);
        due = n->c.ops->tick(core, io_now(&n->io));
        if (n->c.turn != NULL && !ending) {
            n->c.turn(n->c.arg, core);
        }
    }
    n->c.free(n->c.arg, core);
    return NULL;
}

/* ---- creation and release ---- */

struct memory_net *memory_net_new(void)
{
    struct memory_net *net = calloc(1, sizeof *net);

    assert(net != NULL);
    pthread_mutex_init(&net->lock, NULL);
    return net;
}

static void node_free(struct memory_node *n)
{
    struct letter l;

    while (take(n, &l)) {
        frame_free(&l.frame);
    }
    pthread_mutex_destroy(&n->lock);
    close(n->fd);
    free(n);
}

void memory_net_free(struct memory_net **pnet)
{
    struct memory_net *net = *pnet;

    *pnet = NULL;
    for (unsigned i = 0; i < net->n_nodes; i++) {
        node_free(net->nodes[i]);
    }
    pthread_mutex_destroy(&net->lock);
    free(net);
}

struct memory_node *memory_node_new(struct memory_net *net,
                                    const struct memory_node_config *c)
{
    struct memory_node *n = calloc(1, sizeof *n);
    int rc;

    assert(n != NULL && net->n_nodes < NET_NODES_MAX);
    assert((c->role == BY_ROUTER) == (net->n_nodes == 0));
    n->net = net;
    n->c = *c;
    n->random = net->n_nodes;
    n->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    n->io = (struct node_io){.impl = n,
                             .now_us = io_now,
                             .random = io_random,
                             .send = io_send,
                             .open = io_open,
                             .close = io_close,
                             .port = io_port};
    pthread_mutex_init(&n->lock, NULL);
    pthread_mutex_lock(&net->lock);
    net->nodes[net->n_nodes++] = n;
    pthread_mutex_unlock(&net->lock);
    rc = pthread_create(&n->thread, NULL, node_main, n);
    assert(n->fd >= 0 && rc == 0);
    (void)rc;
    return n;
}

void memory_node_stop(struct memory_node *n)
{
    atomic_store(&n->stopping, true);
    wake(n);
    pthread_join(n->thread, NULL);
}

void memory_node_cut(struct memory_node *n)
{
    struct memory_net *net = n->net;
    struct peer_id who = {0};

    pthread_mutex_lock(&net->lock);
    for (uint32_t i = 0; i < net->n_connections; i++) {
        if (net->owner[i] == n) {
            who.v = i + 1;
        }
    }
    pthread_mutex_unlock(&net->lock);
    if (who.v != 0 && break_connection(net, who) == n) {
        (void)post(n, (struct letter){LETTER_LOST, who, NULL});
        (void)post(net->nodes[0], (struct letter){LETTER_LOST, who, NULL});
    }
}
