/* memory_net.h - node_io between threads, with mailboxes in place of sockets.
 *
 * Each node runs in its own thread and waits on descriptors, as
 * common/wire/loop.c does: its mailbox, and others that it is given, such as
 * those of an engine or a text pool.  ZeroMQ is not linked, so ThreadSanitizer
 * sees every thread and every lock that orders them.
 *
 * Threading: the test's thread calls memory_net_new/free, memory_node_new and
 * memory_node_stop; a node's own thread runs its core.  Memory: frames change
 * hands through the mailbox.  Limits: below; a full mailbox drops frames, as a
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
    void (*quiet)(void *arg); /* reads fd until it is no longer readable */
    void *arg;
};

/* Configuration of a node; its thread makes all the calls. */
struct memory_node_config {
    uint8_t role; /* one of BY_*; nodes connect to the one with BY_ROUTER */
    /* Creates the core; NULL ends the program. */
    void *(*make)(void *arg, struct node_io *io);
    const struct node_ops *ops;
    /* Called after every tick; may be NULL. */
    void (*turn)(void *arg, void *core);
    /* Called once, when the node is to stop; the thread then ends when tick
     * returns NODE_STOP.  NULL: the thread ends at once. */
    void (*stop)(void *core);
    void (*free)(void *arg, void *core);
    void *arg;
    struct memory_source sources[NET_SOURCES];
    unsigned n_sources;
};

struct memory_net *memory_net_new(void);
/* Frees the net, after every node has been stopped. */
void memory_net_free(struct memory_net **net);

/* Creates a node and starts its thread.  The router must be the first. */
struct memory_node *memory_node_new(struct memory_net *net,
                                    const struct memory_node_config *c);
/* Stops a node, and joins its thread. */
void memory_node_stop(struct memory_node *n);

/* Breaks the newest connection of a node, at both ends. */
void memory_node_cut(struct memory_node *n);

#endif
