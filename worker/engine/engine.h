/* engine.h - the seam between the worker's core and what computes.
 *
 * The core owns all bookkeeping and hands over plans; the engine owns memory,
 * weights and kernels, and decides nothing.  At most `depth` plans are in
 * flight; they run, and their results come back, in the order of submission.
 *
 * An engine owns layers [a, b) of a model of n.  One that lacks layers is a
 * stage: what it does not compute comes in, and goes out, as hidden states
 * (H is the model's hidden size):
 *
 *     plan      a = 0  tokens are embedded, hidden is NULL
 *               a > 0  hidden is the residual stream after layer a - 1, tokens
 *                      are not read
 *     result    b = n  tokens and logprobs, hidden is NULL
 *               b < n  hidden is the residual stream after layer b - 1, no row
 *                      has a token
 *
 * Only the last stage reads `sample` and what follows it in a row.  A stage
 * takes no chained rows: the token is not there.  In a stage's plan the tokens
 * of the rows tile [0, n_tokens) in the order of the rows.
 *
 * Implementations: worker/engine/engine_thread.c over kernels/ (its own
 * thread), and tests/sim/ (a fake with known tokens and virtual time).
 *
 * Threading: submit, poll and progress are called by the core's thread and
 * never block.  Memory: a plan is the core's, its hidden states too; the
 * engine borrows it from engine_submit() until engine_poll() returns its
 * result.  A result's hidden states are the engine's, and stay until the next
 * engine_poll() that returns true.  Block and slot numbers index the pool's
 * storage, which is the engine's. */
#ifndef WORKER_ENGINE_ENGINE_H
#define WORKER_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/status.h"
#include "common/sampling/sampling.h"
#include "proto/limits.h"

#define ENGINE_DEPTH_MAX 2
#define PLAN_ROWS_MAX    STEP_ROWS_MAX
#define PLAN_TOKENS_MAX  STEP_TOKENS_MAX
#define TOKEN_NONE       UINT32_MAX
#define SLOT_NONE        UINT32_MAX

/* The ids of a sequence where the core keeps them, in pages of 1 << shift:
 * id i is memory[(memory[(root << shift) + (i >> shift)] << shift) + i % page].
 * Ids of a plan in flight do not change and do not move; others may, in the
 * same pages. */
struct id_pages {
    const uint32_t *memory; /* [n_pages << shift] */
    uint32_t n_pages, root, shift;
};

/* What penalties look at: prompt ++ generated ids as far as the core knows
 * them.  A chained row's own id comes after them. */
struct plan_history {
    struct id_pages pages;
    uint32_t n, n_prompt; /* n = 0: the row's sampling has no penalties */
};

/* Prompt rows take the prefill kernels, generated rows the decode kernels,
 * also when they are computed again: a row never mixes the two. */
enum row_kind { ROW_PROMPT, ROW_GENERATED };

/* Some consecutive tokens of one sequence. */
struct plan_row {
    uint64_t sequence; /* the core's number for it, for logs */
    enum row_kind kind;
    uint32_t position; /* of the first token */
    uint32_t n_tokens; /* >= 1 */
    uint32_t token;    /* tokens[token .. token + n_tokens) */
    bool chained;      /* n_tokens = 1: the id is the one sampled for row
                        * `chain_row` of the plan before */
    uint32_t chain_row;
    uint32_t block;    /* blocks[block .. block + n_blocks): its table */
    uint32_t n_blocks; /* covers position + n_tokens; not read where the shard
                        * has no attention layer */
    uint32_t slot;     /* SLOT_NONE where the shard has no linear layer */
    bool sample;       /* choose a token after the last one */
    /* Of a row that samples: */
    uint32_t index; /* of the token chosen, from 0 */
    uint32_t choice;
    const struct sampling *sampling; /* borrowed from the sequence */
    struct plan_history history;
};

struct plan_copy {
    uint32_t from, to;
};

/* One step.  zero_slots are zeroed before any row runs. */
struct plan {
    uint64_t step;
    uint32_t n_rows, n_tokens, n_blocks, n_zero;
    struct plan_row *rows; /* [PLAN_ROWS_MAX] */
    uint32_t *tokens;      /* [PLAN_TOKENS_MAX] */
    uint32_t *blocks;      /* [as the core sized it] */
    uint32_t *zero_slots;  /* [PLAN_ROWS_MAX] */
    const float *hidden;   /* [n_tokens, H], as tokens, or NULL: see above */
};

/* What came of it.  On an error no row has a token and hidden is NULL; what
 * the rows wrote to their blocks and slots is undefined. */
struct plan_result {
    uint64_t step;
    enum status status;
    struct error error;
    bool lost; /* the device failed, and computes no more: nothing else of the
                * result counts, and no other will come */
    uint32_t n_rows;
    const float *hidden; /* [n_tokens, H], as the plan's tokens, or NULL */
    uint32_t tokens[PLAN_ROWS_MAX]; /* TOKEN_NONE where none was asked for */
    uint32_t device_us;
    /* Of rows whose sampling asks for them, of a plan that went well: */
    float logprobs[PLAN_ROWS_MAX]; /* of tokens[i] */
    struct token_logprob top[PLAN_ROWS_MAX][TOP_LOGPROBS_MAX]; /* best first */
};

struct engine;

struct engine_ops {
    /* ST_RESOURCE_EXHAUSTED if `depth` plans are in flight. */
    enum status (*submit)(struct engine *e, const struct plan *p);
    /* The next finished plan's result; false if none is ready. */
    bool (*poll)(struct engine *e, struct plan_result *out);
    /* Ticks of work done, only ever growing; moves while a plan is in
     * flight, per operator and per tile of a long product. */
    uint64_t (*progress)(struct engine *e);
};

struct engine {
    const struct engine_ops *ops;
};

static inline enum status engine_submit(struct engine *e, const struct plan *p)
{
    return e->ops->submit(e, p);
}

static inline bool engine_poll(struct engine *e, struct plan_result *out)
{
    return e->ops->poll(e, out);
}

static inline uint64_t engine_progress(struct engine *e)
{
    return e->ops->progress(e);
}

#endif
