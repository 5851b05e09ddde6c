/* peer.h - one session with one peer: its link, and the calls on it.
 *
 * Calls have gRPC's semantics: unary or server-streaming, a deadline carried
 * as time remaining, cancellation by the caller, a status with a sentence at
 * the end.  Either end may call the other, if the method's row allows it.
 *
 *     caller                         server
 *     peer_call()   -- Call -->      on_call
 *                   <-- Reply --     peer_reply()      0..n, streams only
 *     on_reply
 *                   <-- End --       peer_end()        exactly one
 *     on_end
 *     peer_cancel() -- Cancel -->    on_cancel         may still End
 *
 * A body is decoded only after the row allows this peer to send this kind of
 * this method at this size.  A call of a method that is not built is
 * answered UNIMPLEMENTED here.  A deadline that passes ends the call at both
 * ends with DEADLINE_EXCEEDED (the server sees on_cancel).
 *
 * What breaks a rule, a strike: a frame that the link refuses, which one is
 * whose tensor may not be (common/wire/link.h), a kind in the
 * wrong lane, a method of another role or a body over its cap (such calls
 * are answered all the same), a call number that is open already, a oneway
 * that does not parse.  No strike: an unknown method or kind (a newer minor
 * version has more), a call whose body does not parse (INVALID_ARGUMENT), an
 * answer to a call that is closed (it crossed our Cancel).
 *
 * Threading: the node's.  Memory: messages passed to the ops live until they
 * return.  Limits: PEER_CALLS_MAX open calls each way; PEER_STRIKES frames
 * that break a rule end the session. */
#ifndef COMMON_WIRE_PEER_H
#define COMMON_WIRE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/frame.h"
#include "common/wire/hello.h"
#include "common/wire/link.h"
#include "common/wire/method.h"
#include "common/wire/node_io.h"
#include "common/wire/wire.h"

#define PEER_STRIKES 8

struct peer;

/* on_call, on_cancel, on_reply and on_dirty may be NULL: a node that serves
 * nothing, calls no stream, flushes in every tick. */
struct peer_ops {
    /* A call or a oneway (call = 0) came.  deadline_us is absolute, NODE_IDLE
     * if there is none.  Answer with peer_reply/peer_end, now or later. */
    void (*on_call)(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request);
    /* Their call is over without our End: cancelled, past its deadline, or
     * the peer is gone.  The call is closed already. */
    void (*on_cancel)(void *node, struct peer *p, uint64_t call);
    /* One message of a stream that we called. */
    void (*on_reply)(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply);
    /* Our call ended.  reply: of a unary OK, else NULL.  e: why not, NULL if
     * OK.  Also called for every open call by peer_free() (UNAVAILABLE). */
    void (*on_end)(void *node, struct peer *p, uint64_t tag,
                   const struct method_row *m, enum status status,
                   const ProtobufCMessage *reply, const struct error *e,
                   uint32_t retry_after_ms);
    /* Something was queued, or peer_due() moved closer: call peer_flush()
     * before the node's tick returns. */
    void (*on_dirty)(void *node, struct peer *p);
};

struct peer_config {
    struct node_io *io;
    struct peer_id id;
    uint64_t session;
    uint8_t self, other; /* one of BY_* each */
    const struct peer_ops *ops;
    void *node;
    const struct link_limits *limits; /* NULL: the usual; borrowed for
                                       * peer_new() */
    struct arena *arena; /* the node's, shared by its peers; each on_* is
                          * done with its message before the next is read */
};

struct peer *peer_new(const struct peer_config *c);

/* Ends all open calls through the ops (ours UNAVAILABLE, theirs on_cancel),
 * then frees.  Says nothing to the peer.  Not from within peer_recv() or
 * peer_flush(), that is, not from the ops that they call. */
void peer_free(struct peer **p);

struct peer_id peer_id(const struct peer *p);
uint64_t peer_session(const struct peer *p);
uint8_t peer_role(const struct peer *p); /* BY_* of the other */
void *peer_data(const struct peer *p);   /* the node's own, NULL at first */
void peer_set_data(struct peer *p, void *data);

/* Of PEER_GOODBYE: the reason that the peer gave, escaped, "" if none. */
const char *peer_goodbye(const struct peer *p);

enum peer_verdict {
    PEER_FINE,
    PEER_STRIKE,  /* the frame broke a rule and was dropped */
    PEER_GOODBYE, /* the peer says the session is over */
    PEER_OUT      /* too many strikes: end the session */
};

/* Take in a checked frame of this session.  Never frees the peer. */
MUST_CHECK enum peer_verdict peer_recv(struct peer *p, const struct frame *f,
                                       const struct frame_header *h,
                                       int64_t now_us);

/* Send what is ready, end calls past their deadline. */
void peer_flush(struct peer *p, int64_t now_us);

/* When peer_flush() is next needed: resends, acks, deadlines; 0: now. */
int64_t peer_due(const struct peer *p);

/* Call the peer.  tag comes back in on_reply and on_end.  deadline_ms = 0:
 * none.  ST_RESOURCE_EXHAUSTED: no room now, ST_INVALID_ARGUMENT: over the
 * method's cap, ST_UNAVAILABLE: within peer_free(); nothing was queued, no
 * on_end follows.  *call may be NULL. */
MUST_CHECK enum status peer_call(struct peer *p, enum method m,
                                 const ProtobufCMessage *request,
                                 uint32_t deadline_ms, uint64_t tag,
                                 uint64_t *call);

/* How many more may be open before peer_call() finds no room for them. */
uint32_t peer_calls_left(const struct peer *p);

/* Ask whether the peer is there (Health/Check): it answers whatever it is
 * busy with, and nobody is told, as what counts is that something came.
 * False: an older one is open yet, or there is no room. */
bool peer_ping(struct peer *p);

/* Give up our call: on_end follows at once with CANCELLED. */
void peer_cancel(struct peer *p, uint64_t call);

MUST_CHECK enum status peer_oneway(struct peer *p, enum method m,
                                   const ProtobufCMessage *message);

/* The same with a tensor of 4 .. tensor_cap bytes (common/wire/method.h), a
 * multiple of 4, else ST_INVALID_ARGUMENT.  It is copied. */
MUST_CHECK enum status peer_oneway_tensor(struct peer *p, enum method m,
                                          const ProtobufCMessage *message,
                                          const void *tensor,
                                          uint32_t tensor_bytes);

/* Within on_call: the tensor that came with the message, in the frame, aligned
 * to 16 and borrowed until on_call returns; NULL and 0 if it had none. */
const void *peer_tensor(const struct peer *p, uint32_t *bytes);

/* One message of their stream.  ST_NOT_FOUND: the call is no longer open;
 * ST_RESOURCE_EXHAUSTED: no room now, nothing was queued. */
MUST_CHECK enum status peer_reply(struct peer *p, uint64_t call,
                                  const ProtobufCMessage *reply);

/* End their call; a no-op if it is no longer open.  Never lacks room. */
void peer_end(struct peer *p, uint64_t call, const ProtobufCMessage *reply);
void peer_fail(struct peer *p, uint64_t call, const struct error *e,
               uint32_t retry_after_ms);

/* Bytes that a reply or a submit may still take. */
size_t peer_room(const struct peer *p, enum lane lane);

/* As link_queued() and link_taken(). */
uint64_t peer_queued(const struct peer *p, enum lane lane);
uint64_t peer_taken(const struct peer *p, enum lane lane);

#endif
