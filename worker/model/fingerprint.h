/* fingerprint.h - which model this is, in 16 bytes: every byte of it counts.
 *
 * The canonical (big-endian) XXH3-128 of
 *
 *     the configuration that computing depends on, as fingerprint.c prints it
 *     for every tensor that layout_of_model() uses, in byte order of its key
 *     (checkpoint.h):
 *         key | 0 | dtype's name | 0
 *         u64 rank, rank u64 dimensions, u64 bytes         little-endian
 *         its digest: the canonical XXH3-128 of the canonical XXH3-128s of
 *         its pieces, in order.  A piece is LOAD_PIECE (8 MiB) bytes of a
 *         slice (layout.h: the tensor, or a key head's part of a grouped
 *         one), the last one of a slice what is left
 *
 * So it is the same however many threads read, however the files are split,
 * named or padded, and for all shards of one model: a shard of some layers
 * hashes the others too, and keeps nothing of them.  That costs each stage of
 * a replica the reading of the whole model, and is what lets a router tell
 * that stages belong together.  Tensors that sluice sets aside or does not
 * know have no part in it.
 *
 * What is hashed is what was read, on its way into the shard's memory.
 *
 * Threading: none.  Memory: some hundred bytes. */
#ifndef WORKER_MODEL_FINGERPRINT_H
#define WORKER_MODEL_FINGERPRINT_H

#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "worker/model/load.h"

#define FINGERPRINT_BYTES 16

/* digests [checkpoint->n_tensors] are load_run()'s. */
MUST_CHECK enum status fingerprint_make(uint8_t out[FINGERPRINT_BYTES],
                                        const struct model_config *c,
                                        const struct checkpoint *checkpoint,
                                        const struct load_digest *digests,
                                        struct error *e);

#endif
