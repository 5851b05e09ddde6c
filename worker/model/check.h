/* check.h - would this directory load, and what would it take?
 *
 * Reads the configuration and the headers of the weight files, lays the
 * layers out as shard_load() would (every name, shape and dtype is checked;
 * no weight is read), and prints what it found: the model, the sizes of the
 * layers asked for, per layer, token, block, slot and page, beside a part those
 * of the whole, what a budget holds, and a last line with the verdict.
 * Weights are as the files store them, whatever the configuration says; a
 * directory with a config.json alone gets its sizes from that.
 *
 * Threading: none.  Memory: headers, for the call. */
#ifndef WORKER_MODEL_CHECK_H
#define WORKER_MODEL_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/status.h"

#define CHECK_BLOCK_TOKENS 32

/* Zeroed means the defaults. */
struct check_options {
    uint64_t budget_bytes; /* 0: not asked */
    uint32_t begin, end;   /* layers; end 0: to the last one */
    uint32_t block_tokens; /* 0: CHECK_BLOCK_TOKENS */
    bool kv_f32;           /* --kv-dtype f32; else the model's */
};

/* ST_OK if it would load, or has no weights and would fit; else what
 * shard_load() would say, ST_RESOURCE_EXHAUSTED if the weights and one
 * sequence of full length are more than the budget.  o may be NULL. */
MUST_CHECK enum status model_check(FILE *out, const char *dir,
                                   const struct check_options *o,
                                   struct error *e);

#endif
