/* link.h - frames of one session, both ways: numbers, acknowledgement,
 * resending.  Pure: told the time, asked for frames.
 *
 * Ordered traffic (calls, replies, ends, cancels, SubmitPart) is delivered
 * once and in order: a sealed frame stays in a ring until acknowledged and is
 * sent again after LINK_RESEND_US without progress (doubling up to
 * LINK_RESEND_MAX_US), or at once when the peer reports a gap.  A frame that
 * is ahead of the next number is dropped and answered with FRAME_GAP.  State
 * traffic (LANE_STATE) is not resent: the newest of each method replaces one
 * that still waits, and a late or doubled one is delivered as it comes (its
 * body carries what tells old from new).
 *
 * An envelope with a tensor (STAGE_FORWARD's alone: common/wire/method.h) is
 * control traffic like any other, but travels alone in its frame: what was
 * queued before it is sealed before it, what was queued after it after it.  The
 * tensor is copied once, by whoever queues it, into the frame that waits, is
 * sent and stays in the ring; each resending copies it.
 *
 * The outbox: control before submit; at most LINK_SUBMIT_WINDOW bytes of
 * submit envelopes are sealed and unacknowledged.  A frame takes all that is
 * ready, up to LINK_SEAL_BYTES (one larger envelope goes alone).
 *
 * Threading: none.  Memory: grows to its limits and is kept. */
#ifndef COMMON_WIRE_LINK_H
#define COMMON_WIRE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/wire/frame.h"
#include "common/wire/method.h"

#define LINK_RING_FRAMES   64
#define LINK_OUTBOX_BYTES  (2u << 20) /* of one lane, waiting */
#define LINK_SEAL_BYTES    (256u << 10)
#define LINK_SUBMIT_WINDOW (64u << 10)
#define LINK_STATE_METHODS 8
#define LINK_RESEND_US     200000
#define LINK_RESEND_MAX_US 2000000
#define LINK_ACK_DELAY_US  10000 /* an ack with nothing to ride on waits, */
#define LINK_ACK_FRAMES    16    /* unless so many frames wait for it */
#define LINK_RING_BYTES    (2u << 20) /* unacknowledged: seal no more */
#define LINK_GAP_US        50000      /* a gap is reported and heeded once in */
#define LINK_HOLD_US       5000       /* after a frame that could not be sent */
#define LINK_TENSORS_MAX   16         /* waiting */
/* A frame with a tensor is on its way for longer: a resend waits for what is
 * not acknowledged of tensors at this rate, half a gigabit a second. */
#define LINK_TENSOR_BYTES_US 64

struct link;

/* What waits and what is not acknowledged; the last that is let in may go
 * past ring_bytes. */
struct link_limits {
    size_t outbox_bytes; /* of one lane; of control with its tensors */
    size_t ring_bytes;   /* seal no more */
};

/* LINK_OUTBOX_BYTES, LINK_RING_BYTES. */
extern const struct link_limits link_limits_usual;

/* The same, and room for n tensors of at most tensor_bytes in each. */
struct link_limits link_limits_tensors(uint32_t n, uint32_t tensor_bytes);

/* limits NULL: the usual. */
struct link *link_new(uint64_t session, const struct link_limits *limits);
void link_free(struct link **l);

/* Queue one envelope; its body is copied.  ST_RESOURCE_EXHAUSTED if the lane
 * is full; an ENVELOPE_END is always taken (calls are bounded). */
MUST_CHECK enum status link_push(struct link *l, enum lane lane,
                                 const struct envelope *e);

/* As link_push(), but without e->body: returns where the caller writes the
 * e->body_bytes bytes of it before the next call, NULL if the lane is full. */
uint8_t *link_put(struct link *l, enum lane lane, const struct envelope *e);

/* As link_put() to LANE_CONTROL, of an envelope with a tensor of tensor_bytes:
 * *tensor is where they go, before the next call. */
uint8_t *link_put_tensor(struct link *l, const struct envelope *e,
                         uint32_t tensor_bytes, uint8_t **tensor);

/* Bytes that LANE_CONTROL or LANE_SUBMIT still takes. */
size_t link_room(const struct link *l, enum lane lane);

/* Envelopes that LANE_CONTROL or LANE_SUBMIT was ever given; and how many of
 * them, the first ones, have gone into a frame: the others never left. */
uint64_t link_queued(const struct link *l, enum lane lane);
uint64_t link_taken(const struct link *l, enum lane lane);

/* The next frame to send now, or NULL.  Call until NULL. */
struct frame *link_pop(struct link *l, int64_t now_us);

/* The frame last popped could not be sent: the transport has no room.  What
 * is ordered in it goes again after LINK_HOLD_US; so long nothing is popped,
 * and the newest state goes on replacing the older. */
void link_unsent(struct link *l, int64_t now_us);

/* When link_pop() next has something without a push or a frame coming: 0 if
 * it has already, INT64_MAX if never. */
int64_t link_due(const struct link *l);

typedef void link_deliver_fn(void *arg, const struct envelope *e, bool ordered);

/* Take in a frame that frame_check() passed and whose session is this one;
 * calls deliver for each envelope that is new, in order.  Returns false if
 * the frame breaks a rule (an ack of what was never sent, an envelope cut
 * short, a tensor that is no whole number of float32, over the cap of its
 * method, or in a frame that has anything but the one oneway that may have
 * it): a strike.  deliver may push, and must not free the link. */
MUST_CHECK bool link_recv(struct link *l, const struct frame *f,
                          const struct frame_header *h, int64_t now_us,
                          link_deliver_fn *deliver, void *arg);

struct link_counts {
    uint64_t sealed, resent, duplicates, gaps;
};

const struct link_counts *link_counts(const struct link *l);

#endif
