/* shard.h - The weights of layers [begin, end), in memory of our own.
 *
 * The files are read, not mapped.  A file that is replaced or truncated while
 * the worker runs therefore cannot change a token or kill the process.  A file
 * that changes while it is read is refused.
 *
 * A shard reads the tensors of its layers; the embedding if begin is 0; norm
 * and head if end is the number of layers, and then, if the config drafts, the
 * MTP layer and the embedding.  A tied head is the embedding, which a last
 * stage then reads too.  Every byte of the model's other tensors is
 * hashed and dropped, unless an earlier load has the result.
 *
 * shard_weights() is as in common/model/weights.h: matrices as stored (F32,
 * BF16, F16 or quantised), each 64-byte aligned; vectors in float32; norms
 * gamma itself.
 *
 * Threading: shard_load() starts and joins its own threads; a loaded shard is
 * read-only.  Memory: one block, 2 MiB aligned and advised for huge pages; at
 * most 1.1 times the bytes kept plus 4 MiB and the headers, also while loading.
 * Errors: ST_NOT_FOUND (file or tensor, by name), ST_INVALID_ARGUMENT (shape,
 * dtype, range), ST_DATA_LOSS (broken file), ST_ABORTED (changed while read),
 * ST_RESOURCE_EXHAUSTED (too little memory), ST_CANCELLED (by progress). */
#ifndef WORKER_MODEL_SHARD_H
#define WORKER_MODEL_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/weights.h"

struct shard;

/* Called by the loading threads, one at a time.  done never decreases; total
 * counts all bytes that are read, kept or not.  If it returns false, reading
 * stops and shard_load() returns ST_CANCELLED. */
typedef bool (*shard_progress_fn)(void *ctx, uint64_t done, uint64_t total);

/* The result of reading a model's files, for the next load of the same files.
 */
struct shard_known {
    uint8_t fingerprint[16];
    uint64_t files; /* hash of their names, sizes and times of change */
};

/* Zeroed means the defaults. */
struct shard_options {
    uint32_t n_threads;         /* readers; 0: 4, at most one per CPU */
    uint64_t max_bytes;         /* memory limit; 0: none */
    shard_progress_fn progress; /* or NULL */
    void *ctx;
    /* From an earlier shard of this model, or NULL.  If the files are
     * unchanged, only the tensors of the layers are read. */
    const struct shard_known *known;
};

struct shard_report {
    uint64_t bytes;        /* memory in use */
    uint64_t file_bytes;   /* stored bytes of the loaded tensors */
    uint32_t n_tensors;    /* loaded */
    uint32_t n_aside;      /* vision, an unwanted MTP layer: not used */
    uint32_t n_unknown;    /* ignored, in these layers or in none */
    struct quoted unknown; /* the first ignored one */
};

/* Loads layers [begin, end) of the model in dir.  c is borrowed for the call, o
 * may be NULL.  The caller frees *out with shard_free().  Errors: above. */
MUST_CHECK enum status shard_load(struct shard **out,
                                  const struct model_config *c, const char *dir,
                                  uint32_t begin, uint32_t end,
                                  const struct shard_options *o,
                                  struct error *e);

void shard_free(struct shard **s);

/* Returns the memory of all tensors to the system, after they were copied to a
 * device.  Their data must not be read any more; everything else stays valid.
 */
void shard_forget(struct shard *s);

/* Returns what shard_free() frees. */
const struct shard_weights *shard_weights(const struct shard *s);

/* Returns the weights for their owner, who may put their bytes in another order
 * (kernels/cpu/pack.h) before anything else reads them. */
struct shard_weights *shard_own(struct shard *s);

/* Returns what shard_free() frees. */
const struct shard_report *shard_report(const struct shard *s);

/* Returns the 16-byte fingerprint of the model.  It is equal for all shards of
 * one model, however its files are split or its names are prefixed;
 * fingerprint.h defines it. */
const uint8_t *shard_fingerprint(const struct shard *s);

/* Returns what another load of the same files can reuse. */
struct shard_known shard_known(const struct shard *s);

#endif
