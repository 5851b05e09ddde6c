/* load.h - a layout's slices, read by some threads.
 *
 * Each slice is read in pieces of at most LOAD_PIECE bytes straight to its
 * place; what becomes float32 is widened there afterwards, so no second copy
 * exists at any time.
 *
 * Threading: starts and joins its own.  Memory: 24 bytes a piece. */
#ifndef WORKER_MODEL_LOAD_H
#define WORKER_MODEL_LOAD_H

#include "worker/model/layout.h"
#include "worker/model/shard.h"

#define LOAD_PIECE   8388608
#define LOAD_THREADS 4

/* Read all slices of l into memory [l->bytes]; fds as
 * checkpoint_open_files() gave them; checksum as shard_checksum() says. */
MUST_CHECK enum status load_slices(const struct layout *l, const int *fds,
                                   void *memory, const struct shard_options *o,
                                   uint8_t checksum[16], struct error *e);

#endif
