/* session_node.h - A connecting node, and what the outside world saw of it. */
#ifndef TESTS_UNIT_COMMON_WIRE_SESSION_NODE_H
#define TESTS_UNIT_COMMON_WIRE_SESSION_NODE_H

#include "common/wire/session.h"

struct node {
    struct node_io io;
    struct session s;
    struct arena arena;
    uint32_t last_id;
    int n_opens, n_closes, n_sent, n_ups, n_downs, n_ends;
    struct frame *sent; /* the last frame */
    enum status refused;
    char why[ERROR_TEXT];
    bool was_up; /* down had a peer */
    bool restart_in_up, restart_in_end;
    bool idle; /* it expects no frames */
};
/* clock of all nodes */
extern int64_t clock_us;

void setup(struct node *n);
/* Makes a node that connects to the next stage instead of the router. */
void setup_edge(struct node *n);
void teardown(struct node *n);
void tick(struct node *n);
/* Moves the clock to the next due time and ticks. */
void go_on(struct node *n);
void give(struct node *n, struct frame *f);

/* Makes the router's answer to Hello. */
struct frame *accept_as(uint64_t session);
/* Brings the node up from any state. */
void come_up(struct node *n, uint64_t session);

/* Returns the nonce of the Hello in the last frame sent. */
uint64_t nonce_sent(struct node *n);

#endif
