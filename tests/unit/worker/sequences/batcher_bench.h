/* batcher_bench.h - a batcher with a pool and a table of 64 sequences, blocks
 * of 8 tokens. */
#ifndef TESTS_UNIT_WORKER_BATCHER_BENCH_H
#define TESTS_UNIT_WORKER_BATCHER_BENCH_H

#include "tests/unit/cmocka.h"
#include "worker/sequences/batcher.h"

struct bench {
    struct pool pool;
    struct sequence_table table;
    struct batcher batcher;
};

extern struct bench bench;

/* Limits of a step, a row and the engine; alone. */
struct batcher *bench_with(uint32_t rows, uint32_t tokens, uint32_t chunk,
                           uint32_t depth);
void bench_done(void);

/* In line, with n_generated ids that were made elsewhere; id i is i. */
struct sequence *bench_line_up(uint32_t n_prompt, uint32_t n_generated,
                               uint32_t max_tokens);

/* The oldest plan is back; every sampled id is 500. */
void bench_back(struct batcher *b);

/* A plan there must be. */
const struct plan *bench_next(struct batcher *b);

void bench_check_row(const struct plan *p, uint32_t i, const struct sequence *s,
                     uint32_t position, uint32_t n_tokens, bool sample);

#endif
