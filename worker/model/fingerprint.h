/* fingerprint.h - which model this is, in 16 bytes.
 *
 * The canonical (big-endian) XXH3-128 of
 *
 *     the configuration that computing depends on, as fingerprint.c prints it
 *     for every tensor of the model, in byte order of its key (checkpoint.h):
 *         key | 0 | dtype's name | 0
 *         u64 rank, rank u64 dimensions, u64 bytes         little-endian
 *         its sample: all bytes if at most 3 * 4096, else the first 4096,
 *         the 4096 from bytes / 2 on, and the last 4096
 *
 * Tensors of the model are layers.N.* with N < n_layers,
 * embed_tokens.weight, norm.weight, and lm_head.weight unless it is tied.
 * A sample of each, so that every stage of a replica can tell the whole
 * model at the cost of some megabytes; shard_checksum() covers every byte
 * of what a stage holds.  Another training step changes every tensor, and so
 * the fingerprint.
 *
 * Threading: none.  Memory: some kilobytes. */
#ifndef WORKER_MODEL_FINGERPRINT_H
#define WORKER_MODEL_FINGERPRINT_H

#include <stdint.h>

#include "worker/model/checkpoint.h"
#include "worker/model/config.h"

#define FINGERPRINT_BYTES  16
#define FINGERPRINT_SAMPLE 4096

/* fds as checkpoint_open_files() gave them. */
MUST_CHECK enum status fingerprint_make(uint8_t out[FINGERPRINT_BYTES],
                                        const struct model_config *c,
                                        const struct checkpoint *checkpoint,
                                        const int *fds, struct error *e);

#endif
