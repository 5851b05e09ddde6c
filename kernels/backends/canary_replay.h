/* canary_replay.h - the part of the canary for rows with drafts.
 *
 * A prompt and a few generated tokens run through one linear layer twice: with
 * a row for each generated token, and with one row that keeps its inputs, which
 * are then replayed.  Outputs and the slot must have the same bits, since only
 * then are drafts exact.
 *
 * Threading: as kernels.h.  Memory: the results of both runs. */
#ifndef KERNELS_BACKENDS_CANARY_REPLAY_H
#define KERNELS_BACKENDS_CANARY_REPLAY_H

#include "kernels/kernels.h"

struct canary_replay {
    const struct shard_weights *w;
    enum dtype kv_dtype;
    const float *in;        /* [n_prompt + n, H] of the layer */
    const uint32_t *blocks; /* unused by the layer, but steps name them */
    uint32_t slot;          /* its contents are lost */
    uint32_t layer;         /* one of the shard with a slot */
    uint32_t n_prompt, n;   /* n: generated tokens, at most keep_tokens */
};

/* Runs both ways on k.  Returns ST_DATA_LOSS if their bits differ,
 * ST_RESOURCE_EXHAUSTED if memory is short, or the device's failure. */
MUST_CHECK enum status canary_replay_check(const struct canary_replay *r,
                                           struct kernels *k, struct error *e);

#endif
