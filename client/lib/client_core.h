/* client_core.h - the client's side of the conversation: a session and its
 * calls.
 *
 * A pure state machine like router and worker; client/lib/client.h is the
 * library with sockets around it, the simulator runs it bare.  Calls made while
 * no session is up wait for one (bounded) until their deadline; when the router
 * refuses the Hello, they end at once with its status and sentence.  When a
 * session ends, its calls end UNAVAILABLE: nothing is repeated here, what is
 * resumed is by client/lib/resumable.h.
 *
 * Calls of an op may begin, cancel and drop; they must not free the core.
 *
 * Threading: one thread.  Memory: bounded by CLIENT_CALLS_MAX, and requests
 * that wait for a session or for room by CLIENT_WAITING_BYTES. */
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
    bool admin; /* Hello as admin: the Admin service too */
};

struct client_core *client_core_new(const struct client_options *o,
                                    struct node_io *io);
/* Says Goodbye; open calls end UNAVAILABLE. */
void client_core_free(struct client_core **c);

/* The node is the struct client_core. */
extern const struct node_ops client_node_ops;

struct client_call_ops {
    /* One message of a stream; msg lives until it returns. */
    void (*on_reply)(void *arg, const ProtobufCMessage *msg);
    /* Exactly once.  reply: of a unary OK, else NULL.  e: NULL if OK. */
    void (*on_end)(void *arg, enum status status, const ProtobufCMessage *reply,
                   const struct error *e, uint32_t retry_after_ms);
};

/* Begin a call; *id names it for client_core_cancel() and may be NULL.
 * deadline_ms = 0: none.  On an error nothing began and no on_end follows:
 * ST_RESOURCE_EXHAUSTED: too many open; ST_INVALID_ARGUMENT: a request that
 * is no `m`, or too large; ST_PERMISSION_DENIED: not a method of this role.
 * Requests go out in the order of their calls. */
MUST_CHECK enum status client_core_call(struct client_core *c, enum method m,
                                        const ProtobufCMessage *request,
                                        uint32_t deadline_ms,
                                        const struct client_call_ops *ops,
                                        void *arg, uint64_t *id);

/* on_end follows with CANCELLED before this returns; a no-op if it ended. */
void client_core_cancel(struct client_core *c, uint64_t id);

bool client_core_up(const struct client_core *c);

/* The status of the router that refused the last Hello, else ST_OK. */
enum status client_core_refused(const struct client_core *c);

/* Why the last connection or Hello failed; "" if none did. */
const char *client_core_trouble(const struct client_core *c);

/* A moment that somebody waits for: fire runs in a tick at or after it, once,
 * or when the core is freed: then client_core_ending() is true.  The storage
 * is the caller's; setting it again moves it. */
struct client_wait {
    struct timer timer; /* first: a timer is its wait */
    void (*fire)(struct client_wait *w);
};

void client_core_wait(struct client_core *c, struct client_wait *w,
                      int64_t due_us);
void client_core_unwait(struct client_core *c, struct client_wait *w);

/* It is being freed. */
bool client_core_ending(const struct client_core *c);

/* End the session as if the connection broke, at the next tick (tests). */
void client_core_drop(struct client_core *c, const char *reason);

#endif
