/* engine.h - The seam between the worker's core and the engine that computes.
 *
 * The core keeps all accounts and submits plans.  The engine owns memory,
 * weights and kernels, and makes no decisions.  At most `depth` plans are in
 * flight.  They run in the order of submission, and results return in the same
 * order.
 *
 * An engine has layers [a, b) of a model of n layers.  An engine without some
 * of the layers is a stage: it exchanges hidden states of size H with its
 * neighbours.
 *
 *     plan      a = 0  tokens are embedded, hidden is NULL
 *               a > 0  hidden is the residual stream after layer a - 1, tokens
 *                      are not read
 *     result    b = n  tokens and logprobs, hidden is NULL
 *               b < n  hidden is the residual stream after layer b - 1, no row
 *                      has a token
 *
 * Only the last stage reads `n_drafts`, `mtp`, `propose` and `next`, and
 * `sample` and the fields after it in a row.  It reads the tokens of rows with
 * drafts or `mtp`.  A stage's plan has no chained rows, because the sampled
 * token is not there.  The tokens of its rows tile [0, n_tokens) in the order
 * of the rows.
 *
 * Implementations: worker/engine/engine_thread.c over kernels/ (in its own
 * thread), and tests/sim/ (a fake with predictable tokens and virtual time).
 *
 * Threading: the core's thread calls submit, poll and progress; they never
 * block.  Memory: the core owns a plan and its hidden states; the engine
 * borrows them from engine_submit() until engine_poll() returns the result.
 * The engine owns a result's hidden states; they stay valid until the next
 * engine_poll() that returns true.  Block and slot numbers index the pool's
 * storage, which the engine owns. */
#ifndef WORKER_BASE_ENGINE_H
#define WORKER_BASE_ENGINE_H

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
#define PLAN_SAVES_MAX   4 /* saves of one row */
#define PLAN_COPIES_MAX  65536
#define PLAN_BLOCKS_MAX  (1 << 22) /* all rows, unless one needs more */

/* A sequence's ids in the core's own storage, in pages of 1 << shift:
 * id i is memory[(memory[(root << shift) + (i >> shift)] << shift) + i % page].
 * Ids that a plan in flight refers to neither change nor move; other ids in
 * the same pages may. */
struct id_pages {
    const uint32_t *memory; /* [n_pages << shift] */
    uint32_t n_pages, root, shift;
};

/* Input of the penalties: prompt ++ generated ids that the core has.  A chained
 * row's own id follows them. */
struct plan_history {
    struct id_pages pages;
    uint32_t n, n_prompt; /* n = 0: the row's sampling has no penalties */
};

/* Prompt rows run on the prefill kernels, generated rows on the decode kernels,
 * also when they are computed again.  A row never mixes the two kinds. */
enum row_kind { ROW_PROMPT, ROW_GENERATED };

/* Consecutive tokens of one sequence.
 *
 * The last n_drafts of a row's tokens are drafts.  The row gets a token for its
 * last known id, and one more for each draft that equals the token before it: 1
 * to n_drafts + 1 tokens, each drawn as if it came alone, with the indices from
 * `index` on.  A token that ends the sequence is the last.  Afterwards KV and
 * slot are those of a sequence whose last token is not computed yet, as without
 * drafts.
 *
 * With `propose` the engine drafts up to that many tokens to follow the last
 * one (its MTP layer), and writes KV of its own at the positions of those
 * tokens but the last.  The MTP layer has KV at all positions whose rows have
 * `mtp`.
 *
 * A twin has no tokens: it samples its first token from the logits of the
 * source row, whose prompt is the same.  Its sequence has the source's blocks;
 * copies after the rows give it a slot and its own last block and window
 * block.  It has no drafts, and proposes none. */
struct plan_row {
    uint64_t sequence; /* the core's number, for logs */
    enum row_kind kind;
    uint32_t position; /* the first token's */
    uint32_t n_tokens; /* >= 1; 0: a twin */
    uint32_t token;    /* tokens[token .. token + n_tokens) */
    uint32_t n_drafts; /* n_tokens = n_drafts + 1, in a generated row that
                        * samples, without saves, and is not chained; at most
                        * DRAFTS_MAX */
    bool mtp;          /* the MTP layer computes the row's positions too */
    uint32_t propose;  /* drafts to propose, in a row that samples and has
                        * `mtp`; at most DRAFTS_MAX */
    uint32_t next;     /* with `mtp`, if the row does not sample: the id at
                        * position + n_tokens */
    /* At a stage before the last one: the row's inputs are kept at keep_at, and
     * its slot does not change until a plan replays them.  Elsewhere the engine
     * replays them itself. */
    bool keep;
    uint32_t keep_at;
    bool chained; /* n_tokens = 1: the id is the token sampled for row
                   * `chain_row` of the previous plan */
    uint32_t chain_row;
    uint32_t source;   /* the row of a twin, before it in this plan, that
                        * samples from the same logits */
    uint32_t block;    /* blocks[block .. block + n_blocks): its table, page
                        * numbers */
    uint32_t n_blocks; /* covers position + n_tokens + propose; not read if
                        * the shard has no attention layer */
    /* Its window blocks: table i of the shard's window_pages is
     * blocks[window + i * n_window .. ), its first entry that of the block
     * window_first.  Not read if the shard has no window layer. */
    uint32_t window, n_window, window_first;
    uint32_t slot; /* its first page; SLOT_NONE if the shard has no linear
                    * layer */
    uint32_t save; /* saves[save .. save + n_saves): checkpoints taken while
                    * it runs; at most PLAN_SAVES_MAX */
    uint32_t n_saves;
    bool sample; /* sample a token after the last one */
    /* Only for rows that sample: */
    uint32_t index; /* the sampled token's, from 0 */
    uint32_t choice;
    const struct sampling *sampling; /* borrowed from the sequence */
    struct plan_history history;
};

/* The state after positions below `position`, a multiple of 64 in (the row's
 * position, the row's end], is copied to `page` and the pages behind it. */
struct plan_save {
    uint32_t position, page;
};

/* Advances the slot by the first n_tokens inputs kept at keep_at: the last
 * known token and the accepted drafts of a row. */
struct plan_replay {
    uint32_t slot, keep_at, n_tokens;
};

/* Where a copy goes: inside the pool, from it to host pages, or back. */
enum copy_kind { COPY_PAGES, COPY_OUT, COPY_IN };

/* Copies n pages; the two ranges do not overlap. */
struct plan_copy {
    uint32_t from, to, n;
    enum copy_kind kind;
};

/* One step.  The engine works in this order:
 *
 *   1 poison      pages that are free since the last plan; only in builds and
 *                 runs that test (see worker/engine/forward.h)
 *   2 replays     slots advance by accepted drafts; at stages before the last
 *   3 before      copies in order: moved blocks, restored checkpoints, pages
 *                 of suspended sequences out to the host tier and in again
 *   4 zero_slots
 *   5 rows, with their saves; the MTP layer
 *   6 after       copies in order: slots and blocks of twins
 *
 * No page is written twice by rows, their saves and the copies after them:
 * rows may share blocks that they read, and never the block of a position that
 * they compute.
 *
 * 1 to 4 are carried out even if the rows fail; only a refused plan or a lost
 * device leaves them undone.  After a failed step each position that a row was
 * to write has its old contents or those of a successful step; slots of the
 * rows and the pages that `saves` and `after` name are undefined. */
struct plan {
    uint64_t step;
    uint32_t n_rows, n_tokens, n_blocks, n_zero;
    uint32_t n_saves, n_before, n_after, n_poison, n_replays;
    struct plan_row *rows;       /* [PLAN_ROWS_MAX] */
    uint32_t *tokens;            /* [PLAN_TOKENS_MAX] */
    uint32_t *blocks;            /* tables of the rows, one after the other */
    uint32_t *zero_slots;        /* [PLAN_ROWS_MAX] first pages */
    struct plan_save *saves;     /* [PLAN_SAVES_MAX * PLAN_ROWS_MAX] */
    struct plan_replay *replays; /* [PLAN_ROWS_MAX] */
    struct plan_copy *before;    /* [PLAN_COPIES_MAX] */
    struct plan_copy *after;     /* [(2 + window_pages) * PLAN_ROWS_MAX] */
    struct plan_copy *poison;    /* [PLAN_COPIES_MAX]; from: the first page, to:
                                  * unused */
    const float *hidden; /* [n_tokens, H], as tokens; or NULL, see above */
    const uint32_t *eos; /* [n_eos] end tokens of the model */
    uint32_t n_eos;
};

/* Outcome of a row in a plan that succeeded.  Rows that are not done change
 * no bit of the others; the contents of their own blocks and slots are
 * undefined. */
enum row_outcome {
    ROW_DONE,       /* it has a token if it samples */
    ROW_NOT_FINITE, /* it samples, but its logits are not finite: no token */
    ROW_CUT_OFF     /* it is chained to a row that got no token: not computed */
};

/* The result of a plan.  After an error no row has a token and hidden is NULL;
 * struct plan describes the contents of memory then. */
struct plan_result {
    uint64_t step;
    enum status status;
    struct error error;
    bool lost; /* the device failed for good: nothing else in this result
                * counts, and no further result will come */
    uint32_t n_rows;
    const float *hidden; /* [n_tokens, H], as the plan's tokens; or NULL */
    uint32_t device_us;  /* draft_us included */
    uint32_t draft_us;   /* the MTP layer alone */
    /* Only if the plan succeeded, of rows with drafts: the first tokens that
     * the row got are this many of its drafts. */
    uint8_t n_accepted[PLAN_ROWS_MAX];
    uint32_t tokens[PLAN_ROWS_MAX]; /* the last one that the row got; TOKEN_NONE
                                     * if it does not sample */
    /* Only if the plan succeeded: */
    uint8_t outcomes[PLAN_ROWS_MAX]; /* enum row_outcome */
    /* Only if the plan succeeded, for rows that ask for logprobs: */
    float logprobs[PLAN_ROWS_MAX]; /* for tokens[i] */
    struct token_logprob top[PLAN_ROWS_MAX][TOP_LOGPROBS_MAX]; /* best first */
    /* The same for accepted drafts: */
    float draft_logprobs[PLAN_ROWS_MAX][DRAFTS_MAX];
    struct token_logprob draft_top[PLAN_ROWS_MAX][DRAFTS_MAX][TOP_LOGPROBS_MAX];
    /* Only if the plan succeeded, for rows with `propose`: */
    uint8_t n_drafts[PLAN_ROWS_MAX];
    uint32_t drafts[PLAN_ROWS_MAX][DRAFTS_MAX];
};

struct engine;

struct engine_ops {
    /* Starts p; ST_RESOURCE_EXHAUSTED if `depth` plans are in flight. */
    enum status (*submit)(struct engine *e, const struct plan *p);
    /* Takes the next finished plan's result; false if none is ready. */
    bool (*poll)(struct engine *e, struct plan_result *out);
    /* Returns ticks of work done, which never decrease.  While a plan is in
     * flight they grow per operator and per tile of a long product. */
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
