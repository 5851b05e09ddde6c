/* hello.h - Frames outside a session: Hello, its answer, Goodbye.
 *
 * The listening side (router, worker) checks a Hello, answers it, and answers
 * frames of unknown sessions with Goodbye.  common/wire/session.h is the side
 * that sends Hello.
 *
 * Threading: none.  Memory: frames are the caller's. */
#ifndef COMMON_WIRE_HELLO_H
#define COMMON_WIRE_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#include "common/wire/frame.h"
#include "common/wire/node_io.h"
#include "common/wire/wire.h"
#include "proto/limits.h"

/* The protocol version in Hello. */
#define WIRE_VERSION_MAJOR 1
#define WIRE_VERSION_MINOR 8

/* First minor version with window blocks: shards with window layers need it at
 * both ends. */
#define WIRE_WINDOWS_MINOR 4

/* First minor version with draw_index and draw_choice: an older worker draws
 * from index 0 of the sequence's own choice. */
#define WIRE_DRAWS_MINOR 7

/* Makes a frame outside a session: a Hello call and its answer (session 0),
 * and a Goodbye for `session`.  None of them is ordered traffic.
 * hello_answer() puts `session` into the reply; if `refused` is set, reply is
 * ignored. */
struct frame *hello_make(const ProtobufCMessage *request);
struct frame *hello_answer(uint64_t session, const ProtobufCMessage *reply,
                           const struct error *refused,
                           uint32_t retry_after_ms);
struct frame *goodbye_make(uint64_t session, const char *reason);

/* Sends such a frame.  One that had no memory, NULL, counts as lost on the way:
 * a Hello comes again. */
void hello_send(struct node_io *io, struct peer_id to, struct frame **f);

/* Parses a checked frame with a single envelope, of state traffic: a Hello
 * call, the End of a Hello, or a Goodbye.  Returns false for any other
 * frame. */
bool hello_is_call(const struct frame *f, const struct frame_header *h,
                   struct envelope *out);
bool hello_is_answer(const struct frame *f, const struct frame_header *h,
                     struct envelope *out);
bool hello_is_goodbye(const struct frame *f, const struct frame_header *h,
                      struct envelope *out);

/* Reads the Failure in a body: sets *e to `status` and its sentence.  Never
 * fails: a body that does not parse gives the status' own text. */
void failure_read(struct arena *a, const struct envelope *end, struct error *e,
                  uint32_t *retry_after_ms);

/* Checks a HelloRequest: the major version is ours, the role is valid (then
 * *role is its BY_*), the name is valid.  me names the refusing side: "this
 * router". */
MUST_CHECK enum status hello_check(const ProtobufCMessage *hello_request,
                                   const char *me, uint8_t *role,
                                   struct error *e);

/* Returns the minor version of a session with a peer that sent `theirs` in
 * Hello: the lower one. */
static inline uint32_t hello_minor(uint32_t theirs)
{
    return theirs < WIRE_VERSION_MINOR ? theirs : WIRE_VERSION_MINOR;
}

/* Returns a new session number. */
uint64_t hello_session(struct node_io *io);

/* Answers a frame of an unknown session with Goodbye, so that its sender
 * frees the session and sends Hello again.  A Goodbye is not answered: two
 * ends could otherwise exchange Goodbyes for ever. */
void hello_foreign(struct node_io *io, struct peer_id from,
                   const struct frame *f, const struct frame_header *h);

#endif
