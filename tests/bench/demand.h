/* demand.h - what a model's steps must move and multiply at least: the
 * numerators of the shares of a limit (docs/speed.md).
 *
 * Threading, memory: none. */
#ifndef TESTS_BENCH_DEMAND_H
#define TESTS_BENCH_DEMAND_H

#include "common/model/weights.h"

struct demand {
    double weights, weight_bytes; /* of the layers: every token passes them */
    double head, head_bytes;      /* rows that sample do */
};

void demand_of(struct demand *out, const struct shard_weights *w);

/* Of a decode step of `batch` sequences of `context` tokens: all weights once,
 * of each sequence its slot read and written and its blocks read. */
double demand_decode_bytes(const struct demand *d, uint32_t batch,
                           double context_bytes, double slot_bytes);
double demand_decode_flops(const struct demand *d, uint32_t batch);

/* Of a prompt of n tokens; a multiply-add is two. */
double demand_prefill_flops(const struct demand *d, uint32_t n);

#endif
