/* load.h - a shard's slices, read and hashed by some threads.
 *
 * Each slice is read in pieces of at most LOAD_PIECE bytes straight to its
 * place; what becomes float32 is widened there afterwards, so no second copy
 * exists at any time.  Every byte is hashed as it comes, and so are the
 * model's tensors that the shard does not keep: fingerprint.h says why.
 *
 * Threading: starts and joins its own.  Memory: 40 bytes a piece, LOAD_STEP a
 * thread. */
#ifndef WORKER_MODEL_LOAD_H
#define WORKER_MODEL_LOAD_H

#include "common/model/layout.h"
#include "worker/model/shard.h"

#define LOAD_PIECE   8388608
#define LOAD_STEP    262144
#define LOAD_THREADS 4

struct load_plan {
    const struct checkpoint *checkpoint;
    const int *fds; /* as checkpoint_open_files() gave them */
    const struct layout *shard, *model; /* the same: all else is known */
    char *memory;                       /* [shard->bytes] */
};

/* Of a tensor's stored bytes; fingerprint.h says over what. */
struct load_digest {
    bool known;
    uint8_t bytes[16];
};

/* Read all slices of the shard into memory, and hash all tensors of the model
 * and the shard: digests is [checkpoint->n_tensors], zeroed by the caller. */
MUST_CHECK enum status load_run(const struct load_plan *p,
                                const struct shard_options *o,
                                struct load_digest *digests, struct error *e);

#endif
