/* shard.h - the weights of layers [begin, end), in memory of our own.
 *
 * Read, not mapped: a file that is replaced or cut while the worker runs
 * cannot change a token or kill the process; one that changes while it is
 * read is refused.
 *
 * What is read: the layers' tensors; the embedding if begin is 0; norm and
 * head if end is the number of layers (a tied head is the embedding, which a
 * last stage then reads too).  Of the model's other tensors every byte is
 * hashed and none is kept, unless what that gives is known already.
 * shard_weights() is as common/model/weights.h says: matrices as stored,
 * F32, BF16, F16 or quantised, each 64-byte aligned; vectors float32; norms
 * gamma itself.
 *
 * Threading: shard_load() starts threads of its own and joins them; a loaded
 * shard is read-only.  Memory: one block, 2 MiB aligned and advised for huge
 * pages; at most 1.1 times the bytes kept plus 4 MiB and the headers, also
 * while loading.  Errors: ST_NOT_FOUND (file or tensor, by name),
 * ST_INVALID_ARGUMENT (shape, dtype, range), ST_DATA_LOSS (broken file),
 * ST_ABORTED (changed while read), ST_RESOURCE_EXHAUSTED (no room),
 * ST_CANCELLED (progress said so). */
#ifndef WORKER_MODEL_SHARD_H
#define WORKER_MODEL_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/weights.h"

struct shard;

/* Called by the loading threads, one at a time, done never falling; total is
 * all that is read, kept or not.  False: nothing more is read, and
 * shard_load() answers ST_CANCELLED. */
typedef bool (*shard_progress_fn)(void *ctx, uint64_t done, uint64_t total);

/* What one reading of a model's files tells the next. */
struct shard_known {
    uint8_t fingerprint[16];
    uint64_t files; /* their names, sizes and times of change, hashed */
};

/* Zeroed means the defaults. */
struct shard_options {
    uint32_t n_threads;         /* that read; 0: 4, at most one per CPU */
    uint64_t max_bytes;         /* of memory; 0: no limit but the machine's */
    shard_progress_fn progress; /* or NULL */
    void *ctx;
    /* Of an earlier shard of this model, or NULL: if the files are still the
     * same, nothing is read but the layers' own tensors. */
    const struct shard_known *known;
};

struct shard_report {
    uint64_t bytes;        /* of memory */
    uint64_t file_bytes;   /* of the tensors loaded */
    uint32_t n_tensors;    /* loaded */
    uint32_t n_aside;      /* vision, multi-token prediction: known, unused */
    uint32_t n_unknown;    /* of these layers, or of no layer: ignored */
    struct quoted unknown; /* the first of them */
};

/* Load layers [begin, end) of the model in dir.  c is borrowed for the call,
 * o may be NULL.  *out is released with shard_free(). */
MUST_CHECK enum status shard_load(struct shard **out,
                                  const struct model_config *c, const char *dir,
                                  uint32_t begin, uint32_t end,
                                  const struct shard_options *o,
                                  struct error *e);

void shard_free(struct shard **s);

/* Gives the memory of all tensors back to the system, for whoever has copied
 * them: their data may not be read any more, all else stays. */
void shard_forget(struct shard *s);

/* Borrowed until shard_free(). */
const struct shard_weights *shard_weights(const struct shard *s);
const struct shard_report *shard_report(const struct shard *s);

/* Says which model this is: 16 bytes over every byte of its weights, equal
 * for all shards of one model whatever their layers, and however its files
 * are split or its names are prefixed; fingerprint.h defines it. */
const uint8_t *shard_fingerprint(const struct shard *s);

/* The same, for another shard of the model. */
struct shard_known shard_known(const struct shard *s);

#endif
