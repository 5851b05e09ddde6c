/* canary.h - tests a device's arithmetic before the worker trusts the device.
 *
 * A few fixed tokens run through the shard's first layer of each kind (mixer
 * and feed-forward) and the head: first as a prompt row, then as generated
 * rows.  On the backend under test they run twice: as a step runs them, and
 * with a read of x between the mixer and the feed-forward.  Both must give the
 * same bits. Then each operator runs on the cpu backend, over the same weights,
 * from the x that it had on the device.  Each residual stream and the logits
 * must agree within CANARY_BOUND of a token's largest value.
 *
 * A window layer runs at positions where its window no longer sees the first
 * block, if the context is long enough; the blocks before are one page of
 * pseudo-random values.
 *
 * With a quantised KV cache, a value beside the border of two codes may get one
 * on the device and the other on the cpu, however well both compute.  It is
 * then a step of the codec apart.  Few values are, so a quarter of a step is
 * added to the bound.
 *
 * A shard with an MTP layer runs it too, from the x after the last layer, with
 * its own input and head.  If the backend keeps inputs, rows with drafts must
 * have the bits of rows without, and so must the slot after a replay
 * (canary_replay.h).
 *
 * The run uses the pool's first pages, the slot, then the blocks, then the
 * window blocks, so it must come before any other use.
 *
 * Threading: as kernels.h.  Memory: a cpu backend for a few tokens. */
#ifndef KERNELS_BACKENDS_CANARY_H
#define KERNELS_BACKENDS_CANARY_H

#include "kernels/kernels.h"

#define CANARY_TOKENS 20   /* prompt tokens; two more are generated */
#define CANARY_BOUND  0.03 /* a bf16 operand is within 2^-9 of its value */

/* Returns the bound with a KV format. */
double canary_bound(const struct kv_format *kv);

/* Runs the test on k.  Its pool must be allocated and hold at least one
 * sequence of CANARY_TOKENS + 2 tokens, or of the model's context if that is
 * shorter, and with window layers a page more; o holds the options that k was
 * made with.  Returns ST_DATA_LOSS and a text with the place and the difference
 * if the device computes wrongly, ST_UNAVAILABLE if the device fails. */
MUST_CHECK enum status canary_run(struct kernels *k,
                                  const struct shard_weights *w,
                                  const struct kernels_options *o,
                                  struct error *e);

#endif
