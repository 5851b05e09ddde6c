/* batcher.h - Chooses the rows of the next step.
 *
 * A plan is a ragged batch: first one token of each decoding sequence, then
 * prefill chunks, those of short prompts first (prompt_share.h).  A row is
 * consecutive tokens of one sequence and of one kind:
 *
 *   prompt     cut at absolute multiples of `cut` (64) or at the end of its
 *              run, so that a chunk's arithmetic does not depend on the load.
 *              A row that begins at no multiple, behind a generated run, ends
 *              at the next one
 *   generated  one token in decode; many at once when a sequence that moved
 *              here is computed again
 *
 * The row that reaches the last known id samples the next token.  With two
 * plans in flight, the row after that one is chained: its id is sampled by the
 * previous plan, and the engine has it before the core does.
 *
 *   budget of a step: max_rows rows, step_tokens tokens, chunk_tokens a row;
 *   prompts have fewer tokens where a step would cost too much time
 *   (step_room.h)
 *
 * While prefill waits, decode leaves it one row and one cut of tokens.  If too
 * many sequences decode, they take turns.
 *
 * A sequence with logprobs is skipped while its unacknowledged tokens fill the
 * window (cache/logprobs.h).
 *
 * A sequence whose step failed is computed again (recompute.h) alone in its
 * plans, one under way at a time, which are every other one while there are
 * other rows.
 *
 * Blocks and the slot go from granted to held as positions are reached.
 *
 * Reuse (reuse.h): the first plan of a sequence restores what the index has of
 * it.  Choices of one request share one prefill (twins.h):
 *
 *     twins      wait for their leader, and join its last prompt row as rows
 *                without tokens
 *     spent      kept sequences whose memory another one has taken over
 *
 * At a worker with all layers, a plan returns with the engine's result.  A
 * leader of n stages makes microbatches: after the engine's result they pass
 * through the later stages, and return with the Result.
 *
 *     oldest                                        newest
 *     |-- passed: at the later stages --|-- here --|
 *         at most n under way             at most depth
 *
 * A leader's plan has no chained rows, because the token is known only when
 * the microbatch returns.  A sequence therefore decodes in one microbatch at a
 * time, while chunks of a prompt fill consecutive ones.
 *
 * A leader spreads decoding sequences over microbatches.  Each takes an equal
 * part of the ready ones for each free place, and at most an n-th of all; both
 * are rounded up.  With at least n decoding sequences, no microbatch is empty.
 *
 * Threading: the core's.  Memory: batcher_init() allocates; no other call does.
 * The engine borrows a plan from batcher_plan() to batcher_return(). */
#ifndef WORKER_PLAN_BATCHER_H
#define WORKER_PLAN_BATCHER_H

#include "worker/plan/batch.h"
#include "worker/plan/draft_rows.h"
#include "worker/plan/prompt_share.h"
#include "worker/plan/reuse.h"
#include "worker/plan/step_room.h"

#define BATCHER_CUT 64
#define BATCHES_MAX 16 /* under way at once: one for each stage */

struct first_row;

struct batcher {
    struct batcher_limits limits;    /* current limits of a step */
    uint32_t rows_made, tokens_made; /* allocated in each plan */
    uint32_t cut;
    struct sequence_table *table;
    struct reuse *reuse; /* borrowed; NULL: none */
    struct sequence_list prefill, decode, again, twins, spent;
    struct plan_copy loads[LOADS_MAX]; /* for the next plan */
    uint32_t n_loads;
    /* Since the start: twin rows, kept sequences taken over, copies that moved
     * blocks. */
    uint64_t n_twins, n_continued, n_moves;
    uint64_t n_back;                    /* pages that came from the host tier */
    uint64_t n_wasted[SEQUENCE_WASTES]; /* positions computed again */
    struct batch ring[BATCHES_MAX];
    uint32_t stages; /* stages of its replica; 1: alone */
    uint32_t oldest, inflight;
    uint32_t here; /* with the engine: the newest of those in flight */
    uint64_t step; /* the newest plan's */
    struct draft_rows draft;
    struct prompt_share share;
    struct step_room room;
    uint64_t n_exceeded;    /* plans beyond the target; for auditors */
    struct sequence *stuck; /* its granted memory could not be taken */
};

/* Allocates the batches.  The table and reuse, which may be NULL, are borrowed.
 * Returns false if memory runs out. */
MUST_CHECK bool batcher_init(struct batcher *b, const struct batcher_limits *l,
                             struct sequence_table *table, struct reuse *reuse);
void batcher_fini(struct batcher *b);

/* Makes plans for a replica of n_stages, 2..limits.batches, from now on.  A
 * step is limited to max_rows and step_tokens, and to the limits of
 * batcher_init(). */
void batcher_lead(struct batcher *b, uint32_t n_stages, uint32_t max_rows,
                  uint32_t step_tokens);

/* Makes at most `drafts` drafts a row, with the inputs of keep_tokens tokens
 * kept in a plan, from now on; 0: none.  has_mtp: an MTP layer may propose
 * them. */
void batcher_set_drafts(struct batcher *b, uint32_t drafts,
                        uint32_t keep_tokens, bool has_mtp);

/* Adds a QUEUED sequence, whose ids have all come, to the prefill queue, or to
 * the twins of a sibling. */
void batcher_add(struct batcher *b, struct sequence *s);

/* Adds a sequence that waits to be computed again, from its first position.  No
 * plan in flight names it. */
void batcher_again(struct batcher *b, struct sequence *s);

/* Removes s: it gets no more rows.  Plans in flight may still name it.  If
 * twins wait for s, the first of them leads from now on. */
void batcher_drop(struct batcher *b, struct sequence *s);

/* Lets the next plan copy a checkpoint to the slot of a kept sequence, before
 * all else.  Returns false if it already does so for LOADS_MAX sequences. */
MUST_CHECK bool batcher_load(struct batcher *b, uint32_t checkpoint,
                             uint32_t slot);

/* Makes the next plan, which counts as in flight from now on.  Returns NULL if
 * `depth` plans are here, n are under way, or there is nothing to do.  Sets
 * b->stuck to a sequence that broke the account; it has left its queue, and the
 * caller fails it.  The caller also releases what is in b->spent. */
const struct plan *batcher_plan(struct batcher *b);

/* Adds the next row of s to t.  There is room for it; sets b->stuck if the
 * memory was not there. */
void batcher_add_row(struct batcher *b, struct batch *t, struct sequence *s,
                     const struct draft_row *next,
                     const struct first_row *from);

/* Returns false if the window of logprobs is full: s waits for an
 * acknowledgement. */
bool batcher_window_open(const struct sequence *s);

/* Adds the row behind the last one of t, which s owns, to t. */
void batcher_own_row(struct batcher *b, struct batch *t, struct sequence *s);

/* Records when the engine accepted the newest plan. */
void batcher_sent(struct batcher *b, int64_t now_us);

/* Learns that t took `us` on its devices. */
void batcher_learn(struct batcher *b, const struct batch *t, uint32_t us);

/* Returns the oldest plan here, NULL if there is none. */
const struct batch *batcher_here(const struct batcher *b);
/* Passes that plan on to the next stage. */
void batcher_pass(struct batcher *b);

/* Returns whether a plan here names s. */
bool batcher_names(const struct batcher *b, const struct sequence *s);

/* Returns the oldest plan in flight, NULL if there is none. */
const struct batch *batcher_oldest(const struct batcher *b);
/* Ends that plan: it has returned. */
void batcher_return(struct batcher *b);

/* Withdraws the newest plan, which the engine refused.  Returns its batch,
 * which stays as it is until the next plan is made. */
const struct batch *batcher_withdraw(struct batcher *b);

#endif
