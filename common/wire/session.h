/* session.h - The connecting side: one connection is one session.
 *
 *     CLOSED --open--> OPENING --opened--> GREETING --answer--> UP
 *       ^                 |                   |                 |
 *       +----- lost, refused, goodbye, no answer: back off -----+
 *
 * On any loss the connection is dropped and a new one is opened after an
 * exponential backoff from SESSION_BACKOFF_US to SESSION_BACKOFF_MAX_US, with
 * jitter of half.  Hello is sent on each new connection, and again every
 * SESSION_HELLO_US with the same nonce, at most SESSION_HELLO_TRIES times.
 * common/wire/keepalive.h detects a connection that is open at one end only.
 *
 * The session is with the router or, with session_init_stage(), a worker's
 * session with the stage after it in an assembly.  The two differ in the
 * endpoint, the content of Hello, the role of the other end, the limits of
 * the link, and the time that a connection may take.  An assembly waits for
 * its edges no longer than a session waits for one connection, so a
 * connection to a stage must time out and be retried within that time.
 *
 * Threading: the node's.  Memory: the caller's storage, and one peer. */
#ifndef COMMON_WIRE_SESSION_H
#define COMMON_WIRE_SESSION_H

#include "common/wire/endpoint.h"
#include "common/wire/keepalive.h"
#include "common/wire/peer.h"
#include "common/wire/prefix_hash.h"

#define SESSION_BACKOFF_US     20000
#define SESSION_BACKOFF_MAX_US 2000000
#define SESSION_HELLO_US       200000
#define SESSION_HELLO_TRIES    10
#define SESSION_OPEN_US        5000000 /* time to wait for `opened` */
#define SESSION_OPEN_NEXT_US                        \
    1000000 /* the same for a connection to a stage \
             */

enum session_state {
    SESSION_CLOSED,
    SESSION_OPENING,
    SESSION_GREETING,
    SESSION_UP
};

struct session_ops {
    /* Fills in Hello (role, name, worker shard); nonce and versions are the
     * session's.  The message borrows from the node until it is packed,
     * before the node gets control again. */
    void (*hello)(void *node, ProtobufCMessage *hello_request);
    void (*up)(void *node, struct peer *p);
    /* Called before the peer is freed; its calls end afterwards.  why is a
     * sentence.  refused: the status with which the other end answered Hello,
     * else ST_OK.  p is NULL if the session was never up: refused, or no
     * connection (reported once per attempt). */
    void (*down)(void *node, struct peer *p, enum status refused,
                 const char *why);
    /* Returns whether the node waits for anything, so that a silent router
     * must be detected; an idle node saves the pings.  NULL: always. */
    bool (*listens)(void *node);
};

/* The other end of a session that is not with the router.  The key is that of
 * the stage, as the router authenticated it. */
struct session_stage {
    char endpoint[ENDPOINT_MAX];
    uint64_t assembly;
    uint32_t index; /* place of the connecting stage */
    bool keyed;     /* key is set: the stage must prove it */
    uint8_t key[KEY_BYTES];
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
    struct session_stage stage; /* valid if to_stage */

    enum session_state state;
    struct peer_id id;
    struct peer *peer; /* non-NULL in UP */
    uint64_t nonce;
    int64_t due_us, backoff_us;
    uint32_t tries;

    /* UP: the name that the other end gave this one; "": none. */
    char your_name[PEER_NAME_MAX + 1];
    /* UP: the key of prefix hashes that the router sent, or none. */
    bool has_prefix_key;
    struct prefix_key prefix_key;
    int64_t up_us; /* time at which it came UP */
    struct keepalive keepalive;
    uint32_t least_minor;  /* session_need_minor(); 0: any */
    const char *minor_for; /* the subject of the sentence */
    bool busy; /* inside a call of the peer: end the session afterwards */
    bool ending;
    char why[96];
};

/* Initialises a session: CLOSED, due at once. */
void session_init(struct session *s, struct node_io *io,
                  const struct session_ops *ops,
                  const struct peer_ops *peer_ops, void *node,
                  struct arena *arena, uint8_t self);
/* Initialises a session with a stage.  io has open_to(), self is BY_WORKER.
 * The session adds {assembly, index} to the node's Hello, which has a name. */
void session_init_stage(struct session *s, struct node_io *io,
                        const struct session_ops *ops,
                        const struct peer_ops *peer_ops, void *node,
                        struct arena *arena, const struct session_stage *stage);
/* Refuses other ends of a lower minor version from now on.  what: what needs
 * it, as the subject of a sentence; borrowed. */
void session_need_minor(struct session *s, uint32_t minor, const char *what);

/* Sends Goodbye if UP, closes, ends calls through the ops, and frees. */
void session_fini(struct session *s, const char *reason);

/* Returns whether who is the connection of s.  A node with several sessions
 * asks this before it passes an event on. */
bool session_is_at(const struct session *s, struct peer_id who);

/* Take events of the node_ops with the same names. */
void session_opened(struct session *s, struct peer_id who);
void session_recv(struct session *s, struct peer_id from, struct frame **f);
void session_lost(struct session *s, struct peer_id who);

/* Flushes, retries and reconnects.  Returns when it must run next. */
int64_t session_tick(struct session *s, int64_t now_us);

/* Ends the session with Goodbye and starts again after the backoff.  May be
 * called within the ops: it then takes effect when the entry that called them
 * returns. */
void session_restart(struct session *s, const char *reason);

#endif
