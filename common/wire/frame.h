/* frame.h - the one unit that crosses a socket.
 *
 *     header (64 bytes) | envelopes | padding to 64 | tensor bytes
 *
 * The padding, zeros, is there only if a tensor follows.
 * All integers little-endian.  The header:
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
 *     32  u64  number           of the ordered part, from 1; 0: there is none
 *     40  u64  ack              highest number received without a gap
 *     48  u64  zero
 *     56  u64  checksum         XXH3-64 of the whole frame, these 8 bytes 0
 *
 * An envelope: u64 call, u32 body_bytes, u32 deadline_ms (time remaining, 0:
 * none), u16 method, u8 kind, u8 status, u32 zero; then the body, a protobuf
 * message, unpadded.
 *
 * Threading: none; a frame has one owner, or several that only read it
 * (frame_share), in whatever threads.  Memory: frame_new/frame_free on the
 * heap.  Limits: FRAME_BYTES_MAX, FRAME_TENSOR_MAX, FRAME_ENVELOPES_MAX. */
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

#define FRAME_GAP 1u /* what follows `ack` was lost: send it again now */

struct frame {
    size_t room; /* of its memory: frame_free() gives it back */
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
                          * else a Failure */
    ENVELOPE_CANCEL = 4, /* by the caller */
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

/* bytes in use are undefined; aborts when memory is out. */
struct frame *frame_new(uint32_t bytes);
void frame_free(struct frame **f);
struct frame *frame_copy(const struct frame *f);

/* One more owner, who frees it too; from now on nobody writes to it. */
struct frame *frame_share(struct frame *f);

/* A whole frame of encoded envelopes (as envelope_write makes them), sealed
 * with its checksum. */
struct frame *frame_make(const struct frame_header *h, const uint8_t *envelopes,
                         const void *tensor);

/* As frame_make(), in place: in f of frame_bytes() the envelopes, and the
 * tensor if there is one, stand already. */
void frame_seal(struct frame *f, const struct frame_header *h);

/* How long a frame of so much is. */
uint32_t frame_bytes(uint32_t envelopes_bytes, uint32_t tensor_bytes);

/* Where in its data the tensor stands: aligned to 16, of a frame_new(). */
size_t frame_tensor_at(const struct frame_header *h);

/* Check everything that can be checked without a session: size, magic,
 * version, counts, zeros, lengths, checksum.  ST_DATA_LOSS: a damaged frame
 * (checksum); ST_FAILED_PRECONDITION: another version; ST_INVALID_ARGUMENT:
 * any other. */
MUST_CHECK enum status frame_check(const uint8_t *data, size_t bytes,
                                   struct frame_header *h, struct error *e);

/* Recompute ack, flags and checksum of a frame that is sent again. */
void frame_reseal(struct frame *f, uint64_t ack, uint16_t flags);

/* Walk a checked frame: *at starts at 0 and moves past one envelope; false
 * when there is none or what is left is not one (then *at < envelopes_bytes).
 */
bool envelope_next(const struct frame *f, const struct frame_header *h,
                   uint32_t *at, struct envelope *out);

/* ENVELOPE_HEADER + e->body_bytes bytes at out. */
size_t envelope_write(uint8_t *out, const struct envelope *e);

/* Only the header; returns where the body goes. */
uint8_t *envelope_head(uint8_t *out, const struct envelope *e);

#endif
