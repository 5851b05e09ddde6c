/* fingerprint.h - A 16-byte identity of a model; every byte of its weights
 * counts.
 *
 * The fingerprint is the canonical (big-endian) XXH3-128 of
 *
 *     the configuration that the computation depends on, in the order of
 *     fingerprint.c
 *     for every tensor that layout_of_model() uses, in byte order of its key
 *     (checkpoint.h):
 *         key | 0 | dtype's name | 0
 *         u64 rank, rank u64 dimensions, u64 bytes         little-endian
 *         its digest: the canonical XXH3-128 of the canonical XXH3-128s of
 *         its pieces, in order.  A piece is LOAD_PIECE (8 MiB) bytes of a
 *         slice (layout.h: the tensor, or a key head's part of a grouped
 *         one), or the blocks of a GGUF tensor that fit; the last piece of
 *         a slice is shorter
 *
 * It does not depend on the number of threads, on how the files are split,
 * named or padded, or on the shard's layers.  A shard of some layers hashes the
 * others too and drops them.  Each stage of a replica therefore reads the whole
 * model, and a router can check that stages belong together.  Tensors that
 * sluice sets aside or does not recognise do not count, nor does the MTP layer,
 * which changes no token.
 *
 * The bytes are hashed as they are read into the shard's memory.
 *
 * Threading: none.  Memory: some hundred bytes. */
#ifndef WORKER_MODEL_FINGERPRINT_H
#define WORKER_MODEL_FINGERPRINT_H

#include <stdint.h>

#include "common/model/checkpoint.h"
#include "common/model/config.h"
#include "worker/model/load.h"

#define FINGERPRINT_BYTES 16

/* Writes the fingerprint.  digests [checkpoint->n_tensors] come from
 * load_run(). Returns ST_RESOURCE_EXHAUSTED if memory runs out. */
MUST_CHECK enum status fingerprint_make(uint8_t out[FINGERPRINT_BYTES],
                                        const struct model_config *c,
                                        const struct checkpoint *checkpoint,
                                        const struct load_digest *digests,
                                        struct error *e);

#endif
