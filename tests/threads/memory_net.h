/* memory_net.h - node_io between threads: mailboxes in place of sockets.
 *
 * Each node runs in a thread of its own and waits on descriptors, as
 * common/wire/loop.c does: its mailbox, and what else it is given (an engine's,
 * a text pool's).  No ZeroMQ is linked, so that ThreadSanitizer sees every
 * thread there is and every lock that orders them.
 *
 * Threading: memory_net_new/free, memory_node_new and memory_node_stop by the
 * test's thread; a node's core by the node's own.  Memory: frames change hands
 * through the mailbox.  Limits: below; a full mailbox loses frames, as a
 * network does. */
#ifndef TESTS_THREADS_MEMORY_NET_H
#define TESTS_THREADS_MEMORY_NET_H

#include "common/wire/node_io.h"

#define NET_NODES_MAX       16
#define NET_CONNECTIONS_MAX 64
#define NET_MAILBOX         256
#define NET_SOURCES         2

struct memory_net;
struct memory_node;

struct memory_source {
    int fd;
    void (*quiet)(void *arg); /* reads what made it readable */
    void *arg;
};

/* What a node is; all of it is called by its thread. */
struct memory_node_config {
    uint8_t role; /* one of BY_*; BY_ROUTER is who the others connect to */
    /* Makes the core; NULL ends the program. */
    void *(*make)(void *arg, struct node_io *io);
    const struct node_ops *ops;
    /* After every tick; may be NULL. */
    void (*turn)(void *arg, void *core);
    /* Once, when the node is told to stop; NULL: the thread ends at once,
     * else when tick answers NODE_STOP. */
    void (*stop)(void *core);
    void (*free)(void *arg, void *core);
    void *arg;
    struct memory_source sources[NET_SOURCES];
    unsigned n_sources;
};

struct memory_net *memory_net_new(void);
/* Every node has been stopped. */
void memory_net_free(struct memory_net **net);

/* The router first. */
struct memory_node *memory_node_new(struct memory_net *net,
                                    const struct memory_node_config *c);
/* Tells it to stop, and joins. */
void memory_node_stop(struct memory_node *n);

/* The newest connection of a node breaks, for both ends. */
void memory_node_cut(struct memory_node *n);

#endif
