/* native_group.h - Sessions with a router over one transport.
 *
 * Each session is a client core (client/lib/client_core.h).  A group whose
 * reader is slow reads nothing for NATIVE_PAUSE_MIN_US..NATIVE_PAUSE_MAX_US,
 * then reads all there is, and pauses again while it has calls.  The clock of
 * its cores stops during a pause, so that they act like a stopped process:
 * they do not take the router's silence for a loss.  They still send.
 *
 *     transport --frames--> group --by connection--> session --> core
 *
 * A pause is shorter than TRANSPORT_BEAT_TIMEOUT_MS, after which ZeroMQ drops
 * a connection whose heartbeats it cannot read.
 *
 * Threading: one thread.  Memory: a session takes about 100 KB.  Limits:
 * TRANSPORT_SESSIONS_MAX sessions. */
#ifndef CLIENT_LOAD_DRIVE_NATIVE_GROUP_H
#define CLIENT_LOAD_DRIVE_NATIVE_GROUP_H

#include <poll.h>

#include "client/lib/client_core.h"
#include "common/wire/transport.h"

#define NATIVE_PAUSE_MIN_US 1000000
#define NATIVE_PAUSE_MAX_US 2500000
#define NATIVE_AWAKE_US     50000 /* between two: five times the ack delay */

struct native_group;

struct native_session {
    struct node_io io; /* the core's; passes on to the group's */
    struct native_group *group;
    struct client_core *core;
    struct peer_id id;   /* 0: no connection */
    uint64_t last_frame; /* number of the newest frame sent */
    int64_t due_us;      /* next tick, by the clock of the group */
    uint32_t n_calls;    /* requests, counted by the owner */
    bool cuts;           /* its connection is being cut */
};

struct native_group_options {
    const char *endpoint;
    const char *name;        /* for the router's logs, copied by the cores */
    struct curve_keys *keys; /* borrowed; NULL: none */
    unsigned n_max;          /* sessions, 1..TRANSPORT_SESSIONS_MAX */
    bool slow;               /* the reader pauses */
    /* A Generate call with this request id was handed to the transport. */
    void (*on_sent)(void *arg, const uint8_t request_id[16], int64_t now_us);
    void *arg;
};

/* Makes a group without sessions.  Errors: transport_connect_many(). */
MUST_CHECK enum status native_group_new(struct native_group **out,
                                        const struct native_group_options *o,
                                        struct error *e);

/* Ends all sessions with a Goodbye; open calls end UNAVAILABLE.  Then only
 * native_group_free() is allowed, which needs it before. */
void native_group_end(struct native_group *g);
void native_group_free(struct native_group **g);

/* Adds a session, which connects in the next turns.  At most n_max. */
struct native_session *native_group_add(struct native_group *g);

/* Fills the descriptors to poll, and lowers *due_us to the time of the next
 * turn; 0: now.  Nothing may be sent between this and poll(), because a send
 * may consume the signal of a ZeroMQ socket.  Returns their number, at most
 * 2 * n_max + TRANSPORT_OWN_ITEMS. */
int native_group_items(struct native_group *g, struct pollfd *items,
                       int64_t *due_us);

/* Reads what has come, and runs timers.  items: those of the last
 * native_group_items(), as poll() left them. */
void native_group_turn(struct native_group *g, const struct pollfd *items);

/* Returns the real time of the frame or tick in progress, monotonic. */
int64_t native_group_now_us(const struct native_group *g);

/* Sends what waits in a session: now, or if the group is inside a turn, at
 * its end. */
void native_session_flush(struct native_session *s);

/* Cuts the connection without a word.  Its calls end UNAVAILABLE while
 * s->cuts is true.  The session then connects anew, without a backoff.  Not
 * within a turn. */
void native_session_cut(struct native_session *s);

bool native_session_up(const struct native_session *s);

#endif
