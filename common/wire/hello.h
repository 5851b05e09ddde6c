/* hello.h - what is said outside a session: Hello, its answer, Goodbye.
 *
 * Whoever listens (router, worker) judges a Hello, answers it, and answers
 * frames of sessions that are not with Goodbye; common/wire/session.h is the
 * side that says Hello.
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

/* The version that Hello speaks of. */
#define WIRE_VERSION_MAJOR 1
#define WIRE_VERSION_MINOR 0

/* Frames outside a session: a Hello call and its answer (session 0), and a
 * Goodbye for `session`.  None of them is ordered traffic.  hello_answer()
 * puts `session` into the reply; refused: the reply is not looked at. */
struct frame *hello_make(const ProtobufCMessage *request);
struct frame *hello_answer(uint64_t session, const ProtobufCMessage *reply,
                           const struct error *refused,
                           uint32_t retry_after_ms);
struct frame *goodbye_make(uint64_t session, const char *reason);

/* The one envelope of a checked frame that is such a frame: a Hello call, an
 * End of Hello, or a Goodbye.  False: it is something else. */
bool hello_is_call(const struct frame *f, const struct frame_header *h,
                   struct envelope *out);
bool hello_is_answer(const struct frame *f, const struct frame_header *h,
                     struct envelope *out);
bool hello_is_goodbye(const struct frame *f, const struct frame_header *h,
                      struct envelope *out);

/* The Failure in a body: sets *e to `status` and its sentence.  Always
 * succeeds: what does not parse has the status' own text. */
void failure_read(struct arena *a, const struct envelope *end, struct error *e,
                  uint32_t *retry_after_ms);

/* Of a HelloRequest: its version is ours, its role is one (then *role is its
 * BY_*), its name is one.  me says who refuses: "this router". */
MUST_CHECK enum status hello_check(const ProtobufCMessage *hello_request,
                                   const char *me, uint8_t *role,
                                   struct error *e);

/* A number for a new session. */
uint64_t hello_session(struct node_io *io);

/* Answer a frame of a session that is not: its sender is told, so that it
 * frees all and says Hello again.  A Goodbye is not answered, or two ends could
 * go on for ever. */
void hello_foreign(struct node_io *io, struct peer_id from,
                   const struct frame *f, const struct frame_header *h);

#endif
