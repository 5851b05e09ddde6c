/* frame.h - Frames, the unit that crosses a socket.
 *
 *     header (64 bytes) | envelopes | padding to 64 | tensor bytes
 *
 * The padding consists of zeros and is present only before a tensor. All
 * integers are little-endian.  The header:
 *
 *      0  u32  magic            "SLUC"
 *      4  u16  version          FRAME_VERSION
 *      6  u16  flags            FRAME_GAP
 *      8  u16  n_ordered        envelopes of ordered traffic, first
 *     10  u16  n_state          envelopes of state traffic, after them
 *     12  u32  envelopes_bytes
 *     16  u32  tensor_bytes
 *     20  u32  zero
 *     24  u64  session          0 before Hello is answered
 *     32  u64  number           of the ordered part, from 1; 0: no such part
 *     40  u64  ack              highest number received without a gap
 *     48  u64  zero
 *     56  u64  checksum         XXH3-64 of the whole frame, these 8 bytes 0
 *
 * An envelope: u64 call, u32 body_bytes, u32 deadline_ms (time remaining, 0:
 * none), u16 method, u8 kind, u8 status, u32 zero.  The body follows, a
 * protobuf message without padding.
 *
 * Threading: none.  A frame has one owner, or several owners in any threads
 * that only read it (frame_share).  Memory: frame_new/frame_free on the heap.
 * Limits: FRAME_BYTES_MAX, FRAME_TENSOR_MAX, FRAME_ENVELOPES_MAX. */
#ifndef COMMON_WIRE_FRAME_H
#define COMMON_WIRE_FRAME_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/status.h"
#include "proto/limits.h"

#define FRAME_MAGIC     0x43554c53u
#define FRAME_VERSION   1
#define FRAME_HEADER    64
#define ENVELOPE_HEADER 24

#define FRAME_GAP 1u /* frames after `ack` were lost: resend now */

struct frame {
    size_t room; /* bytes allocated; frame_free() returns them */
    uint32_t bytes;
    atomic_uint owners;
    alignas(16) uint8_t data[]; /* [bytes] */
};

struct frame_header {
    uint16_t flags;
    uint16_t n_ordered, n_state;
    uint32_t envelopes_bytes, tensor_bytes;
    uint64_t session, number, ack;
};

enum envelope_kind {
    ENVELOPE_CALL = 1,   /* method, deadline, request */
    ENVELOPE_REPLY = 2,  /* one message of a stream */
    ENVELOPE_END = 3,    /* status; OK: the reply, or nothing after a stream;
                            otherwise a Failure */
    ENVELOPE_CANCEL = 4, /* sent by the caller */
    ENVELOPE_ONEWAY = 5  /* method, request; call is 0 */
};

struct envelope {
    uint64_t call;
    uint32_t deadline_ms;
    uint16_t method;
    uint8_t kind;
    uint8_t status;
    uint32_t body_bytes;
    const uint8_t *body; /* [body_bytes], borrowed */
};

/* Allocates a frame; its bytes are undefined.  This and the others that make a
 * frame return NULL without memory. */
struct frame *frame_new(uint32_t bytes);
void frame_free(struct frame **f);
struct frame *frame_copy(const struct frame *f);

/* Adds an owner, who frees the frame too.  From then on no owner writes to
 * it. */
struct frame *frame_share(struct frame *f);

/* Makes a frame from encoded envelopes, as envelope_write() makes them, and
 * seals it with its checksum. */
struct frame *frame_make(const struct frame_header *h, const uint8_t *envelopes,
                         const void *tensor);

/* Sets header and checksum of a frame in place.  f has frame_bytes() bytes,
 * with the envelopes, and the tensor if there is one, already written. */
void frame_seal(struct frame *f, const struct frame_header *h);

/* Returns the length of a frame with these parts. */
uint32_t frame_bytes(uint32_t envelopes_bytes, uint32_t tensor_bytes);

/* Returns the offset of the tensor in data, aligned to 16. */
size_t frame_tensor_at(const struct frame_header *h);

/* Checks everything that needs no session: size, magic, version, counts,
 * zeros, lengths, checksum.  Returns ST_DATA_LOSS for a wrong checksum,
 * ST_FAILED_PRECONDITION for another version, ST_INVALID_ARGUMENT otherwise. */
MUST_CHECK enum status frame_check(const uint8_t *data, size_t bytes,
                                   struct frame_header *h, struct error *e);

/* Recomputes ack, flags and checksum of a frame that is sent again. */
void frame_reseal(struct frame *f, uint64_t ack, uint16_t flags);

/* Walks a checked frame: *at starts at 0 and moves past one envelope. Returns
 * false at the end, or if the rest is no envelope (then *at <
 * envelopes_bytes). */
bool envelope_next(const struct frame *f, const struct frame_header *h,
                   uint32_t *at, struct envelope *out);

/* Returns the number of calls among the envelopes of a checked frame. */
uint32_t frame_calls(const struct frame *f, const struct frame_header *h);

/* Writes ENVELOPE_HEADER + e->body_bytes bytes to out and returns that
 * number. */
size_t envelope_write(uint8_t *out, const struct envelope *e);

/* Writes only the header and returns where the body goes. */
uint8_t *envelope_head(uint8_t *out, const struct envelope *e);

#endif
