/* peer.h - One session with one peer: its link and the calls on it.
 *
 * Calls have gRPC's semantics: unary or server-streaming, a deadline carried
 * as time remaining, cancellation by the caller, and a final status with a
 * sentence.  Either end may call the other if the method's row allows it.
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
 * this method at this size.  A call of a method that is not built is answered
 * UNIMPLEMENTED here.  A deadline that passes ends the call at both ends with
 * DEADLINE_EXCEEDED; the server sees on_cancel.
 *
 * These break a rule and count as a strike:
 * - a frame that the link refuses (common/wire/link.h), for example with a
 *   tensor that the method may not carry;
 * - a kind in the wrong lane;
 * - a method of another role, or a body over its cap; such calls are answered
 *   all the same;
 * - the number of a call that is already open;
 * - a oneway that does not parse.
 *
 * These are no strike:
 * - an unknown method or kind: a newer minor version has more;
 * - a call whose body does not parse (INVALID_ARGUMENT);
 * - an answer to a closed call: it crossed our Cancel.
 *
 * Threading: the node's.  Memory: messages passed to the ops live until the
 * ops return.  Limits: PEER_CALLS_MAX open calls each way; PEER_STRIKES
 * frames that break a rule end the session. */
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

/* Callbacks of a peer.  on_call, on_cancel, on_reply and on_dirty may be
 * NULL, for a node that serves nothing, calls no stream or flushes in every
 * tick. */
struct peer_ops {
    /* A call or a oneway (call = 0) arrived.  deadline_us is absolute,
     * NODE_IDLE if there is none.  Answer with peer_reply/peer_end, now or
     * later. */
    void (*on_call)(void *node, struct peer *p, const struct method_row *m,
                    uint64_t call, int64_t deadline_us,
                    const ProtobufCMessage *request);
    /* The peer's call ended without our End: cancelled, past its deadline, or
     * the peer is gone.  The call is already closed. */
    void (*on_cancel)(void *node, struct peer *p, uint64_t call);
    /* One message of a stream that we called. */
    void (*on_reply)(void *node, struct peer *p, uint64_t tag,
                     const struct method_row *m, const ProtobufCMessage *reply);
    /* Our call ended.  reply: the reply of a unary call that succeeded, else
     * NULL.  e: the error, NULL if OK.  peer_free() also ends every open call
     * (UNAVAILABLE). */
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
    const struct link_limits
        *limits;         /* NULL: the default; borrowed for peer_new() */
    struct arena *arena; /* the node's, shared by its peers; each on_* is done
                            with its message before the next is read */
};

/* Makes a peer; NULL without memory. */
struct peer *peer_new(const struct peer_config *c);

/* Frees the peer.  First ends all open calls through the ops: ours
 * UNAVAILABLE, the peer's by on_cancel.  Sends nothing.  Not allowed within
 * peer_recv() or peer_flush(), that is, from the ops that they call. */
void peer_free(struct peer **p);

struct peer_id peer_id(const struct peer *p);
uint64_t peer_session(const struct peer *p);
uint8_t
peer_role(const struct peer *p); /* Returns the BY_* of the other end. */
void *peer_data(
    const struct peer *p); /* Returns the node's own pointer, initially NULL. */
void peer_set_data(struct peer *p, void *data);

/* Returns the reason that came with PEER_GOODBYE, "" if none.  Bytes that do
 * not print are '?'. */
const char *peer_goodbye(const struct peer *p);

enum peer_verdict {
    PEER_FINE,
    PEER_STRIKE,  /* the frame broke a rule and was dropped */
    PEER_GOODBYE, /* the peer ended the session */
    PEER_OUT      /* too many strikes: end the session */
};

/* Receives a checked frame of this session.  Never frees the peer. */
MUST_CHECK enum peer_verdict peer_recv(struct peer *p, const struct frame *f,
                                       const struct frame_header *h,
                                       int64_t now_us);

/* Sends what is ready and ends calls past their deadline. */
void peer_flush(struct peer *p, int64_t now_us);

/* Returns whether the link has given up (common/wire/link.h): the peer has
 * acknowledged nothing for LINK_UNACKED_US, and the node ends the session. */
bool peer_gave_up(const struct peer *p);

/* Returns when peer_flush() is next needed for resends, acks and deadlines;
 * 0: now. */
int64_t peer_due(const struct peer *p);

/* Calls the peer.  tag comes back in on_reply and on_end.  deadline_ms = 0
 * means none.  Returns ST_RESOURCE_EXHAUSTED if there is no room now,
 * ST_INVALID_ARGUMENT over the method's cap, ST_UNAVAILABLE within
 * peer_free(). After an error nothing is queued and no on_end follows.  *call
 * may be NULL. */
MUST_CHECK enum status peer_call(struct peer *p, enum method m,
                                 const ProtobufCMessage *request,
                                 uint32_t deadline_ms, uint64_t tag,
                                 uint64_t *call);

/* Returns how many more calls may be opened before peer_call() lacks room. */
uint32_t peer_calls_left(const struct peer *p);

/* Sends a ping (Health/Check), which a peer answers even when it is busy.  No
 * op reports the answer: any frame that arrives counts.  Returns false if an
 * older ping is open or there is no room. */
bool peer_ping(struct peer *p);

/* Cancels our call.  on_end follows at once with CANCELLED. */
void peer_cancel(struct peer *p, uint64_t call);

MUST_CHECK enum status peer_oneway(struct peer *p, enum method m,
                                   const ProtobufCMessage *message);

/* Sends a oneway with a tensor of 4 .. tensor_cap bytes
 * (common/wire/method.h), a multiple of 4, else returns ST_INVALID_ARGUMENT.
 * The tensor is copied. */
MUST_CHECK enum status peer_oneway_tensor(struct peer *p, enum method m,
                                          const ProtobufCMessage *message,
                                          const void *tensor,
                                          uint32_t tensor_bytes);

/* Returns, within on_call, the tensor that came with the message: inside the
 * frame, aligned to 16, borrowed until on_call returns.  NULL and 0 if the
 * message had none. */
const void *peer_tensor(const struct peer *p, uint32_t *bytes);

/* Sends one message of a stream that the peer called.  Returns ST_NOT_FOUND
 * if the call is no longer open, ST_RESOURCE_EXHAUSTED if there is no room
 * now; nothing was queued. */
MUST_CHECK enum status peer_reply(struct peer *p, uint64_t call,
                                  const ProtobufCMessage *reply);

/* Ends the peer's call; a no-op if it is no longer open.  Never lacks room. */
void peer_end(struct peer *p, uint64_t call, const ProtobufCMessage *reply);
void peer_fail(struct peer *p, uint64_t call, const struct error *e,
               uint32_t retry_after_ms);

/* Returns the bytes that a reply or a submit may still take. */
size_t peer_room(const struct peer *p, enum lane lane);

/* Returns what link_queued() and link_taken() return. */
uint64_t peer_queued(const struct peer *p, enum lane lane);
uint64_t peer_taken(const struct peer *p, enum lane lane);

#endif
