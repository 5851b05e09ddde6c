/* calls.h - The router's calls of a worker: one handler for each message, in
 * recv_<message>.c.
 *
 * Handlers get the request as its own type; dispatch.c alone casts.  Each one
 * answers its call, or leaves that to the room that completes it.
 *
 * Threading, memory: the core's. */
#ifndef WORKER_CALLS_CALLS_H
#define WORKER_CALLS_CALLS_H

#include "common/wire/method_message.h"
#include "worker/base/base.h"
#include "worker/sequences/sequences.h"
#include "worker/stages/stages.h"

/* The rooms that the handlers work on. */
struct worker_calls {
    struct worker_base *base;
    struct sequences *sequences;
    struct stages *stages;
};

/* Method, handler, and whether only a worker with layer 0 serves it: sequences
 * are the leader's business. */
#define CALL_MAP(X)                                \
    X(WORKER_ASSEMBLE, assemble, false)            \
    X(WORKER_ASSIGN, assign, false)                \
    X(WORKER_AUDIT, audit, false)                  \
    X(WORKER_SUBMIT, submit, true)                 \
    X(WORKER_SUBMIT_PART, submit_part, true)       \
    X(WORKER_ACKNOWLEDGE, acknowledge, true)       \
    X(WORKER_CANCEL, cancel, true)                 \
    X(WORKER_REMOVE, remove, true)                 \
    X(WORKER_DISOWN, disown, true)                 \
    X(WORKER_INDEX_SNAPSHOT, index_snapshot, true) \
    X(HEALTH_CHECK, health, false)

/* Calls the handler of m, or refuses the call.  p is the session's peer; call
 * is 0 for a message without an answer. */
void calls_dispatch(const struct worker_calls *c, struct peer *p,
                    const struct method_row *m, uint64_t call,
                    const ProtobufCMessage *request);

/* Handles the router's cancellation of a call that is open. */
void calls_cancelled(const struct worker_calls *c, uint64_t call);

#define X(method, name, ...)                                              \
    void worker_recv_##name(const struct worker_calls *c, struct peer *p, \
                            uint64_t call, const request_of_##method *m);
CALL_MAP(X)
#undef X

#endif
