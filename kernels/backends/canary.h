/* canary.h - is a device's arithmetic right, before it is trusted?
 *
 * A few fixed tokens go through the shard's first layer of each kind, its MLP
 * and the head, as a prompt row and then as generated rows, on the backend and
 * on the cpu backend over the same weights.  The residual streams agree within
 * CANARY_BOUND of the largest value, logits too; and done a second time on the
 * device all bits are the same.
 *
 * Uses block 0 and the next ones of the pool, and slot 0: before anything else
 * does.  Threading: as kernels.h.  Memory: a cpu backend for a few tokens. */
#ifndef KERNELS_BACKENDS_CANARY_H
#define KERNELS_BACKENDS_CANARY_H

#include "kernels/kernels.h"

#define CANARY_TOKENS 20   /* of the prompt row; two more are generated */
#define CANARY_BOUND  0.03 /* a bf16 operand is within 2^-9 of its value */

/* k has its pool, at least a sequence of CANARY_TOKENS + 2 or of the model's
 * context; o is what k was made with.  ST_DATA_LOSS: it computes wrongly, with
 * where and how much; ST_UNAVAILABLE: it failed. */
MUST_CHECK enum status canary_run(struct kernels *k,
                                  const struct shard_weights *w,
                                  const struct kernels_options *o,
                                  struct error *e);

#endif
