/* runner.h - sequences through the forward pass, by hand: what a batcher
 * does, at the pace and in the order that a test wants.
 *
 * Threading: one.  Memory: a runner owns its plan and forward pass, a
 * sequence its ids.  Allocation failures and errors of the plan end the
 * program with a message: this is for tests. */
#ifndef TESTS_GOLDEN_RUNNER_H
#define TESTS_GOLDEN_RUNNER_H

#include "worker/engine/forward.h"

#define RUNNER_STAGE_TOKENS 1024 /* of a plan of a shard that lacks layers */

struct runner {
    const struct shard_weights *w;
    bool attention, linear; /* layers of these kinds */
    struct forward *forward;
    struct plan plan;
    struct plan_result result;
    uint32_t block_tokens;
    uint32_t *blocks, n_blocks; /* free ones, a stack */
    uint32_t *slots, n_slots;   /* free ones, a stack */
    uint32_t order;             /* of both, see runner_open() */
    float **logits;             /* [PLAN_ROWS_MAX] where a row's go, or NULL */
    struct forward_tap tap;     /* the test's own */
};

struct run_seq {
    uint32_t *ids; /* [capacity] prompt, then generated */
    uint32_t n_ids, n_prompt, n_done, capacity;
    uint32_t *blocks, n_blocks;
    uint32_t slot;
    bool fresh; /* its slot is not yet zeroed */
    struct sampling sampling;
};

/* `order` shuffles the free blocks and slots; 0 leaves them ascending. */
void runner_open(struct runner *r, const struct shard_weights *w,
                 const struct kernels_options *o, uint32_t n_blocks,
                 uint32_t n_slots, uint32_t order);
void runner_close(struct runner *r);

/* Other blocks and slots, of which none may be in use; for backends whose
 * alloc may be called again.  False, with a sentence in e: no room. */
bool runner_pool(struct runner *r, uint32_t n_blocks, uint32_t n_slots,
                 struct error *e);

/* Look at layers with tap->layer; tap is copied. */
void runner_tap(struct runner *r, const struct forward_tap *tap);

/* A sequence with room for `more` generated ids. */
void runner_start(struct runner *r, struct run_seq *s, const uint32_t *ids,
                  uint32_t n_prompt, uint32_t more);
void runner_stop(struct runner *r, struct run_seq *s);

/* Its first n ids count as done, as if what its blocks and its slot hold were
 * theirs. */
void runner_skip(struct run_seq *s, uint32_t n);

/* A row of the next n ids that are not yet done, in the plan being made; a
 * token is chosen after the last if `sample`, and its logits [V] written if
 * `logits` is not NULL.  The row's number. */
uint32_t runner_add(struct runner *r, struct run_seq *s, uint32_t n,
                    bool sample, float *logits);

/* Run the plan and begin an empty one. */
void runner_step(struct runner *r);

/* The second half of it, for who ran the plan otherwise: judges the result and
 * begins an empty plan. */
void runner_done(struct runner *r);

/* The token chosen for a row of the last plan. */
uint32_t runner_token(const struct runner *r, uint32_t row);

void run_seq_push(struct run_seq *s, uint32_t id);

#endif
