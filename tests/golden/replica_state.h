/* replica_state.h - The state of a replica, for replica.c and replica_router.c
 * alone.  tests/golden/replica.h is the contract.
 *
 * Threading, memory: as in replica.h. */
#ifndef TESTS_GOLDEN_REPLICA_STATE_H
#define TESTS_GOLDEN_REPLICA_STATE_H

#include "common/wire/node_io.h"
#include "common/wire/peer.h"
#include "common/wire/wire.h"
#include "tests/golden/replica.h"
#include "worker/worker_core.h"

#define FRAMES_MAX      4096
#define CONNECTIONS_MAX 64
#define TAG_SUBMIT      0u
#define TAG_CANCEL      1000u
#define TAG_ASSEMBLE    2000u
#define TAG_CUT         3000u

/* A stage; the router's end is the node after the last stage. */
struct node {
    struct replica *replica;
    uint32_t index;
    struct node_io io;
    struct replica_stage stage;
    struct worker_core *core;
    char endpoint[32];
    int64_t due_us;

    /* The router's peer for this stage. */
    struct peer *peer;
    uint64_t grant;
};

struct parcel {
    uint32_t node;
    struct peer_id at;
    struct frame *frame; /* NULL: the connection is open */
};

/* Ends 2i + 1, of the node that opened the connection, and 2i + 2. */
struct connection {
    uint32_t node[2];
};

struct replica {
    uint32_t n;
    struct replica_options o;
    struct node nodes[REPLICA_STAGES + 1];
    struct connection connections[CONNECTIONS_MAX];
    uint32_t n_connections;
    struct parcel parcels[FRAMES_MAX];
    uint32_t n_parcels;
    struct arena arena;
    uint64_t random;
    uint32_t n_assembled;
    int64_t news_us; /* time of the newest output */

    struct replica_ask *asks; /* this run */
    uint32_t n_asks, n_sent, n_accepted, n_over;
    uint32_t n_ids, n_kept;    /* all runs */
    uint32_t n_cuts, position; /* answered; the newest one's */
};

/* Ends the program with a message. */
__attribute__((format(printf, 1, 2), noreturn)) void
replica_die(const char *fmt, ...);

int64_t replica_clock_us(void);

/* Queues a frame for a node; NULL: its connection is open. */
void replica_put(struct replica *r, uint32_t node, uint32_t at,
                 struct frame *f);

/* The router's end takes a frame. */
void replica_router_recv(struct replica *r, struct peer_id at, struct frame *f);

/* Calls of the router's end. */
void replica_send_submit(struct replica *r, uint32_t i);
void replica_send_assemble(struct replica *r, uint32_t stage);
void replica_send_cut(struct replica *r, const struct replica_ask *a,
                      uint32_t begin);

#endif
