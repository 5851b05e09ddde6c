/* batcher.h - chooses what the next step computes.
 *
 * A plan is a ragged batch: first the sequences that decode, one token each;
 * then prefill, first come first served, in chunks.  A row is some
 * consecutive tokens of one sequence, of one kind:
 *
 *   prompt     cut at absolute multiples of `cut` (64) or the prompt's end,
 *              so that a chunk's arithmetic does not depend on the load
 *   generated  one token in decode; many at once when a sequence that was
 *              moved here is computed again
 *
 * The row that reaches the last known id samples the next one.  With two
 * plans in flight the row after it is chained: its id is the one sampled by
 * the plan before, which the engine knows first.
 *
 *   budget of a step: max_rows rows, step_tokens tokens, chunk_tokens a row
 *
 * While prefill waits, decode leaves it one row and one cut of tokens, and
 * sequences that decode take turns if they are too many: a new sequence is
 * in the next plan.
 *
 * A sequence with logprobs is left out while those that the router has not
 * acknowledged fill their window (cache/logprobs.h).
 *
 * Blocks and the slot go from granted to held as positions are reached.
 *
 * A worker of all layers is alone: what its engine has done is back.  One that
 * leads n stages makes microbatches: what its engine has done goes round the
 * stages after it, and is back when their Result is.
 *
 *     oldest                                        newest
 *     |-- passed: at the stages after it --|-- here --|
 *         n under way at most                depth at most
 *
 * There no row is chained, as its token is known when the batch is back, so a
 * sequence decodes in one microbatch at a time; chunks of a prompt follow each
 * other in consecutive ones.  Sequences that decode are spread: a microbatch
 * takes an equal part of those that are ready, as there are places free, and
 * no more than an n-th of all of them; both rounded up.  So where n of them
 * run, no microbatch stays without rows.
 *
 * Threading: the core's.  Memory: batcher_init(); no other call allocates.
 * A plan belongs to the engine from batcher_plan() to batcher_return(). */
#ifndef WORKER_SEQUENCES_BATCHER_H
#define WORKER_SEQUENCES_BATCHER_H

#include "worker/sequences/batch.h"

#define BATCHER_CUT 64
#define BATCHES_MAX 16 /* under way: stages of a replica */

struct batcher {
    struct batcher_limits limits;    /* of a step: as it may be now */
    uint32_t rows_made, tokens_made; /* room of each plan */
    uint32_t cut;
    struct sequence_table *table;
    struct sequence_list prefill, decode;
    struct batch ring[BATCHES_MAX];
    uint32_t stages; /* of the replica that it leads; 1: alone */
    uint32_t oldest, inflight;
    uint32_t here;          /* of them with the engine: the newest */
    uint64_t step;          /* of the newest plan */
    struct sequence *stuck; /* whose memory could not be taken */
};

/* The table is borrowed.  False if memory is out. */
MUST_CHECK bool batcher_init(struct batcher *b, const struct batcher_limits *l,
                             struct sequence_table *table);
void batcher_fini(struct batcher *b);

/* From here on it leads n_stages, 2..limits.batches, for none of which a step
 * may be larger than this; nor than what batcher_init() was told. */
void batcher_lead(struct batcher *b, uint32_t n_stages, uint32_t max_rows,
                  uint32_t step_tokens);

/* A QUEUED sequence with all its ids joins the line. */
void batcher_add(struct batcher *b, struct sequence *s);

/* It gets no more rows; plans in flight may still name it. */
void batcher_drop(struct sequence *s);

/* Make the next plan, which counts as in flight from here.  NULL if as many
 * are under way as may be, `depth` here or n in all, or if there is nothing to
 * do.  b->stuck is set to a sequence that broke the account and must be
 * failed; it has left the line. */
const struct plan *batcher_plan(struct batcher *b);

/* The engine has taken the plan made last. */
void batcher_sent(struct batcher *b, int64_t now_us);

/* Since when the oldest plan here is with the engine; 0: there is none. */
uint64_t batcher_age_us(const struct batcher *b, int64_t now_us);

/* The oldest plan that is here, NULL if there is none; and its going on to
 * the next stage. */
const struct batch *batcher_here(const struct batcher *b);
void batcher_pass(struct batcher *b);

/* Does a plan that is here name s? */
bool batcher_names(const struct batcher *b, const struct sequence *s);

/* The oldest plan in flight, NULL if there is none; and its end. */
const struct batch *batcher_oldest(const struct batcher *b);
void batcher_return(struct batcher *b);

/* The plan made last, which the engine did not take, leaves; its batch stays
 * as it is until the next is made. */
const struct batch *batcher_withdraw(struct batcher *b);

#endif
