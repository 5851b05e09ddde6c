/* replica.h - whole workers of a model's stages, joined in memory.
 *
 * Each worker has its core, and an engine with its thread; a simple router's
 * end drives them.  Each frame that a node sends is delivered in the next turn,
 * in order.  The engines compute at their own pace, so the rows of a microbatch
 * vary from run to run; the results of a sequence must not.
 *
 * Threading: one thread, beside the engines' own.
 * Memory: a replica owns its nodes; engines and asks are borrowed.
 *
 * Errors end the program with a message, as this is for tests. */
#ifndef TESTS_GOLDEN_REPLICA_H
#define TESTS_GOLDEN_REPLICA_H

#include "common/sampling/sampling.h"
#include "proto/common.pb-c.h"
#include "worker/base/engine.h"

#define REPLICA_STAGES 4
#define REPLICA_ASKS   32
#define REPLICA_TOKENS 64 /* most tokens of an ask */
#define REPLICA_VALUES (REPLICA_TOKENS * (1 + 2 * TOP_LOGPROBS_MAX))

/* A sequence to run, and its results. */
struct replica_ask {
    const uint32_t *ids; /* [n_prompt + n_generated] */
    uint32_t n_prompt, n_generated, max_tokens;
    Sluice__V1__Sampling sampling;
    uint32_t cancel_at; /* cancels after this many tokens; 0: never */

    uint64_t grant;
    uint32_t tokens[REPLICA_TOKENS],
        n; /* the first n_generated are the ask's */
    float logprobs[REPLICA_VALUES];
    uint32_t top_tokens[REPLICA_VALUES];
    uint32_t n_logprobs, n_top_tokens;
    uint32_t finish; /* proto's reason; 0: not finished */
    bool cancelled, receipt;
};

/* A worker to create: layers [begin, end) of n. */
struct replica_stage {
    uint32_t begin, end, n_layers, vocab, hidden;
    bool has_blocks, has_slots; /* whether its shard has them */
    uint32_t pages_per_slot;
    bool one_arithmetic;
    struct engine *engine;
    int fd; /* readable when it has a result, until quiet(arg) */
    void (*quiet)(void *arg);
    void *arg;
};

struct replica_options {
    uint32_t block_tokens;
    uint32_t step_tokens, chunk_tokens, max_rows, engine_depth;
    uint32_t at_once; /* sequences at a time; the pools hold REPLICA_ASKS */
    uint32_t context;
};

struct replica;

/* Creates these stages in order, or one worker of all layers, and waits until
 * they are up. */
struct replica *replica_new(const struct replica_stage *stages, uint32_t n,
                            const struct replica_options *o);
/* Frees a replica.  Its ledgers must be empty: everything is free at every
 * stage. */
void replica_free(struct replica **r);

/* Submits all n <= REPLICA_ASKS, at_once at a time, and runs them to their end;
 * once in the life of a replica. */
void replica_run(struct replica *r, struct replica_ask *asks, uint32_t n);

#endif
