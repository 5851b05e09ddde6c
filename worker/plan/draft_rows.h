/* draft_rows.h - Drafts in the rows of a plan.
 *
 *   draft_rows_choose()    before the rows of decode: how many drafts each
 *                          sequence gets
 *   draft_rows_begin()     before each row: whether the MTP layer computes it
 *   draft_rows_fit()       the length of a decode row with its drafts
 *   draft_rows_propose()   the drafts that the engine makes with another row
 *   draft_rows_fill()      the fields of the row
 *
 * A sequence that drafts is not chained, because its next row depends on how
 * many drafts are accepted.  While one does, no sequence is, and decode rows
 * wait until those in flight are back: in two halves that alternate, each step
 * would read all weights for half of the sequences.  Steps of prompts go on
 * beside them.
 *
 * Drafts are clipped so that a row fits in every way in which a row without
 * them does:
 *
 *     the request    no position at or past n_prompt + max_tokens - 1
 *     the step       its tokens, of which the other rows get one each; kept
 *                    inputs, at each stage of a replica; the tokens of a chunk
 *     memory         blocks and window blocks that were granted
 *     logprobs       the window, with all tokens that the row may get
 *     checkpoints    a row that reaches a multiple of 64, where decode saves
 *                    its state, comes alone
 *
 * Threading: the core's. */
#ifndef WORKER_PLAN_DRAFT_ROWS_H
#define WORKER_PLAN_DRAFT_ROWS_H

#include "worker/plan/batch.h"
#include "worker/plan/drafts.h"
#include "worker/plan/reuse.h"

/* A row of decode, behind the positions that are planned. */
struct draft_row {
    uint32_t n_tokens; /* 1 and the drafts */
    uint32_t propose;  /* drafts that the engine makes for the row after it */
};

/* The part of the batcher that drafts. */
struct draft_rows {
    /* Borrowed from it. */
    const struct batcher_limits *limits;
    struct sequence_table *table;
    struct reuse *reuse;                /* NULL: none */
    const struct sequence_list *decode; /* sequences that decode */

    bool leads;    /* later stages follow */
    bool lockstep; /* decode rows wait for those in flight */
    struct drafts drafts;
    float accepts[PROPOSERS][DRAFTS_MAX]; /* all sequences together */
    /* The newest plan with drafts whose result has come. */
    struct {
        uint64_t step;
        int64_t sent_us;
        uint32_t device_us;
    } drafted;
};

/* Sets what is learned to its beginning. */
void draft_rows_init(struct draft_rows *b);

/* Chooses the drafts of each decoding sequence.  Sets lockstep to whether
 * some has any, or will have when its result comes; false at a leader, whose
 * microbatches are apart in any case. */
void draft_rows_choose(struct draft_rows *b);

/* Returns the next row of s, which decodes, if no drafts fit without any.
 * spare: tokens of the step that others do not need. */
struct draft_row draft_rows_fit(const struct draft_rows *b,
                                const struct batch *t, const struct sequence *s,
                                uint32_t spare);

/* Decides, before the first row of s, whether the MTP layer computes it; counts
 * its rows without drafts from then on, and stops the layer where drafts do not
 * pay (drafts_stop()). */
void draft_rows_begin(struct draft_rows *b, struct sequence *s);

/* Returns how many drafts the engine makes with a row of n tokens that is not
 * of decode. */
uint32_t draft_rows_propose(struct draft_rows *b, struct sequence *s,
                            uint32_t n);

/* Fills the fields of a row of s that concern drafts, and writes its drafts
 * behind the known ids of the plan's tokens. */
void draft_rows_fill(struct draft_rows *b, struct batch *t, struct sequence *s,
                     struct plan_row *row, uint32_t propose);

/* Learns from the time at which the engine accepted t, the only plan in flight.
 */
void draft_rows_sent(struct draft_rows *b, const struct batch *t);

#endif
