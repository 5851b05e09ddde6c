/* network.h - connections of workers and clients to the router, and of nodes
 * to one another, as a seed wants them: slow, lossy, doubled, reordered,
 * damaged, cut.
 *
 * Both ends name a connection by the same number.  Frames of one direction
 * arrive in order unless a fault is drawn.  Whoever closes hears nothing; the
 * other end hears `lost` after what was sent before. */
#ifndef SIM_NETWORK_H
#define SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/node_io.h"

struct sim;

/* Ends of a connection: who opened it; the router, or whoever else listens. */
enum conn_end { END_PEER, END_ROUTER, ENDS };

struct conn {
    uint32_t node;     /* that opened it */
    uint32_t listener; /* SIM_ROUTER mostly */
    bool standing;     /* the peer has heard `opened` */
    bool open[ENDS];
    bool told[ENDS];       /* `lost` is on its way */
    bool heard;            /* ... and has come to the listener */
    int64_t last_us[ENDS]; /* of the frames towards this end */
    int64_t cut_us[ENDS];  /* frames towards this end vanish until then */
    uint32_t in_flight[ENDS];
    uint64_t number[ENDS]; /* ordered frames taken by this end */
    uint64_t session;      /* as the frames towards the router say */
    /* Of an edge: the assembly that its Hello names, and the one ordered last
     * where it came; as often as it came. */
    uint64_t assembly, ordered;
    uint32_t begin, end; /* layers that a worker had when it opened it */
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

/* The connection by which a node has a session with the router; 0: none. */
uint32_t network_session(const struct network *n, uint32_t node);

/* What node_io asks of it. */
enum status network_send(struct sim *s, uint32_t node, struct peer_id to,
                         struct frame **f);
struct peer_id network_open(struct sim *s, uint32_t node, uint32_t listener);
void network_close(struct sim *s, uint32_t node, struct peer_id who);

/* Both ends lose it, and hear of that about told_us later, each in its own
 * time; what is in flight is gone. */
void network_cut(struct sim *s, uint32_t number, int64_t told_us);

/* The node is no more: its connections end without a word. */
void network_forget(struct sim *s, uint32_t node);

#endif
