/* check.h - Checks whether a model directory would load, and what it would
 * take.
 *
 * Reads the configuration and the headers of the weight files, and lays the
 * layers out as shard_load() would.  Every name, shape and dtype is checked; no
 * weight is read.
 *
 * Prints the model; the sizes of the requested layers, per layer, token, block,
 * slot and page; the MTP layer and kept inputs if drafts are wanted; those of
 * the whole model beside a part; the pool that a
 * budget gives a worker with these options (common/split/pool_split.h), with
 * the sequences that it holds; and the verdict in the last line.  Weights have
 * the dtypes of the files, whatever the configuration states.  A directory with
 * only a config.json gets its sizes from that.
 *
 * Threading: none.  Memory: headers, during the call. */
#ifndef WORKER_MODEL_CHECK_H
#define WORKER_MODEL_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"
#include "common/model/costs.h"
#include "common/model/kv_format.h"

#define CHECK_BLOCK_TOKENS 32
#define CHECK_MAX_ROWS     64

/* Zeroed means the defaults. */
struct check_options {
    uint64_t budget_bytes; /* 0: no budget is checked */
    uint32_t begin, end;   /* layers; end 0: to the last one */
    uint32_t block_tokens; /* 0: CHECK_BLOCK_TOKENS */
    uint32_t chunk_tokens; /* 0: CHUNK_TOKENS_CPU */
    uint32_t context;      /* longest sequence; 0: the model's limit */
    uint32_t max_rows;     /* 0: CHECK_MAX_ROWS */
    uint32_t slots;        /* most at once; 0: max_rows */
    uint32_t drafts;       /* most of a sequence in a step, 0..DRAFTS_MAX; 0:
                              the MTP layer is not loaded */
    bool from_text;        /* drafts come from the text alone: the MTP layer is
                              not loaded */
    struct kv_request kv;
    const char *device;     /* its arithmetic id, "": not known; NULL: the
                             * CPU's */
    struct costs_step step; /* context, block_tokens and those for drafts are
                               filled in; zeroed: no scratch */
};

/* Prints the check to `out`.  o may be NULL.  Returns ST_OK if the model would
 * load, or has no weights and would fit; ST_RESOURCE_EXHAUSTED if the weights
 * and one sequence of full length exceed the budget; otherwise the error of
 * shard_load(). */
MUST_CHECK enum status model_check(FILE *out, const char *dir,
                                   const struct check_options *o,
                                   struct error *e);

#endif
