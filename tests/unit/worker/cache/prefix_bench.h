/* prefix_bench.h - A pool, a prefix index and requests that use them as the
 * core does. */
#ifndef TESTS_UNIT_WORKER_CACHE_PREFIX_BENCH_H
#define TESTS_UNIT_WORKER_CACHE_PREFIX_BENCH_H

#include "worker/cache/prefix.h"

#define BENCH_SAVES 64

struct bench_options {
    uint32_t n_pages, pages_per_slot, block_tokens, n_nodes;
    float checkpoint_share, tenant_share; /* 0: 1 */
    bool no_blocks, no_states, off;
    uint32_t host_pages; /* 0: no host tier */
};

struct bench {
    struct bench_options o;
    struct pool pool;
    struct host host;
    struct prefix *x;
    struct slab slab;
};

struct request {
    const char *tenant;
    struct paged ids, blocks;
    uint32_t n, n_blocks, slot;
    struct prefix_hit hit;
    uint32_t at[BENCH_SAVES], saves[BENCH_SAVES], n_saves;
};

void bench_begin(struct bench *b, const struct bench_options *o);
void bench_end(struct bench *b);

/* Grants and takes the memory of a request of n tokens, and reuses what there
 * is.  tenant: "name" or "name|salt".  Returns false if there is no room. */
bool bench_start(struct bench *b, struct request *r, const char *tenant,
                 const uint32_t *tokens, uint32_t n);
/* Inserts what was computed, with its checkpoints. */
void bench_computed(struct bench *b, struct request *r);
/* Drops its reservations. */
void bench_failed(struct bench *b, struct request *r);
/* Frees it. */
void bench_stop(struct bench *b, struct request *r);

/* All of it; returns the tokens that were reused. */
uint32_t bench_run(struct bench *b, const char *tenant, const uint32_t *tokens,
                   uint32_t n);

/* Returns what a match finds now. */
struct prefix_hit bench_match(struct bench *b, const char *tenant,
                              const uint32_t *tokens, uint32_t n);

/* Carries out what is recorded.  Returns the pages that go out or come in. */
uint32_t bench_plan(struct bench *b, enum copy_kind kind);

/* Checks that accounts, places and index agree. */
void bench_check(struct bench *b);

/* Writes n tokens that depend on `what`. */
void bench_text(uint32_t *tokens, uint32_t n, uint32_t what);

#endif
