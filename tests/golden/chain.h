/* chain.h - a model split over several engines, as in a replica of several
 * stages: each engine has its thread and its pool, and hidden states are passed
 * along.
 *
 * Threading: one thread, beside the engines' own.
 * Memory, errors: as runner.h. */
#ifndef TESTS_GOLDEN_CHAIN_H
#define TESTS_GOLDEN_CHAIN_H

#include "tests/golden/runner_drafts.h"
#include "worker/engine/engine_thread.h"

#define CHAIN_MAX 4

struct chain {
    uint32_t n; /* number of stages */
    struct runner runners[CHAIN_MAX];
    struct engine_thread *engines[CHAIN_MAX];
};

/* A sequence at each stage; its block and slot numbers differ between
 * stages. */
struct chain_seq {
    struct run_seq of[CHAIN_MAX];
};

/* Opens shards[0 .. n), in order; the other parameters as in runner_open(). */
void chain_open(struct chain *c, const struct shard_weights *const *shards,
                uint32_t n, const struct kernels_options *o, uint32_t n_blocks,
                uint32_t n_slots, uint32_t order);
void chain_close(struct chain *c);

void chain_start(struct chain *c, struct chain_seq *s, const uint32_t *ids,
                 uint32_t n_prompt, uint32_t more);
void chain_stop(struct chain *c, struct chain_seq *s);

/* Adds a row at every stage, as runner_add(); the logits are the last
 * stage's. */
uint32_t chain_add(struct chain *c, struct chain_seq *s, uint32_t n,
                   bool sample, float *logits);

/* A slot's pages at each stage. */
struct chain_state {
    uint32_t page[CHAIN_MAX];
};

/* As the calls of runner.h, at every stage. */
void chain_take_slot(struct chain *c, struct chain_state *out);
void chain_give_slot(struct chain *c, const struct chain_state *s);
void chain_save(struct chain *c, uint32_t position,
                const struct chain_state *to);
void chain_fork(struct chain *c, struct chain_seq *s,
                const struct chain_seq *of, uint32_t at,
                const struct chain_state *from);
uint32_t chain_twin(struct chain *c, struct chain_seq *s,
                    const struct chain_seq *of, uint32_t row, float *logits);

/* Adds a row with drafts at every stage, as runner_verify(). */
uint32_t chain_verify(struct chain *c, struct chain_seq *s,
                      const uint32_t *drafts, uint32_t n, float *logits);

/* Takes the result of a row that sampled, as runner_accept(); the next plans of
 * the stages before the last replay what it kept there. */
uint32_t chain_accept(struct chain *c, struct chain_seq *s, uint32_t row);

/* Runs the plans one stage after the other, and begins empty ones. */
void chain_step(struct chain *c);

uint32_t chain_token(const struct chain *c, uint32_t row);
void chain_push(struct chain *c, struct chain_seq *s, uint32_t id);

#endif
