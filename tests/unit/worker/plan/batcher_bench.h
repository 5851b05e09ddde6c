/* batcher_bench.h - A batcher with a pool, a table of 64 sequences, and
 * blocks of 8 tokens. */
#ifndef TESTS_UNIT_WORKER_BATCHER_BENCH_H
#define TESTS_UNIT_WORKER_BATCHER_BENCH_H

#include "tests/unit/cmocka.h"
#include "worker/plan/batcher.h"

struct bench {
    struct pool pool;
    struct sequence_table table;
    struct batcher batcher;
};

extern struct bench bench;

/* Makes a bench with limits of a step, a row and the engine, for a worker
 * alone. */
struct batcher *bench_with(uint32_t rows, uint32_t tokens, uint32_t chunk,
                           uint32_t depth);
void bench_done(void);

/* Queues a sequence with n_generated ids from elsewhere; id i is i. */
struct sequence *bench_line_up(uint32_t n_prompt, uint32_t n_generated,
                               uint32_t max_tokens);

/* Returns the oldest plan; every sampled id is 500. */
void bench_back(struct batcher *b);

/* Returns the next plan; fails if there is none. */
const struct plan *bench_next(struct batcher *b);

void bench_check_row(const struct plan *p, uint32_t i, const struct sequence *s,
                     uint32_t position, uint32_t n_tokens, bool sample);

#endif
