/* client_core.h - Client side of the protocol: a session and its calls.
 *
 * A pure state machine, like router and worker.  client/lib/client.h adds the
 * sockets; the simulator runs the core without them.
 *
 * Calls made while no session is up wait for one until their deadline.  If the
 * router rejects the Hello, waiting calls end at once with the router's status
 * and text.  When a session ends, its calls end UNAVAILABLE.  The core never
 * retries a call; client/lib/resumable.h resumes requests.
 *
 * An op of a call may begin, cancel and drop, but must not free the core.
 *
 * Threading: one thread.  Memory: CLIENT_CALLS_MAX calls; requests that wait
 * for a session or for room take CLIENT_WAITING_BYTES at most. */
#ifndef CLIENT_LIB_CLIENT_CORE_H
#define CLIENT_LIB_CLIENT_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/timer.h"
#include "common/wire/method.h"
#include "common/wire/node_io.h"
#include "proto/limits.h"

#define CLIENT_CALLS_MAX     PEER_CALLS_MAX
#define CLIENT_WAITING_BYTES (16u << 20)

struct client_core;

struct client_options {
    const char *name;
    bool admin; /* role admin in Hello, which permits the Admin service */
};

/* Creates a core that sends through io; io is borrowed.  Returns NULL without
 * memory. */
struct client_core *client_core_new(const struct client_options *o,
                                    struct node_io *io);

/* Ends the session with a Goodbye, ends open calls UNAVAILABLE, and frees the
 * core. */
void client_core_free(struct client_core **c);

/* Callbacks of the event loop; their node is the struct client_core. */
extern const struct node_ops client_node_ops;

struct client_call_ops {
    /* Receives one message of a stream; msg is valid until it returns. */
    void (*on_reply)(void *arg, const ProtobufCMessage *msg);
    /* Runs exactly once.  reply: of a unary call that ended OK, else NULL.
     * e: NULL if OK. */
    void (*on_end)(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms);
};

/* Begins a call.  *id identifies it for client_core_cancel(); id may be NULL.
 * deadline_ms is the time limit, 0: none.  Requests are sent in the order of
 * their calls.  If the result is not ST_OK, no call has begun and no on_end
 * follows:
 *
 *   ST_RESOURCE_EXHAUSTED  too many calls are open, or requests waiting
 *   ST_INVALID_ARGUMENT    the request is too large, or not a request of m
 *   ST_PERMISSION_DENIED   the role may not call m */
MUST_CHECK enum status client_core_call(struct client_core *c, enum method m,
                                        const ProtobufCMessage *request,
                                        uint32_t deadline_ms,
                                        const struct client_call_ops *ops,
                                        void *arg, uint64_t *id);

/* Cancels a call: its on_end runs with CANCELLED before this returns.  Has no
 * effect if the call has ended. */
void client_core_cancel(struct client_core *c, uint64_t id);

/* Returns whether a session is up. */
bool client_core_up(const struct client_core *c);

/* Returns the status with which a router rejected the last Hello, else ST_OK.
 */
enum status client_core_refused(const struct client_core *c);

/* Returns why the last connection or Hello failed; "" if none did. */
const char *client_core_trouble(const struct client_core *c);

/* A timer of the core's user.  fire runs once, in a tick at or after the due
 * time, or when the core is freed; client_core_ending() is then true.  The
 * caller owns the storage. */
struct client_wait {
    struct timer timer; /* first: the core casts a timer to its wait */
    void (*fire)(struct client_wait *w);
};

/* Sets a timer, or moves it if it is set.  due_us is in the time of the io. */
void client_core_wait(struct client_core *c, struct client_wait *w,
                      int64_t due_us);

/* Clears a timer; has no effect if it is not set. */
void client_core_unwait(struct client_core *c, struct client_wait *w);

/* Returns whether the core is being freed. */
bool client_core_ending(const struct client_core *c);

/* Ends the session at the next tick as if the connection had broken. */
void client_core_drop(struct client_core *c, const char *reason);

#endif
