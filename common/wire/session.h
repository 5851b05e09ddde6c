/* session.h - the side that connects: one connection is one session.
 *
 *     CLOSED --open--> OPENING --opened--> GREETING --answer--> UP
 *       ^                 |                   |                 |
 *       +----- lost, refused, goodbye, no answer: back off -----+
 *
 * On any loss the connection is dropped and, after a back-off that doubles
 * from SESSION_BACKOFF_US to SESSION_BACKOFF_MAX_US with jitter of half, a
 * new one is opened and Hello said on it.  Hello is sent again every
 * SESSION_HELLO_US with the same nonce, and given up after
 * SESSION_HELLO_TRIES.
 *
 * A connection that is open at one end only is noticed:
 * common/wire/keepalive.h.
 *
 * It is with the router, or (session_init_stage) of a worker with the stage
 * after it in an assembly; the two differ in where they connect, in what Hello
 * says, in the role of the other end, in the room of the link, and in how long
 * a connection may take: an assembly waits for its edges no longer than a
 * session for one connection, and one that hangs is to be tried again in that
 * time.
 *
 * Threading: the node's.  Memory: the caller's storage, and one peer. */
#ifndef COMMON_WIRE_SESSION_H
#define COMMON_WIRE_SESSION_H

#include "common/wire/endpoint.h"
#include "common/wire/keepalive.h"
#include "common/wire/peer.h"

#define SESSION_BACKOFF_US     20000
#define SESSION_BACKOFF_MAX_US 2000000
#define SESSION_HELLO_US       200000
#define SESSION_HELLO_TRIES    10
#define SESSION_OPEN_US        5000000 /* to wait for `opened` */
#define SESSION_OPEN_NEXT_US   1000000 /* ... of the stage after it */

enum session_state {
    SESSION_CLOSED,
    SESSION_OPENING,
    SESSION_GREETING,
    SESSION_UP
};

struct session_ops {
    /* Fill in what Hello says (role, name, worker shard); nonce and versions
     * are the session's.  The message borrows from the node until it is
     * packed, before greet returns to the node. */
    void (*hello)(void *node, ProtobufCMessage *hello_request);
    void (*up)(void *node, struct peer *p);
    /* Before the peer is freed: its calls end after this.  why is a sentence.
     * refused: the other end answered Hello with this status, else ST_OK.  p is
     * NULL if the session was never up: refused, or no connection (told once
     * for each attempt). */
    void (*down)(void *node, struct peer *p, enum status refused,
                 const char *why);
    /* May be NULL: always.  Does the node wait for anything, so that a silent
     * router must be noticed?  One that does not costs nothing. */
    bool (*listens)(void *node);
};

/* Whom a session is with, if not with the router. */
struct session_stage {
    char endpoint[ENDPOINT_MAX];
    uint64_t assembly;
    uint32_t index; /* who connects: its place */
    struct link_limits limits;
};

struct session {
    struct node_io *io;
    const struct session_ops *ops;
    const struct peer_ops *peer_ops;
    void *node;
    struct arena *arena;
    uint8_t self; /* BY_WORKER, BY_CLIENT or BY_ADMIN */
    bool to_stage;
    struct session_stage stage; /* with to_stage */

    enum session_state state;
    struct peer_id id;
    struct peer *peer; /* non-NULL in UP */
    uint64_t nonce;
    int64_t due_us, backoff_us;
    uint32_t tries;

    int64_t up_us; /* since when */
    struct keepalive keepalive;
    bool busy; /* within the peer: end the session afterwards */
    bool ending;
    char why[96];
};

/* CLOSED, due at once. */
void session_init(struct session *s, struct node_io *io,
                  const struct session_ops *ops,
                  const struct peer_ops *peer_ops, void *node,
                  struct arena *arena, uint8_t self);
/* The same with a stage: io has open_to(), self is BY_WORKER.  The session
 * adds {assembly, index} to what the node's Hello says (a name). */
void session_init_stage(struct session *s, struct node_io *io,
                        const struct session_ops *ops,
                        const struct peer_ops *peer_ops, void *node,
                        struct arena *arena, const struct session_stage *stage);
/* Says Goodbye if UP, closes, ends calls (through the ops), frees. */
void session_fini(struct session *s, const char *reason);

/* Is this the connection of s?  A node with several asks before it hands an
 * event on. */
bool session_is_at(const struct session *s, struct peer_id who);

/* The node_ops of the same names hand these on. */
void session_opened(struct session *s, struct peer_id who);
void session_recv(struct session *s, struct peer_id from, struct frame **f);
void session_lost(struct session *s, struct peer_id who);

/* Flush, retry, reconnect; returns when next. */
int64_t session_tick(struct session *s, int64_t now_us);

/* End the session (with Goodbye) and begin anew after the back-off.  Legal
 * within the ops too: then at the end of the entry that called them. */
void session_restart(struct session *s, const char *reason);

#endif
