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
#define REPLICA_SPANS  8
#define REPLICA_VALUES (REPLICA_TOKENS * (1 + 2 * TOP_LOGPROBS_MAX))

/* A sequence to run, and its results.  The asks that it refers to stay where
 * they are. */
struct replica_ask {
    const uint32_t *ids; /* [n_prompt + n_generated] */
    uint32_t n_prompt, n_generated, max_tokens;
    Sluice__V1__Sampling sampling;
    uint32_t cancel_at; /* cancels after this many tokens; 0: never */
    const struct replica_ask *first; /* it is another choice of this one's
                                      * request; NULL: of its own */
    uint32_t choice;
    bool cold;                     /* reuses nothing, keeps nothing */
    uint32_t spans[REPLICA_SPANS]; /* [n_spans] kinds of the prompt */
    uint32_t n_spans, keep_ms;
    struct replica_ask *from; /* an earlier run, kept: it goes on from it */

    uint32_t id;
    uint64_t grant;
    bool kept; /* until one goes on from it */
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
    uint32_t window;       /* the model's; 0: no layer is one */
    uint32_t window_pages; /* a window block's; 0: its shard has no such
                            * layer */
    bool one_arithmetic;
    bool has_mtp; /* its shard has an MTP layer */
    struct engine *engine;
    int fd; /* readable when it has a result, until quiet(arg) */
    void (*quiet)(void *arg);
    void *arg;
};

struct replica_options {
    uint32_t block_tokens;
    uint32_t step_tokens, chunk_tokens, max_rows, engine_depth;
    uint32_t at_once; /* sequences at a time, for which the pools have room */
    uint32_t context;
    uint32_t room; /* the pools hold so many sequences of a context */
    /* One stage only: its pool has so many pages instead, and sequences grow
     * from the ids that they have; 0: they do not. */
    uint32_t pages;
    uint32_t host_pages;  /* pages of the host tier */
    uint32_t drafts;      /* most drafts of a row; 0: none */
    uint32_t keep_tokens; /* inputs that each stage keeps for them */
};

struct replica;

/* Returns the window pages that a sequence of n tokens needs at a stage. */
uint32_t replica_windows(const struct replica_options *o,
                         const struct replica_stage *s, uint32_t n_tokens);

/* Returns the pages of a stage's pool. */
uint32_t replica_pages(const struct replica_options *o,
                       const struct replica_stage *s);

/* Creates these stages in order, or one worker of all layers, and waits until
 * they are up. */
struct replica *replica_new(const struct replica_stage *stages, uint32_t n,
                            const struct replica_options *o);
/* Frees a replica in which no sequence is kept.  Its index is cleared; then
 * everything must be free at every stage. */
void replica_free(struct replica **r);

/* Submits all n <= REPLICA_ASKS, at_once at a time, and runs them to their end.
 * As a router does, it submits the next when the memory of an ended one is
 * free.  Then every stage's account is audited, and no memory is held but that
 * of kept sequences. */
void replica_run(struct replica *r, struct replica_ask *asks, uint32_t n);

/* Removes the ids of a kept sequence from `begin` on.  Returns the position
 * that its state went back to. */
uint32_t replica_cut(struct replica *r, const struct replica_ask *a,
                     uint32_t begin);

/* Counts of the first stage since its start. */
struct replica_counts {
    uint64_t drafted, accepted; /* drafts */
    uint64_t reused, twins, continued, evicted, checkpoints_evicted, moved;
    uint64_t resumed_swap, resumed_recompute;
    uint64_t from_host; /* positions that only the host tier had */
};

struct replica_counts replica_counts(const struct replica *r);

#endif
