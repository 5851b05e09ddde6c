/* demand.h - the least that a model's steps must move and multiply: the
 * numerators of the shares of a limit (docs/speed.md).
 *
 * Threading, memory: none. */
#ifndef TESTS_BENCH_DEMAND_H
#define TESTS_BENCH_DEMAND_H

#include "common/model/weights.h"

struct demand {
    double weights, weight_bytes; /* the layers' weights: every token passes
                                   * them */
    double head, head_bytes;      /* the head's: only sampled rows pass it */
};

void demand_of(struct demand *out, const struct shard_weights *w);

/* Returns the bytes of a decode step of `batch` sequences with `context`
 * tokens: all weights once, and for each sequence its slot read and written and
 * its blocks read. */
double demand_decode_bytes(const struct demand *d, uint32_t batch,
                           double context_bytes, double slot_bytes);
double demand_decode_flops(const struct demand *d, uint32_t batch);

/* Returns the operations of a prompt of n tokens; a multiply-add is two. */
double demand_prefill_flops(const struct demand *d, uint32_t n);

#endif
