/* load.h - Reads and hashes a shard's slices with several threads.
 *
 * Each slice is read in pieces of at most LOAD_PIECE bytes straight to its
 * place. Vectors that become float32 are widened there afterwards, so no second
 * copy exists at any time.  Scales of FP8 blocks are read to a scratch, 1/16384
 * of their weights, and copied to each row.  A NaN among FP8 values or E8M0
 * scales is ST_DATA_LOSS.  Every byte is hashed as it is read, and so are the
 * model's tensors that the shard does not keep (fingerprint.h has the reason).
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
    const int *fds;                     /* from checkpoint_open_files() */
    const struct layout *shard, *model; /* equal: hash only the shard */
    char *memory;                       /* [shard->bytes] */
};

/* The digest of a tensor's stored bytes, as fingerprint.h defines it. */
struct load_digest {
    bool known;
    uint8_t bytes[16];
};

/* Reads all slices of the shard into memory, and hashes all tensors of the
 * model and the shard.  digests: [checkpoint->n_tensors], zeroed by the caller.
 * Returns the first error of any thread. */
MUST_CHECK enum status load_run(const struct load_plan *p,
                                const struct shard_options *o,
                                struct load_digest *digests, struct error *e);

#endif
