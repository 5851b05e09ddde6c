/* network.h - Connections of workers and clients to the router, and between
 * nodes.
 *
 * The seed draws delay, loss, duplication, reordering, corruption and cuts.
 * Both ends name a connection by the same number.  Frames of one direction
 * arrive in order unless a fault is drawn.  The end that closes receives no
 * callback; the other end receives `lost` after the frames sent before. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"

struct sim;

/* Ends of a connection: the node that opened it; the listener, usually the
 * router. */
enum conn_end { END_PEER, END_ROUTER, ENDS };

struct conn {
    uint32_t node;     /* node that opened it */
    uint32_t listener; /* usually SIM_ROUTER */
    bool standing;     /* the peer has received `opened` */
    bool open[ENDS];
    bool lost_sent[ENDS];  /* `lost` is on its way */
    bool lost_received;    /* ... and has reached the listener */
    bool evicted;          /* the router has ended its session for a place */
    int64_t last_us[ENDS]; /* arrival of the last frame towards this end */
    int64_t cut_us[ENDS];  /* frames towards this end vanish until then */
    uint32_t in_flight[ENDS];
    uint64_t number[ENDS]; /* ordered frames taken by this end */
    uint64_t session;      /* session in the frames towards the router */
    /* For an edge between stages: the assembly named by its Hello, and the
     * last one ordered at the listener when that Hello arrived.  Updated by
     * each Hello. */
    uint64_t assembly, ordered;
    uint32_t begin, end; /* the worker's layers when it opened it */
    bool index_gap;      /* a snapshot of the index was requested */
    bool keyed;          /* the listener must have this key */
    uint8_t wanted[KEY_BYTES];
    struct identity identity[ENDS]; /* by end, once it is open */
};

struct flight {
    struct frame *frame; /* NULL: free */
    uint32_t conn, next;
    enum conn_end to;
};

struct network {
    struct conn *conns; /* [n_conns] by number - 1 */
    uint32_t n_conns, conns_capacity;
    struct flight *flights; /* [n_flights] */
    uint32_t n_flights, flights_capacity, free_flight;
};

void network_init(struct network *n);
void network_fini(struct network *n);

struct conn *network_conn(struct network *n, uint32_t number);

/* Returns the connection on which a node has a session with the router, 0 if
 * none. */
uint32_t network_session(const struct network *n, uint32_t node);

/* Implement the calls of node_io. */
enum status network_send(struct sim *s, uint32_t node, struct peer_id to,
                         struct frame **f);
struct peer_id network_open(struct sim *s, uint32_t node, uint32_t listener);
void network_close(struct sim *s, uint32_t node, struct peer_id who);

/* Cuts a connection at both ends.  Each end receives `lost` about notice_us
 * later, separately.  Frames in flight are lost. */
void network_cut(struct sim *s, uint32_t number, int64_t notice_us);

/* Removes a node: its connections end without a Goodbye. */
void network_forget(struct sim *s, uint32_t node);

#endif
