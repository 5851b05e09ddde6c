/* demand.h - the least that a model's steps must move and multiply: the
 * numerators of the shares of a limit (docs/speed.md).
 *
 * For E experts, n tokens with k each choose E (1 - (1 - k / E)^n), as expected
 * if all are equally likely.
 *
 * Threading, memory: none. */
#ifndef TESTS_BENCH_DEMAND_H
#define TESTS_BENCH_DEMAND_H

#include "common/model/weights.h"

struct demand {
    double weights, weight_bytes;        /* the layers' weights that every token
                                          * passes: all but experts */
    double expert_weights, expert_bytes; /* one expert's in each layer */
    double n_experts, top_k;
    double head, head_bytes; /* the head's: only sampled rows pass it */
};

void demand_of(struct demand *out, const struct shard_weights *w);
/* The same of the MTP layer alone, with the head. */
void demand_of_draft(struct demand *out, const struct shard_weights *w);

/* Returns the bytes of all layers and the head. */
double demand_all_bytes(const struct demand *d);

/* Returns the bytes of the layers' weights that a step of n tokens reads. */
double demand_weight_bytes(const struct demand *d, uint32_t n);

/* Returns the bytes of a decode step of `batch` sequences with `context`
 * tokens: weights once, and for each sequence its slot read and written and its
 * blocks read. */
double demand_decode_bytes(const struct demand *d, uint32_t batch,
                           double context_bytes, double slot_bytes);
double demand_decode_flops(const struct demand *d, uint32_t batch);

/* Returns the operations of a prompt of n tokens; a multiply-add is two. */
double demand_prefill_flops(const struct demand *d, uint32_t n);

#endif
