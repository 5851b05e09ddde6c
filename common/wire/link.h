/* link.h - Frames of one session, both ways: numbers, acknowledgements,
 * resends.
 *
 * The link is pure: it receives the time and is asked for frames.
 *
 * Ordered traffic (calls, replies, ends, cancels, SubmitPart) is delivered
 * once and in order.  A sealed frame stays in a ring until it is
 * acknowledged.  It is sent again after LINK_RESEND_US without progress,
 * doubling up to LINK_RESEND_MAX_US, or at once when the peer reports a gap.
 * A frame that is ahead of the next number is dropped and answered with
 * FRAME_GAP.
 *
 * A link gives up when its resends have waited LINK_UNACKED_US without an
 * acknowledgement.  A peer that is suspended for less time is not lost.  A
 * wait counts as its own delay at most, so the time in which this process
 * was suspended itself does not count.
 *
 * State traffic (LANE_STATE) is not resent.  The newest message of each
 * method replaces one that still waits.  A late or duplicate message is
 * delivered as it comes; its body shows which one is newer.
 *
 * An envelope with a tensor (only STAGE_FORWARD: common/wire/method.h) is
 * control traffic but travels alone in its frame.  Envelopes queued before it
 * are sealed before it, envelopes queued later after it.  The caller copies
 * the tensor once, into the frame that waits, is sent and stays in the ring.
 * Each resend copies it.
 *
 * Outbox: control goes before submit, and at most LINK_SUBMIT_WINDOW bytes of
 * submit envelopes are sealed and unacknowledged.  A frame takes all that is
 * ready, up to LINK_SEAL_BYTES; one larger envelope travels alone.
 *
 * Threading: none.  Memory: grows to its limits and is kept.  Without memory
 * link_put() refuses as if the lane were full. */
#ifndef COMMON_WIRE_LINK_H
#define COMMON_WIRE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/method.h"

#define LINK_RING_FRAMES   64
#define LINK_OUTBOX_BYTES  (2u << 20) /* waiting in one lane */
#define LINK_SEAL_BYTES    (256u << 10)
#define LINK_SUBMIT_WINDOW (64u << 10)
#define LINK_STATE_METHODS 8
#define LINK_RESEND_US     200000
#define LINK_RESEND_MAX_US 2000000
#define LINK_UNACKED_US    60000000   /* twice SLOW_READER_MS */
#define LINK_ACK_DELAY_US  10000      /* delay of a bare ack, */
#define LINK_ACK_FRAMES    16         /* unless this many frames wait */
#define LINK_RING_BYTES    (2u << 20) /* unacknowledged: then seal no more */
#define LINK_GAP_US        50000      /* between two reports of a gap */
#define LINK_HOLD_US       5000       /* after a failed send */
#define LINK_TENSORS_MAX   16         /* waiting */
/* Rate assumed for a frame with a tensor, half a gigabit a second: a resend
 * first waits until the unacknowledged tensors can have passed. */
#define LINK_TENSOR_BYTES_US 64

struct link;

/* Limits on waiting and unacknowledged bytes.  The last frame accepted may
 * exceed ring_bytes. */
struct link_limits {
    size_t outbox_bytes; /* per lane; for control with its tensors */
    size_t ring_bytes;   /* unacknowledged: no more frames are sealed */
};

/* The default limits: LINK_OUTBOX_BYTES and LINK_RING_BYTES. */
extern const struct link_limits link_limits_usual;

/* Returns the default limits plus room for n tensors of at most tensor_bytes
 * in each. */
struct link_limits link_limits_tensors(uint32_t n, uint32_t tensor_bytes);

/* Allocates a link; NULL without memory.  limits NULL means the default. */
struct link *link_new(uint64_t session, const struct link_limits *limits);
void link_free(struct link **l);

/* Queues one envelope; its body is copied.  Returns ST_RESOURCE_EXHAUSTED if
 * the lane is full.  An ENVELOPE_END is always accepted, as calls are
 * bounded. */
MUST_CHECK enum status link_push(struct link *l, enum lane lane,
                                 const struct envelope *e);

/* Puts an envelope without e->body in the lane.  Returns where the caller
 * writes the e->body_bytes bytes before the next call, NULL if the lane is
 * full. */
uint8_t *link_put(struct link *l, enum lane lane, const struct envelope *e);

/* Puts an envelope with a tensor of tensor_bytes in LANE_CONTROL, as
 * link_put() does.  *tensor is where the caller writes the tensor before the
 * next call. */
uint8_t *link_put_tensor(struct link *l, const struct envelope *e,
                         uint32_t tensor_bytes, uint8_t **tensor);

/* Returns the bytes that LANE_CONTROL or LANE_SUBMIT still accepts. */
size_t link_room(const struct link *l, enum lane lane);

/* Returns how many envelopes LANE_CONTROL or LANE_SUBMIT was ever given.
 * link_taken() returns how many of them, the first ones, have gone into a
 * frame; the others were never sent. */
uint64_t link_queued(const struct link *l, enum lane lane);
uint64_t link_taken(const struct link *l, enum lane lane);

/* Pops the next frame to send now, or returns NULL.  Call until NULL. */
struct frame *link_pop(struct link *l, int64_t now_us);

/* Reports that the transport had no room for the frame last popped.  The
 * ordered part is sent again after LINK_HOLD_US.  Until then nothing is
 * popped, and newer state continues to replace older state. */
void link_unsent(struct link *l, int64_t now_us);

/* Returns when link_pop() next has a frame if nothing is pushed or received:
 * 0 if now, INT64_MAX if never. */
int64_t link_due(const struct link *l);

typedef void link_deliver_fn(void *arg, const struct envelope *e, bool ordered);

/* Receives a frame of this session that passed frame_check().  Calls deliver
 * for each new envelope, in order; deliver may push but must not free the
 * link. Returns false, a strike, if the frame breaks a rule: an ack of a
 * frame that was never sent, an envelope cut short, or a tensor that is no
 * whole number of float32, exceeds the cap of its method, or is not alone
 * with the one oneway that may carry it. */
MUST_CHECK bool link_recv(struct link *l, const struct frame *f,
                          const struct frame_header *h, int64_t now_us,
                          link_deliver_fn *deliver, void *arg);

/* Returns whether the link has given up, or had no memory for an envelope that
 * is always accepted: nothing more is popped, and the owner ends the session.
 * No other lack of memory ends a link: a frame that cannot be made is tried
 * again after LINK_HOLD_US. */
bool link_gave_up(const struct link *l);

struct link_counts {
    uint64_t sealed, resent, duplicates, gaps;
};

const struct link_counts *link_counts(const struct link *l);

#endif
