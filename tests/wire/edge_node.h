/* edge_node.h - a node with both sides of an edge, for tests: it listens for
 * one stage, connects to another, and sends that one a series of tensors.
 *
 * The n-th Forward of a session carries step n and a tensor whose length and
 * values follow from n; every seventh has none.  What comes is compared with
 * that: `bad` says that one was lost, doubled, out of order or damaged.  A
 * session that ends begins the series anew on both sides.
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
    uint32_t all;        /* Forwards a session */
    uint32_t bytes_most; /* of a tensor, a multiple of 4 */
    uint8_t *tensor;     /* [bytes_most] */

    struct peer *out, *in;  /* NULL: down */
    uint32_t n_sent, n_got; /* of this session */
    uint32_t n_up, n_down, n_came, n_gone;
    uint64_t n_bytes; /* received, ever */
    bool bad;
    char why[160]; /* of the last end */
};

extern const struct node_ops edge_node_ops;

/* next: the endpoint it connects to; NULL: it only listens. */
void edge_node_init(struct edge_node *n, struct node_io *io, const char *next,
                    uint32_t all, uint32_t bytes_most);
void edge_node_fini(struct edge_node *n);

#endif
