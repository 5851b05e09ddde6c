/* edge_node.h - A node with both sides of an edge, for tests.
 *
 * It listens for one stage, connects to another, and sends that one a series
 * of tensors.  The n-th Forward of a session carries step n and a tensor
 * whose length and values follow from n; every seventh has none.  Received
 * messages are compared with that: `bad` is set if one was lost, duplicated,
 * out of order or damaged.  Both sides start the series again when a session
 * ends.
 *
 * Threading: the node's.  Memory: the caller's storage. */
#ifndef TESTS_WIRE_EDGE_NODE_H
#define TESTS_WIRE_EDGE_NODE_H

#include "common/wire/greeter.h"
#include "common/wire/session.h"

#define EDGE_ASSEMBLY 42

struct edge_node {
    struct node_io *io;
    struct arena arena;
    struct session next;
    struct greeter before;
    struct link_limits limits;
    uint32_t all;        /* Forwards per session */
    uint32_t bytes_most; /* largest tensor, a multiple of 4 */
    uint8_t *tensor;     /* [bytes_most] */

    struct peer *out, *in;  /* NULL: down */
    uint32_t n_sent, n_got; /* in this session */
    uint32_t n_up, n_down, n_came, n_gone;
    uint64_t n_bytes; /* received in total */
    bool bad;
    char why[160]; /* reason of the last end */
};

extern const struct node_ops edge_node_ops;

/* Initialises a node.  next is the endpoint to connect to; NULL: the node
 * only listens. */
void edge_node_init(struct edge_node *n, struct node_io *io, const char *next,
                    uint32_t all, uint32_t bytes_most);
void edge_node_fini(struct edge_node *n);

#endif
